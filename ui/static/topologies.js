// All topologies.

import { html } from "../vendor/htm-preact.js";
import { count } from "./format.js";
import { Empty, Failure, StateChip } from "./parts.js";

export function Topologies({ list, linkTo }) {
  const { data, error } = list;
  if (!data) return error ? html`<${Failure} error=${error} />` : html`<p class="loading">Loading…</p>`;
  return html`<div class="head"><h1>Topologies</h1><span class="muted">aiostorm ${data.version}</span>${data.cluster && html`<a class="to-cluster" href="#/cluster">Cluster: nodes, and all topologies</a>`}</div>
    ${data.topologies.length === 0 && html`<${Empty} title="No topology runs here">It has ended, or was not submitted yet. This page looks again by itself.<//>`}
    <ul class="tiles">${data.topologies.map((t) => html`<li key=${t.name}><a class="tile" href=${linkTo(t.name)}>
      <span class="tile-name">${t.name}</span><${StateChip} state=${t.state} pressure=${t.throttled ? "THROTTLED" : ""} />
      <dl class="facts">
        <div><dt>Spouts</dt><dd>${count(t.spouts)}</dd></div><div><dt>Bolts</dt><dd>${count(t.bolts)}</dd></div>
        <div><dt>Tasks</dt><dd>${count(t.tasks)}</dd></div><div><dt>Workers</dt><dd>${t.workers ? count(t.workers) : "this process"}</dd></div>
        <div><dt>Errors</dt><dd class=${t.errors ? "level-blocked" : ""}>${count(t.errors)}</dd></div>
      </dl>${t.degraded && html`<span class="tile-note level-blocked">${t.degraded}</span>`}
    </a></li>`)}</ul>`;
}
