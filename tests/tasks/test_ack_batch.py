"""What a task sends to the ackers, and when: a made edge in the frame of the edge that it was made of."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from typing import Any

import pytest

from aiostorm import BasicBolt, Bolt, Config, LocalCluster, bolt
from aiostorm.acker import Acks, IdSource
from aiostorm.actors import Inbox, Mailbox
from aiostorm.metrics import SPLIT, SpanRing, TaskCounters, mask_of
from aiostorm.tasks.emit.ack_batch import AckBatch
from aiostorm.tasks.emit.tracing import TaskTracer
from aiostorm.tasks.execute.function_executor import RESULTS_CHUNK
from aiostorm.testing import FixedSpout, Recorder, SimClock
from aiostorm.topology import Fields, Lineage, Origin, Segment

from .parts import DoesRich, Notes, Numbers, line, rows, tracer

ORIGIN = Origin("spout", 1, "default", Fields("n"))


def ack_batch() -> tuple[AckBatch, Mailbox]:
    box = Mailbox(10)
    return AckBatch([box], TaskCounters(), tracer()), box


def sent_to(box: Mailbox) -> list[tuple[list[tuple[int, int]], list[Any]]]:
    found = []
    while box.has_control:
        acks = box.take_control()
        assert isinstance(acks, Acks)
        found.append((acks.items, [(root, index) for root, index, _ in acks.failures or ()]))
    return found


async def test_reports_about_a_root_wait_for_its_open_segment() -> None:
    books, box = ack_batch()
    open_one, other = Segment(ORIGIN, [1, 2], root=7, edge=100, indices=[0, 1]), Segment(ORIGIN, [3], root=8, edge=200)
    books.withhold(open_one)
    books.withhold(open_one)
    books.xors[7] = 0b1  # made of a row of it
    books.done(other)
    books.post()
    assert sent_to(box) == [([(8, 200)], [])]
    books.xors[7] = 0b10  # made in a later turn
    books.post()
    assert sent_to(box) == []
    books.done(open_one)
    books.post()
    assert sent_to(box) == [([(7, 100 ^ 0b11)], [])]


async def test_a_failure_is_sent_at_once_and_again_with_its_edge() -> None:
    books, box = ack_batch()
    segment = Segment(ORIGIN, [1, 2], root=7, edge=100, indices=[0, 1])
    books.withhold(segment)
    books.failures.append((7, 1, "why"))
    books.post()
    assert sent_to(box) == [([], [(7, 1)])]
    books.done(segment)
    books.post()
    assert sent_to(box) == [([(7, 100)], [(7, 1)])]


async def test_two_open_segments_of_a_root_and_one_of_several_roots() -> None:
    books, box = ack_batch()
    first = Segment(ORIGIN, [1], root=7, edge=1)
    both = Segment(ORIGIN, [1], lineage=Lineage({7: 2, 8: 4}, [((7, 0), (8, 0))]))
    books.withhold(first)
    books.withhold(both)
    books.done(first)
    books.post()
    assert sent_to(box) == []
    books.done(both)
    books.post()
    assert sent_to(box) == [([(7, 3), (8, 4)], [])]
    books.withhold(Segment(ORIGIN, [1]))  # untracked: nothing to keep
    books.post()
    assert sent_to(box) == []


async def test_each_of_two_ackers_gets_what_concerns_its_roots_and_no_empty_message() -> None:
    even, odd = Mailbox(10), Mailbox(10)
    books = AckBatch([even, odd], TaskCounters(), tracer())
    books.done(Segment(ORIGIN, [1], root=6, edge=1))
    books.post()
    assert (sent_to(even), sent_to(odd)) == ([([(6, 1)], [])], [])
    books.done(Segment(ORIGIN, [1], lineage=Lineage({7: 2, 8: 4, 9: 8}, [((7, 0), (8, 0), (9, 0))])))
    books.failures += [(9, 0, "why"), (8, 1, "why")]
    books.post()
    assert (sent_to(even), sent_to(odd)) == ([([(8, 4)], [(8, 1)])], [([(7, 2), (9, 8)], [(9, 0)])])
    books.failures.append((11, 5, "why"))
    books.post()
    assert (sent_to(even), sent_to(odd)) == ([], [([], [(11, 5)])])
    books.resets += [4, 5, 6]
    books.post()
    assert [even.take_control().resets, odd.take_control().resets] == [[4, 6], [5]]
    books.post()
    assert (sent_to(even), sent_to(odd)) == ([], [])


async def test_each_of_two_ackers_gets_the_sub_trees_of_its_roots() -> None:
    even, odd = Mailbox(10), Mailbox(10)
    books = AckBatch([even, odd], TaskCounters(), tracer())
    first, second = (Segment(ORIGIN, [1, 2], root=root, edge=1, indices=[0, 1]) for root in (6, 7))
    ids = IdSource(random.Random(1).randbytes)
    assert books.detach(first, ids)
    assert books.detach(second, ids)
    books.post()
    for box, root in ((even, 6), (odd, 7)):
        acks = box.take_control()
        assert [item[0] for item in acks.items if item[0] in (6, 7)] == [root]
        assert [(found[0], found[1]) for found in acks.detached or ()] == [(root, 0), (root, 1)]
        assert all(found[2] % 2 == root % 2 for found in acks.detached or ())
        assert not box.has_control


async def test_the_time_of_a_segment_is_that_of_each_of_its_rows_if_the_bolt_acks() -> None:
    counters = TaskCounters("process_latency")
    books = AckBatch([Mailbox(10)], counters, TaskTracer(SpanRing(), mask_of(0), 1, lambda: 12.0, float))
    segment = Segment(ORIGIN, [1, 2, 3], root=7, edge=100)
    segment.sent_s = 9.5
    books.done(segment)
    assert (list(counters.process_latency), counters.process_s) == ([], 0.0), "the execution has counted it"
    books.bolt_acks = True
    books.done(segment)
    assert list(counters.process_latency) == [2.5, 3]
    assert counters.process_s == 7.5
    segment.sent_s = 0.0  # unknown
    books.done(segment)
    assert list(counters.process_latency) == [2.5, 3]


async def test_the_sub_trees_of_a_sampled_segment_are_sampled() -> None:
    ring, mask = SpanRing(), mask_of(1024)
    books = AckBatch([Mailbox(10)], TaskCounters(), tracer(ring, 1024))
    split = list[int]()
    for traced in (True, False):
        segment = Segment(ORIGIN, [1, 2], root=7 | mask, edge=1, indices=[0, 1])
        segment.traced = traced
        assert books.detach(segment, IdSource(random.Random(1).randbytes))
        assert segment.lineage is not None
        subs = list(segment.lineage.edges)
        split += subs if traced else []
        assert [row[2] for row in ring.rows() if row[0] == SPLIT] == split
        assert [sub & mask == mask for sub in subs] == [traced] * 2


class Lossy:
    """Between two tasks: what `loses` picks never arrives."""

    def __init__(self, box: Mailbox, loses: Any) -> None:
        self._box = box
        self._loses = loses

    def __getattr__(self, name: str) -> Any:
        return getattr(self._box, name)

    def post(self, item: Any) -> None:
        if not self._loses(item):
            self._box.post(item)

    def offer(self, item: Any, weight: int = 1) -> bool:
        return self._loses(item) or self._box.offer(item, weight)


async def test_a_lost_frame_and_the_lost_segment_that_it_counts_make_no_false_ack(sim_clock: SimClock) -> None:
    # Found by the simulation. A bolt acks half of a segment: what it emitted, and the frame that says so, are lost.
    # When the other half is acked, the edges that the acker knows must not add up.
    held, lost = Notes(), Notes()

    def act(tup: Any, collector: Any) -> None:
        if not tup.is_tick:
            held.append(tup)
        if held and (tup.is_tick or len(held) == 2):
            first = held.pop(0)
            collector.emit((1,), anchors=first)
            collector.ack(first)

    def loses(item: Any) -> bool:
        from_bolt = isinstance(item, Segment) and item.origin.component == "bolt"
        if sim_clock.now() < 1_700_000_000.5 and (from_bolt or isinstance(item, Acks)):
            lost.append(item)
            return True
        return False

    def wrapped(source: int, target: int, box: Mailbox) -> Inbox:
        return Lossy(box, loses)  # type: ignore[return-value] # by __getattr__

    source, sink = FixedSpout(rows([1, 2]), "n"), Recorder()
    async with LocalCluster(mailbox_wrapper=wrapped) as cluster:
        topology = line(source, bolt=DoesRich(act), sink=sink)
        config = Config(tick_tuple_freq_s=1, message_timeout_s=5, acker_tree_max_messages=2)
        running = await cluster.submit("t", topology, config)
        await running.wait_finished(60)
    assert lost
    assert source.acked == []
    assert {failure.reason for failure in source.failed.values()} == {"timeout"}


class TellsWhileItWaits(Bolt):
    """Emits a row, drains, waits, acks."""

    outputs = "n"

    def prepare(self, context: Any, collector: Any) -> None:
        self.collector = collector

    async def execute(self, tup: Any) -> None:
        self.collector.emit((1,), anchors=tup)
        await self.collector.drain()
        await asyncio.sleep(0.1)
        self.collector.ack(tup)


class TellsOfHalfABatch(BasicBolt):
    outputs = "n"

    async def execute_batch(self, tuples: Any, collector: Any) -> None:
        for tup in tuples:
            collector.emit((1,), anchors=tup)
            await collector.drain()
        await asyncio.sleep(0.1)


class WaitsForTheSecond(BasicBolt):
    outputs = "n"

    async def execute(self, tup: Any, collector: Any) -> None:
        collector.emit((1,))
        if tup["n"] == 3:
            await asyncio.sleep(0.1)


@bolt(outputs="n")
async def answers_late(n: int) -> int:
    if n == 3:
        await asyncio.sleep(0.1)
    return n


@bolt(outputs="n")
async def goes_on_and_on(n: int) -> Any:
    for i in range(RESULTS_CHUNK + 1):
        yield i


@bolt(outputs="n")
def makes_many(n: int) -> Any:
    yield from range(RESULTS_CHUNK + 1)


@pytest.mark.parametrize(
    "halting", [TellsWhileItWaits, TellsOfHalfABatch, WaitsForTheSecond, answers_late, goes_on_and_on, makes_many]
)
async def test_a_turn_that_halts_in_the_middle_of_a_segment_tells_no_edge_of_it(
    sim_clock: SimClock, halting: Any
) -> None:
    frames: Counter[int] = Counter()  # of the bolt, by root

    def wrapped(source: int, target: int, box: Mailbox) -> Inbox:
        def notes(item: Any) -> bool:
            if source == 2 and isinstance(item, Acks):
                frames.update(root for root, _ in item.items)
            return False

        return Lossy(box, notes)  # type: ignore[return-value] # by __getattr__

    source = Numbers(4, each_call=2)  # two segments: of the first, each row has a turn of its own
    async with LocalCluster(mailbox_wrapper=wrapped) as cluster:
        topology = line(source, bolt=halting() if isinstance(halting, type) else halting, sink=Recorder())
        config = Config(acker_tree_max_messages=2, mailbox_capacity_tuples=64)
        running = await cluster.submit("t", topology, config)
        await running.wait_finished(60)
    assert source.acked == [0, 1, 2, 3]
    assert list(frames.values()) == [1, 1]


async def test_a_lost_frame_that_tells_of_a_failure_makes_no_false_ack(sim_clock: SimClock) -> None:
    # An async function failed a row, and suspended in the next: the failure was sent alone, the edge afterwards.
    @bolt
    async def picky(n: int) -> None:
        if n == 2:
            raise ValueError(n)
        if n == 3:
            await asyncio.sleep(1)

    def wrapped(source: int, target: int, box: Mailbox) -> Inbox:
        def loses(item: Any) -> bool:
            return source == 2 and isinstance(item, Acks) and bool(item.failures) and sim_clock.now() < 1_700_000_000.5

        return Lossy(box, loses)  # type: ignore[return-value] # by __getattr__

    source = Numbers(4, each_call=2)  # two segments: of the first, each row has a turn of its own
    async with LocalCluster(mailbox_wrapper=wrapped) as cluster:
        running = await cluster.submit("t", line(source, bolt=picky), Config(acker_tree_max_messages=2))
        await running.wait_finished(60)
    assert source.acked == [3]
    assert [note[1] for note in source.outcomes if note[0] == "fail"] == [2, 0, 1]  # the others by timeout
