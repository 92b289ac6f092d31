// Every setting, with the source of its value. Those that can be changed while it runs are changed here.

import { html, useState } from "../vendor/htm-preact.js";
import { pathOf, send } from "./api.js";
import { Card, Failure, Table, useGet } from "./parts.js";

function Value({ row, name, tag, onDone }) {
  const [text, setText] = useState(null);
  const [error, setError] = useState(null);
  const save = async (event) => {
    event.preventDefault();
    let value = text.trim();
    try {
      value = JSON.parse(value);
    } catch {
      // A text without quotes is meant as it is.
    }
    try {
      await send("PATCH", pathOf(name, "/config"), { settings: { [row.name]: value } }, { "If-Match": `"${tag}"` });
      setText(null);
      setError(null);
      onDone();
    } catch (refused) {
      setError(refused);
    }
  };
  if (text === null) {
    return html`<code>${row.value}</code>${row.updatable && name && html` <button type="button" class="small" onClick=${() => setText(row.value)}>Change<span class="hidden"> ${row.name}</span></button>`}`;
  }
  return html`<form class="edit" onSubmit=${save}><input aria-label=${row.name} value=${text} onInput=${(event) => setText(event.target.value)} />
    <button class="small primary">Save</button><button type="button" class="small" onClick=${() => { setText(null); setError(null); }}>Cancel</button>
    ${error && html`<${Failure} error=${error} />`}</form>`;
}

export function Config({ name, readOnly }) {
  const { data, error, reload } = useGet(pathOf(name, "/config"));
  const [search, setSearch] = useState("");
  const [set, setSet] = useState(false);
  if (!data) return error ? html`<${Failure} error=${error} />` : html`<p class="loading">Loading…</p>`;
  const wanted = search.trim().toLowerCase();
  const rows = data.settings.filter((row) => (!set || row.source !== "default") && (!wanted || `${row.name} ${row.key} ${row.help}`.toLowerCase().includes(wanted)));
  const columns = [
    { label: "Setting", cell: (row) => html`<span class="setting">${row.name}</span>${row.key !== row.name && html`<span class="key">${row.key}</span>`}` },
    { label: "Value", cell: (row) => html`<${Value} row=${row} name=${readOnly ? "" : name} tag=${data.tag} onDone=${reload} />` },
    { label: "Source", cell: (row) => (row.source === "default" ? html`<span class="muted">default</span>` : html`<b>${row.source}</b>`) },
    { label: "Default", cell: (row) => html`<code>${row.default}</code>` },
    { label: "What it is", wide: true, cell: (row) => row.help },
  ];
  return html`<${Card} title="Settings" aside=${html`<div class="filter"><label>Search <input type="search" value=${search} onInput=${(event) => setSearch(event.target.value)} /></label><label><input type="checkbox" checked=${set} onChange=${(event) => setSet(event.target.checked)} /> only those that were set</label></div>`}>
    <${Table} caption="Settings" empty="No setting matches" columns=${columns} rows=${rows} rowKey=${(row) => row.name} /><//>`;
}
