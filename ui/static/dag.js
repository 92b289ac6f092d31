// The drawing of a topology: where its components are, how full their mailboxes are, and why a spout waits.
// The server has chosen layers and positions; here they become pixels, from left to right, or down on a narrow page.

import { html, useEffect, useMemo, useRef, useState } from "../vendor/htm-preact.js";
import { duration, percent, rate } from "./format.js";
import { useSight } from "./sight.js";

const W = 196;
const H = 84;
const EDGE = 12; // around a component, for what is on its border
const NODE_BOX = `${-EDGE} ${-EDGE} ${W + 2 * EDGE} ${H + 2 * EDGE}`;
const PAD = 16; // around the graph

function geometry(graph, down) {
  const stepLayer = down ? H + 72 : W + 112;
  const stepSide = down ? W + 26 : H + 40;
  const place = ([layer, side]) => (down ? [side * stepSide, layer * stepLayer] : [layer * stepLayer, side * stepSide]);
  const extent = place([graph.layers - 1, graph.width]);
  return { place, down, width: extent[0] + W, height: extent[1] + H };
}

function wayOf(edge, geo) {
  const { place, down } = geo;
  const points = edge.points.map(place);
  const out = (p) => (down ? [p[0] + W / 2, p[1] + H] : [p[0] + W, p[1] + H / 2]);
  const into = (p) => (down ? [p[0] + W / 2, p[1]] : [p[0], p[1] + H / 2]);
  const first = points[0];
  const last = points[points.length - 1];
  if (edge.feedback) {
    const a = down ? [first[0] + W, first[1] + H / 2] : [first[0] + W / 2, first[1] + H];
    const b = down ? [last[0] + W, last[1] + H / 2 + 8] : [last[0] + W / 2 + 8, last[1] + H];
    const far = down ? Math.max(a[0], b[0]) + 44 : Math.max(a[1], b[1]) + 34;
    const path = down ? `M${a} C${far},${a[1]} ${far},${b[1]} ${b}` : `M${a} C${a[0]},${far} ${b[0]},${far} ${b}`;
    return { path, middle: down ? [far - 16, (a[1] + b[1]) / 2] : [(a[0] + b[0]) / 2, far - 10] };
  }
  const stops = [out(first), ...points.slice(1, -1).flatMap((p) => [into(p), out(p)]), into(last)];
  let path = `M${stops[0]}`;
  for (let i = 1; i < stops.length; i += 1) {
    const [x, y] = stops[i - 1];
    const [u, v] = stops[i];
    const bend = (down ? v - y : u - x) * 0.5;
    path += down ? ` C${x},${y + bend} ${u},${v - bend} ${u},${v}` : ` C${x + bend},${y} ${u - bend},${v} ${u},${v}`;
  }
  const half = Math.floor((stops.length - 1) / 2);
  return { path, middle: [(stops[half][0] + stops[half + 1][0]) / 2, (stops[half][1] + stops[half + 1][1]) / 2] };
}

const cut = (text, most) => (text.length > most ? `${text.slice(0, most - 1)}…` : text);

function labelOf(node, now, speed) {
  const parts = [`${node.id} ×${node.tasks}`, node.kind];
  if (!now) return parts.join(", ");
  parts.push(`${rate(speed)} ${node.kind === "spout" ? "emitted" : "executed"}`);
  if (node.kind === "bolt") parts.push(`mailbox ${percent(now.fill)} full, ${now.level}`);
  else if (now.wait_s) parts.push(`waits ${duration(now.wait_s)} for each tuple`);
  if (now.counts.errors) parts.push(`${now.counts.errors} errors`);
  return parts.join(", ");
}

// Each component is an <svg> of its own: a browser lays out and paints those that have changed, and no others.
function drawn({ node, at, now, speed, marks, guilty, href, current, onFocus, onKeyDown, nodeRef, holder }) {
  const level = now ? now.level : "calm";
  const waits = now && now.wait_s > 0;
  const kinds = ["node", `node-${node.kind}`, guilty && "guilty", waits && "waits"].filter(Boolean).join(" ");
  const bar = W - 28;
  return html`<svg key=${node.id} ref=${holder} role="none" class=${kinds} viewBox=${NODE_BOX} width=${W + 2 * EDGE} height=${H + 2 * EDGE} style=${{ left: `${at[0]}px`, top: `${at[1]}px` }}>
    <a href=${href} ref=${nodeRef} tabindex=${current ? 0 : -1} onFocus=${onFocus} onKeyDown=${onKeyDown} aria-label=${labelOf(node, now, speed)}>
      <title>${node.id}</title><rect class="node-box" width=${W} height=${H} rx=${node.kind === "spout" ? 18 : 9} /></a>
    <g class="node-inside" aria-hidden="true">
    ${node.kind === "spout"
      ? html`<path class="glyph" d="M15 17.5l9 5.5-9 5.5z" />`
      : html`<rect class="glyph" x="14" y="18" width="10" height="10" rx="2" />`}
    <text class="node-name" x="32" y="28">${cut(node.id, 17)}</text>
    <text class="node-tasks" x=${W - 14} y="28" text-anchor="end">×${node.tasks}</text>
    ${node.kind === "bolt"
      ? html`<g class="bar-${level}">
          <rect class="bar-back" x="14" y="40" width=${bar} height="10" rx="3" />
          <rect class="bar-fill" x="14" y="40" width=${bar * Math.min(1, now ? now.fill : 0)} height="10" rx="3" />
          ${level === "blocked" && html`<rect fill="url(#hatch)" x="14" y="40" width=${bar * Math.min(1, now.fill)} height="10" rx="3" />`}
          ${[marks.low, marks.high].map((mark) => html`<line key=${mark} class="tick" x1=${14 + bar * mark} x2=${14 + bar * mark} y1="37" y2="53" />`)}
        </g>`
      : html`${waits && html`<svg class="pause" x="14" y="38" width="15" height="15" viewBox="0 0 16 16"><circle cx="8" cy="8" r="8" /><path d="M5 4.5h2.2v7H5zM8.8 4.5H11v7H8.8z" /></svg>`}<text class=${waits ? "node-waits" : "node-sub"} x=${waits ? 34 : 14} y="50">${
          waits ? `waits ${duration(now.wait_s)} a tuple` : now ? `${now.counts.pending.toLocaleString("en-US")} pending` : ""
        }</text>`}
    <text class="node-sub" x="14" y="71">${rate(speed)}</text>
    ${node.kind === "bolt" && now && html`<text class=${`node-sub level-${level}`} x=${W - 14} y="71" text-anchor="end">${percent(now.fill)} ${level}</text>`}
    ${now && now.counts.errors > 0 && html`<g class="badge" transform=${`translate(${W - 8},0)`}><circle r="10" /><text text-anchor="middle" y="4">${now.counts.errors > 99 ? "99+" : now.counts.errors}</text></g>`}
    </g></svg>`;
}

// A line is the wider the more goes over it, in steps of 0.5: 1.5 for nothing, about 5 for a million tuples a second.
const widthOf = (speed) => 1.5 + Math.round(1.2 * Math.log10(1 + (speed || 0))) / 2;

function lineOf({ edge, id, path, x, y, anchor, below }, isHot, width) {
  const stream = edge.stream === "default" ? edge.grouping : `${edge.stream}: ${edge.grouping}`;
  const fields = edge.fields.length ? `(${edge.fields.join(", ")})` : "";
  const text = (words, down) => words && html`<text x=${x} y=${y + down} text-anchor=${anchor}>${cut(words, 17)}</text>`;
  return html`<g key=${id} class=${`edge ${isHot ? "hot" : ""} ${edge.feedback ? "feedback" : ""}`}>
    <path d=${path} style=${{ strokeWidth: width + (isHot ? 1 : 0) }} marker-end=${isHot ? "url(#arrow-hot)" : "url(#arrow)"}><title>${edge.source} → ${edge.target}, ${stream} ${fields}</title></path>
    ${text(stream, below[1])}${text(fields, below[2])}</g>`;
}

// The ways of all lines. Of several lines between two components, the names are below each other.
function waysOf(graph, geo) {
  const found = new Map();
  return graph.edges.map((edge) => {
    const pair = `${edge.source}\n${edge.target}`;
    const nth = found.get(pair) || 0;
    found.set(pair, nth + 1);
    const { path, middle } = wayOf(edge, geo);
    const flow = `${edge.source}\n${edge.stream}\n${edge.target}`;
    const label = { x: middle[0] + (geo.down ? 8 : 0), y: middle[1] + nth * 42, anchor: geo.down ? "start" : "middle", below: geo.down ? [-6, 8, 21] : [-8, 16, 29] };
    return { edge, pair, flow, id: `${flow}\n${nth}`, path, ...label };
  });
}

export function Dag({ graph, tick, speeds, edges, hrefOf, describedBy }) {
  const [kept, observe] = useSight();
  const holder = useRef(null);
  const nodes = useRef(new Map());
  const [down, setDown] = useState(false);
  const [current, setCurrent] = useState(graph.nodes[0] && graph.nodes[0].id);
  useEffect(() => {
    const sizes = new ResizeObserver(([entry]) => setDown(entry.contentRect.width < 700));
    sizes.observe(holder.current);
    return () => sizes.disconnect();
  }, []);
  const geo = useMemo(() => geometry(graph, down), [graph, down]);
  const ways = useMemo(() => waysOf(graph, geo), [graph, down]);
  const now = new Map(tick ? tick.components.map((c) => [c.component, c]) : []);
  const marks = tick ? tick.marks : { low: 0, high: 1 };
  const causes = tick ? tick.causes.filter((cause) => cause.path.length > 1) : [];
  const hot = new Set(causes.flatMap((cause) => cause.path.slice(1).map((id, i) => `${cause.path[i]}\n${id}`)));
  const guilty = new Set(causes.map((cause) => cause.mailbox));

  const onKeyDown = (event, node) => {
    const along = down ? { next: "ArrowDown", back: "ArrowUp", plus: "ArrowRight", minus: "ArrowLeft" } : { next: "ArrowRight", back: "ArrowLeft", plus: "ArrowDown", minus: "ArrowUp" };
    const row = graph.nodes.filter((n) => n.layer === node.layer).sort((a, b) => a.position - b.position);
    const beside = (step) => row[row.findIndex((n) => n.id === node.id) + step];
    const found = {
      [along.next]: () => graph.edges.find((e) => e.source === node.id && !e.feedback)?.target,
      [along.back]: () => graph.edges.find((e) => e.target === node.id && !e.feedback)?.source,
      [along.plus]: () => beside(1)?.id,
      [along.minus]: () => beside(-1)?.id,
    }[event.key];
    if (!found) return;
    event.preventDefault();
    const id = found();
    if (id) nodes.current.get(id)?.focus();
  };

  const loops = graph.edges.some((edge) => edge.feedback) ? 44 : 0;
  const box = [-PAD, -PAD, geo.width + 2 * PAD + (down ? loops : 0), geo.height + 2 * PAD + (down ? 0 : loops)];
  const line = (way) => {
    const shown = [way, hot.has(way.pair), widthOf(edges.get(way.flow))];
    return kept(way.id, shown, [], () => lineOf(...shown));
  };
  const speedOn = (way) => {
    const speed = edges.get(way.flow);
    const text = speed === undefined ? "" : rate(speed);
    const key = `${way.id}\nspeed`;
    return kept(key, [way], [text], () => html`<text key=${key} ref=${observe(key)} class="edge-rate" x=${way.x} y=${way.y + way.below[0]} text-anchor=${way.anchor}>${text}</text>`);
  };
  const component = (node) => {
    const { id } = node;
    const [found, speed, isCurrent, isGuilty] = [now.get(id), speeds.get(id), current === id, guilty.has(id)];
    const shown = [labelOf(node, found, speed), found && found.level, found && found.counts.pending, marks.low, marks.high];
    return kept(id, [geo, node, isGuilty, isCurrent, ...(isCurrent ? shown : [])], shown, () => drawn({
      node, now: found, speed, marks, guilty: isGuilty, current: isCurrent, href: hrefOf(id), holder: observe(id),
      at: geo.place([node.layer, node.position]).map((pixels) => pixels + PAD - EDGE),
      onFocus: () => setCurrent(id), onKeyDown: (event) => onKeyDown(event, node),
      nodeRef: (element) => (element ? nodes.current.set(id, element) : nodes.current.delete(id)),
    }));
  };

  const sized = { viewBox: box.join(" "), width: box[2], height: box[3] };
  return html`<div class="dag" ref=${holder} tabindex="-1">
    <div class="dag-area" role="group" aria-label="Graph of the topology" aria-describedby=${describedBy} style=${{ width: `${box[2]}px`, height: `${box[3]}px` }}>
      <svg aria-hidden="true" ...${sized}>
        <defs>
          <pattern id="hatch" width="6" height="6" patternUnits="userSpaceOnUse" patternTransform="rotate(45)"><rect class="hatch" width="2.5" height="6" /></pattern>
          ${["arrow", "arrow-hot"].map((id) => html`<marker key=${id} id=${id} class=${id} viewBox="0 0 10 10" refX="9" refY="5" markerWidth="8" markerHeight="8" markerUnits="userSpaceOnUse" orient="auto-start-reverse"><path d="M0 0 10 5 0 10z" /></marker>`)}
        </defs>
        ${ways.map(line)}
      </svg>
      <svg class="edge" aria-hidden="true" ...${sized}>${ways.map(speedOn)}</svg>
      ${graph.nodes.map(component)}
    </div>
  </div>`;
}
