"""Tick tuples: when they come, how they are served, and that they count for nothing."""

from __future__ import annotations

import asyncio
from typing import Any

from aiostorm import BasicBolt, Bolt, Config, LocalCluster, TopologyBuilder, bolt
from aiostorm.testing import FeederSpout, FixedSpout, Recorder, SimClock

from .parts import Does, DoesRich, Gate, Notes, line, rows


def now_s() -> float:
    return round(asyncio.get_running_loop().time(), 6)


async def test_ticks_come_at_their_frequency_and_look_like_tuples(
    local_cluster: LocalCluster, sim_clock: SimClock
) -> None:
    ticks = Notes()

    def act(tup: Any, collector: Any) -> None:
        if tup.is_tick:
            ticks.append((now_s(), tup))

    begun_s = now_s()
    await local_cluster.submit("t", line(FeederSpout("n"), bolt=Does(act)), Config(tick_tuple_freq_s=2.5))
    await sim_clock.advance(10.1)
    assert [at_s - begun_s for at_s, _ in ticks] == [2.5, 5, 7.5, 10]
    tup = ticks[0][1]
    assert (tup.source_component, tup.stream, tup.source_task) == ("__system", "__tick", -1)
    assert tup.as_dict() == {"rate_secs": 2.5}


async def test_the_frequency_is_per_component(local_cluster: LocalCluster, sim_clock: SimClock) -> None:
    counts = Notes()

    def count(name: str) -> Does:
        return Does(lambda tup, collector: counts.append(name) if tup.is_tick else None)

    builder = TopologyBuilder()
    builder.set_spout("spout", FeederSpout("n"))
    builder.set_bolt("often", count("often")).shuffle_grouping("spout").set_config(tick_tuple_freq_s=1)
    builder.set_bolt("never", count("never")).shuffle_grouping("spout")
    builder.set_bolt("rarely", count("rarely"), 2).shuffle_grouping("spout").set_config(tick_tuple_freq_s=10)
    await local_cluster.submit("t", builder.create_topology())
    await sim_clock.advance(20.5)
    assert [counts.count(name) for name in ("often", "rarely", "never")] == [20, 4, 0]


async def test_on_tick_is_called_in_place_of_execute(local_cluster: LocalCluster, sim_clock: SimClock) -> None:
    sink = Recorder()

    class Basic(BasicBolt):
        outputs = "out"

        def execute(self, tup: Any, collector: Any) -> None:
            collector.emit(("execute",))

        async def on_tick(self, collector: Any) -> None:
            await asyncio.sleep(0)
            collector.emit(("basic",))

    class Rich(Bolt):
        outputs = "out"

        def prepare(self, context: Any, collector: Any) -> None:
            self.collector = collector

        def execute(self, tup: Any) -> None:
            self.collector.emit(("execute",))

        def on_tick(self) -> None:
            self.collector.emit(("rich",))

    class Batch(Basic):
        def execute_batch(self, tuples: Any, collector: Any) -> None:
            collector.emit(("execute",))

        def on_tick(self, collector: Any) -> None:  # type: ignore[override]
            collector.emit(("batch",))

    class InThread(Basic):
        blocking = True

        def on_tick(self, collector: Any) -> None:  # type: ignore[override]
            collector.emit(("thread",))

    builder = TopologyBuilder()
    builder.set_spout("spout", FeederSpout("n"))
    last = builder.set_bolt("sink", sink)
    for i, component in enumerate((Basic, Rich, Batch, InThread)):
        builder.set_bolt(f"b{i}", component).shuffle_grouping("spout").set_config(tick_tuple_freq_s=1)
        last.shuffle_grouping(f"b{i}")
    running = await local_cluster.submit("t", builder.create_topology())
    await sim_clock.advance(1.5)
    assert sorted(sink.values) == [("basic",), ("batch",), ("rich",), ("thread",)]
    assert running.errors() == []


async def test_ticks_are_served_before_data(local_cluster: LocalCluster, sim_clock: SimClock) -> None:
    order = Notes()

    async def act(tup: Any, collector: Any) -> None:
        order.append("tick" if tup.is_tick else tup["n"])
        if not tup.is_tick:
            await asyncio.sleep(0.6)

    source = FixedSpout(rows(range(100)), "n")
    await local_cluster.submit("t", line(source, bolt=Does(act)), Config(tick_tuple_freq_s=1))
    await sim_clock.advance(3)
    # 0 to 0.6 s, 1 to 1.2 s, the tick of 1 s, …: a tick waits for the tuple at hand, not for the mailbox.
    assert order[:6] == [0, 1, "tick", 2, 3, "tick"]


async def test_ticks_do_not_pile_up(local_cluster: LocalCluster, sim_clock: SimClock) -> None:
    gate, ticks, feeder = Gate(), Notes(), FeederSpout("n")

    async def act(tup: Any, collector: Any) -> None:
        if tup.is_tick:
            ticks.append(now_s())
        else:
            await gate.wait()

    await local_cluster.submit("t", line(feeder, bolt=Does(act)), Config(tick_tuple_freq_s=1))
    await feeder.feed(1)
    await sim_clock.advance(20.5)
    assert ticks == []
    gate.open()
    await sim_clock.settle()
    assert len(ticks) == 1


async def test_a_function_gets_no_ticks(local_cluster: LocalCluster, sim_clock: SimClock) -> None:
    calls = Notes()

    @bolt
    def function(n: Any) -> None:
        calls.append(n)

    running = await local_cluster.submit("t", line(FeederSpout("n"), bolt=function), Config(tick_tuple_freq_s=1))
    await sim_clock.advance(5)
    assert calls == []
    assert running.errors() == []


async def test_ticks_are_not_counted(local_cluster: LocalCluster, sim_clock: SimClock) -> None:
    """A tick is in no tuple tree: to ack it, to fail it and to raise on it change nothing."""

    def rich(tup: Any, collector: Any) -> None:
        collector.ack(tup)
        collector.ack(tup)

    def rich_fails(tup: Any, collector: Any) -> None:
        collector.fail(tup, "no")

    def basic_raises(tup: Any, collector: Any) -> None:
        raise LookupError("tick")

    builder = TopologyBuilder()
    builder.set_spout("spout", FeederSpout("n"))
    components = (Does(lambda tup, c: None), DoesRich(rich), DoesRich(rich_fails), Does(basic_raises))
    for i, component in enumerate(components):
        builder.set_bolt(f"b{i}", component).shuffle_grouping("spout")
    running = await local_cluster.submit("t", builder.create_topology(), Config(tick_tuple_freq_s=1))
    await sim_clock.advance(3.5)
    metrics = running.metrics()
    for i in range(len(components)):
        found = metrics[f"b{i}"]
        assert (found.executed, found.acked, found.failed, found.restarts) == (0, 0, 0, 0), i
    assert metrics["b3"].errors == 3
    assert {report.component for report in running.errors()} == {"b3"}
    await running.wait_idle()


async def test_emits_of_a_tick_are_sent_while_no_other_tuple_arrives(
    local_cluster: LocalCluster, sim_clock: SimClock
) -> None:
    """A bolt that gathers and sends on a tick, anchored to what it gathered."""
    feeder, sink = FeederSpout("n"), Recorder()

    class Sums(Bolt):
        outputs = "sum"

        def prepare(self, context: Any, collector: Any) -> None:
            self.collector, self.gathered = collector, []

        def execute(self, tup: Any) -> None:
            self.gathered.append(tup)

        def on_tick(self) -> None:
            gathered, self.gathered = self.gathered, []
            if gathered:
                self.collector.emit((sum(tup["n"] for tup in gathered),), anchors=gathered)
            for tup in gathered:
                self.collector.ack(tup)

    await local_cluster.submit("t", line(feeder, sums=Sums, sink=sink), Config(tick_tuple_freq_s=10))
    await feeder.feed_all(range(10))
    await sim_clock.advance(9)
    assert sink.values == []
    await sim_clock.advance(1.1)
    assert sink.values == [(45,)]
    assert len(feeder.acked) == 10


async def test_ticks_go_on_after_a_restart(local_cluster: LocalCluster, sim_clock: SimClock) -> None:
    ticks, feeder = Notes(), FeederSpout("n")

    class Restarts(Bolt):
        def prepare(self, context: Any, collector: Any) -> None:
            self.collector = collector

        def execute(self, tup: Any) -> None:
            raise LookupError("again")

        def on_tick(self) -> None:
            ticks.append(now_s())

    begun_s = now_s()
    running = await local_cluster.submit("t", line(feeder, bolt=Restarts), Config(tick_tuple_freq_s=1))
    await sim_clock.advance(2.5)
    await feeder.feed(1)
    await sim_clock.advance(3)
    assert running.metrics()["bolt"].restarts == 1
    assert [round(at_s - begun_s, 3) for at_s in ticks] == [1, 2, 3.5, 4.5, 5.5]


async def test_ticks_are_served_while_the_way_ahead_is_blocked(
    local_cluster: LocalCluster, sim_clock: SimClock
) -> None:
    gate, ticks = Gate(), Notes()
    source = FixedSpout(rows(range(100)), "n")

    def act(tup: Any, collector: Any) -> None:
        if tup.is_tick:
            ticks.append(now_s())
        else:
            collector.emit(tup.values)

    async def stuck(tup: Any, collector: Any) -> None:
        await gate.wait()

    config = Config(mailbox_capacity_tuples=1, message_timeout_s=1000)
    builder = TopologyBuilder()
    builder.set_spout("spout", source)
    builder.set_bolt("bolt", Does(act)).shuffle_grouping("spout").set_config(tick_tuple_freq_s=1)
    builder.set_bolt("stuck", Does(stuck)).shuffle_grouping("bolt")
    running = await local_cluster.submit("t", builder.create_topology(), config)
    await sim_clock.advance(10.5)
    assert len(ticks) == 10
    assert running.metrics()["bolt"].executed < 100
    gate.open()
    await running.wait_finished()
    assert len(source.acked) == 100
