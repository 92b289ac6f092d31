"""What is counted agrees with itself, whatever happens: what goes into a component is what it executes."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any, ClassVar

import pytest

from aiostorm import BasicBolt, Bolt, Config, LocalCluster, RunningTopology, Topology, TopologyBuilder, direct
from aiostorm.metrics import (
    METRICS,
    RELATIVE_ERROR,
    ComponentMetrics,
    TaskCounters,
    TaskMetrics,
    TopologyMetrics,
    metrics_table,
)
from aiostorm.metrics.declared import COUNTERS
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
    latencies = [metrics["slow"].execute_latency, metrics["slow"].process_latency, metrics["spout"].complete_latency]
    for latency in latencies:
        assert (latency.count, latency.mean) == (4, pytest.approx(0.25))
        assert latency.quantile(0.99) == pytest.approx(0.25, rel=RELATIVE_ERROR + 1e-9)


async def test_process_latency_has_the_wait_in_the_mailbox(local_cluster: LocalCluster) -> None:
    async def slow(tup: Any, collector: Any) -> None:
        await asyncio.sleep(1)

    running = await local_cluster.submit("t", line(Numbers(4, each_call=4), slow=Does(slow)), {"turn_max_tuples": 1})
    await running.wait_finished()
    found = running.metrics()["slow"]
    assert (found.process_latency.count, found.process_latency.mean) == (4, pytest.approx((1 + 2 + 3 + 4) / 4))
    assert found.process_s == pytest.approx(10)


async def test_process_latency_of_rows_that_a_bolt_keeps(local_cluster: LocalCluster, sim_clock: SimClock) -> None:
    hold = DoesRich()
    running = await local_cluster.submit("t", line(Numbers(3, each_call=3), hold=hold))
    await sim_clock.advance(5)
    assert running.metrics()["hold"].process_latency.count == 0
    for tup in hold.held:
        hold.collectors[0].ack(tup)
    await running.wait_finished()
    found = running.metrics()["hold"]
    assert (found.process_latency.count, found.process_latency.mean) == (3, pytest.approx(5, rel=0.01))
    assert found.execute_latency.quantile(1) == 0


class Directs(BasicBolt):
    """Sends on two streams, one of them direct."""

    outputs: ClassVar[dict[str, Any]] = {"default": "n", "some": direct("n")}

    def prepare(self, context: Any) -> None:
        self.tasks = context.tasks("last")

    def execute(self, tup: Any, collector: Any) -> None:
        collector.emit((tup["n"],))
        if tup["n"] % 4 == 0:
            collector.emit_direct(self.tasks[tup["n"] // 4 % 2], (tup["n"],), stream="some")


@pytest.mark.parametrize("capacity", [1, 4096])
async def test_the_rows_of_each_edge(local_cluster: LocalCluster, capacity: int) -> None:
    builder = TopologyBuilder()
    builder.set_spout("spout", Numbers(40, each_call=7), 2)
    builder.set_bolt("mid", Directs, 3).shuffle_grouping("spout")
    last = builder.set_bolt("last", Does(lambda tup, c: None), 2)
    last.fields_grouping("mid", "n").direct_grouping("mid", stream="some")
    builder.set_bolt("all", Does(lambda tup, c: None), 3).all_grouping("mid").all_grouping("spout")
    running = await local_cluster.submit("t", builder.create_topology(), {"mailbox_capacity_tuples": capacity})
    await running.wait_finished()
    metrics = running.metrics()
    assert metrics["spout"].streams["default"] == 80
    assert metrics["spout"].edges == {("default", "mid"): 80, ("default", "all"): 240}
    assert {"default": 80, "some": 20}.items() <= metrics["mid"].streams.items()
    assert metrics["mid"].edges == {("default", "last"): 80, ("default", "all"): 240, ("some", "last"): 20}
    for component in metrics.values():
        assert sum(component.streams.values()) == component.emitted
        assert sum(component.edges.values()) == component.transferred
    into = {
        name: sum(rows for c in metrics.values() for (_, to), rows in c.edges.items() if to == name) for name in metrics
    }
    assert [into[name] for name in ("mid", "last", "all")] == [metrics[n].executed for n in ("mid", "last", "all")]


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
    counters = TaskCounters("execute_latency")
    for i, name in enumerate(COUNTERS, start=1):
        setattr(counters, name, i)
    counters.execute_latency += (0.3, 7)
    task = TaskMetrics.of(1, counters, pending=100, pending_trees=50, fill=3, capacity=4)
    for name in COUNTERS:
        assert getattr(task, name) == getattr(counters, name)
    assert (task.execute_latency.count, task.execute_latency.total) == (7, counters.execute_s)
    assert task.process_latency.count == 0
    component = ComponentMetrics("c", "bolt", (task, task))
    for name, metric in METRICS.items():
        twice = getattr(task, name) + getattr(task, name) if metric.kind == "histogram" else 2 * getattr(task, name)
        assert getattr(component, name) == twice
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


async def test_busy_blocked_and_idle_are_all_of_the_time(local_cluster: LocalCluster, sim_clock: SimClock) -> None:
    """spout ─► fast ─► slow: the spout waits for acks, `fast` is blocked by the small mailbox of `slow`."""

    async def slow(tup: Any, collector: Any) -> None:
        await asyncio.sleep(0.5)

    async def fast(tup: Any, collector: Any) -> None:
        await asyncio.sleep(0.1)
        collector.emit((tup["n"],))

    config = {"mailbox_capacity_tuples": 1, "turn_max_tuples": 1, "message_timeout_s": 1000}
    topology = line(Numbers(20, each_call=20), fast=Does(fast, "n"), slow=Does(slow))
    running = await local_cluster.submit("t", topology, config)
    before = running.metrics()
    for _ in range(7):
        await sim_clock.advance(1)
        now = running.metrics()
        for name in ("spout", "fast", "slow"):
            for metric in ("busy_s", "blocked_s", "idle_s"):
                assert getattr(now[name], metric) >= getattr(before[name], metric)
            passed = sum(getattr(now[name], m) - getattr(before[name], m) for m in ("busy_s", "blocked_s", "idle_s"))
            assert passed == pytest.approx(1)
        before = now
    await running.wait_finished()
    found = running.metrics()
    assert found["slow"].busy_s == pytest.approx(10)
    assert found["slow"].blocked_s == 0
    assert found["fast"].busy_s == pytest.approx(2)
    assert found["fast"].blocked_s == pytest.approx(17 * 0.4, abs=0.5)  # all but the first three, and the last
    assert found["spout"].blocked_s > 1


async def test_a_spout_is_busy_until_it_waits_for_its_source(local_cluster: LocalCluster) -> None:
    class Waits(Numbers):
        async def next_tuple(self) -> None:  # type: ignore[override]
            await asyncio.sleep(2)
            super().next_tuple()

    running = await local_cluster.submit("t", line(Waits(3), sink=Recorder()))
    await running.wait_finished()
    found = running.metrics()["spout"]
    assert (found.busy_s, found.idle_s) == (0, pytest.approx(6, abs=0.1))


async def test_how_long_a_spout_was_throttled(local_cluster: LocalCluster) -> None:
    async def slow(tup: Any, collector: Any) -> None:
        await asyncio.sleep(0.1)

    settings = {"mailbox_capacity_tuples": 64, "message_timeout_s": 1000}
    running = await local_cluster.submit("t", line(Numbers(300, each_call=1), slow=Does(slow)), settings)
    await running.wait_finished()
    found = running.metrics()["spout"]
    assert 1 < found.throttled_s <= found.idle_s
