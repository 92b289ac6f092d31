// The snapshots of a topology with exactly once.

import { html } from "../vendor/htm-preact.js";
import { pathOf } from "./api.js";
import { bytes, count, date, duration } from "./format.js";
import { Card, Empty, Failure, Stat, Table, useGet } from "./parts.js";

function Stats({ found }) {
  return html`<dl class="stats">
      <${Stat} label="Newest" value=${found.number === null ? "–" : `${found.number}`} note=${found.taken ? `counted ${duration(found.age_s)} ago` : "from an earlier run"} />
      <${Stat} label="Took" value=${found.taken ? duration(found.duration_s) : "–"} note="trigger to commit" />
      <${Stat} label="Size" value=${found.taken ? bytes(found.size_bytes) : "–"} note="with parts of earlier ones" />
      <${Stat} label="Kept" value=${found.stored_bytes ? bytes(found.stored_bytes) : "–"} note=${found.quota_bytes ? `of ${bytes(found.quota_bytes)} at most` : "all together"} tone=${found.quota_bytes && found.stored_bytes > found.quota_bytes ? "warn" : ""} />
      <${Stat} label="Taken" value=${count(found.taken)} note="in this run" />
      <${Stat} label="Failed" value=${count(found.failed)} note=${found.failing ? `${count(found.failing)} since the newest` : "in this run"} tone=${found.failing ? "bad" : found.failed ? "warn" : ""} />
      <${Stat} label="Rolled back" value=${count(found.rolled_back)} note="times" tone=${found.rolled_back ? "warn" : ""} />
    </dl>${found.failing > 0 && found.problem && html`<p class="notice bad">The last snapshot failed: ${found.problem}</p>`}
    ${found.waiting && html`<p class="notice bad">${found.waiting}</p>`}
    ${found.reason && html`<p class="notice">Last rolled back because: ${found.reason}</p>`}`;
}

export function Snapshots({ name, live }) {
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
  const found = live.tick && live.tick.snapshots;
  return html`${found && html`<${Stats} found=${found} />`}<${Card} title="Snapshots" aside=${html`<button type="button" onClick=${reload}>Read again</button>`}>
    ${error && html`<${Failure} error=${error} />`}
    <${Table} caption="Snapshots" empty="No snapshot is committed yet" columns=${columns} rows=${[...data.snapshots].reverse()} rowKey=${(s) => s.number} /><//>`;
}
