// A flame graph: stacks as boxes, as wide as they were seen often; callers above what they call.

import { html, useState } from "../vendor/htm-preact.js";
import { percent } from "./format.js";

const ROW = 22;
const LEAST = 2; // of 1000: narrower boxes are left out

// Folded stacks [["a;b;c", 3], …] as boxes {name, depth, from, count, path}.
export function boxesOf(stacks) {
  const root = { name: "", count: 0, below: new Map() };
  for (const [stack, count] of stacks) {
    let at = root;
    root.count += count;
    for (const name of stack.split(";")) {
      if (!at.below.has(name)) at.below.set(name, { name, count: 0, below: new Map() });
      at = at.below.get(name);
      at.count += count;
    }
  }
  const boxes = [];
  const walk = (node, depth, from, path) => {
    let at = from;
    for (const child of [...node.below.values()].sort((a, b) => b.count - a.count)) {
      const own = `${path};${child.name}`;
      if ((child.count / (root.count || 1)) * 1000 >= LEAST) boxes.push({ name: child.name, depth, from: at, count: child.count, path: own });
      walk(child, depth + 1, at, own);
      at += child.count;
    }
  };
  walk(root, 0, 0, "");
  return { boxes, total: root.count, deepest: boxes.reduce((most, box) => Math.max(most, box.depth), 0) };
}

// Enter or a click makes a box as wide as the graph; Escape goes back. Arrows move between boxes.
export function Flame({ stacks, title }) {
  const [zoom, setZoom] = useState("");
  const [at, setAt] = useState("");
  const { boxes, total, deepest } = boxesOf(stacks);
  const wide = boxes.find((box) => box.path === zoom);
  const [from, count] = wide ? [wide.from, wide.count] : [0, total || 1];
  const shown = boxes.filter((box) => box.from < from + count && box.from + box.count > from);
  const focused = shown.find((box) => box.path === at) || shown[0];
  const words = (box) => `${box.name}, ${percent(box.count / total)} of the samples`;
  const onKey = (event) => {
    const own = focused;
    if (!own) return;
    if (event.key === "Escape") setZoom("");
    const near = {
      ArrowDown: () => shown.find((b) => b.depth === own.depth + 1 && b.path.startsWith(`${own.path};`)),
      ArrowUp: () => shown.find((b) => b.depth === own.depth - 1 && own.path.startsWith(`${b.path};`)),
      ArrowRight: () => shown.filter((b) => b.depth === own.depth && b.from > own.from)[0],
      ArrowLeft: () => shown.filter((b) => b.depth === own.depth && b.from < own.from).at(-1),
      Enter: () => own,
    }[event.key];
    if (!near) return;
    event.preventDefault();
    const next = near();
    if (!next) return;
    if (event.key === "Enter") setZoom(zoom === own.path ? "" : own.path);
    setAt(next.path);
    event.currentTarget.querySelectorAll("button")[shown.indexOf(next)]?.focus();
  };
  // Boxes are laid out by SVG rectangles below, and by buttons above them, which have the names and the focus.
  const place = (box) => {
    const x = Math.max(0, ((box.from - from) / count) * 100);
    return { x, width: Math.min(100 - x, ((Math.min(box.from + box.count, from + count) - Math.max(box.from, from)) / count) * 100) };
  };
  return html`<div class="flame" role="group" aria-label=${`${title}: ${total} samples. Arrows move, Enter widens, Escape goes back.`} onKeyDown=${onKey}>
      <svg width="100%" height=${(deepest + 1) * ROW}>
        ${shown.map((box) => {
          const { x, width } = place(box);
          return html`<svg key=${box.path} x=${`${x}%`} y=${box.depth * ROW} width=${`${width}%`} height=${ROW - 1}>
            <rect class=${`flame-box flame-${box.depth === 0 ? "task" : box.depth % 3}`} width="100%" height="100%" rx="3" />
            <foreignObject width="100%" height="100%"><button type="button" class="flame-name" tabindex=${focused && focused.path === box.path ? 0 : -1} aria-label=${words(box)} title=${words(box)} onFocus=${() => setAt(box.path)} onClick=${() => setZoom(zoom === box.path ? "" : box.path)}>${box.name}</button></foreignObject>
          </svg>`;
        })}
      </svg>
    </div>
    <p class="span-words" role="status">${focused ? words(focused) : ""}</p>`;
}
