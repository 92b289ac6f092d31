// A component: its numbers, and its tasks.

import { html, useEffect, useRef } from "../vendor/htm-preact.js";
import { pathOf } from "./api.js";
import { Chart } from "./chart.js";
import { compact, count, date, duration, latency, percent, rate } from "./format.js";
import { column, rateNow, rates, shares } from "./live.js";
import { Busy, Card, Failure, Stat, Table, useGet } from "./parts.js";

// The answer of a few seconds ago, to compare the latest one with.
function useBefore(data) {
  const kept = useRef([]);
  useEffect(() => {
    if (!data) return;
    const old = kept.current.filter((each) => data.at_s > each.at_s && data.at_s - each.at_s < 3.5);
    kept.current = [...old, data];
  }, [data]);
  return data && kept.current.find((each) => each.at_s < data.at_s);
}

const labelsOf = (series) => Object.entries(series.labels).map(([label, value]) => `${label}=${value}`).join(", ");
const keyOf = (series) => `${series.name}\n${series.kind}\n${labelsOf(series)}`;

// What the component measures by itself (context.metrics).
function Own({ component, data, before }) {
  const old = new Map(before ? before.own.map((each) => [keyOf(each), each.value]) : []);
  const speed = (s) => (s.kind === "meter" ? s.rate : old.has(keyOf(s)) ? Math.max(0, s.value - old.get(keyOf(s))) / (data.at_s - before.at_s) : null);
  const columns = [
    { label: "Name", cell: (s) => s.name },
    { label: "Labels", cell: labelsOf },
    { label: "Kind", cell: (s) => s.kind },
    { label: "Value", right: true, cell: (s) => (s.kind === "gauge" ? compact(s.value) : count(s.value)) },
    { label: "Per second", right: true, cell: (s) => (s.kind === "gauge" ? "" : rate(speed(s))) },
    { label: "Mean", right: true, cell: (s) => (s.kind === "histogram" ? compact(s.mean) : "") },
    { label: "p50 / p99", right: true, cell: (s) => (s.kind === "histogram" ? `${compact(s.p50)} / ${compact(s.p99)}` : "") },
  ];
  return html`<${Card} title="Its own metrics"><${Table} caption=${`Own metrics of ${component}`} columns=${columns} rows=${data.own} rowKey=${keyOf} /><//>`;
}

export function Component({ name, component, live }) {
  const { tick, series } = live;
  const { data, error } = useGet(pathOf(name, `/components/${encodeURIComponent(component)}`), live.status === "live" ? 1000 : 0);
  const before = useBefore(data);
  if (!data) return error ? html`<${Failure} error=${error} />` : html`<p class="loading">Loading…</p>`;
  const now = tick && tick.components.find((c) => c.component === component);
  const isBolt = data.kind === "bolt";
  const key = isBolt ? "executed" : "emitted";
  const at = series ? series.points.map(([second]) => second) : [];
  const earlier = new Map(before ? before.tasks.map((t) => [t.task_id, t.counts]) : []);
  const times = now && now.latencies[isBolt ? "process" : "complete"];
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
    { label: "Busy", cell: (t) => html`<${Busy} found=${shares(t.counts, earlier.get(t.task_id))} />` },
    isBolt
      ? { label: "Execute p50 / p99", right: true, cell: (t) => latency(t.latencies.execute) }
      : { label: "Pending", right: true, cell: (t) => count(t.counts.pending) },
    isBolt && { label: "In its mailbox", right: true, cell: (t) => html`${count(t.fill)} of ${count(t.capacity)} tuples${t.blocked && html` <em class="level-blocked">blocked</em>`}` },
    data.tasks.some((t) => t.watermark_ms !== null) && { label: "Watermark", cell: (t) => (t.watermark_ms === null ? "–" : date(t.watermark_ms / 1000)) },
    data.tasks.some((t) => t.open_windows) && { label: "Open windows", right: true, cell: (t) => count(t.open_windows) },
    data.tasks.some((t) => t.progress) && { label: "Progress", cell: (t) => t.progress },
  ].filter(Boolean);
  return html`<div class="head"><h2 class="component-name">${component}</h2><span class="muted">${data.kind}, ${data.tasks.length} ${data.tasks.length === 1 ? "task" : "tasks"}</span></div>
    ${now && html`<dl class="stats">
      <${Stat} label=${isBolt ? "Executed" : "Emitted"} value=${rate(rateNow(series, component, key))} note=${`${count(now.counts[key])} in all`} />
      ${isBolt && html`<${Stat} label="Execute (median)" value=${duration(now.latencies.execute?.p50_s)} note=${`99 % within ${duration(now.latencies.execute?.p99_s)}`} />`}
      <${Stat} label=${isBolt ? "Mailbox to end (median)" : "Emit to ack (median)"} value=${duration(times?.p50_s)} note=${`99 % within ${duration(times?.p99_s)}`} />
      ${isBolt ? html`<${Stat} label="Mailbox" value=${percent(now.fill)} note=${now.level === "blocked" ? `${now.blocked_tasks} of ${now.tasks} tasks blocked` : "the fullest task"} tone=${now.level === "blocked" ? "bad" : ""} />` : html`<${Stat} label="Waits" value=${now.wait_s ? duration(now.wait_s) : "0 s"} note="for each tuple" tone=${now.wait_s ? "warn" : ""} />`}
      <${Stat} label="Failed" value=${count(now.counts.failed)} tone=${now.counts.failed ? "warn" : ""} />
      <${Stat} label="Errors" value=${count(now.counts.errors)} tone=${now.counts.errors ? "bad" : ""} />
    </dl>`}
    ${series && html`<div class="two">
      <${Card} title=${isBolt ? "Executed a second" : "Emitted a second"}><${Chart} title="Tuples a second" at=${at} format=${rate} lines=${[{ label: component, values: rates(series, component, key) }]} /><//>
      ${isBolt ? html`<${Card} title="Fullest mailbox"><${Chart} title="Fullest mailbox" at=${at} format=${percent} most=${1} lines=${[{ label: "fill", values: column(series, component, "fill") }]} /><//>` : html`<${Card} title="Pending messages"><${Chart} title="Pending messages" at=${at} format=${count} lines=${[{ label: "pending", values: column(series, component, "pending") }]} /><//>`}
      <${Card} title=${isBolt ? "From mailbox to end" : "From emit to ack"}><${Chart} title="Latency" at=${at} format=${duration} lines=${[{ label: "p50", values: column(series, component, "p50_s") }, { label: "p99", values: column(series, component, "p99_s") }]} /><//>
      <${Card} title="Time of its tasks"><${Chart} title="Time of its tasks" at=${at} format=${percent} most=${1} lines=${["busy", "blocked"].map((key) => ({ label: key, values: rates(series, component, `${key}_s`).map((s) => s && s / data.tasks.length) }))} /><//>
    </div>`}
    ${data.own.length > 0 && html`<${Own} component=${component} data=${data} before=${before} />`}
    <${Card} title="Tasks"><${Table} caption=${`Tasks of ${component}`} columns=${columns} rows=${data.tasks} rowKey=${(t) => t.task_id} /><//>
    <${Card} title="Streams"><dl class="streams"><div><dt>Reads</dt><dd>${data.inputs.length ? data.inputs.join("; ") : "nothing: it is a spout"}</dd></div><div><dt>Emits</dt><dd>${data.outputs.length ? data.outputs.join("; ") : "nothing"}</dd></div></dl><//>`;
}
