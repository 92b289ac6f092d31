"""A task that is in one call for long: its rows leave their trees, whatever kind of bolt it is; no ack is false."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from aiostorm import BasicBolt, Bolt, Config, LocalCluster, Topology, TopologyBuilder, bolt
from aiostorm.actors import Inbox, Mailbox
from aiostorm.tasks.long_call import LONG_CALL_S, SLOW_S
from aiostorm.testing import DeadlockError, SimClock, VirtualTimeLoop
from aiostorm.topology import Grouping, Segment

from .parts import Notes, Numbers
from .test_ack_batch import Lossy

COUNT = 24


class Gate:
    """The third row of task 0 hangs until it opens. Shared by all tasks."""

    def __init__(self) -> None:
        self.event = asyncio.Event()
        self.executed: dict[int, list[int]] = {0: [], 1: []}
        self.waits = 0

    def __deepcopy__(self, memo: dict[int, Any]) -> Gate:
        return self

    async def work(self, index: int, n: int) -> None:
        if index == 0 and len(self.executed[0]) == 2:
            self.waits = n
            await self.event.wait()
        self.executed[index].append(n)


class Works:
    """What they share."""

    outputs = "n"

    def __init__(self, gate: Gate) -> None:
        self.gate = gate

    def prepare(self, context: Any, collector: Any = None) -> None:
        self.index, self.collector = context.task_index, collector


class Basic(Works, BasicBolt):
    async def execute(self, tup: Any, collector: Any) -> None:
        collector.emit((tup["n"],))
        await self.gate.work(self.index, tup["n"])
        collector.emit((tup["n"],))


class PlainDef(Works, BasicBolt):
    """Begun in a step."""

    def execute(self, tup: Any, collector: Any) -> Any:
        collector.emit((tup["n"],))
        return self.later(tup, collector)

    async def later(self, tup: Any, collector: Any) -> None:
        await self.gate.work(self.index, tup["n"])
        collector.emit((tup["n"],))


class Rich(Works, Bolt):
    async def execute(self, tup: Any) -> None:
        self.collector.emit((tup["n"],), anchors=tup)
        await self.gate.work(self.index, tup["n"])
        self.collector.emit((tup["n"],), anchors=tup)
        self.collector.ack(tup)


class Batch(Works, BasicBolt):
    """Half of what it emits is anchored to the whole batch."""

    async def execute_batch(self, tuples: Any, collector: Any) -> None:
        collector.emit_rows([(tup["n"],) for tup in tuples])
        for tup in tuples:
            await self.gate.work(self.index, tup["n"])
        collector.emit_rows([(tup["n"],) for tup in tuples])


def function(gate: Gate) -> Any:
    @bolt(outputs="n")
    async def works(n: int) -> Any:
        yield n
        await gate.work(n % 2, n)
        yield n

    return works


KINDS: list[Callable[[Gate], Any]] = [Basic, PlainDef, Rich, Batch, function]


class Sink(BasicBolt):
    def __init__(self) -> None:
        self.got = Notes()

    def execute(self, tup: Any, collector: Any) -> None:
        self.got.append(tup["n"])


class ByParity(Grouping):
    def choose(self, values: Any) -> Any:
        return (self.targets[values[0] % 2],)


def topology(source: Numbers, made: Any, sink: Sink) -> Topology:
    """Even rows go to task 0, odd ones to task 1."""
    builder = TopologyBuilder()
    builder.set_spout("source", source)
    builder.set_bolt("works", made, 2).custom_grouping("source", ByParity())
    builder.set_bolt("sink", sink).shuffle_grouping("works")
    return builder.create_topology()


@pytest.mark.parametrize("debug", [False, True])
@pytest.mark.parametrize("tree", [1, 3, 256])
@pytest.mark.parametrize("made", KINDS)
async def test_messages_that_need_not_wait_for_a_long_call_are_acked_before_it_ends(
    sim_clock: SimClock, made: Callable[[Gate], Any], tree: int, debug: bool
) -> None:
    gate, source, sink = Gate(), Numbers(COUNT, each_call=COUNT), Sink()
    async with LocalCluster() as cluster:
        config = Config(acker_tree_max_messages=tree, acker_executors=2, debug=debug)
        running = await cluster.submit("t", topology(source, made(gate), sink), config)
        await asyncio.sleep(LONG_CALL_S / 2)
        assert (len(source.acked) < COUNT / 2) == (tree > 1)
        await asyncio.sleep(LONG_CALL_S)
        done = sorted(gate.executed[1] + gate.executed[0] * (made is not Batch))
        assert len(gate.executed[1]) == COUNT / 2
        assert sorted(source.acked) == done, "a batch is executed as a whole"
        gate.event.set()
        await running.wait_finished(60)
    assert sorted(source.acked) == list(range(COUNT))
    assert not source.failed
    assert sorted(sink.got) == sorted([*range(COUNT)] * 2)


@pytest.mark.parametrize("tree", [3, 256])
@pytest.mark.parametrize("made", KINDS)
async def test_rows_that_are_lost_after_it_fail_their_messages(
    sim_clock: SimClock, made: Callable[[Gate], Any], tree: int
) -> None:
    gate, source, sink, lost = Gate(), Numbers(COUNT, each_call=COUNT), Sink(), Notes()

    def loses(item: Any) -> bool:
        if gate.event.is_set() and isinstance(item, Segment) and item.origin.component == "works":
            lost.extend(item.items)
            return True
        return False

    def wrapped(source: int, target: int, box: Mailbox) -> Inbox:
        return Lossy(box, loses)  # type: ignore[return-value] # by __getattr__

    async with LocalCluster(mailbox_wrapper=wrapped) as cluster:
        config = Config(acker_tree_max_messages=tree, message_timeout_s=10)
        running = await cluster.submit("t", topology(source, made(gate), sink), config)
        await asyncio.sleep(2 * LONG_CALL_S)
        gate.event.set()
        await running.wait_finished(60)
    assert lost
    assert {failure.reason for failure in source.failed.values()} == {"timeout"}
    assert set(source.failed) >= set(lost)
    assert sorted([*source.acked, *source.failed]) == list(range(COUNT))


async def test_rows_of_a_slow_task_are_detached_at_once(sim_clock: SimClock) -> None:
    class Slow(Works, BasicBolt):
        async def execute(self, tup: Any, collector: Any) -> None:
            await asyncio.sleep(0 if self.index else SLOW_S)

    gate, source = Gate(), Numbers(COUNT, each_call=COUNT)
    async with LocalCluster() as cluster:
        running = await cluster.submit("t", topology(source, Slow(gate), Sink()))
        await asyncio.sleep(SLOW_S * 1.2)
        assert len(source.acked) == COUNT / 2 + 1
        await running.wait_finished(60)
    assert sorted(source.acked) == list(range(COUNT))


def test_a_task_that_hangs_for_good_has_no_timer_in_the_end() -> None:
    async def main() -> None:
        source = Numbers(COUNT, each_call=COUNT)
        async with LocalCluster() as cluster:
            config = Config(enable_message_timeouts=False)
            await cluster.submit("t", topology(source, Basic(Gate()), Sink()), config)
            await asyncio.Event().wait()

    with pytest.raises(DeadlockError), asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
        runner.run(main())
