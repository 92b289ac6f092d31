"""Hooks and ticks: what is called around tuples, and tuples that come by themselves."""

from __future__ import annotations

from typing import Any

import pytest

from aiostorm import (
    BasicBolt,
    ConfigError,
    Fields,
    LocalCluster,
    Spout,
    TaskHook,
    TopologyBuilder,
    TopologyError,
    Tuple,
)
from aiostorm.testing import FeederSpout, Recorder, SimClock, bolt_harness, track_topology

from .parts import Acks, Notes, Rich, Words, straight
from .scenario import scenario

# -- hooks -------------------------------------------------------------------------------------------------------------


@scenario(
    "A bolt's own hook counts emits, acks, failures and executed tuples of the bolt",
    "TopologyIntegrationTest#testHooks",
    "An ack is no emit (in Storm it is one, to the acker). The hook's `emit` is called when the turn is "
    "sent, after its tuples",
)
async def test_hooks(local_cluster: LocalCluster) -> None:
    class Hooked(Rich):
        outputs = Fields("emit", "ack", "fail", "executed")

        def prepare(self, context: Any, collector: Any) -> None:
            super().prepare(context, collector)
            self.emitted = self.acked = self.failed = self.executed = 0
            bolt = self

            class Counts(TaskHook):
                def bolt_execute(self, tup: Tuple, task_id: int, execute_latency_s: float) -> None:
                    bolt.executed += 1

                def bolt_fail(self, tup: Tuple, task_id: int) -> None:
                    bolt.failed += 1

                def bolt_ack(self, tup: Tuple, task_id: int) -> None:
                    bolt.acked += 1

                def emit(self, values: Any, stream: str, task_id: int) -> None:
                    bolt.emitted += 1

            context.add_task_hook(Counts())

        def execute(self, tup: Tuple) -> None:
            self.collector.emit((self.emitted, self.acked, self.failed, self.executed))
            if self.acked == self.failed:
                self.collector.ack(tup)
            else:
                self.collector.fail(tup)

    feeder, seen = FeederSpout("conf"), Recorder()
    tracked = await track_topology(local_cluster, straight(feeder, hooked=Hooked, seen=seen))
    for _ in range(4):
        await feeder.feed(1)
        await tracked.running.wait_idle()
    assert seen.values == [(0, 0, 0, 0), (1, 1, 0, 1), (2, 1, 1, 2), (3, 2, 1, 3)]


NOTED: list[Any] = []


class NotesAll(TaskHook):
    """Notes the order in which one component's hook is called."""

    def prepare(self, context: Any) -> None:
        self.component = context.component
        self.note("prepare")

    def note(self, *what: Any) -> None:
        NOTED.append((self.component, *what))

    def cleanup(self) -> None:
        self.note("cleanup")

    def emit(self, values: Any, stream: str, task_id: int) -> None:
        self.note("emit", *values)

    def bolt_execute(self, tup: Tuple, task_id: int, execute_latency_s: float) -> None:
        self.note("execute", *tup.values)

    def bolt_ack(self, tup: Tuple, task_id: int) -> None:
        self.note("ack", *tup.values)

    def bolt_fail(self, tup: Tuple, task_id: int) -> None:
        self.note("fail", *tup.values)

    def spout_ack(self, message_id: Any, task_id: int, complete_latency_s: float) -> None:
        self.note("spout ack", message_id)

    def spout_fail(self, message_id: Any, task_id: int, failure: Any) -> None:
        self.note("spout fail", message_id)


@scenario(
    "Hooks of every task, named in the configuration",
    "Task (code)#addTaskHooks",
    "If a name cannot be found, the submit is refused; in Storm the worker ends",
)
async def test_auto_task_hooks(local_cluster: LocalCluster) -> None:
    NOTED.clear()
    feeder = FeederSpout("n")
    sink = Recorder(fail_on=lambda tup: tup["n"] == 2)
    config = {"topology.auto.task.hooks": [f"{__name__}:NotesAll"]}
    with pytest.raises(ConfigError, match=r"topology\.auto\.task\.hooks.*cannot be loaded"):
        await local_cluster.submit("bad", straight(feeder, sink=sink), {"topology.auto.task.hooks": ["no.such:Hook"]})
    running = await local_cluster.submit("hooked", straight(feeder, sink=sink), config)
    for n in (1, 2):
        await feeder.feed(n, n)
        await running.wait_idle()
    await running.kill()
    assert [what[1:] for what in NOTED if what[0] == "spout"] == [
        ("prepare",),
        ("emit", 1),
        ("spout ack", 1),
        ("emit", 2),
        ("spout fail", 2),
        ("cleanup",),
    ]
    of_sink = [what[1:] for what in NOTED if what[0] == "sink"]
    assert of_sink[0] == ("prepare",)
    assert sorted(of_sink[1:-1]) == [("ack", 1), ("execute", 1), ("execute", 2), ("fail", 2)]
    assert of_sink[-1] == ("cleanup",)


# -- ticks -------------------------------------------------------------------------------------------------------------


class Ticking(Rich):
    """Notes (task index, is it a tick?) of what comes, and acks it, ticks too."""

    def __init__(self, notes: Notes) -> None:
        self.notes = notes

    def execute(self, tup: Tuple) -> None:
        self.notes.append((self.context.task_index, tup.is_tick))
        self.collector.ack(tup)


@scenario("Ticks arrive at their interval, among the data", "TickTupleTest#testTickTupleWorksWithSystemBolt")
async def test_ticks(local_cluster: LocalCluster, sim_clock: SimClock) -> None:
    feeder, notes = FeederSpout("field1"), Notes()
    config = {"topology.tick.tuple.freq.secs": 30}
    tracked = await track_topology(local_cluster, straight(feeder, bolt=Ticking(notes)), config)
    await feeder.feed("val", 1)
    await tracked.wait_all_acked()
    assert notes == [(0, False)]
    for ticks in (1, 2, 3):
        await sim_clock.advance(30)
        assert notes == [(0, False)] + [(0, True)] * ticks
    assert (tracked.emitted, tracked.acked, tracked.failed) == (1, 1, 0)  # a tick belongs to no message


@scenario("A bolt that ignores its ticks", "tick_tuple_test (0.10)#test-tick-tuple-works-with-system-bolt")
async def test_ticks_that_are_ignored(local_cluster: LocalCluster, sim_clock: SimClock) -> None:
    class Noop(Rich):
        outputs = "tuple"

        def execute(self, tup: Tuple) -> None:
            pass

    class NoSpout(Spout):
        outputs = "tuple"

        def next_tuple(self) -> None:
            pass

    running = await local_cluster.submit("test", straight(NoSpout, noop=Noop), {"topology.tick.tuple.freq.secs": 1})
    await sim_clock.advance(2)
    assert running.errors() == []
    await running.wait_idle()


@scenario(
    "Ticks of one bolt: each of its tasks receives the same number, and no data",
    "JStorm TickTupleTest#testTickTuple",
    "A bolt must read a stream; in JStorm's test the bolt has no grouping",
)
async def test_ticks_of_one_bolt(local_cluster: LocalCluster, sim_clock: SimClock) -> None:
    ticking, others = Notes(), Notes()
    builder = TopologyBuilder()
    builder.set_spout("spout", FeederSpout("n"))
    bolt = builder.set_bolt("bolt", Ticking(ticking), 5).set_config({"topology.tick.tuple.freq.secs": 2})
    builder.set_bolt("other", Ticking(others)).shuffle_grouping("spout")
    with pytest.raises(TopologyError, match="bolt 'bolt': it reads nothing"):
        builder.create_topology()
    bolt.shuffle_grouping("spout")
    await local_cluster.submit("TickTupleTest", builder.create_topology())
    await sim_clock.advance(120)
    assert sorted(ticking) == sorted((task, True) for task in range(5) for _ in range(60))
    assert others == []


class RollingCount(Rich):
    """Counts objects, and emits the counts at each tick."""

    outputs = Fields("object", "count")
    config = {"tick_tuple_freq_s": 60}  # noqa: RUF012

    def prepare(self, context: Any, collector: Any) -> None:
        super().prepare(context, collector)
        self.counts: dict[Any, int] = {}

    def execute(self, tup: Tuple) -> None:
        if tup.is_tick:
            for item, count in self.counts.items():
                self.collector.emit((item, count))
        else:
            self.counts[tup[0]] = self.counts.get(tup[0], 0) + 1
            self.collector.ack(tup)


@scenario(
    "A tick before anything was counted emits nothing",
    "RollingCountBoltTest#shouldEmitNothingIfNoObjectHasBeenCountedYetAndTickTupleIsReceived",
    note="A real tick, after a minute of virtual time; Storm's test uses a mock",
)
async def test_a_tick_with_nothing_counted(sim_clock: SimClock) -> None:
    async with bolt_harness(RollingCount, fields="object") as h:
        await sim_clock.advance(60)
        assert (h.emitted, h.errors) == ([], [])


@scenario(
    "A tick after something was counted emits the counts",
    "RollingCountBoltTest#shouldEmitSomethingIfAtLeastOneObjectWasCountedAndTickTupleIsReceived",
    note="A real tick; Storm's test uses a mock",
)
async def test_a_tick_with_something_counted(sim_clock: SimClock) -> None:
    async with bolt_harness(RollingCount, fields="object") as h:
        await h.execute("a")
        await h.execute("a")
        assert h.emitted == []
        await sim_clock.advance(60)
        assert h.emitted == [("a", 2)]
        assert h.acked == [("a",), ("a",)]


@scenario(
    "A basic bolt emits only at ticks",
    "IntermediateRankingsBoltTest#shouldEmitNothingIfNormalTupleIsReceived",
    note="With `on_tick`, instead of a check in `execute`",
)
async def test_emits_at_ticks_only(sim_clock: SimClock) -> None:
    class Top(BasicBolt):
        outputs = Fields("rankings")

        def prepare(self, context: Any) -> None:
            self.best: list[Any] = []

        def execute(self, tup: Tuple, collector: Any) -> None:
            self.best = sorted([*self.best, tup.values], key=lambda row: -row[1])[:2]

        def on_tick(self, collector: Any) -> None:
            collector.emit((tuple(self.best),))

    async with bolt_harness(Top, fields=("object", "count"), config={"tick_tuple_freq_s": 2}) as h:
        for row in (("a", 42), ("b", 1), ("c", 7)):
            await h.execute(*row)
        assert h.emitted == []
        await sim_clock.advance(2)
        assert h.emitted == [((("a", 42), ("c", 7)),)]


@scenario(
    "No ticks unless they are configured",
    "RollingCountBoltTest#shouldSetTickTupleFrequencyInComponentConfigurationToNonZeroValue",
    note="The test also looks at what arrives without the setting; Storm's test looks only at the setting",
)
async def test_no_ticks_unless_configured(local_cluster: LocalCluster, sim_clock: SimClock) -> None:
    notes = Notes()
    builder = TopologyBuilder()
    builder.set_spout("spout", Words, max_spout_pending=1)
    builder.set_bolt("counts", RollingCount).shuffle_grouping("spout")
    builder.set_bolt("plain", Acks).shuffle_grouping("counts")
    topology = builder.create_topology()
    assert topology.components["counts"].config["tick_tuple_freq_s"] > 0
    assert "tick_tuple_freq_s" not in topology.components["plain"].config
    await local_cluster.submit("t", straight(FeederSpout("n"), bolt=Ticking(notes)))
    await sim_clock.advance(3600)
    assert notes == []
    with pytest.raises(ConfigError, match="tick_tuple_freq_s"):
        await local_cluster.submit("zero", straight(FeederSpout("n"), bolt=Acks), {"tick_tuple_freq_s": 0})
