"""Reading: a running topology as the model of the page (see model). It asks for copies of numbers that exist anyway.

RunningTopology ─ metrics, backpressure, errors, workers ─► Tick (each second), tables (when they are asked for)
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final, TypeAlias

from ..backpressure import THROTTLED
from ..metrics import NUMBERS
from ..topology import drawn_inputs, grouping_text, layered
from .cause import causes
from .model import (
    ComponentDetail,
    ComponentTick,
    Graph,
    GraphEdge,
    GraphNode,
    Latency,
    Level,
    Marks,
    OwnSeries,
    TaskRow,
    Tick,
    TopologySummary,
    WorkerRow,
)
from .recent import Recent, histograms_of, latency_of

if TYPE_CHECKING:
    from ..backpressure import ComponentPressure
    from ..cluster import RemoteTopology, RunningTopology
    from ..metrics import ComponentMetrics, Series, TaskMetrics
    from ..topology import Topology

Shown: TypeAlias = "RunningTopology | RemoteTopology"
"""A topology of this program, or of another one."""

SERIES: Final = (
    "emitted",
    "executed",
    "acked",
    "failed",
    "errors",
    "pending",
    "fill",
    "blocked",
    "wait_s",
    "busy_s",
    "blocked_s",
    "p50_s",
    "p99_s",
)
"""What is kept of each component, each second. `p50_s`, `p99_s`: of `complete` of a spout, of `process` of a bolt."""


def summary_of(running: Shown) -> TopologySummary:
    """A line of the list."""
    topology = running.topology
    metrics = running.metrics()
    return TopologySummary(
        name=running.name,
        state=running.state.value,
        degraded=running.degraded,
        throttled=running.backpressure().state == THROTTLED,
        spouts=len(topology.spouts),
        bolts=len(topology.bolts),
        tasks=sum(len(tasks) for name, tasks in running.plan.tasks_of.items() if name in topology.components),
        workers=len(running.workers()),
        errors=sum(c.errors for c in metrics.values()),
    )


def graph_of(running: Shown) -> Graph:
    """How it is drawn."""
    topology = running.topology
    inputs = drawn_inputs(topology)
    ids = [spec.id for spec in (*topology.spouts, *topology.bolts)]
    layout = layered(ids, [(one.source.component, spec.id) for spec, one in inputs])
    nodes = []
    for component in ids:
        spec, (layer, position) = topology.components[component], layout.nodes[component]
        count = len(running.plan.tasks_of.get(component, ()))
        nodes.append(GraphNode(component, spec.kind, count, int(layer), position))
    edges = []
    for spec, one in inputs:
        pair = (one.source.component, spec.id)
        way = layout.ways.get(pair) or (layout.nodes[pair[0]], layout.nodes[pair[1]])
        kind = one.kind.replace("_", " ")
        edges.append(GraphEdge(*pair, one.source.stream, kind, one.fields, pair in layout.back, way))
    return Graph(running.name, running.config.guarantee, layout.layers, layout.width, tuple(nodes), tuple(edges))


def targets_of(topology: Topology) -> dict[str, list[str]]:
    """Component → those that read from it."""
    found: dict[str, list[str]] = {component: [] for component in topology.components}
    for spec, one in drawn_inputs(topology):
        found[one.source.component].append(spec.id)
    return found


def tick_of(running: Shown, second: int, at_s: float, targets: Mapping[str, list[str]], recent: Recent) -> Tick:
    """The topology now. `recent`: what its latencies were in the last seconds; it keeps what they are now."""
    metrics, pressure, config = running.metrics(), running.backpressure(), running.config
    marks = Marks(config.backpressure_low_mark, config.backpressure_high_mark)
    waits: dict[str, float] = {}
    for task in pressure.spouts:
        waits[task.component] = max(waits.get(task.component, 0.0), task.wait_s)
    shown = {name: found for name, found in metrics.items() if name in running.topology.components}
    latency_s, latencies = recent.latencies(at_s, {name: histograms_of(found) for name, found in shown.items()})
    components = tuple(
        _component(found, pressure.components.get(name), waits.get(name, 0.0), marks, latencies[name])
        for name, found in shown.items()
    )
    return Tick(
        second=second,
        at_s=at_s,
        state=running.state.value,
        degraded=running.degraded,
        pressure=pressure.state,
        pending=metrics.pending,
        errors=sum(c.errors for c in metrics.values()),
        marks=marks,
        components=components,
        causes=causes(pressure, targets),
        latency_s=latency_s,
        processes=metrics.processes,
        snapshots=metrics.snapshots,
    )


def row_of(tick: Tick, components: tuple[str, ...]) -> list[float]:
    """The numbers of a tick that are kept, component after component; NaN where one is not known."""
    by_name = {found.component: found for found in tick.components}
    row: list[float] = []
    for component in components:
        found = by_name.get(component)
        if found is None:
            row += [float("nan")] * len(SERIES)
            continue
        main = found.latencies.get("complete" if found.kind == "spout" else "process")
        own = {
            "fill": found.fill,
            "blocked": float(found.blocked_tasks),
            "wait_s": found.wait_s,
            "p50_s": float("nan") if main is None else main.p50_s,
            "p99_s": float("nan") if main is None else main.p99_s,
        }
        row += [own[name] if name in own else float(found.counts[name]) for name in SERIES]
    return row


def detail_of(running: Shown, component: str, at_s: float) -> ComponentDetail:
    """The tasks of a component at this time, which is now. KeyError if there is none with that id."""
    spec = running.topology.components[component]
    found = running.metrics()[component]
    pressure = running.backpressure().components.get(component)
    blocked = {task.task_id for task in pressure.tasks if task.blocked} if pressure is not None else set[int]()
    workers = {task: worker.name for worker in running.workers() for task in worker.tasks}
    outputs = tuple(
        f"{name} ({', '.join(decl.fields)})" for name, decl in spec.outputs.items() if not name.startswith("__")
    )
    inputs = tuple(f"{one.source}, {grouping_text(one)}" for one in spec.inputs)
    rows = tuple(_task(task, workers.get(task.task_id, ""), task.task_id in blocked) for task in found.tasks)
    own = tuple(map(_own, found.own))
    return ComponentDetail(at_s, component, spec.kind, inputs, outputs, rows, own)


def workers_of(running: Shown) -> tuple[WorkerRow, ...]:
    """The workers, with their tasks by component."""
    component_of = {task.task_id: task.component for task in running.plan.tasks}
    rows = []
    for worker in running.workers():
        tasks: dict[str, tuple[int, ...]] = {}
        for task in worker.tasks:
            name = component_of.get(task, "")
            tasks[name] = (*tasks.get(name, ()), task)
        rows.append(WorkerRow(worker.name, worker.pid, worker.phase, worker.restarts, worker.degraded, tasks))
    return tuple(rows)


def _component(
    found: ComponentMetrics,
    pressure: ComponentPressure | None,
    wait_s: float,
    marks: Marks,
    latencies: Mapping[str, Latency],
) -> ComponentTick:
    blocked = sum(task.blocked for task in pressure.tasks) if pressure is not None else 0
    fill = found.fill_ratio if pressure is None else pressure.fill  # of the limit that holds now, not of the capacity
    counts = found.numbers()
    level: Level = "blocked" if blocked else "filling" if fill > marks.low else "calm"
    return ComponentTick(
        component=found.component,
        kind=found.kind,
        tasks=len(found.tasks),
        counts=counts,
        fill=fill,
        level=level,
        blocked_tasks=blocked,
        wait_s=wait_s,
        execute_s=_mean(counts["execute_s"], counts["executed"]),
        complete_s=_mean(counts["complete_s"], counts["acked"]) if found.kind == "spout" else None,
        open_windows=found.live_windows,
        watermark_ms=found.watermark_ms,
        watermark_lag_s=found.watermark_lag_s,
        progress="" if found.progress is None else str(found.progress),
        edges=tuple((stream, target, count) for (stream, target), count in found.edges.items()),
        latencies=latencies,
    )


def _mean(total: float, count: float) -> float | None:
    return total / count if count else None


def _task(task: TaskMetrics, worker: str, blocked: bool) -> TaskRow:
    time = task.time
    return TaskRow(
        task_id=task.task_id,
        worker=worker,
        fill=task.fill,
        capacity=task.capacity,
        blocked=blocked,
        counts={name: getattr(task, name) for name in NUMBERS},
        execute_s=_mean(task.execute_s, task.executed),
        open_windows=0 if time is None else time.live,
        watermark_ms=None if time is None else time.watermark_ms,
        watermark_lag_s=None if time is None or time.lag_ms is None else time.lag_ms / 1000,
        progress="" if task.progress is None else str(task.progress),
        latencies={name: latency_of(found) for name, found in histograms_of(task).items() if found.buckets},
    )


def _own(series: Series) -> OwnSeries:
    """JSON has no numbers that are not finite: such a gauge is not known."""
    found = series.histogram if series.kind == "histogram" else None
    return OwnSeries(
        name=series.name,
        kind=series.kind,
        labels=dict(series.labels),
        value=series.value if math.isfinite(series.value) else None,
        rate=series.rate if series.kind == "meter" else None,
        mean=found.mean if found is not None else None,
        p50=found.quantile(0.5) if found is not None else None,
        p99=found.quantile(0.99) if found is not None else None,
    )
