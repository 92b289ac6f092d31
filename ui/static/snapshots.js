// The snapshots of a topology with exactly once.

import { html } from "../vendor/htm-preact.js";
import { pathOf } from "./api.js";
import { bytes, count, date } from "./format.js";
import { Card, Empty, Failure, Table, useGet } from "./parts.js";

export function Snapshots({ name }) {
  const { data, error, reload } = useGet(pathOf(name, "/snapshots"));
  if (!data) return error ? html`<${Failure} error=${error} />` : html`<p class="loading">Reading and checking the snapshots…</p>`;
  if (!data.available) return html`<${Card} title="Snapshots"><${Empty} title="No snapshots">The guarantee is ${data.guarantee}. Snapshots are taken with exactly-once.<//><//>`;
  const columns = [
    { label: "Number", right: true, cell: (s) => count(s.number) },
    { label: "Taken", cell: (s) => date(s.taken_s) },
    { label: "Kind", cell: (s) => (s.savepoint ? "savepoint" : "snapshot") },
    { label: "Size", right: true, cell: (s) => bytes(s.size_bytes) },
    { label: "Tasks", wide: true, cell: (s) => Object.entries(s.tasks).map(([component, tasks]) => `${component}: ${tasks}`).join(", ") },
    { label: "State", wide: true, cell: (s) => (s.problem ? html`<span class="level-blocked">${s.problem}</span>` : html`<span class="level-calm">can be restored</span>`) },
  ];
  return html`<${Card} title="Snapshots" aside=${html`<button type="button" onClick=${reload}>Read again</button>`}>
    ${error && html`<${Failure} error=${error} />`}
    <${Table} caption="Snapshots" empty="No snapshot is committed yet" columns=${columns} rows=${[...data.snapshots].reverse()} rowKey=${(s) => s.number} /><//>`;
}
