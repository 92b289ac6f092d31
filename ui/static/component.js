// A component: its numbers, and its tasks.

import { html } from "../vendor/htm-preact.js";
import { pathOf } from "./api.js";
import { Chart } from "./chart.js";
import { count, date, duration, percent, rate } from "./format.js";
import { column, rateNow, rates } from "./live.js";
import { Card, Failure, Stat, Table, useGet } from "./parts.js";

export function Component({ name, component, live }) {
  const { tick, series } = live;
  const { data, error } = useGet(pathOf(name, `/components/${encodeURIComponent(component)}`), live.status === "live" ? 1000 : 0);
  if (!data) return error ? html`<${Failure} error=${error} />` : html`<p class="loading">Loading…</p>`;
  const now = tick && tick.components.find((c) => c.component === component);
  const isBolt = data.kind === "bolt";
  const key = isBolt ? "executed" : "emitted";
  const at = series ? series.points.map(([second]) => second) : [];
  const mean = data.tasks.reduce((all, t) => all + t.counts[key], 0) / data.tasks.length;
  const columns = [
    { label: "Task", cell: (t) => count(t.task_id) },
    { label: "Worker", cell: (t) => t.worker || html`<span class="muted">this process</span>` },
    { label: isBolt ? "Executed" : "Emitted", right: true, cell: (t) => count(t.counts[key]) },
    { label: "Share of mean", right: true, cell: (t) => (mean ? percent(t.counts[key] / mean) : "–") },
    { label: "Acked", right: true, cell: (t) => count(t.counts.acked) },
    { label: "Failed", right: true, cell: (t) => count(t.counts.failed) },
    { label: "Errors", right: true, cell: (t) => count(t.counts.errors) },
    { label: "Restarts", right: true, cell: (t) => count(t.counts.restarts) },
    isBolt
      ? { label: "A tuple takes", right: true, cell: (t) => duration(t.execute_s) }
      : { label: "Pending", right: true, cell: (t) => count(t.counts.pending) },
    isBolt && { label: "In its mailbox", right: true, cell: (t) => html`${count(t.fill)} of ${count(t.capacity)} tuples${t.blocked && html` <em class="level-blocked">blocked</em>`}` },
    data.tasks.some((t) => t.watermark_ms !== null) && { label: "Watermark", cell: (t) => (t.watermark_ms === null ? "–" : date(t.watermark_ms / 1000)) },
    data.tasks.some((t) => t.open_windows) && { label: "Open windows", right: true, cell: (t) => count(t.open_windows) },
    data.tasks.some((t) => t.progress) && { label: "Progress", cell: (t) => t.progress },
  ].filter(Boolean);
  return html`<div class="head"><h2 class="component-name">${component}</h2><span class="muted">${data.kind}, ${data.tasks.length} ${data.tasks.length === 1 ? "task" : "tasks"}</span></div>
    ${now && html`<dl class="stats">
      <${Stat} label=${isBolt ? "Executed" : "Emitted"} value=${rate(rateNow(series, component, key))} note=${`${count(now.counts[key])} in all`} />
      ${isBolt && html`<${Stat} label="A tuple takes" value=${duration(now.execute_s)} note="mean, in execute" />`}
      ${!isBolt && html`<${Stat} label="Complete" value=${duration(now.complete_s)} note="mean, emit to ack" />`}
      ${isBolt ? html`<${Stat} label="Mailbox" value=${percent(now.fill)} note=${now.level === "blocked" ? `${now.blocked_tasks} of ${now.tasks} tasks blocked` : "the fullest task"} tone=${now.level === "blocked" ? "bad" : ""} />` : html`<${Stat} label="Waits" value=${now.wait_s ? duration(now.wait_s) : "0 s"} note="for each tuple" tone=${now.wait_s ? "warn" : ""} />`}
      <${Stat} label="Failed" value=${count(now.counts.failed)} tone=${now.counts.failed ? "warn" : ""} />
      <${Stat} label="Errors" value=${count(now.counts.errors)} tone=${now.counts.errors ? "bad" : ""} />
    </dl>`}
    ${series && html`<div class="two">
      <${Card} title=${isBolt ? "Executed a second" : "Emitted a second"}><${Chart} title="Tuples a second" at=${at} format=${rate} lines=${[{ label: component, values: rates(series, component, key) }]} /><//>
      ${isBolt ? html`<${Card} title="Fullest mailbox"><${Chart} title="Fullest mailbox" at=${at} format=${percent} most=${1} lines=${[{ label: "fill", values: column(series, component, "fill") }]} /><//>` : html`<${Card} title="Pending messages"><${Chart} title="Pending messages" at=${at} format=${count} lines=${[{ label: "pending", values: column(series, component, "pending") }]} /><//>`}
    </div>`}
    <${Card} title="Tasks"><${Table} caption=${`Tasks of ${component}`} columns=${columns} rows=${data.tasks} rowKey=${(t) => t.task_id} /><//>
    <${Card} title="Streams"><dl class="streams"><div><dt>Reads</dt><dd>${data.inputs.length ? data.inputs.join("; ") : "nothing: it is a spout"}</dd></div><div><dt>Emits</dt><dd>${data.outputs.length ? data.outputs.join("; ") : "nothing"}</dd></div></dl><//>`;
}
