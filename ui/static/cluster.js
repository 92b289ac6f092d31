// The cluster: who leads, its nodes, and its topologies with orders for them; and a page for each node.

import { html, useState } from "../vendor/htm-preact.js";
import { pathOf, send } from "./api.js";
import { count, date } from "./format.js";
import { Card, Chip, Confirm, Empty, Failure, Stat, StateChip, Table, useGet } from "./parts.js";

const EVERY = 2000;

const nodeLink = (name) => `#/n/${encodeURIComponent(name)}`;
const logLink = (topology, process) => `#/l/${encodeURIComponent(topology)}/${encodeURIComponent(process)}`;

// The page is drawn again every few seconds: `value` would replace what is typed, `defaultValue` does not.
function Rebalance({ row, onOrder, onClose }) {
  const submit = (event) => {
    event.preventDefault();
    const given = new FormData(event.target);
    const workers = given.get("workers");
    const changed = Object.entries(row.tasks).map(([component, tasks]) => [component, Number(given.get(`tasks ${component}`)) || tasks]).filter(([component, tasks]) => tasks !== row.tasks[component]);
    onOrder("rebalance", { ...(workers && { workers: Number(workers) }), ...(changed.length && { parallelism: Object.fromEntries(changed) }) });
  };
  return html`<form class="edit" onSubmit=${submit} aria-label=${`Rebalance ${row.name}`}>
    <label>Workers <input name="workers" type="number" min="1" max="1000" autofocus defaultValue=${row.workers} /></label>
    ${Object.entries(row.tasks).map(([component, tasks]) => html`<label key=${component}>Tasks of ${component} <input name=${`tasks ${component}`} type="number" min="1" max="100000" defaultValue=${tasks} /></label>`)}
    <button class="small primary">Rebalance</button><button type="button" class="small" onClick=${onClose}>Cancel</button></form>`;
}

// The orders for a topology. What came of one stays until the next; nimbus and supervisors carry it out.
function Orders({ row, onDone }) {
  const [asked, setAsked] = useState("");
  const [result, setResult] = useState(null);
  const order = (what, body) => {
    setAsked("");
    send("POST", pathOf(row.name, `/${what}`), body).then((done) => setResult({ text: done.message }), (error) => setResult({ error })).then(onDone);
  };
  const button = (what, label, onClick, kind = "small") => html`<button type="button" class=${kind} onClick=${onClick}>${label}<span class="hidden"> ${row.name}</span></button>`;
  if (asked === "rebalance") return html`<${Rebalance} row=${row} onOrder=${order} onClose=${() => setAsked("")} />`;
  return html`<div class="edit">
    ${row.wanted === "ACTIVE" && button("deactivate", "Deactivate", () => order("deactivate"))}
    ${row.wanted === "INACTIVE" && button("activate", "Activate", () => order("activate"))}
    ${row.wanted !== "KILLED" && button("rebalance", "Rebalance…", () => setAsked("rebalance"))}
    ${row.wanted !== "KILLED" && button("kill", "Kill…", () => setAsked("kill"), "small danger")}
    <span role="status">${result && (result.error ? html`<${Failure} error=${result.error} />` : html`<span class="muted">${result.text}</span>`)}</span>
    ${asked === "kill" && html`<${Confirm} title=${`Kill ${row.name}?`} text="Its spouts stop, what is under way is processed, then all its processes end. It has to be submitted again to run again." action="Kill" onNo=${() => setAsked("")} onYes=${() => order("kill", {})} />`}
  </div>`;
}

function Processes({ row }) {
  const places = Object.entries(row.where);
  if (!places.length) return html`<span class="muted">none</span>`;
  const nodes = new Map();
  for (const [process, node] of places) nodes.set(node, [...(nodes.get(node) || []), process]);
  return html`<ul class="plain">${[...nodes].map(([node, processes]) => html`<li key=${node}><a href=${nodeLink(node)}>${node}</a> <span class="muted">${processes.length > 4 ? `${count(processes.length)} processes` : processes.join(", ")}</span></li>`)}</ul>`;
}

// Components whose tasks run only on nodes with these labels.
function Pins({ pins }) {
  return html`<ul class="plain">${Object.entries(pins).map(([component, labels]) => html`<li key=${component}>${component} <span class="muted">on ${labels.join(", ")}</span></li>`)}</ul>`;
}

function topologyColumns({ data, linkTo, onDone }) {
  const generation = (row) => (row.running_generation === null || row.running_generation === row.generation ? count(row.generation) : html`${count(row.generation)} <span class="muted">runs: ${count(row.running_generation)}</span>`);
  return [
    { label: "Topology", cell: (row) => html`${row.shown ? html`<a href=${linkTo(row.name)}>${row.name}</a>` : row.name}<span class="key">${date(row.submitted_s)} by ${row.submitted_by}</span>` },
    { label: "State", cell: (row) => html`<${StateChip} state=${row.state} />${row.wanted !== row.state && html`<span class="key">wanted: ${row.wanted}</span>`}` },
    { label: "Workers", right: true, cell: (row) => (row.placed === row.workers ? count(row.workers) : html`<span class="level-filling">${count(row.placed)} of ${count(row.workers)}</span>`) },
    { label: "Generation", right: true, cell: generation },
    { label: "Problem", wide: true, cell: (row) => [row.degraded, row.waiting, row.taken_back].filter(Boolean).map((text) => html`<div class="level-blocked">${text}</div>`) },
    { label: "Where", cell: (row) => html`<${Processes} row=${row} />` },
    data.topologies.some((row) => Object.keys(row.pins).length) && { label: "Pins", cell: (row) => html`<${Pins} pins=${row.pins} />` },
    { label: "Output", cell: (row) => html`<a href=${logLink(row.name, "parent")}>Logs<span class="hidden"> of ${row.name}</span></a>` },
    ...(data.read_only ? [] : [{ label: "Orders", cell: (row) => html`<${Orders} row=${row} onDone=${onDone} />` }]),
  ].filter(Boolean);
}

const nodeColumns = [
  { label: "Node", cell: (row) => html`<a href=${nodeLink(row.name)}>${row.name}</a>` },
  { label: "Host", cell: (row) => row.host },
  { label: "Slots used", right: true, cell: (row) => html`<span class=${row.used >= row.slots ? "level-filling" : ""}>${count(row.used)} of ${count(row.slots)}</span>` },
  { label: "Parents", wide: true, cell: (row) => row.parents.join(", ") },
  { label: "Limits by", cell: (row) => row.limits || html`<span class="muted">not known</span>` },
  { label: "Labels", cell: (row) => row.labels.join(", ") },
  { label: "Only for", cell: (row) => row.isolated },
  { label: "Version", cell: (row) => row.version },
];

const nimbusColumns = [
  { label: "Nimbus", cell: (row) => row.name },
  { label: "Host", cell: (row) => row.host },
  { label: "Role", cell: (row) => html`<${Chip} kind=${row.leads ? "good" : "off"}>${row.leads ? "leads" : "waits"}<//>` },
  { label: "Process", right: true, cell: (row) => String(row.pid || "–") },
  { label: "Started", cell: (row) => date(row.started_s) },
];

export function ClusterPage({ linkTo, paused }) {
  const { data, error, reload } = useGet("api/v1/cluster", paused ? 0 : EVERY);
  if (!data) return error ? html`<${Failure} error=${error} />` : html`<p class="loading">Loading…</p>`;
  const total = (rows, key) => rows.reduce((sum, row) => sum + row[key], 0);
  const waiting = data.topologies.filter((row) => row.waiting).length;
  const leads = data.nimbuses.some((row) => row.leads);
  return html`<div class="head"><h1>Cluster</h1><span class="muted">${data.store}</span></div>
    ${error && html`<${Failure} error=${error} />`}
    ${!leads && html`<p class="notice warn" role="alert">No nimbus leads: orders are kept, and carried out when one does (aiostorm nimbus).</p>`}
    <dl class="stats">
      <${Stat} label="Nodes" value=${count(data.nodes.length)} />
      <${Stat} label="Slots used" value=${`${count(total(data.nodes, "used"))} of ${count(total(data.nodes, "slots"))}`} />
      <${Stat} label="Topologies" value=${count(data.topologies.length)} note=${waiting ? `${count(waiting)} without a place for all workers` : "all have their places"} tone=${waiting ? "warn" : ""} />
      <${Stat} label="Nimbus" value=${count(data.nimbuses.length)} note=${leads ? "one leads" : "none leads"} tone=${leads ? "" : "bad"} />
    </dl>
    <${Card} title="Topologies"><${Table} caption="Topologies" empty="No topology was submitted (aiostorm submit)" columns=${topologyColumns({ data, linkTo, onDone: reload })} rows=${data.topologies} rowKey=${(row) => row.name} /><//>
    <${Card} title="Nodes"><${Table} caption="Nodes" empty="No supervisor is there (aiostorm supervisor)" columns=${nodeColumns} rows=${data.nodes} rowKey=${(row) => row.name} /><//>
    <${Card} title="Nimbus"><${Table} caption="Nimbus" empty="None is there (aiostorm nimbus)" columns=${nimbusColumns} rows=${data.nimbuses} rowKey=${(row) => `${row.name} ${row.host} ${row.pid}`} /><//>`;
}

export function NodePage({ name, paused }) {
  const { data, error } = useGet(`api/v1/nodes/${encodeURIComponent(name)}`, paused ? 0 : EVERY);
  const head = html`<div class="head"><h1>${name}</h1></div>`;
  if (!data) return html`${head}${error ? html`<${Failure} error=${error} />` : html`<p class="loading">Loading…</p>`}`;
  const { node, processes } = data;
  const columns = [
    { label: "Topology", cell: (row) => row.topology },
    { label: "Process", cell: (row) => row.process },
    { label: "State of the topology", cell: (row) => html`<${StateChip} state=${row.state} />` },
    { label: "Generation", right: true, cell: (row) => count(row.generation) },
    { label: "Output", cell: (row) => (row.has_log ? html`<a href=${logLink(row.topology, row.process)}>Log<span class="hidden"> of ${row.process} of ${row.topology}</span></a>` : html`<span class="muted">not on this machine</span>`) },
  ];
  return html`${head}${error && html`<${Failure} error=${error} />`}
    <dl class="stats">
      <${Stat} label="Slots used" value=${`${count(node.used)} of ${count(node.slots)}`} />
      <${Stat} label="Parents" value=${count(node.parents.length)} note="they need no slot" />
      <${Stat} label="Host" value=${node.host} note=${node.address} />
      <${Stat} label="Version" value=${node.version || "–"} />
      <${Stat} label="Labels" value=${node.labels.join(", ") || "–"} />
      <${Stat} label="Limits by" value=${node.limits || "–"} note="for the memory and cores of processes" />
      ${node.isolated && html`<${Stat} label="Only for" value=${node.isolated} note="no other topology gets work here" />`}
    </dl>
    <${Card} title="Processes">${processes.length ? html`<${Table} caption="Processes" columns=${columns} rows=${processes} rowKey=${(row) => `${row.topology} ${row.process}`} />` : html`<${Empty} title="No process is assigned to it">A rebalance of a topology uses it.<//>`}<//>`;
}
