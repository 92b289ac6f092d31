// A topology, live: its drawing, the latest tick, and the last 15 minutes. It rests while the page is not visible.

import { useEffect, useState } from "../vendor/htm-preact.js";
import { get, pathOf, stream } from "./api.js";

const KEPT = 900;
const RETRY_MS = [500, 1000, 2000, 5000];

const empty = { graph: null, tick: null, before: null, recent: [], series: null, status: "connecting", error: null };

// The ticks of the last three seconds, the oldest first: what is compared with the latest one. Not over a gap.
const recentOf = (recent, tick) => [...recent.filter((old) => tick.at_s > old.at_s && tick.at_s - old.at_s < 3.5), tick];

function pointOf(series, tick) {
  const found = new Map(tick.components.map((c) => [c.component, c]));
  const values = series.components.map((name) => {
    const c = found.get(name);
    if (!c) return series.names.map(() => null);
    const main = c.latencies[c.kind === "spout" ? "complete" : "process"];
    const own = { fill: c.fill, blocked: c.blocked_tasks, wait_s: c.wait_s, p50_s: main ? main.p50_s : null, p99_s: main ? main.p99_s : null };
    return series.names.map((key) => (key in own ? own[key] : c.counts[key]));
  });
  return [tick.at_s, values];
}

export function useLive(name, paused) {
  const [state, setState] = useState(empty);
  useEffect(() => {
    let control = new AbortController();
    let lastId = 0;
    let tries = 0;
    let timer = 0;
    let over = false;
    const patch = (part) => setState((old) => ({ ...old, ...part }));

    const onEvent = (kind, data, id) => {
      tries = 0;
      if (kind === "past") {
        setState((old) => {
          const before = lastId && old.series ? old.series.points : [];
          return { ...old, series: { ...data, points: [...before, ...data.points].slice(-KEPT) }, status: "live" };
        });
      } else if (kind === "tick") {
        lastId = id;
        setState((old) => {
          const recent = recentOf(old.recent, data);
          const before = recent.length > 1 ? recent[0] : null;
          if (!old.series) return { ...old, tick: data, before, recent };
          const points = [...old.series.points];
          const last = points.length ? points[points.length - 1][0] : 0;
          if (data.at_s > last) points.push(pointOf(old.series, data));
          return { ...old, tick: data, before, recent, series: { ...old.series, points: points.slice(-KEPT) }, status: "live" };
        });
      } else if (kind === "end") {
        over = true;
        patch({ status: "ended" });
      }
    };

    const connect = async () => {
      control = new AbortController();
      try {
        const graph = await get(pathOf(name, "/graph"), control.signal);
        patch({ graph, error: null });
        await stream(pathOf(name, "/stream"), lastId, onEvent, control.signal);
        if (over) return;
        patch({ status: "lost" });
      } catch (error) {
        if (error.name === "AbortError") return;
        const isFinal = error.status && error.status !== 503;
        patch({ status: isFinal ? "refused" : "lost", error });
        if (isFinal) return;
      }
      timer = setTimeout(connect, RETRY_MS[Math.min(tries, RETRY_MS.length - 1)]);
      tries += 1;
    };

    const rest = () => {
      control.abort();
      clearTimeout(timer);
    };
    const onVisible = () => {
      rest();
      if (document.hidden || paused) patch({ status: "paused" });
      else if (!over) connect();
    };
    onVisible();
    document.addEventListener("visibilitychange", onVisible);
    return () => {
      document.removeEventListener("visibilitychange", onVisible);
      rest();
    };
  }, [name, paused]);
  return state;
}

const GAP_S = 3.5;

// A count of one component as a rate, point by point: null where it was not watched.
export function rates(series, component, key) {
  const c = series.components.indexOf(component);
  const k = series.names.indexOf(key);
  return series.points.map(([at, values], i) => {
    if (i === 0) return null;
    const [before, old] = series.points[i - 1];
    const step = at - before;
    if (step <= 0 || step > GAP_S || values[c][k] === null || old[c][k] === null) return null;
    return Math.max(0, (values[c][k] - old[c][k]) / step);
  });
}

// The same over the last seconds, as one number.
export function rateNow(series, component, key, seconds = 3) {
  if (!series || series.points.length < 2) return null;
  const c = series.components.indexOf(component);
  const k = series.names.indexOf(key);
  const last = series.points.length - 1;
  let first = last;
  while (first > 0) {
    const step = series.points[first][0] - series.points[first - 1][0];
    if (step > GAP_S || series.points[last][0] - series.points[first - 1][0] > seconds + 0.5) break;
    first -= 1;
  }
  const time = series.points[last][0] - series.points[first][0];
  if (c < 0 || k < 0 || time <= 0) return null;
  return Math.max(0, (series.points[last][1][c][k] - series.points[first][1][c][k]) / time);
}

// (source, stream, target) → tuples a second, over the last seconds.
export function edgeRates(tick, before) {
  const found = new Map();
  if (!before) return found;
  const old = new Map(before.components.flatMap((c) => c.edges.map(([stream, target, n]) => [`${c.component}\n${stream}\n${target}`, n])));
  for (const c of tick.components) {
    for (const [stream, target, n] of c.edges) {
      const key = `${c.component}\n${stream}\n${target}`;
      found.set(key, Math.max(0, n - (old.get(key) || 0)) / (tick.at_s - before.at_s));
    }
  }
  return found;
}

// What tasks did with their time between two looks, or since their start: shares of busy, blocked and idle.
export function shares(counts, before) {
  const [busy, blocked, idle] = ["busy_s", "blocked_s", "idle_s"].map((key) => Math.max(0, counts[key] - (before ? before[key] : 0)));
  const all = busy + blocked + idle;
  return all > 0 ? { busy: busy / all, blocked: blocked / all } : null;
}

export function column(series, component, key) {
  const c = series.components.indexOf(component);
  const k = series.names.indexOf(key);
  return series.points.map(([, values]) => values[c][k]);
}
