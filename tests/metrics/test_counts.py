"""What is counted agrees with itself, whatever happens: what goes into a component is what it executes."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from aiostorm import BasicBolt, Bolt, Config, LocalCluster, RunningTopology, Topology, TopologyBuilder
from aiostorm.metrics import METRICS, ComponentMetrics, TaskCounters, TaskMetrics, TopologyMetrics, metrics_table
from aiostorm.testing import FixedSpout, Recorder, SimClock

from ..tasks.parts import Does, DoesRich, Numbers, line, rows

ROOT = Path(__file__).parents[2]


class Batch(BasicBolt):
    outputs = "n"

    def execute_batch(self, tuples: Any, collector: Any) -> None:
        for tup in tuples:
            if tup["n"] == 77:
                raise ValueError("77")
            collector.emit((tup["n"],), anchors=tup)


class Rich(Bolt):
    outputs = "n"

    def prepare(self, context: Any, collector: Any) -> None:
        self.collector = collector

    def execute(self, tup: Any) -> None:
        n = tup["n"]
        if n % 50 == 3:
            raise ValueError("crash")
        if n % 7 == 0:
            self.collector.fail(tup)
            return
        for _ in range(n % 3):
            self.collector.emit((n,), anchors=tup)
        self.collector.ack(tup)


def basic(tup: Any, collector: Any) -> None:
    if tup["n"] % 11 == 0:
        raise ValueError("eleven")
    collector.emit((tup["n"],))


def wide(source: Any) -> Topology:
    """spout ×2 ─► (basic ×2, rich ×3, batch) ─► last ×2, and a copy of everything to `all` ×3."""
    builder = TopologyBuilder()
    builder.set_spout("spout", source, 2)
    builder.set_bolt("basic", Does(basic, "n"), 2).shuffle_grouping("spout")
    builder.set_bolt("rich", Rich, 3).fields_grouping("spout", "n")
    builder.set_bolt("batch", Batch).global_grouping("spout")
    last = builder.set_bolt("last", Does(lambda tup, c: None), 2)
    for name in ("basic", "rich", "batch"):
        last.partial_key_grouping(name, "n")
    builder.set_bolt("all", Does(lambda tup, c: None), 3).all_grouping("spout")
    return builder.create_topology()


INTO = {
    "basic": ["spout"],
    "rich": ["spout"],
    "batch": ["spout"],
    "last": ["basic", "rich", "batch"],
    "all": ["spout"],
}


def check(running: RunningTopology) -> None:
    """The invariants of an idle topology."""
    metrics = running.metrics()
    spout = metrics["spout"]
    assert spout.emitted == spout.acked + spout.failed + spout.pending
    assert spout.pending == metrics.pending == 0 == spout.pending_trees
    # basic, rich, batch: one copy each; all: three.
    assert spout.transferred == spout.emitted * 6
    for name in INTO:
        assert metrics[name].acked + metrics[name].failed == metrics[name].executed, name
        assert metrics[name].fill_ratio == 0
    assert metrics["basic"].executed == metrics["rich"].executed == metrics["batch"].executed == spout.emitted
    assert metrics["all"].executed == 3 * spout.emitted
    into_last = sum(metrics[name].transferred for name in INTO["last"])
    assert metrics["last"].executed == into_last
    for name in INTO["last"]:
        assert metrics[name].transferred == metrics[name].emitted
    for name in ("last", "all"):
        assert metrics[name].emitted == metrics[name].transferred == 0
    assert spout.trees <= spout.emitted
    for component in metrics.values():
        assert component.errors == sum(task.errors for task in component.tasks)
        assert all(task.fill == 0 for task in component.tasks)


@pytest.mark.parametrize(
    "config",
    [
        {},
        {"acker_tree_max_messages": 1},
        {"acker_executors": 3, "mailbox_capacity_tuples": 1},
        {"max_spout_pending": 3, "turn_max_tuples": 4},
        {"max_retries": 2},
        {"tick_tuple_freq_s": 0.1},
    ],
)
async def test_the_counts_agree(local_cluster: LocalCluster, config: dict[str, Any]) -> None:
    source = Numbers(200, each_call=9)
    settings = Config(restart_max=10_000, restart_backoff_s=(0,), **config)
    running = await local_cluster.submit("t", wide(source), settings)
    await running.wait_finished()
    check(running)
    metrics = running.metrics()["spout"]
    assert len(source.outcomes) == 400
    assert metrics.emitted == 400 + metrics.replayed
    assert metrics.failed == sum(note[0] == "fail" for note in source.outcomes) + metrics.replayed
    if "max_retries" in config:
        assert metrics.dead_lettered > 0


async def test_trees_count_what_shares_a_root(local_cluster: LocalCluster) -> None:
    for tree, trees in ((1, 128), (16, 8), (64, 2)):
        source = Numbers(128, each_call=64)
        running = await local_cluster.submit(
            "t", line(source, sink=Recorder()), Config(acker_tree_max_messages=tree, mailbox_capacity_tuples=10_000)
        )
        await running.wait_finished()
        assert running.metrics()["spout"].trees == trees
        await running.kill()


async def test_pending_messages_and_trees(local_cluster: LocalCluster, sim_clock: SimClock) -> None:
    hold = DoesRich()
    running = await local_cluster.submit(
        "t", line(Numbers(10, each_call=10), hold=hold), Config(acker_tree_max_messages=4)
    )
    await sim_clock.advance(1)
    metrics = running.metrics()
    assert (metrics.pending, metrics["spout"].pending_trees, metrics["spout"].trees) == (10, 3, 3)
    for tup in hold.held:
        hold.collectors[0].ack(tup)
    await running.wait_finished()
    assert (running.metrics().pending, running.metrics()["spout"].pending_trees) == (0, 0)


async def test_latencies(local_cluster: LocalCluster) -> None:
    async def slow(tup: Any, collector: Any) -> None:
        await asyncio.sleep(0.25)

    running = await local_cluster.submit("t", line(Numbers(4), slow=Does(slow)), Config(max_spout_pending=1))
    await running.wait_finished()
    metrics = running.metrics()
    assert metrics["slow"].execute_latency_s == pytest.approx(0.25)
    assert metrics["spout"].complete_latency_s == pytest.approx(0.25)


async def test_a_snapshot_does_not_change(local_cluster: LocalCluster) -> None:
    running = await local_cluster.submit("t", line(FixedSpout(rows(range(10)), "n"), sink=Recorder()))
    before = running.metrics()
    await running.wait_finished()
    assert before["sink"].executed == 0
    assert running.metrics()["sink"].executed == 10


async def test_the_acker_is_there_and_unknown_names_are_not(local_cluster: LocalCluster) -> None:
    running = await local_cluster.submit("t", line(Numbers(1), sink=Recorder()), Config(acker_executors=2))
    metrics = running.metrics()
    assert list(metrics) == ["spout", "sink", "__acker"]
    assert [c.kind for c in metrics.values()] == ["spout", "bolt", "acker"]
    assert len(metrics["__acker"].tasks) == 2
    with pytest.raises(KeyError, match="no component 'sinc'; there are: __acker, sink, spout"):
        metrics["sinc"]
    none = await local_cluster.submit("u", line(Numbers(1), sink=Recorder()), Config(acker_executors=0))
    assert list(none.metrics()) == ["spout", "sink"]


def test_sums_are_over_tasks() -> None:
    counters = TaskCounters()
    for i, name in enumerate(TaskCounters.__slots__, start=1):
        setattr(counters, name, i)
    task = TaskMetrics.of(1, counters, pending=100, pending_trees=50, fill=3, capacity=4)
    for name in TaskCounters.__slots__:
        assert getattr(task, name) == getattr(counters, name)
    component = ComponentMetrics("c", "bolt", (task, task))
    for name in METRICS:
        assert getattr(component, name) == 2 * getattr(task, name)
    assert (component.pending, component.pending_trees, component.fill_ratio) == (200, 100, 0.75)
    assert component.execute_latency_s == counters.execute_s / counters.executed
    assert component.complete_latency_s == counters.complete_s / counters.acked
    assert TopologyMetrics([component]).pending == 200
    assert repr(TopologyMetrics([component])) == "TopologyMetrics(c)"


def test_means_of_nothing_are_zero() -> None:
    nothing = ComponentMetrics("c", "bolt", ())
    assert (nothing.execute_latency_s, nothing.complete_latency_s, nothing.fill_ratio) == (0.0, 0.0, 0.0)


def test_only_declared_metrics_are_counted() -> None:
    counters = TaskCounters()
    assert all(getattr(counters, name) == 0 for name, metric in METRICS.items() if metric.kind == "counter")
    with pytest.raises(AttributeError):
        counters.emited = 1


def test_the_page_of_metrics_has_all_of_them() -> None:
    assert metrics_table() in (ROOT / "docs" / "reference" / "metrics.md").read_text("utf-8")
