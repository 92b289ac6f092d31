// A chart of time series, with uPlot; in words for those who do not see it.

import { html, useEffect, useRef } from "../vendor/htm-preact.js";

const COLORS = ["--c1", "--c2", "--c3", "--c4", "--c5", "--c6"];

const STEPS_S = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600];

function theme() {
  const style = getComputedStyle(document.documentElement);
  const color = (name) => style.getPropertyValue(name).trim();
  return { lines: COLORS.map(color), text: color("--muted"), grid: color("--line") };
}

function words(lines, format) {
  return lines
    .map(({ label, values }) => {
      const there = values.filter((value) => value !== null);
      if (!there.length) return `${label}: no values yet`;
      return `${label}: now ${format(there[there.length - 1])}, from ${format(Math.min(...there))} to ${format(Math.max(...there))}`;
    })
    .join("; ");
}

// lines: [{label, values}]; at: seconds. `format` makes a number text; `most`: the least upper end of the scale.
export function Chart({ title, at, lines, format, height = 190, most }) {
  const holder = useRef(null);
  const plot = useRef(null);
  const labels = lines.map((line) => line.label).join("\n");
  useEffect(() => {
    const build = () => {
      const { lines: colors, text, grid } = theme();
      const axis = { stroke: text, grid: { stroke: grid, width: 1 }, ticks: { stroke: grid, width: 1 }, font: "12px system-ui, sans-serif" };
      const width = holder.current.clientWidth || 300;
      const options = {
        width,
        height,
        legend: { live: true },
        cursor: { points: { size: 6 } },
        scales: { y: { range: (_, low, high) => [0, Math.max(most || 0, high > 0 ? high * 1.08 : 1)] } },
        axes: [
          { ...axis, space: 80, incrs: STEPS_S, values: "{HH}:{mm}:{ss}" },
          { ...axis, size: 62, values: (_, all) => all.map((value) => format(value)) },
        ],
        series: [
          { value: "{HH}:{mm}:{ss}" },
          ...lines.map((line, i) => ({
            label: line.label,
            stroke: colors[i % colors.length],
            width: 2,
            dash: i >= colors.length ? [6, 4] : undefined,
            fill: lines.length === 1 ? `${colors[0]}22` : undefined,
            points: { show: false },
            value: (_, value) => (value === null ? "–" : format(value)),
          })),
        ],
      };
      if (plot.current) plot.current.destroy();
      plot.current = new globalThis.uPlot(options, [at, ...lines.map((line) => line.values)], holder.current);
    };
    build();
    const dark = matchMedia("(prefers-color-scheme: dark)");
    dark.addEventListener("change", build);
    const sizes = new ResizeObserver(() => {
      const width = holder.current ? holder.current.clientWidth : 0;
      if (plot.current && width && width !== plot.current.width) plot.current.setSize({ width, height });
    });
    sizes.observe(holder.current);
    return () => {
      dark.removeEventListener("change", build);
      sizes.disconnect();
      plot.current.destroy();
      plot.current = null;
    };
  }, [labels]);
  useEffect(() => {
    if (plot.current) plot.current.setData([at, ...lines.map((line) => line.values)]);
  });
  return html`<figure class="chart"><div ref=${holder} aria-hidden="true"></div>
    <figcaption class="hidden">${title}. ${words(lines, format)}</figcaption></figure>`;
}
