// The output of a process of a topology of the cluster: its end, and what comes.

import { html, useEffect, useLayoutEffect, useRef, useState } from "../vendor/htm-preact.js";
import { get } from "./api.js";
import { bytes } from "./format.js";
import { Card, Empty, Failure, useGet } from "./parts.js";

const KEPT = 400_000;

function useOutput(path, follow) {
  const [state, setState] = useState({ text: null, skipped: 0, error: null });
  const next = useRef(null);
  useEffect(() => {
    next.current = null;
    setState({ text: null, skipped: 0, error: null });
  }, [path]);
  useEffect(() => {
    const control = new AbortController();
    let under = false;
    const read = () => {
      if (document.hidden || under) return;
      under = true;
      get(path + (next.current === null ? "" : `?from=${next.current}`), control.signal).then((piece) => {
        const first = next.current === null;
        next.current = piece.next;
        setState((old) => {
          const gap = !first && (piece.again || piece.skipped) ? "\n… \n" : "";
          return { text: ((old.text || "") + gap + piece.text).slice(-KEPT), skipped: first ? piece.skipped : old.skipped, error: null };
        });
      }, (error) => error.name !== "AbortError" && setState((old) => ({ ...old, error }))).then(() => {
        under = false;
      });
    };
    read();
    const timer = follow ? setInterval(read, 1000) : 0;
    return () => {
      control.abort();
      clearInterval(timer);
    };
  }, [path, follow]);
  return state;
}

export function OutputPage({ name, process, paused }) {
  const root = `api/v1/cluster/topologies/${encodeURIComponent(name)}/logs`;
  const list = useGet(root);
  const [follow, setFollow] = useState(true);
  const { text, skipped, error } = useOutput(`${root}/${encodeURIComponent(process)}`, follow && !paused);
  const box = useRef(null);
  useLayoutEffect(() => {
    if (follow && box.current) box.current.scrollTop = box.current.scrollHeight;
  }, [text, follow]);
  const choose = (event) => {
    location.hash = `#/l/${encodeURIComponent(name)}/${encodeURIComponent(event.target.value)}`;
  };
  const there = list.data ? list.data.processes : [];
  const all = there.includes(process) ? there : [process, ...there];
  return html`<div class="head"><h1>Output of ${name}</h1></div>
    ${error && html`<${Failure} error=${error} />`}
    <${Card} title=${process} aside=${html`<div class="filter">
        <label>Process <select value=${process} onChange=${choose}>${all.map((each) => html`<option key=${each} value=${each} selected=${each === process}>${each}</option>`)}</select></label>
        <label><input type="checkbox" checked=${follow} onChange=${(event) => setFollow(event.target.checked)} /> follow</label></div>`}>
      ${text ? html`<pre class="output" ref=${box} tabindex="0" role="region" aria-label=${`Output of ${process}, the newest last`}>${text}</pre>` : html`<${Empty} title=${text === null ? "Loading…" : "No output yet"} />`}
      <p class="muted foot">What this process of the topology has printed and logged on this machine${skipped > 0 && `; ${bytes(skipped)} before it are in the file`}. The same in a terminal: aiostorm logs.</p>
    <//>`;
}
