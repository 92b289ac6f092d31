"""Reading: what the page shows is what a topology says, number by number.

The topology is one of another program, whose view was written down here: nothing runs.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest

from aiostorm import LocalCluster, TopologyBuilder
from aiostorm.backpressure import Backpressure, ComponentPressure, SpoutPacing, TaskPressure
from aiostorm.cluster import RemoteTopology, TopologySocket
from aiostorm.cluster.control.view import View, view_of
from aiostorm.cluster.runtimes import WorkerStatus
from aiostorm.metrics import Histogram, ProgressMetrics, Series, TaskMetrics, TimeMetrics, pack_task
from aiostorm.metrics.histogram import ZERO_INDEX
from aiostorm.ui.model import (
    ComponentDetail,
    GraphEdge,
    GraphNode,
    Latency,
    Marks,
    OwnSeries,
    TopologySummary,
    WorkerRow,
)
from aiostorm.ui.reading import (
    SERIES,
    detail_of,
    graph_of,
    row_of,
    summary_of,
    targets_of,
    tick_of,
    workers_of,
)
from aiostorm.ui.recent import Recent

from ..cluster.report.parts import Half, Sink, numbers, topology


def taking(seconds: float, rows: int, slow: int = 0) -> Histogram:
    """With `slow` others that take longer."""
    buckets = ((ZERO_INDEX + 100, rows), (ZERO_INDEX + 120, slow))
    return Histogram(tuple(bucket for bucket in buckets if bucket[1]), seconds * (rows + slow))


async def shown(**changes: Any) -> RemoteTopology:
    """The topology, with these parts of its view."""
    async with LocalCluster() as cluster:
        running = await cluster.submit("job", topology())
        view: View = view_of(running)
        await running.kill(0)
    return RemoteTopology(None, TopologySocket("job", 7, "/none"), replace(view, **changes))  # type: ignore[arg-type]


def metrics(**of: list[TaskMetrics]) -> tuple[Any, ...]:
    kinds = {"numbers": "spout", "half": "bolt", "sink": "bolt", "__acker": "acker"}
    return tuple((name, kinds[name], tuple(map(pack_task, tasks))) for name, tasks in of.items())


def tasks_of(remote: RemoteTopology, component: str) -> list[int]:
    return list(remote.plan.tasks_of[component])


async def test_the_graph_is_that_of_the_declarations() -> None:
    remote = await shown()
    graph = graph_of(remote)
    assert (graph.topology, graph.guarantee, graph.layers) == ("job", "at-least-once", 3)
    assert graph.nodes == (
        GraphNode("numbers", "spout", 2, 0, 0.0),
        GraphNode("half", "bolt", 2, 1, 0.0),
        GraphNode("sink", "bolt", 1, 2, 0.0),
    )
    assert graph.edges == (
        GraphEdge("numbers", "half", "default", "fields", ("n",), False, ((0, 0.0), (1, 0.0))),
        GraphEdge("half", "sink", "default", "local or shuffle", (), False, ((1, 0.0), (2, 0.0))),
    )
    assert targets_of(remote.topology) == {"numbers": ["half"], "half": ["sink"], "sink": []}


async def test_an_edge_that_passes_a_column_has_a_bend_and_one_that_closes_a_cycle_has_none() -> None:
    builder = TopologyBuilder()
    builder.set_spout("numbers", numbers)
    builder.set_bolt("half", Half).shuffle_grouping("numbers").shuffle_grouping("half").shuffle_grouping("again")
    builder.set_bolt("sink", Sink).shuffle_grouping("half").shuffle_grouping("numbers")
    builder.set_bolt("again", Half).shuffle_grouping("half")
    async with LocalCluster() as cluster:
        running = await cluster.submit("job", builder.create_topology())
        graph = graph_of(running)
        await running.kill(0)
    nodes = {node.id: (node.layer, node.position) for node in graph.nodes}
    ways = {(edge.source, edge.target): edge.points for edge in graph.edges}
    assert [edge.source for edge in graph.edges if edge.feedback] == ["half", "again"]
    assert ways["half", "half"] == (nodes["half"], nodes["half"])
    assert ways["again", "half"] == (nodes["again"], nodes["half"])
    assert ways["half", "again"] == (nodes["half"], nodes["again"])
    first, bend, last = ways["numbers", "sink"]
    assert (first, last) == (nodes["numbers"], nodes["sink"])
    assert bend[0] == 1
    assert bend != nodes["half"]


@pytest.mark.parametrize(("state", "throttled"), [("NORMAL", False), ("THROTTLED", True)])
async def test_a_line_of_the_list(state: str, throttled: bool) -> None:
    remote = await shown(
        state="INACTIVE",
        degraded="worker-2 does not start",
        pressure=Backpressure(state=state),
        workers=(WorkerStatus("w", 1, "RUNNING", (), 0), WorkerStatus("v", 2, "RUNNING", (), 0)),
        metrics=metrics(numbers=[TaskMetrics(1, errors=2)], half=[TaskMetrics(2, errors=3), TaskMetrics(3, errors=4)]),
    )
    assert summary_of(remote) == TopologySummary(
        name="job",
        state="INACTIVE",
        degraded="worker-2 does not start",
        throttled=throttled,
        spouts=1,
        bolts=2,
        tasks=5,
        workers=2,
        errors=9,
    )


async def busy() -> RemoteTopology:
    flagged = TaskPressure(3, 0.9, True, 1.0, 0.1), TaskPressure(4, 0.1, False, 1.0, 0.1)
    pressure = Backpressure(
        state="THROTTLED",
        components={"half": ComponentPressure(0.9, flagged)},
        spouts=(
            SpoutPacing("numbers", 1, 0.5, 3.0, ("half",)),
            SpoutPacing("numbers", 2, 0.25, 4.0, ("half",)),
        ),
    )
    time = TimeMetrics(live=3, watermark_ms=5000, lag_ms=2500)
    return await shown(
        pressure=pressure,
        metrics=metrics(
            numbers=[
                TaskMetrics(1, emitted=10, acked=4, pending=6, complete_s=2.0, edges=(("default", "half", 10),)),
                TaskMetrics(2, emitted=1, complete_latency=taking(0.25, 4), progress=ProgressMetrics("files", 1, 2)),
            ],
            half=[
                TaskMetrics(3, fill=8, capacity=10, executed=5, execute_s=1.0, busy_s=1.5, time=time),
                TaskMetrics(4, capacity=10, process_latency=taking(0.25, 4), execute_latency=taking(0.125, 4)),
            ],
            sink=[TaskMetrics(5, fill=3, capacity=10)],
            __acker=[TaskMetrics(6, pending=6)],
        ),
    )


async def test_a_tick_has_the_numbers_of_each_component() -> None:
    remote = await busy()
    tick = tick_of(remote, 7, 100.5, targets_of(remote.topology), Recent())
    assert (tick.second, tick.at_s, tick.state, tick.degraded, tick.pressure) == (7, 100.5, "ACTIVE", "", "THROTTLED")
    assert (tick.pending, tick.errors, tick.marks) == (12, 0, Marks(0.05, 0.8))
    assert tick.latency_s is None
    assert [(c.component, c.kind, c.tasks) for c in tick.components] == [
        ("numbers", "spout", 2),
        ("half", "bolt", 2),
        ("sink", "bolt", 1),
    ]
    spouts, half, sink = tick.components
    assert (spouts.counts["emitted"], spouts.counts["acked"], spouts.counts["pending"]) == (11, 4, 6)
    assert "complete_latency" not in spouts.counts
    assert (spouts.wait_s, half.wait_s) == (0.5, 0.0)
    assert (spouts.complete_s, spouts.execute_s) == (0.5, None)
    assert (half.complete_s, half.execute_s) == (None, 0.2)
    assert (spouts.fill, half.fill, sink.fill) == (0.0, 0.9, 0.3)
    assert (spouts.level, half.level, sink.level) == ("calm", "blocked", "filling")
    assert (spouts.blocked_tasks, half.blocked_tasks) == (0, 1)
    assert (half.open_windows, half.watermark_ms, half.watermark_lag_s) == (3, 5000, 2.5)
    assert (sink.open_windows, sink.watermark_ms, sink.watermark_lag_s) == (0, None, None)
    assert (spouts.progress, half.progress) == ("1 of 2 files", "")
    assert (spouts.edges, half.edges) == ((("default", "half", 10),), ())
    assert {name: latency.count for name, latency in spouts.latencies.items()} == {"complete": 4}
    assert {name: latency.count for name, latency in half.latencies.items()} == {"execute": 4, "process": 4}
    assert [(cause.spout, cause.mailbox, cause.wait_s) for cause in tick.causes] == [("numbers", "half", 0.5)]


@pytest.mark.parametrize(("fill", "level"), [(1, "calm"), (2, "filling")])
async def test_a_mailbox_at_the_low_mark_is_calm(fill: int, level: str) -> None:
    remote = await shown(pressure=Backpressure(), metrics=metrics(sink=[TaskMetrics(5, fill=fill, capacity=20)]))
    [sink] = tick_of(remote, 0, 0.0, {}, Recent()).components
    assert (sink.fill, sink.level) == (fill / 20, level)


async def test_times_are_of_what_has_taken_some_and_complete_ones_of_spouts() -> None:
    numbers, half = TaskMetrics(1, executed=4, execute_s=1.0), TaskMetrics(3, acked=4, complete_s=1.0)
    remote = await shown(metrics=metrics(numbers=[numbers], half=[half]))
    of_spout, of_bolt = tick_of(remote, 0, 0.0, {}, Recent()).components
    assert (of_spout.complete_s, of_bolt.complete_s, of_bolt.execute_s) == (None, None, None)


async def test_what_is_kept_of_a_tick() -> None:
    remote = await busy()
    tick = tick_of(remote, 7, 100.5, targets_of(remote.topology), Recent())
    row = row_of(tick, ("half", "other", "numbers"))
    half, other, spouts = (dict(zip(SERIES, row[i * len(SERIES) :], strict=False)) for i in range(3))
    assert len(row) == 3 * len(SERIES)
    wanted = {"executed": 5.0, "fill": 0.9, "blocked": 1.0, "wait_s": 0.0, "busy_s": 1.5, "pending": 0.0}
    assert {name: half[name] for name in wanted} == wanted
    process = tick.components[1].latencies["process"]
    assert (half["p50_s"], half["p99_s"]) == (process.p50_s, process.p99_s)
    complete = tick.components[0].latencies["complete"]
    assert (spouts["p50_s"], spouts["wait_s"], spouts["emitted"]) == (complete.p50_s, 0.5, 11.0)
    assert all(map(math.isnan, other.values()))
    [sink] = (c for c in tick.components if c.component == "sink")
    alone = dict(zip(SERIES, row_of(replace(tick, components=(sink,)), ("sink",)), strict=True))
    assert math.isnan(alone["p50_s"])
    assert math.isnan(alone["p99_s"])
    assert alone["fill"] == 0.3


async def test_a_component_task_by_task() -> None:
    time = TimeMetrics(live=3, watermark_ms=5000, lag_ms=2500)
    own = (
        Series("bytes", "meter", (("of", "x"),), 7, 0.5),
        Series("highest", "gauge", value=math.inf),
        Series("sizes", "histogram", value=4, histogram=taking(0.25, 4, 1)),
    )
    remote = await shown(
        pressure=Backpressure(components={"half": ComponentPressure(0.9, (TaskPressure(4, 0.9, True, 1.0, 0.1),))}),
        workers=(WorkerStatus("worker-1", 11, "RUNNING", (3,), 0), WorkerStatus("worker-2", 12, "RUNNING", (4, 5), 0)),
        metrics=metrics(
            half=[
                TaskMetrics(3, fill=8, capacity=10, executed=5, execute_s=1.0, time=time, own=own),
                TaskMetrics(4, capacity=10, progress=ProgressMetrics("rows", 1, 4), process_latency=taking(0.25, 4)),
                TaskMetrics(5, time=TimeMetrics()),
            ],
            sink=[TaskMetrics(6)],
        ),
    )
    detail = detail_of(remote, "half", 12.5)
    assert (detail.at_s, detail.component, detail.kind) == (12.5, "half", "bolt")
    assert detail.inputs == ("numbers, fields (n)",)
    assert detail.outputs == ("default (half)",)
    one, two, three = detail.tasks
    assert (one.task_id, one.worker, one.fill, one.capacity, one.blocked) == (3, "worker-1", 8, 10, False)
    assert (one.execute_s, one.counts["executed"]) == (0.2, 5)
    assert (one.open_windows, one.watermark_ms, one.watermark_lag_s, one.progress) == (3, 5000, 2.5, "")
    assert (two.worker, two.blocked, two.execute_s, two.progress) == ("worker-2", True, None, "1 of 4 rows")
    assert (two.open_windows, two.watermark_ms, two.watermark_lag_s) == (0, None, None)
    assert one.latencies == {}
    assert {name: latency.count for name, latency in two.latencies.items()} == {"process": 4}
    assert isinstance(two.latencies["process"], Latency)
    assert (three.watermark_ms, three.watermark_lag_s) == (None, None)
    sizes = taking(0.25, 4, 1)
    assert sizes.quantile(0.5) < sizes.quantile(0.99)
    assert detail.own == (
        OwnSeries("bytes", "meter", {"of": "x"}, 7, 0.5, None, None, None),
        OwnSeries("highest", "gauge", {}, None, None, None, None, None),
        OwnSeries("sizes", "histogram", {}, 4, None, 0.25, sizes.quantile(0.5), sizes.quantile(0.99)),
    )
    sink: ComponentDetail = detail_of(remote, "sink", 0.0)
    assert sink.inputs[0] == "half, local or shuffle"
    assert sink.outputs == ()
    with pytest.raises(KeyError):
        detail_of(remote, "none", 0.0)


async def test_workers_have_their_tasks_by_component() -> None:
    remote = await shown()
    [half, other], [sink] = tasks_of(remote, "half"), tasks_of(remote, "sink")
    workers = (
        WorkerStatus("worker-1", 11, "RUNNING", (half, sink), 2),
        WorkerStatus("worker-2", 12, "BACKOFF", (other, 999), 0, "does not start"),
    )
    assert workers_of(await shown(workers=workers)) == (
        WorkerRow("worker-1", 11, "RUNNING", 2, "", {"half": (half,), "sink": (sink,)}),
        WorkerRow("worker-2", 12, "BACKOFF", 0, "does not start", {"half": (other,), "": (999,)}),
    )
