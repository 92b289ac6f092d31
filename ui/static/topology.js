// A topology: its numbers, the graph, throughput, and the table of components (which is also the graph in words).

import { html, useState } from "../vendor/htm-preact.js";
import { pathOf, send } from "./api.js";
import { Chart } from "./chart.js";
import { Dag } from "./dag.js";
import { count, duration, latency, rate } from "./format.js";
import { edgeRates, rateNow, rates, shares } from "./live.js";
import { Busy, Card, Confirm, Failure, Fill, LiveCard, Stat, Table } from "./parts.js";

const sum = (values) => values.reduce((total, value) => (value === null ? total : (total ?? 0) + value), null);

function Stats({ tick, series }) {
  const spouts = tick.components.filter((c) => c.kind === "spout");
  const total = (key) => spouts.reduce((all, c) => all + c.counts[key], 0);
  const speed = (key) => sum(spouts.map((c) => rateNow(series, c.component, key)));
  const acked = total("acked");
  const slowest = spouts.map((c) => c.latencies.complete).filter(Boolean).sort((a, b) => b.p99_s - a.p99_s)[0];
  return html`<dl class="stats">
    <${Stat} label="Emitted" value=${rate(speed("emitted"))} note=${`${count(total("emitted"))} in all`} />
    <${Stat} label="Acked" value=${rate(speed("acked"))} note=${`${count(acked)} in all`} />
    <${Stat} label="Pending" value=${count(tick.pending)} note="messages" />
    <${Stat} label="Emit to ack (median)" value=${duration(slowest?.p50_s)} note=${slowest ? `99 % within ${duration(slowest.p99_s)}` : "none acked lately"} />
    <${Stat} label="Failed" value=${count(total("failed"))} note=${`${count(total("replayed"))} emitted again`} tone=${total("failed") ? "warn" : ""} />
    <${Stat} label="Errors" value=${count(tick.errors)} note="in user code" tone=${tick.errors ? "bad" : ""} />
  </dl>`;
}

const LEGEND = html`<ul class="legend"><li class="level-calm">calm</li><li class="level-filling">filling</li><li class="level-blocked">blocked</li></ul>`;

const keyOf = (node) => (node.kind === "spout" ? "emitted" : "executed");

// The table of components.
function Components({ live, speeds, hrefOf }) {
  const { graph, tick, before } = live;
  const earlier = new Map(before ? before.components.map((c) => [c.component, c.counts]) : []);
  const readers = new Map(graph.nodes.map((node) => [node.id, []]));
  for (const edge of graph.edges) readers.get(edge.target)?.push(edge);
  const order = new Map(graph.nodes.map((node, i) => [node.id, i]));
  const rows = [...tick.components].sort((a, b) => order.get(a.component) - order.get(b.component));
  const columns = [
    { label: "Component", cell: (c) => html`<a href=${hrefOf(c.component)}>${c.component}</a>` },
    { label: "Reads from", cell: (c) => readers.get(c.component)?.map((e) => `${e.source} (${e.grouping}${e.feedback ? ", closes a cycle" : ""})`).join(", ") || html`<span class="muted">spout</span>` },
    { label: "Tasks", right: true, cell: (c) => count(c.tasks) },
    { label: "Per second", right: true, cell: (c) => rate(speeds.get(c.component)) },
    { label: "Emitted", right: true, cell: (c) => count(c.counts.emitted) },
    { label: "Acked", right: true, cell: (c) => count(c.counts.acked) },
    { label: "Failed", right: true, cell: (c) => count(c.counts.failed) },
    { label: "Execute p50 / p99", right: true, cell: (c) => (c.kind === "bolt" ? latency(c.latencies.execute) : "") },
    { label: "Whole p50 / p99", right: true, cell: (c) => latency(c.latencies[c.kind === "bolt" ? "process" : "complete"]) },
    { label: "Busy", cell: (c) => html`<${Busy} found=${shares(c.counts, earlier.get(c.component))} />` },
    { label: "Mailbox", cell: (c) => (c.kind === "bolt" ? html`<${Fill} fill=${c.fill} level=${c.level} marks=${tick.marks} />` : c.wait_s ? html`<em class="level-blocked">waits ${duration(c.wait_s)} a tuple</em>` : "") },
  ];
  return html`<${Table} caption="Components" columns=${columns} rows=${rows} rowKey=${(c) => c.component} />
    <p class="muted foot">p50 / p99: half of the tuples took at most the first time, 99 % at most the second, ${tick.latency_s ? `in the last ${duration(Math.round(tick.latency_s))}` : "since the start"}. Whole: from the mailbox to the end of the tuple; for a spout, from emit to ack.</p>`;
}

export function Overview({ name, live, linkTo }) {
  const { graph, tick, before, series } = live;
  if (!graph || !tick || !series) return live.error ? null : html`<p class="loading">Loading…</p>`;
  const hrefOf = (component) => linkTo(name, `/c/${encodeURIComponent(component)}`);
  const speeds = new Map(graph.nodes.map((node) => [node.id, rateNow(series, node.id, keyOf(node))]));
  const shown = graph.nodes.slice(0, 8);
  const chart = () => html`<${Chart} title="Tuples a second" at=${series.points.map(([at]) => at)} format=${rate}
    lines=${shown.map((node) => ({ label: node.id, values: rates(series, node.id, keyOf(node)) }))} />`;
  const table = () => html`<${Components} live=${live} speeds=${speeds} hrefOf=${hrefOf} />`;
  const progress = tick.components.filter((c) => c.progress);
  return html`<${Stats} tick=${tick} series=${series} />
    <${Card} title="Graph" aside=${LEGEND}>
      <${Dag} graph=${graph} tick=${tick} speeds=${speeds} edges=${edgeRates(tick, before)} hrefOf=${hrefOf} describedBy="components-note" />
      <p id="components-note" class="hidden">The table of components below has the same numbers.</p>
    <//>
    ${progress.length > 0 && html`<${Card} title="Progress"><ul class="plain">${progress.map((c) => html`<li key=${c.component}><b>${c.component}</b> ${c.progress}</li>`)}</ul><//>`}
    <${LiveCard} title="Tuples a second" aside=${graph.nodes.length > shown.length && html`<span class="muted">the first ${shown.length} components</span>`} draw=${chart} />
    <${LiveCard} title="Components" draw=${table} />`;
}

export function Actions({ name, tick, guarantee }) {
  const [asked, setAsked] = useState(false);
  const [result, setResult] = useState(null);
  const order = (what, body) => {
    setAsked(false);
    send("POST", pathOf(name, `/${what}`), body).then((done) => setResult({ text: `${name} ${done.message}` }), (error) => setResult({ error }));
  };
  return html`<div class="actions">
    ${tick.state === "ACTIVE" && html`<button type="button" onClick=${() => order("deactivate")}>Deactivate</button>`}
    ${tick.state === "INACTIVE" && html`<button type="button" onClick=${() => order("activate")}>Activate</button>`}
    ${guarantee === "exactly-once" && html`<button type="button" onClick=${() => order("snapshot")}>Take savepoint</button>`}
    ${["ACTIVE", "INACTIVE", "FAILED"].includes(tick.state) && html`<button type="button" class="danger" onClick=${() => setAsked(true)}>Kill…</button>`}
    <span role="status">${result && (result.error ? html`<${Failure} error=${result.error} />` : result.text)}</span>
    ${asked && html`<${Confirm} title=${`Kill ${name}?`} text="Its spouts stop, what is under way is processed, then it ends. It has to be submitted again to run again." action="Kill" onNo=${() => setAsked(false)} onYes=${() => order("kill", {})} />`}
  </div>`;
}
