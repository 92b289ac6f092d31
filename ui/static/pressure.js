// Backpressure over time: a lane for each spout (when it waited, and how long), and a lane for each bolt (how full).

import { html } from "../vendor/htm-preact.js";
import { pathOf } from "./api.js";
import { clock, duration, percent } from "./format.js";
import { column } from "./live.js";
import { Card, Empty, Failure, Table, useGet } from "./parts.js";

const SPAN_S = 900;
const HEIGHTS = { waits: 20, blocked: 20, high: 15, filling: 10, calm: 4 };

// Points as cells [from, to, value], alike neighbours together. A gap in the points is a gap.
function cells(at, values, same) {
  const found = [];
  for (let i = 0; i < at.length; i += 1) {
    const to = i + 1 < at.length && at[i + 1] - at[i] < 3.5 ? at[i + 1] : at[i] + 1;
    const last = found[found.length - 1];
    if (last && at[i] - last[1] < 0.01 && same(last[2], values[i])) last[1] = to;
    else found.push([at[i], to, values[i]]);
  }
  return found;
}

function Lane({ label, href, words, start, span, parts }) {
  return html`<div class="lane"><a class="lane-name" href=${href}>${label}</a>
    <svg viewBox="0 0 1000 20" preserveAspectRatio="none" role="img" aria-label=${words}>
      <rect class="lane-back" width="1000" height="20" />
      ${parts.map(([from, to, kind]) => html`<rect key=${from} class=${`lane-${kind}`} x=${((from - start) / span) * 1000} width=${Math.max(1.5, ((to - from) / span) * 1000)} y=${20 - HEIGHTS[kind]} height=${HEIGHTS[kind]} />`)}
    </svg></div>`;
}

export function Pressure({ name, live, linkTo }) {
  const { tick, series, graph } = live;
  const { data, error } = useGet(pathOf(name, "/pressure"), live.status === "live" ? 2000 : 0);
  if (!tick || !series || !graph) return error ? html`<${Failure} error=${error} />` : html`<p class="loading">Loading…</p>`;
  const at = series.points.map(([second]) => second);
  const end = at.length ? at[at.length - 1] + 1 : 0;
  const span = Math.max(60, Math.min(SPAN_S, end - (at[0] || end)));
  const start = end - span;
  const href = (id) => linkTo(name, `/c/${encodeURIComponent(id)}`);
  const spouts = graph.nodes.filter((node) => node.kind === "spout");
  const bolts = graph.nodes.filter((node) => node.kind === "bolt");
  const level = (fill, blocked) => (blocked ? "blocked" : fill > tick.marks.high ? "high" : fill > tick.marks.low ? "filling" : "calm");
  const lanes = (nodes, partsOf) => html`<div class="lanes">${nodes.map((node) => html`<${Lane} key=${node.id} label=${node.id} href=${href(node.id)} start=${start} span=${span} ...${partsOf(node)} />`)}
    <div class="lane lane-axis"><span></span><span>${clock(start)}</span><span>${clock((start + end) / 2)}</span><span>${clock(end)}</span></div></div>`;
  const spoutParts = (node) => {
    const waits = column(series, node.id, "wait_s");
    const parts = cells(at, waits.map((w) => w > 0), (a, b) => a === b).filter(([, , waited]) => waited).map(([from, to]) => [from, to, "waits"]);
    const total = parts.reduce((all, [from, to]) => all + to - from, 0);
    return { parts, words: `${node.id}: slowed down for ${duration(total)} of the last ${duration(span)}` };
  };
  const boltParts = (node) => {
    const fills = column(series, node.id, "fill");
    const blocked = column(series, node.id, "blocked");
    const kinds = fills.map((fill, i) => level(fill, blocked[i]));
    return { parts: cells(at, kinds, (a, b) => a === b), words: `${node.id}: mailbox now ${percent(fills[fills.length - 1])} full` };
  };
  const events = data ? [...data.events].reverse() : [];
  const columns = [
    { label: "At", cell: (e) => clock(e.at_s) },
    { label: "Event", cell: (e) => html`<span class=${["BLOCKED", "THROTTLED", "SLOWED"].includes(e.kind) ? "level-blocked" : "level-calm"}>${e.kind}</span>` },
    { label: "Component", cell: (e) => (e.component ? html`<a href=${href(e.component)}>${e.component}</a>` : html`<span class="muted">topology</span>`) },
    { label: "What", wide: true, cell: (e) => e.text },
  ];
  return html`${data && !data.enabled && html`<p class="notice">Spouts are not slowed down: topology.backpressure.enable is false.</p>`}
    <${Card} title="Spouts that waited" aside=${html`<ul class="legend"><li class="lane-key waits">slowed down</li></ul>`}>${lanes(spouts, spoutParts)}<//>
    <${Card} title="Mailboxes" aside=${html`<ul class="legend"><li class="level-calm">calm</li><li class="level-filling">above ${percent(tick.marks.low)}</li><li class="lane-key high">above ${percent(tick.marks.high)}</li><li class="lane-key full">blocked</li></ul>`}>${lanes(bolts, boltParts)}<//>
    <${Card} title="Events">${events.length ? html`<${Table} caption="Events of the backpressure" columns=${columns} rows=${events} rowKey=${(e) => `${e.at_s} ${e.kind} ${e.component} ${e.text}`} />` : html`<${Empty} title="No events yet">No bolt was blocked so far.<//>`}<//>`;
}
