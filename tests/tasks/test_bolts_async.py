"""Bolts that suspend, block, take batches or generate much."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

from aiostorm import BasicBolt, Bolt, Config, LocalCluster, Topology, TopologyBuilder, TopologyFailedError
from aiostorm.testing import FeederSpout, FixedSpout, Recorder, SimClock

from .parts import Does, DoesRich, Gate, Notes, Numbers, line, rows


async def test_acks_and_emits_from_a_task_of_the_bolts_own(local_cluster: LocalCluster, sim_clock: SimClock) -> None:
    """Between turns no row is executed; what the bolt does is sent all the same, at once."""

    class Late(Bolt):
        outputs = "out"

        def prepare(self, context: Any, collector: Any) -> None:
            self.collector, self.tasks = collector, set()

        def execute(self, tup: Any) -> None:
            task = asyncio.get_running_loop().create_task(self.later(tup))
            self.tasks.add(task)
            task.add_done_callback(self.tasks.discard)

        async def later(self, tup: Any) -> None:
            await asyncio.sleep(5)
            self.collector.emit((tup["n"],), anchors=tup)
            await self.collector.drain()
            self.collector.ack(tup)

    source, sink = FixedSpout(rows(range(10)), "n"), Recorder()
    running = await local_cluster.submit("t", line(source, bolt=Late, sink=sink))
    begun_s = sim_clock.monotonic()
    await running.wait_finished()
    assert round(sim_clock.monotonic() - begun_s, 3) == 5
    assert sorted(sink.values) == rows(range(10))
    assert sorted(source.acked) == list(range(10))


async def test_a_fail_from_outside_is_received_at_once(local_cluster: LocalCluster, sim_clock: SimClock) -> None:
    feeder, hold = FeederSpout("n"), DoesRich()
    await local_cluster.submit("t", line(feeder, hold=hold))
    await feeder.feed(1)
    await sim_clock.advance(10)
    now_s = sim_clock.monotonic()
    hold.collectors[0].fail(hold.held[0], LookupError("lost"))
    await sim_clock.settle()
    assert feeder.failed[0].error == "LookupError: lost"
    assert sim_clock.monotonic() == now_s


@pytest.mark.parametrize("method", ["prepare", "cleanup"])
@pytest.mark.parametrize("base", [Bolt, BasicBolt])
async def test_prepare_and_cleanup_that_raise_once(local_cluster: LocalCluster, method: str, base: Any) -> None:
    calls = Notes()

    class Once(base):  # type: ignore[misc]
        def note(self, call: str) -> None:
            calls.append(call)
            if call == method and calls.count(call) == 1:
                raise LookupError(f"{call} is broken")

        def prepare(self, context: Any, *collector: Any) -> None:
            self.collector = collector
            self.note("prepare")

        def execute(self, tup: Any, *collector: Any) -> None:
            if self.collector:
                self.collector[0].ack(tup)

        def cleanup(self) -> None:
            self.note("cleanup")

    source = FixedSpout(rows(range(3)), "n")
    running = await local_cluster.submit("t", line(source, bolt=Once))
    await running.wait_finished()
    await running.kill()
    assert sorted(source.acked) == [0, 1, 2]
    assert calls == (["prepare", "prepare", "cleanup"] if method == "prepare" else ["prepare", "cleanup"])
    [report] = running.errors()
    assert (report.where, report.error) == (method, f"LookupError: {method} is broken")


@pytest.mark.parametrize("blocking", [False, True])
async def test_a_prepare_that_always_raises_fails_the_submit(blocking: bool) -> None:
    calls = Notes()

    class Never(BasicBolt):
        def prepare(self, context: Any) -> None:
            calls.append("prepare")
            raise LookupError("no database")

        def execute(self, tup: Any, collector: Any) -> None:
            calls.append("execute")

        def cleanup(self) -> None:
            calls.append("cleanup")

    Never.blocking = blocking
    source = Numbers(3)
    async with LocalCluster() as cluster:
        with pytest.raises(TopologyFailedError, match=r"bolt\[2\] was given up.*no database"):
            await cluster.submit("t", line(source, bolt=Never))
        again = await cluster.submit("t", line(source, bolt=Recorder()))  # the name is free
        await again.wait_finished()
    assert calls == ["prepare"] * 6
    left = [thread for thread in threading.enumerate() if thread.name.startswith("aiostorm-bolt")]
    for thread in left:
        thread.join(5)  # asked to end without a wait: it may need a moment
    assert not any(thread.is_alive() for thread in left)


async def test_bolts_are_prepared_before_any_spout_is_opened(local_cluster: LocalCluster) -> None:
    calls = Notes()

    class Slow(BasicBolt):
        async def prepare(self, context: Any) -> None:
            await asyncio.sleep(5)
            calls.append("prepared")

        def execute(self, tup: Any, collector: Any) -> None: ...

    class Source(Numbers):
        async def open(self, context: Any, collector: Any) -> None:  # type: ignore[override]
            calls.append("open")
            await asyncio.sleep(5)
            super().open(context, collector)
            calls.append("opened")

        def next_tuple(self) -> None:
            calls.append("next_tuple")
            super().next_tuple()

    builder = TopologyBuilder()
    builder.set_spout("a", Source(1))
    builder.set_spout("b", Source(1))
    builder.set_bolt("slow", Slow, 2).shuffle_grouping("a").shuffle_grouping("b")
    running = await local_cluster.submit("t", builder.create_topology())
    await running.wait_finished()
    assert calls == ["prepared"] * 2 + ["open"] * 2 + ["opened"] * 2 + ["next_tuple"] * 2


async def test_per_component_config_and_context(local_cluster: LocalCluster) -> None:
    seen = Notes()

    class Looks(BasicBolt):
        outputs = ("a", "b")
        config = {"mailbox_capacity_tuples": 7, "my.own": "x"}  # noqa: RUF012

        def prepare(self, context: Any) -> None:
            seen.append(context)

        def execute(self, tup: Any, collector: Any) -> None: ...

    builder = TopologyBuilder()
    builder.set_spout("spout", FixedSpout([], "n"))
    builder.set_bolt("looks", Looks, 2).shuffle_grouping("spout").set_config(turn_max_tuples=3)
    running = await local_cluster.submit("t", builder.create_topology(), Config(turn_max_ms=5))
    await running.wait_finished()
    first, second = seen
    assert (first.topology, first.component, first.parallelism) == ("t", "looks", 2)
    assert [(c.task_id, c.task_index) for c in seen] == [(2, 0), (3, 1)]
    assert first.tasks("looks") == (2, 3)
    assert tuple(second.fields("looks")) == ("a", "b")
    config = first.config
    assert (config.mailbox_capacity_tuples, config.turn_max_tuples, config.turn_max_ms) == (7, 3, 5)
    assert config.get("my.own") == "x"
    assert running.metrics()["looks"].tasks[0].capacity == 7
    with pytest.raises(KeyError, match="no component 'missing'; there are"):
        first.tasks("missing")


async def test_max_task_parallelism_caps_every_component(local_cluster: LocalCluster) -> None:
    source, sink = FixedSpout(rows(range(30)), "n"), Recorder()
    builder = TopologyBuilder()
    builder.set_spout("spout", source, 3)
    builder.set_bolt("sink", sink, 8).shuffle_grouping("spout")
    running = await local_cluster.submit("t", builder.create_topology(), {"topology.max.task.parallelism": 2})
    await running.wait_finished()
    assert {c: len(m.tasks) for c, m in running.metrics().items()} == {"spout": 2, "sink": 2, "__acker": 1}
    assert sorted(sink.values) == rows(range(30))


async def test_results_of_bolts_and_errors_in_them(local_cluster: LocalCluster) -> None:
    class Counts(BasicBolt):
        def __init__(self, broken: bool) -> None:
            self.broken, self.count = broken, 0

        def execute(self, tup: Any, collector: Any) -> None:
            self.count += 1

        async def result(self) -> Any:  # type: ignore[override]
            await asyncio.sleep(0)
            if self.broken:
                raise LookupError("nothing counted")
            return self.count

    for name, broken in (("whole", False), ("broken", True)):
        builder = TopologyBuilder()
        builder.set_spout("spout", FixedSpout(rows(range(10)), "n"))
        builder.set_bolt("counts", Counts(broken), 2).shuffle_grouping("spout")
        running = await local_cluster.submit(name, builder.create_topology())
        await running.wait_finished()
        if broken:
            with pytest.raises(LookupError, match="nothing counted"):
                await running.results()
            assert running.errors()[0].where == "result"
        else:
            assert await running.results() == {"counts": [5, 5]}


def diamond(source: Any, *middles: Any, sink: Any) -> Topology:
    builder = TopologyBuilder()
    builder.set_spout("spout", source)
    last = builder.set_bolt("sink", sink)
    for i, middle in enumerate(middles):
        builder.set_bolt(f"m{i}", middle).shuffle_grouping("spout")
        last.shuffle_grouping(f"m{i}")
    return builder.create_topology()


async def test_one_slow_way_does_not_hold_up_the_other(local_cluster: LocalCluster) -> None:
    gate, sink, source = Gate(), Recorder(), FixedSpout(rows(range(10)), "n")

    async def slow(tup: Any, collector: Any) -> None:
        await gate.wait()
        collector.emit(("slow",))

    topology = diamond(source, Does(slow), Does(lambda tup, c: c.emit(("fast",))), sink=sink)
    running = await local_cluster.submit("t", topology)
    await sink.wait(10)
    await asyncio.sleep(1)
    assert sink.values == [("fast",)] * 10
    assert source.acked == []
    gate.open()
    await running.wait_finished()
    assert len(source.acked) == 10
