// The page: chooses what is shown by the part of the address after #, and has the keys that work on every page.
//   #/                     topologies
//   #/t/NAME[/TAB]         a topology: overview, pressure, traces, errors, profile, workers, time, snapshots, logs, config
//   #/t/NAME/c/COMPONENT   a component
//   #/cluster, #/n/NODE, #/l/NAME/PROCESS   a cluster, a node of it, the output of a process
// The pages of a cluster are loaded when they are first looked at.

import { html, render, useEffect, useState } from "../vendor/htm-preact.js";
import { get, keepToken } from "./api.js";
import { Component } from "./component.js";
import { Config } from "./config.js";
import { Errors } from "./errors.js";
import { useLive } from "./live.js";
import { Announce, Chip, Failure, Pause, StateChip } from "./parts.js";
import { Logs } from "./logs.js";
import { Pressure } from "./pressure.js";
import { Profiles } from "./profile.js";
import { Snapshots } from "./snapshots.js";
import { Times } from "./times.js";
import { Topologies } from "./topologies.js";
import { Traces } from "./traces.js";
import { Actions, Overview } from "./topology.js";
import { Workers } from "./workers.js";

const TABS = [
  ["", "Overview", "o", Overview],
  ["pressure", "Pressure", "p", Pressure],
  ["traces", "Traces", "r", Traces],
  ["errors", "Errors", "e", Errors],
  ["profile", "Profile", "f", Profiles],
  ["workers", "Workers", "w", Workers],
  ["time", "Time", "t", Times],
  ["snapshots", "Snapshots", "s", Snapshots],
  ["logs", "Logs", "n", Logs],
  ["config", "Config", "c", Config],
];

const LATER = { cluster: ["./cluster.js", "ClusterPage"], node: ["./cluster.js", "NodePage"], output: ["./output.js", "OutputPage"] };
const CLUSTER = ["Cluster", "#/cluster"];

const linkTo = (name, rest = "") => `#/t/${encodeURIComponent(name)}${rest}`;

function route() {
  const parts = location.hash.replace(/^#\/?/, "").split("/").map((part) => {
    try {
      return decodeURIComponent(part);
    } catch {
      return part; // an address that was typed by hand
    }
  });
  if (parts[0] === "cluster") return { name: "", page: "cluster" };
  if (parts[0] === "n" && parts[1]) return { name: "", page: "node", node: parts[1] };
  if (parts[0] === "l" && parts[1]) return { name: "", page: "output", topology: parts[1], process: parts[2] || "parent" };
  if (parts[0] !== "t" || !parts[1]) return { name: "" };
  return parts[2] === "c" ? { name: parts[1], tab: "c", component: parts[3] || "" } : { name: parts[1], tab: parts[2] || "" };
}

function Login({ onToken }) {
  const [wrong, setWrong] = useState("");
  const submit = async (event) => {
    event.preventDefault();
    keepToken(new FormData(event.target).get("token").trim());
    try {
      await get("api/v1/topologies");
      onToken();
    } catch (error) {
      keepToken("");
      setWrong(error.message);
    }
  };
  return html`<main class="login"><form onSubmit=${submit}>
    <h1>Token</h1>
    <p>This page can be reached from other machines. Its token is in the file that was given with <code>--ui-token-file</code>.</p>
    <label>Token <input name="token" type="password" autocomplete="current-password" required autofocus /></label>
    ${wrong && html`<p class="notice bad" role="alert">${wrong}</p>`}
    <button class="primary">Open</button>
  </form></main>`;
}

const STATUS = { connecting: ["info", "connecting"], live: ["good", "live"], paused: ["off", "paused"], lost: ["warn", "connection lost, trying again"], ended: ["off", "ended"], refused: ["bad", "refused"] };

function Shell({ crumbs, status, children }) {
  const [kind, text] = STATUS[status] || [];
  return html`<a class="skip" href="#main" onClick=${(event) => { event.preventDefault(); document.getElementById("main").focus(); }}>Skip to content</a>
    <header class="top"><a class="brand" href="#/"><img src="static/icon.svg" alt="" width="26" height="26" />aiostorm</a>
      <nav aria-label="You are here">${crumbs.map(([label, href], i) => html`<span key=${label} class="crumb"><span aria-hidden="true">/</span>${i < crumbs.length - 1 ? html`<a href=${href}>${label}</a>` : html`<span aria-current="page">${label}</span>`}</span>`)}</nav>
      ${text && html`<${Chip} kind=${kind}>${text}<//>`}
    </header>
    <main id="main" tabindex="-1">${children}</main>`;
}

function TopologyPage({ at, readOnly, paused }) {
  const live = useLive(at.name, paused);
  const { tick } = live;
  const tab = TABS.find(([id]) => id === at.tab) || TABS[0];
  const crumbs = [[at.name, linkTo(at.name)]];
  if (at.tab === "c") crumbs.push([at.component, ""]);
  useEffect(() => {
    document.title = `${at.name} – aiostorm`;
  }, [at.name]);
  const props = { name: at.name, live, readOnly, linkTo };
  const said = tick ? [tick.state, tick.degraded, ...tick.causes.map((c) => c.words.replace(/[\d.]+ (µs|ms|s|%)/g, ""))].join(". ") : "";
  const words = tick ? tick.causes.map((cause) => cause.words) : [];
  return html`<${Shell} crumbs=${crumbs} status=${live.status}>
    <div class="head"><h1>${at.name}</h1>${tick && html`<${StateChip} state=${live.status === "ended" ? "KILLED" : tick.state} pressure=${tick.pressure} />`}
      ${tick && live.status !== "ended" && !readOnly && html`<${Actions} name=${at.name} tick=${tick} guarantee=${live.graph?.guarantee} />`}</div>
    <${Announce} text=${said} />
    ${live.status === "ended" && html`<p class="notice">This topology has ended. What is shown is its last state.</p>`}
    ${live.error && live.status !== "live" && html`<${Failure} error=${live.error} />`}
    ${tick && tick.degraded && html`<p class="notice bad">Degraded: ${tick.degraded}</p>`}
    ${words.map((text) => html`<p key=${text.split(" waits ")[0]} class="notice warn cause"><${Pause} />${text}</p>`)}
    <nav class="tabs" aria-label="Pages of this topology">${TABS.map(([id, label]) => html`<a key=${id} href=${linkTo(at.name, id && `/${id}`)} aria-current=${at.tab === id ? "page" : undefined}>${label}</a>`)}</nav>
    ${at.tab === "c" ? html`<${Component} key=${at.component} component=${at.component} ...${props} />` : html`<${tab[3]} ...${props} />`}
  <//>`;
}

function Later({ at, paused, status }) {
  const [page, setPage] = useState({});
  const [file, name] = LATER[at.page];
  useEffect(() => {
    import(file).then((module) => setPage({ [at.page]: module[name] }), (error) => setPage({ error }));
  }, [at.page]);
  const crumbs = { cluster: [CLUSTER], node: [CLUSTER, [at.node, ""]], output: [CLUSTER, [`${at.topology} ${at.process}`, ""]] }[at.page];
  useEffect(() => {
    document.title = `${crumbs.map(([label]) => label).join(" / ")} – aiostorm`;
  }, [crumbs.join()]);
  const Page = page[at.page];
  const props = { linkTo, paused, name: at.node || at.topology, process: at.process };
  return html`<${Shell} crumbs=${crumbs} status=${paused ? "paused" : status}>
    ${page.error ? html`<${Failure} error=${page.error} />` : Page ? html`<${Page} key=${`${props.name}/${props.process}`} ...${props} />` : html`<p class="loading">Loading…</p>`}<//>`;
}

function Help({ onClose }) {
  const keys = [["g then l", "all topologies"], ["g then k", "cluster"], ...TABS.map(([, label, key]) => [`g then ${key}`, label.toLowerCase()]), ["arrows", "along the graph"], ["Enter", "open a component"], ["Space", "pause, go on"], ["?", "this help"]];
  return html`<dialog open class="help" aria-labelledby="help-title"><h2 id="help-title">Keys</h2><dl>${keys.map(([key, text]) => html`<div key=${key}><dt><kbd>${key}</kbd></dt><dd>${text}</dd></div>`)}</dl><div class="buttons"><button type="button" autofocus onClick=${onClose}>Close</button></div></dialog>`;
}

function useKeys(at, setPaused, setHelp) {
  useEffect(() => {
    let afterG = false;
    const onKey = (event) => {
      if (event.key === "Escape") setHelp(false);
      if (event.ctrlKey || event.metaKey || event.altKey || event.target.closest("input, textarea, select, dialog")) return;
      if (afterG) {
        afterG = false;
        const tab = TABS.find(([, , key]) => key === event.key);
        if (event.key === "l") location.hash = "#/";
        else if (event.key === "k") location.hash = "#/cluster";
        else if (tab && at.name) location.hash = linkTo(at.name, tab[0] && `/${tab[0]}`);
        return;
      }
      if (event.key === "g") afterG = true;
      else if (event.key === "?") setHelp(true);
      else if (event.key === " " && !event.target.closest("a, button, summary, [tabindex='0']")) {
        event.preventDefault();
        setPaused((old) => !old);
      }
    };
    addEventListener("keydown", onKey);
    return () => removeEventListener("keydown", onKey);
  }, [at.name]);
}

function App() {
  const [at, setAt] = useState(route());
  const [list, setList] = useState({ data: null, error: null });
  const [paused, setPaused] = useState(false);
  const [help, setHelp] = useState(false);
  const read = () => get("api/v1/topologies").then((data) => setList({ data, error: null }), (error) => setList((old) => ({ ...old, error })));
  useEffect(() => {
    read();
    const onHash = () => {
      setAt(route());
      scrollTo(0, 0);
    };
    addEventListener("hashchange", onHash);
    return () => removeEventListener("hashchange", onHash);
  }, []);
  useKeys(at, setPaused, setHelp);
  useEffect(() => {
    if (at.name || at.page) return undefined;
    document.title = "aiostorm";
    const timer = setInterval(() => document.hidden || paused || read(), 2000);
    return () => clearInterval(timer);
  }, [at.name, at.page, paused]);
  if (list.error && list.error.status === 401) return html`<${Login} onToken=${read} />`;
  const page = at.name
    ? html`<${TopologyPage} key=${at.name} at=${at} readOnly=${!list.data || list.data.read_only} paused=${paused} />`
    : at.page ? html`<${Later} at=${at} paused=${paused} status=${list.error ? "lost" : ""} />`
    : html`<${Shell} crumbs=${[]} status=${list.error ? "lost" : paused ? "paused" : ""}><${Topologies} list=${list} linkTo=${linkTo} /><//>`;
  return html`${page}${help && html`<${Help} onClose=${() => setHelp(false)} />`}`;
}

render(html`<${App} />`, document.getElementById("app"));
