// Event time: watermarks and windows, by component.

import { html } from "../vendor/htm-preact.js";
import { count, date, duration } from "./format.js";
import { Card, Empty, Table } from "./parts.js";

export function Times({ name, live, linkTo }) {
  const { tick } = live;
  if (!tick) return live.error ? null : html`<p class="loading">Loading…</p>`;
  const keys = ["fired", "late", "dropped_windows", "dropped_tuples"];
  const rows = tick.components.filter((c) => c.watermark_ms !== null || c.open_windows || keys.some((key) => c.counts[key]));
  const columns = [
    { label: "Component", cell: (c) => html`<a href=${linkTo(name, `/c/${encodeURIComponent(c.component)}`)}>${c.component}</a>` },
    { label: "Watermark", cell: (c) => (c.watermark_ms === null ? "–" : date(c.watermark_ms / 1000)) },
    { label: "Behind the clock", right: true, cell: (c) => duration(c.watermark_lag_s) },
    { label: "Open windows", right: true, cell: (c) => count(c.open_windows) },
    { label: "Fired", right: true, cell: (c) => count(c.counts.fired) },
    { label: "Late tuples", right: true, cell: (c) => count(c.counts.late) },
    { label: "Dropped windows", right: true, cell: (c) => count(c.counts.dropped_windows) },
    { label: "Dropped tuples", right: true, cell: (c) => count(c.counts.dropped_tuples) },
  ];
  return html`<${Card} title="Windows and watermarks">${
    rows.length
      ? html`<${Table} caption="Windows and watermarks" columns=${columns} rows=${rows} rowKey=${(c) => c.component} /><p class="muted foot">A watermark says: no row with an earlier time is expected. A component's is the least of its tasks.</p>`
      : html`<${Empty} title="No event time">This topology has no windows, or none of them has had a row yet.<//>`
  }<//>`;
}
