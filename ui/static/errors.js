// Errors in user code, alike ones together; and calls that blocked the event loop.

import { html } from "../vendor/htm-preact.js";
import { pathOf } from "./api.js";
import { clock, count, duration } from "./format.js";
import { Card, Empty, Failure, Table, useGet } from "./parts.js";

function Group({ group, name, linkTo }) {
  return html`<li class="error"><details>
    <summary><span class="error-count" title="how often">${count(group.count)}×</span>
      <span class="error-text">${group.error}</span>
      <span class="error-where"><b>${group.component}</b> in ${group.where}, last at ${clock(group.last_s)}</span></summary>
    <dl class="streams">
      <div><dt>Component</dt><dd><a href=${linkTo(name, `/c/${encodeURIComponent(group.component)}`)}>${group.component}</a>, ${group.tasks.length === 1 ? "task" : "tasks"} ${group.tasks.join(", ")}</dd></div>
      <div><dt>First, last</dt><dd>${clock(group.first_s)}, ${clock(group.last_s)}</dd></div>
      ${group.on_tuple && html`<div><dt>Tuple</dt><dd><code>${group.on_tuple}</code></dd></div>`}
    </dl>
    <pre tabindex="0" role="group" aria-label=${`Traceback of ${group.component}`}>${group.traceback}</pre>
  </details></li>`;
}

export function Errors({ name, live, linkTo }) {
  const { data, error } = useGet(pathOf(name, "/errors"), live.status === "live" ? 2000 : 0);
  if (!data) return error ? html`<${Failure} error=${error} />` : html`<p class="loading">Loading…</p>`;
  const columns = [
    { label: "Task", cell: (s) => s.task },
    { label: "Blocked for", right: true, cell: (s) => duration(s.blocked_s) },
    { label: "Where", cell: (s) => html`<code>${s.place}</code>` },
    { label: "Line", wide: true, cell: (s) => html`<code>${s.line}</code>` },
  ];
  return html`<${Card} title="Errors in user code" aside=${data.total > 0 && html`<span class="muted">${count(data.total)} in all${data.total > data.kept && `, the last ${count(data.kept)} are kept`}</span>`}>
      ${data.groups.length ? html`<ul class="errors">${data.groups.map((g) => html`<${Group} key=${`${g.component} ${g.where} ${g.first_s} ${g.error}`} group=${g} name=${name} linkTo=${linkTo} />`)}</ul>` : html`<${Empty} title="No errors">No component has raised one so far.<//>`}
    <//>
    <${Card} title="Calls that blocked the event loop">
      ${data.stalls.length ? html`<${Table} caption="Calls that blocked" columns=${columns} rows=${data.stalls} rowKey=${(s) => `${s.task} ${s.place} ${s.blocked_s}`} />` : html`<${Empty} title="None">Set blocking = True in components that block: they run in threads then.<//>`}
    <//>`;
}
