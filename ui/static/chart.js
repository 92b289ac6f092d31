// A chart of time series; in words for those who do not see it. The legend has the latest values, or those at the pointer.

import { html, useEffect, useRef, useState } from "../vendor/htm-preact.js";
import { clock } from "./format.js";

const COLORS = 6;
const STEPS_S = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 1800, 3600];
const LEFT = 62;
const RIGHT = 10;
const TOP = 8;
const BOTTOM = 24;

function words(lines, format) {
  return lines
    .map(({ label, values }) => {
      const there = values.filter((value) => value !== null);
      if (!there.length) return `${label}: no values yet`;
      return `${label}: now ${format(there[there.length - 1])}, from ${format(Math.min(...there))} to ${format(Math.max(...there))}`;
    })
    .join("; ");
}

// Round numbers from 0 to `end`, about `many`.
function ticksTo(end, many) {
  const rough = end / many;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((each) => each * power).find((each) => each >= rough);
  return Array.from({ length: Math.floor(end / step + 1e-9) + 1 }, (_, i) => i * step);
}

function timesIn(from, to, width) {
  const step = STEPS_S.find((each) => (each / (to - from)) * width >= 80) || STEPS_S[STEPS_S.length - 1];
  const first = Math.ceil(from / step) * step;
  return Array.from({ length: Math.max(0, Math.floor((to - first) / step) + 1) }, (_, i) => first + i * step);
}

function useWidth() {
  const holder = useRef(null);
  const [width, setWidth] = useState(0);
  useEffect(() => {
    const sizes = new ResizeObserver(([entry]) => setWidth(Math.round(entry.contentRect.width)));
    sizes.observe(holder.current);
    return () => sizes.disconnect();
  }, []);
  return [holder, width];
}

function Plot({ at, lines, format, width, height, most, cursor, onCursor }) {
  const [from, to] = [at[0], Math.max(at[at.length - 1], at[0] + 1)];
  const high = Math.max(0, ...lines.flatMap((line) => line.values));
  const end = Math.max(most || 0, high > 0 ? high * 1.08 : 1);
  const inner = [width - LEFT - RIGHT, height - TOP - BOTTOM];
  const x = (second) => LEFT + ((second - from) / (to - from)) * inner[0];
  const y = (value) => TOP + (1 - value / end) * inner[1];
  const pathOf = (values) => {
    let path = "";
    values.forEach((value, i) => {
      if (value !== null) path += `${i && values[i - 1] !== null ? "L" : "M"}${x(at[i]).toFixed(1)},${y(value).toFixed(1)}`;
    });
    return path;
  };
  const onMove = (event) => {
    const second = from + ((event.offsetX - LEFT) / inner[0]) * (to - from);
    let nearest = 0;
    for (let i = 1; i < at.length; i += 1) if (Math.abs(at[i] - second) < Math.abs(at[nearest] - second)) nearest = i;
    onCursor(at[nearest]);
  };
  const i = cursor === null ? -1 : at.indexOf(cursor);
  return html`<svg width=${width} height=${height} aria-hidden="true" onPointerMove=${onMove} onPointerLeave=${() => onCursor(null)}>
    ${ticksTo(end, 4).map((value) => html`<g key=${value}><line class="grid" x1=${LEFT} x2=${width - RIGHT} y1=${y(value)} y2=${y(value)} /><text x=${LEFT - 8} y=${y(value) + 4} text-anchor="end">${format(value)}</text></g>`)}
    ${timesIn(from, to, inner[0]).map((second) => html`<g key=${second}><line class="grid" x1=${x(second)} x2=${x(second)} y1=${TOP} y2=${TOP + inner[1]} /><text x=${x(second)} y=${height - 6} text-anchor="middle">${clock(second)}</text></g>`)}
    ${lines.map((line, n) => html`<path key=${line.label} class=${`line line${n % COLORS} ${n >= COLORS ? "dashed" : ""}`} d=${pathOf(line.values)} />`)}
    ${i >= 0 && html`<line class="cursor" x1=${x(cursor)} x2=${x(cursor)} y1=${TOP} y2=${TOP + inner[1]} />${lines.map((line, n) => line.values[i] !== null && html`<circle key=${line.label} class=${`spot line${n % COLORS}`} cx=${x(cursor)} cy=${y(line.values[i])} r="4" />`)}`}
  </svg>`;
}

// lines: [{label, values}]; at: seconds. `format` makes a number text; `most`: the least upper end of the scale.
export function Chart({ title, at, lines, format, height = 190, most }) {
  const [holder, width] = useWidth();
  const [cursor, setCursor] = useState(null);
  const i = at.indexOf(cursor) >= 0 ? at.indexOf(cursor) : at.length - 1;
  return html`<figure class="chart"><div ref=${holder} style=${{ height: `${height}px` }}>
      ${width > 120 && at.length > 0 && html`<${Plot} at=${at} lines=${lines} format=${format} width=${width} height=${height} most=${most} cursor=${cursor} onCursor=${setCursor} />`}</div>
    <ul class="chart-legend" aria-hidden="true"><li class="muted">${clock(at[i])}</li>${lines.map((line, n) => html`<li key=${line.label}><svg width="14" height="10"><path class=${`line line${n % COLORS} ${n >= COLORS ? "dashed" : ""}`} d="M0 5H14" /></svg>${line.label} <b>${i >= 0 && line.values[i] !== null ? format(line.values[i]) : "–"}</b></li>`)}</ul>
    <figcaption class="hidden">${title}. ${words(lines, format)}</figcaption></figure>`;
}
