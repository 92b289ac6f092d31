// The last log records, the newest first; and the level of a logger, changed until the process ends.

import { html, useEffect, useRef, useState } from "../vendor/htm-preact.js";
import { get, pathOf, send } from "./api.js";
import { clock } from "./format.js";
import { Card, Empty, Failure } from "./parts.js";

const KEPT = 1000;
const LEVELS = ["DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL"];

function useLogs(name, isLive) {
  const [state, setState] = useState({ data: null, error: null });
  const [again, setAgain] = useState(0);
  const last = useRef(0);
  useEffect(() => {
    const control = new AbortController();
    const read = () => {
      if (document.hidden) return;
      get(pathOf(name, `/logs?from=${last.current}`), control.signal).then((data) => {
        last.current = Math.max(last.current, ...data.lines.map((line) => line.number));
        setState((old) => {
          const before = old.data ? old.data.lines : [];
          const newest = before.length ? before[before.length - 1].number : 0;
          return { data: { ...data, lines: [...before, ...data.lines.filter((line) => line.number > newest)].slice(-KEPT) }, error: null };
        });
      }, (error) => error.name !== "AbortError" && setState((old) => ({ ...old, error })));
    };
    read();
    const timer = isLive ? setInterval(read, 1000) : 0;
    return () => {
      control.abort();
      clearInterval(timer);
    };
  }, [name, isLive, again]);
  return { ...state, reload: () => setAgain(again + 1) };
}

function LevelForm({ name, data, onDone }) {
  const [result, setResult] = useState(null);
  const submit = (event) => {
    event.preventDefault();
    const given = new FormData(event.target);
    const body = { logger: given.get("logger").trim(), level: given.get("level") };
    send("POST", pathOf(name, "/log-level"), body).then((done) => setResult({ text: `${name} ${done.message}` }), (error) => setResult({ error })).then(onDone);
  };
  return html`<form class="level" onSubmit=${submit}>
    <label>Logger <input name="logger" list="loggers" placeholder="root" autocomplete="off" /></label>
    <datalist id="loggers">${data.loggers.map((each) => html`<option key=${each} value=${each} />`)}</datalist>
    <label>Level <select name="level">${LEVELS.map((each) => html`<option key=${each} value=${each} selected=${each === "INFO"}>${each}</option>`)}<option value="">as above it</option></select></label>
    <button>Set</button><span role="status">${result && (result.error ? html`<${Failure} error=${result.error} />` : result.text)}</span></form>`;
}

const where = (line) => [line.worker, line.component && `${line.component}${line.task === null ? "" : `[${line.task}]`}`, line.logger].filter(Boolean).join(" ");

export function Logs({ name, live, readOnly }) {
  const { data, error, reload } = useLogs(name, live.status === "live");
  const [least, setLeast] = useState("");
  const [search, setSearch] = useState("");
  if (!data) return error ? html`<${Failure} error=${error} />` : html`<p class="loading">Loading…</p>`;
  const wanted = search.trim().toLowerCase();
  const rank = (level) => LEVELS.indexOf(level);
  const lines = data.lines.filter((line) => rank(line.level) >= rank(least) && (!wanted || `${where(line)} ${line.text}`.toLowerCase().includes(wanted))).reverse();
  const set = Object.entries(data.levels).map(([logger, level]) => `${logger || "root"}: ${level}`).join(", ");
  return html`<${Card} title="Logs" aside=${html`<div class="filter">
      <label>From <select onChange=${(event) => setLeast(event.target.value)}><option value="">all levels</option>${LEVELS.slice(1).map((each) => html`<option key=${each} value=${each}>${each}</option>`)}</select></label>
      <label>Search <input type="search" value=${search} onInput=${(event) => setSearch(event.target.value)} /></label></div>`}>
    ${lines.length ? html`<div class="log" tabindex="0" role="region" aria-label="Log records, the newest first"><ol>${lines.map((line) => html`<li key=${line.number} class=${`log-${line.level.toLowerCase()}`}>
      <span class="muted">${clock(line.at_s)}</span> <b>${line.level}</b> <span class="muted">${where(line)}</span> ${line.text}</li>`)}</ol></div>` : html`<${Empty} title="No records">${data.lines.length ? "None matches." : "Nothing was logged since the page was started."}<//>`}
    <p class="muted foot">The last ${KEPT} records, of this process and of its workers. Levels: ${set}.</p>
  <//>
  ${!readOnly && html`<${Card} title="Level of a logger"><${LevelForm} name=${name} data=${data} onDone=${reload} /><p class="muted foot">Here and in all workers, until they end.</p><//>`}`;
}
