// Traces: the tuple trees that were sampled, and the waterfall of one: waits and execution of each task on one time axis.

import { html, useState } from "../vendor/htm-preact.js";
import { pathOf, send } from "./api.js";
import { clock, count, duration, percent } from "./format.js";
import { Card, Chip, Empty, Failure, Table, useGet } from "./parts.js";

const KINDS = { acked: "good", failed: "bad", open: "info" };
const STEPS = { send: "sent to", wait: "waited for", execute: "executed by", ack: "acked" };
const ROW = 30;

const Outcome = ({ outcome }) => html`<${Chip} kind=${KINDS[outcome] || "off"}>${outcome}<//>`;

const wordsOf = (span, whole) => `${span.component} task ${span.task}${span.worker === "local" ? "" : ` on ${span.worker}`}: arrived after ${duration(span.arrived_s)}, waited ${duration(Math.max(0, span.begun_s - span.arrived_s))}, executed ${duration(Math.max(0, span.ended_s - span.begun_s))}, ${count(span.rows)} ${span.rows === 1 ? "row" : "rows"} from ${span.source}${whole ? `, ${percent((span.ended_s - span.begun_s) / whole)} of the tree` : ""}`;

// Rows can be walked with the arrow keys; the one in focus is said in words below.
function Waterfall({ trace }) {
  const [at, setAt] = useState(0);
  const whole = Math.max(trace.complete_s || 0, ...trace.spans.map((s) => s.ended_s), 1e-9);
  const onKey = (event) => {
    const step = { ArrowDown: 1, ArrowUp: -1, Home: -trace.spans.length, End: trace.spans.length }[event.key];
    if (!step) return;
    event.preventDefault();
    const next = Math.max(0, Math.min(trace.spans.length - 1, at + step));
    setAt(next);
    event.currentTarget.querySelectorAll(".span-row")[next]?.focus();
  };
  const x = (seconds) => Math.max(0, Math.min(1000, (seconds / whole) * 1000));
  const bar = (kind, from, to) => html`<rect class=${`span-${kind}`} x=${x(from)} width=${Math.max(kind === "work" ? 3 : 0, x(to) - x(from))} y="7" height="14" rx="2" />`;
  return html`<div class="waterfall" role="list" aria-label="Spans, in the order of the tree" onKeyDown=${onKey}>
      ${trace.spans.map((span, i) => html`<div key=${span.edge} class="span-row" role="listitem" tabindex=${i === at ? 0 : -1} aria-label=${wordsOf(span, trace.complete_s)} onFocus=${() => setAt(i)}>
        <span class=${`span-name span-depth-${Math.min(span.depth, 9)}`}>${span.component} <small>[${span.task}]${span.worker === "local" ? "" : ` ${span.worker}`}</small></span>
        <svg viewBox=${`0 0 1000 ${ROW - 2}`} preserveAspectRatio="none" aria-hidden="true">
          <line class="span-axis" x1="0" x2="1000" y1="14" y2="14" />
          ${bar("wait", span.arrived_s, span.begun_s)}${bar("work", span.begun_s, span.ended_s)}
        </svg></div>`)}
      <div class="span-scale" aria-hidden="true"><span></span><span>0 s</span><span>${duration(whole / 2)}</span><span>${duration(whole)}</span></div>
    </div>
    <p class="span-words" role="status">${trace.spans[at] ? wordsOf(trace.spans[at], trace.complete_s) : ""}</p>`;
}

function Tree({ name, id, given }) {
  const { data, error } = useGet(pathOf(name, `/traces/${id}`), given && given.complete_s !== null ? 0 : 2000);
  const trace = data || (given && given.id === id ? given : null);
  if (!trace) return error ? html`<${Failure} error=${error} />` : html`<p class="loading">Loading…</p>`;
  const columns = [
    { label: "Step", cell: (s) => `${STEPS[s.kind]} ${s.component}` },
    { label: "Time", right: true, cell: (s) => duration(s.seconds) },
    { label: "Share", right: true, cell: (s) => percent(trace.complete_s ? s.seconds / trace.complete_s : null) },
  ];
  const error_s = Math.max(0, ...trace.spans.filter((s) => s.worker !== trace.worker).map((s) => s.error_s));
  return html`<${Card} title=${`Tree ${trace.id}`} aside=${html`<ul class="legend"><li class="span-key wait">waits in a mailbox</li><li class="span-key work">is executed</li></ul>`}>
      <p class="span-head"><b>${trace.component} [${trace.task}]</b> emitted ${count(trace.messages)} ${trace.messages === 1 ? "message" : "messages"} at ${clock(trace.emitted_at_s)} <${Outcome} outcome=${trace.outcome} /> ${trace.complete_s !== null && html`after <b>${duration(trace.complete_s)}</b>`}${trace.attempt > 1 && ` (attempt ${trace.attempt})`}</p>
      ${trace.problem && html`<p class="notice bad">${trace.problem}</p>`}
      ${trace.notes.map((note) => html`<p key=${note} class="notice warn">${note}</p>`)}
      ${trace.spans.length ? html`<${Waterfall} key=${trace.id} trace=${trace} />` : html`<${Empty} title="No span yet">No task has executed a tuple of this tree so far.<//>`}
      ${trace.omitted > 0 && html`<p class="muted">${count(trace.omitted)} more spans are not shown.</p>`}
      ${error_s > 0 && html`<p class="muted">Times of other workers: ± ${duration(error_s)}.</p>`}
    <//>
    ${trace.path.length > 0 && html`<${Card} title="The slowest way"><${Table} caption="The steps of the slowest way, which add up to the time of the tree" columns=${columns} rows=${trace.path} rowKey=${(s) => trace.path.indexOf(s)} /><//>`}`;
}

export function Traces({ name, live, readOnly }) {
  const { data, error, reload } = useGet(pathOf(name, "/traces"), live.status === "live" ? 3000 : 0);
  const [chosen, setChosen] = useState("");
  const [result, setResult] = useState({ busy: false });
  if (!data) return error ? html`<${Failure} error=${error} />` : html`<p class="loading">Loading…</p>`;
  if (data.untraced) return html`<${Card} title="Traces"><${Empty} title="Nothing to trace">${data.untraced}<//><//>`;
  const onTrace = (event) => {
    event.preventDefault();
    const component = new FormData(event.target).get("component") || null;
    setResult({ busy: true });
    send("POST", pathOf(name, "/trace"), { component }).then(
      (trace) => {
        setResult({ busy: false, trace });
        setChosen(trace.id);
        reload();
      },
      (problem) => setResult({ busy: false, problem }),
    );
  };
  const nodes = live.graph ? live.graph.nodes.map((node) => node.id) : [];
  const id = chosen || data.traces[0]?.id;
  const columns = [
    { label: "Tree", cell: (t) => html`<button type="button" class="link" aria-pressed=${t.id === id} onClick=${() => setChosen(t.id)}>${t.id}</button>` },
    { label: "Emitted", cell: (t) => clock(t.emitted_at_s) },
    { label: "Spout", cell: (t) => t.component },
    { label: "Messages", right: true, cell: (t) => count(t.messages) },
    { label: "Attempt", right: true, cell: (t) => count(t.attempt) },
    { label: "Outcome", cell: (t) => html`<${Outcome} outcome=${t.outcome} />` },
    { label: "Took", right: true, cell: (t) => duration(t.seconds) },
    { label: "Spans", right: true, cell: (t) => count(t.spans) },
  ];
  return html`${!readOnly && html`<form class="trace-form" onSubmit=${onTrace}>
      <label>Trace a tree that passes <select name="component"><option value="">any component</option>${nodes.map((node) => html`<option key=${node} value=${node}>${node}</option>`)}</select></label>
      <button type="submit" class="primary" disabled=${result.busy}>${result.busy ? "Waiting for one…" : "Trace the next one"}</button></form>`}
    ${result.problem && html`<${Failure} error=${result.problem} />`}
    ${id && html`<${Tree} key=${id} name=${name} id=${id} given=${result.trace} />`}
    <${Card} title="Trees" aside=${html`<span class="muted">${data.one_in ? `1 in ${count(data.one_in)} is sampled` : "none is sampled by itself"}</span>`}>
      ${data.traces.length ? html`<${Table} caption="Trees that were traced" columns=${columns} rows=${data.traces} rowKey=${(t) => t.id} />` : html`<${Empty} title="No trees yet">Trace the next one, or wait until one is sampled.<//>`}
    <//>`;
}
