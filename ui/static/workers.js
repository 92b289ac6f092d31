// The workers, and which tasks run on them.

import { html } from "../vendor/htm-preact.js";
import { pathOf } from "./api.js";
import { count } from "./format.js";
import { Card, Chip, Empty, Failure, Table, useGet } from "./parts.js";

const KINDS = { RUNNING: "good", STARTING: "info", BACKOFF: "warn", STOPPING: "off", ENDED: "bad" };

export function Workers({ name, live }) {
  const { data, error } = useGet(pathOf(name, "/workers"), live.status === "live" ? 2000 : 0);
  if (!data) return error ? html`<${Failure} error=${error} />` : html`<p class="loading">Loading…</p>`;
  if (!data.workers.length) return html`<${Card} title="Workers"><${Empty} title="No workers">All tasks run in process ${String(data.pid)}. More: aiostorm run --workers N.<//><//>`;
  const columns = [
    { label: "Worker", cell: (w) => w.name },
    { label: "Process", right: true, cell: (w) => String(w.pid || "–") },
    { label: "Phase", cell: (w) => html`<${Chip} kind=${KINDS[w.phase] || "off"}>${w.phase}<//>` },
    { label: "Restarts", right: true, cell: (w) => count(w.restarts) },
    { label: "Tasks", wide: true, cell: (w) => Object.entries(w.tasks).map(([component, tasks]) => `${component}: ${tasks.join(", ")}`).join("; ") || "none" },
    { label: "Problem", wide: true, cell: (w) => w.degraded && html`<span class="level-blocked">${w.degraded}</span>` },
  ];
  return html`<${Card} title="Workers"><${Table} caption="Workers" columns=${columns} rows=${data.workers} rowKey=${(w) => w.name} /><//>`;
}
