// Profiles: where the code of each process is: of calls that block their event loop, while they do, and on demand.

import { html, useState } from "../vendor/htm-preact.js";
import { pathOf, send } from "./api.js";
import { clock, count, duration } from "./format.js";
import { Flame } from "./flame.js";
import { Card, Chip, Empty, Failure, useGet } from "./parts.js";

const keyOf = (profile) => `${profile.worker} ${profile.begun_at_s}`;

// The place that was seen most often, in words.
function hottest(profile) {
  const [stack] = profile.stacks[0] || [""];
  const frames = stack.split(";");
  return frames.length > 1 ? `${frames[0]} at ${frames[frames.length - 1]}` : frames[0];
}

function One({ profile }) {
  const where = profile.worker === "local" ? "this process" : profile.worker;
  const title = profile.blocked_s ? `Blocked: ${hottest(profile)}` : `${where}, ${duration(profile.seconds)}`;
  return html`<${Card} title=${title} aside=${html`<span class="muted">${where} at ${clock(profile.begun_at_s)}, ${count(profile.samples)} samples</span>`}>
    ${profile.blocked_s > 0 && html`<p class="span-head"><${Chip} kind="bad">blocked<//> the event loop of ${where} for <b>${duration(profile.blocked_s)}</b> when this was seen</p>`}
    ${profile.stacks.length ? html`<${Flame} stacks=${profile.stacks} title=${title} />` : html`<${Empty} title="Nothing ran">No code of a component was seen: it waited for tuples.<//>`}
  <//>`;
}

export function Profiles({ name, live, readOnly }) {
  const { data, error, reload } = useGet(pathOf(name, "/profiles"), live.status === "live" ? 500 : 0);
  const [result, setResult] = useState({ busy: false });
  if (!data) return error ? html`<${Failure} error=${error} />` : html`<p class="loading">Loading…</p>`;
  const onProfile = (event) => {
    event.preventDefault();
    const form = new FormData(event.target);
    setResult({ busy: true });
    send("POST", pathOf(name, "/profile"), { seconds: Number(form.get("seconds")) }).then(
      () => {
        setResult({ busy: false });
        reload();
      },
      (problem) => setResult({ busy: false, problem }),
    );
  };
  return html`${!readOnly && html`<form class="trace-form" onSubmit=${onProfile}>
      <label>Sample all processes for <select name="seconds">${[1, 3, 10, 30].map((s) => html`<option key=${s} value=${s} selected=${s === 3}>${s} s</option>`)}</select></label>
      <button type="submit" class="primary" disabled=${result.busy}>${result.busy ? "Sampling…" : "Take a profile"}</button></form>`}
    ${result.problem && html`<${Failure} error=${result.problem} />`}
    ${data.profiles.length ? data.profiles.map((profile) => html`<${One} key=${keyOf(profile)} profile=${profile} />`) : html`<${Card} title="Profiles"><${Empty} title="No profiles yet">A worker whose event loop is blocked by user code for a second is sampled by itself. Take a profile to see where the time goes.<//><//>`}`;
}
