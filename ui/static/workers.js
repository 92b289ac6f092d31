// The workers: their processes, and which tasks run on them.

import { html } from "../vendor/htm-preact.js";
import { pathOf } from "./api.js";
import { bytes, count, duration, percent } from "./format.js";
import { Card, Chip, Failure, Table, useGet } from "./parts.js";

const KINDS = { RUNNING: "good", STARTING: "info", BACKOFF: "warn", STOPPING: "off", ENDED: "bad" };

// What a process uses. Shares of a core and of pauses are of the last seconds: its counters now, less those before.
function processColumns({ tick, before, recent }) {
  const now = (row) => tick.processes[row.name];
  const share = (row, key) => {
    const [found, old] = [now(row), before && before.processes[row.name]];
    return found && old && found.pid === old.pid ? (found[key] - old[key]) / (tick.at_s - before.at_s) : null;
  };
  const lag = (row) => Math.max(...recent.map((each) => each.processes[row.name]?.loop_lag_s ?? 0));
  return [
    { label: "Processor", right: true, cell: (row) => (now(row) ? html`${percent(share(row, "cpu_s"))} <span class="muted">${duration(now(row).cpu_s)}</span>` : "–") },
    { label: "Memory", right: true, cell: (row) => bytes(now(row)?.rss_bytes) },
    { label: "Open files", right: true, cell: (row) => count(now(row)?.open_files) },
    { label: "Loop lag", right: true, cell: (row) => (now(row) ? html`<span class=${lag(row) > 0.1 ? "level-blocked" : ""}>${duration(lag(row))}</span>` : "–") },
    { label: "Garbage collector", right: true, cell: (row) => (now(row) ? html`${percent(share(row, "gc_pause_s"))} <span class="muted">${count(now(row).gc_collections)} runs</span>` : "–") },
  ];
}

const note = html`<p class="muted foot">Processor: share of a core in the last seconds, and in all. Loop lag: how late the event loop ran what was due, the longest in the last seconds. Garbage collector: share of the time in which it stopped the process.</p>`;

export function Workers({ name, live }) {
  const { data, error } = useGet(pathOf(name, "/workers"), live.status === "live" ? 2000 : 0);
  if (!data || !live.tick) return error ? html`<${Failure} error=${error} />` : html`<p class="loading">Loading…</p>`;
  const used = processColumns(live);
  const process = { label: "Process", right: true, cell: (row) => String(row.pid || "–") };
  if (!data.workers.length) {
    const columns = [{ label: "Where", cell: () => "this process" }, process, ...used];
    return html`<${Card} title="Process" aside=${html`<span class="muted">All tasks run here. More: aiostorm run --workers N</span>`}>
      <${Table} caption="Process" columns=${columns} rows=${[{ name: "local", pid: data.pid }]} rowKey=${(row) => row.name} />${note}<//>`;
  }
  const columns = [
    { label: "Worker", cell: (w) => w.name },
    process,
    { label: "Phase", cell: (w) => html`<${Chip} kind=${KINDS[w.phase] || "off"}>${w.phase}<//>` },
    { label: "Restarts", right: true, cell: (w) => count(w.restarts) },
    ...used,
    { label: "Tasks", wide: true, cell: (w) => Object.entries(w.tasks).map(([component, tasks]) => `${component}: ${tasks.join(", ")}`).join("; ") || "none" },
    { label: "Problem", wide: true, cell: (w) => w.degraded && html`<span class="level-blocked">${w.degraded}</span>` },
  ];
  return html`<${Card} title="Workers"><${Table} caption="Workers" columns=${columns} rows=${data.workers} rowKey=${(w) => w.name} />${note}<//>`;
}
