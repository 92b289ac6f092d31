// Small parts of all pages. Texts become text nodes: no markup is ever made of what a topology says.

import { html, useEffect, useRef, useState } from "../vendor/htm-preact.js";
import { get } from "./api.js";
import { useSight } from "./sight.js";

export function Chip({ kind, children }) {
  return html`<span class="chip chip-${kind}"><span class="dot" aria-hidden="true"></span>${children}</span>`;
}

export function StateChip({ state, pressure }) {
  const kind = { ACTIVE: "good", STARTING: "info", INACTIVE: "off", KILLED: "off", FAILED: "bad" }[state] || "off";
  return html`<span class="chips"><${Chip} kind=${kind}>${state}<//>${
    pressure === "THROTTLED" && html`<${Chip} kind="warn">THROTTLED<//>`
  }</span>`;
}

export function Pause() {
  return html`<svg class="pause" viewBox="0 0 16 16" width="16" height="16" aria-hidden="true"><circle cx="8" cy="8" r="8" /><path d="M5 4.5h2.2v7H5zM8.8 4.5H11v7H8.8z" /></svg>`;
}

export function Card({ title, aside, children, holder }) {
  return html`<section class="card" ref=${holder}>
    ${title && html`<header class="card-head"><h2>${title}</h2>${aside}</header>`}${children}
  </section>`;
}

// A card with much in it: what `draw` returns is drawn anew only while the card is in sight.
export function LiveCard({ title, aside, draw }) {
  const [kept, observe] = useSight();
  return html`<${Card} title=${title} aside=${aside} holder=${observe("card")}>${kept("card", [], [draw], draw)}<//>`;
}

export function Empty({ title, children }) {
  return html`<div class="empty"><p class="empty-title">${title}</p><p>${children}</p></div>`;
}

export function Failure({ error }) {
  return html`<div class="notice bad" role="alert">${error.message}</div>`;
}

// columns: [{key, label, right, cell(row), wide}]. A cell is text or a node.
export function Table({ caption, columns, rows, rowKey, empty }) {
  if (!rows.length) return html`<${Empty} title=${empty || "Nothing here"} />`;
  return html`<div class="scroll" tabindex="0" role="region" aria-label=${caption}>
    <table>
      <caption class="hidden">${caption}</caption>
      <thead><tr>${columns.map((c) => html`<th key=${c.label} scope="col" class=${c.right ? "right" : ""}>${c.label}</th>`)}</tr></thead>
      <tbody>${rows.map(
        (row) => html`<tr key=${rowKey(row)}>${columns.map((c, i) =>
          i === 0
            ? html`<th scope="row" key=${c.label}>${c.cell(row)}</th>`
            : html`<td key=${c.label} class=${c.right ? "right" : c.wide ? "wide" : ""}>${c.cell(row)}</td>`,
        )}</tr>`,
      )}</tbody>
    </table>
  </div>`;
}

export function Fill({ fill, level, marks }) {
  const share = Math.max(0, Math.min(1, fill));
  return html`<span class="fill" title=${`${Math.round(share * 100)} % full, ${level}`}>
    <svg class="bar bar-${level}" viewBox="0 0 100 10" preserveAspectRatio="none" aria-hidden="true">
      <rect class="bar-back" width="100" height="10" rx="2" />
      <rect class="bar-fill" width=${share * 100} height="10" rx="2" />
      ${marks && [marks.low, marks.high].map((mark) => html`<rect key=${mark} class="bar-mark" x=${mark * 100 - 0.6} width="1.2" height="10" />`)}
    </svg>
    <span class="fill-text">${Math.round(share * 100)} %${level !== "calm" && html` <em class="level-${level}">${level}</em>`}</span>
  </span>`;
}

// What tasks do with their time (see shares): busy from the left, then blocked; the rest is idle.
export function Busy({ found }) {
  if (!found) return html`<span class="muted">–</span>`;
  const [busy, blocked] = [found.busy, found.blocked].map((share) => Math.round(share * 100));
  return html`<span class="fill" title=${`${busy} % busy, ${blocked} % blocked, ${Math.max(0, 100 - busy - blocked)} % idle`}>
    <svg class="bar" viewBox="0 0 100 10" preserveAspectRatio="none" aria-hidden="true">
      <rect class="bar-back" width="100" height="10" rx="2" /><rect class="busy" width=${busy} height="10" rx="2" />
      <rect class="held" x=${busy} width=${blocked} height="10" /></svg>
    <span class="fill-text">${busy} %${blocked > 0 && html` <em class="level-blocked">${blocked} % blocked</em>`}</span></span>`;
}

export function Stat({ label, value, note, tone }) {
  return html`<div class=${`stat ${tone ? `stat-${tone}` : ""}`}><dt>${label}</dt><dd>${value}</dd>${note && html`<dd class="note">${note}</dd>`}</div>`;
}

// Reads a path, and again each `every` milliseconds while the page is visible.
export function useGet(path, every = 0) {
  const [state, setState] = useState({ data: null, error: null });
  const [again, setAgain] = useState(0);
  useEffect(() => {
    const control = new AbortController();
    const read = () => {
      if (document.hidden) return;
      get(path, control.signal).then(
        (data) => setState({ data, error: null }),
        (error) => error.name !== "AbortError" && setState((old) => ({ ...old, error })),
      );
    };
    read();
    const timer = every ? setInterval(read, every) : 0;
    return () => {
      control.abort();
      clearInterval(timer);
    };
  }, [path, every, again]);
  return { ...state, reload: () => setAgain(again + 1) };
}

// Says a text once to screen readers, when it changes.
export function Announce({ text }) {
  return html`<div class="hidden" role="status" aria-live="polite">${text}</div>`;
}

export function Confirm({ title, text, action, onYes, onNo }) {
  const dialog = useRef(null);
  useEffect(() => {
    dialog.current.showModal();
  }, []);
  return html`<dialog ref=${dialog} onCancel=${onNo} aria-labelledby="confirm-title">
    <h2 id="confirm-title">${title}</h2><p>${text}</p>
    <div class="buttons"><button type="button" onClick=${onNo}>Cancel</button><button type="button" class="danger" onClick=${onYes}>${action}</button></div>
  </dialog>`;
}
