"""A group over real mailboxes: whatever opens, closes and ends when, no row is lost, doubled or out of order."""

from __future__ import annotations

import random
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from aiostorm.acker import IdSource
from aiostorm.actors.lanes import Lanes
from aiostorm.metrics import TaskCounters
from aiostorm.tasks.emit.ack_batch import AckBatch
from aiostorm.tasks.emit.emitter import Emitter
from aiostorm.tasks.emit.lineage import MANY
from aiostorm.tasks.emit.out_streams import OutStream, OutStreams, Route
from aiostorm.tasks.emit.outbox import Outbox
from aiostorm.tasks.emit.waiting import Group, Waiting, WaitingColumns, anchors_of
from aiostorm.topology import (
    ColumnRows,
    Failure,
    Fields,
    GroupingContext,
    LocalFirstGrouping,
    NoneGrouping,
    Origin,
    PartialKeyGrouping,
    RepeatedAnchor,
    Segment,
    ShuffleGrouping,
    StreamId,
)
from aiostorm.transport import UnsendableError

from ..tries import examples
from .parts import tracer

BAD = "cannot be sent"


class Box(Lanes):
    """A mailbox, in this worker or (it packs) seen from another one."""

    def __init__(self, capacity: int, *, far: bool) -> None:
        super().__init__(capacity)
        self.pack: Any = self.packs if far else None

    def packs(self, origin: Origin, items: Any, anchors: Any) -> list[tuple[Any, Any]]:
        """Two pieces, or one; a bad row is refused. Packed columns weigh as those that are not packed."""
        for offset, item in enumerate(items):
            if item[0] == BAD:
                raise UnsendableError("bad", where="here", offset=offset)
        half = (len(items) + 1) // 2
        cuts = [(0, half), (half, len(items))] if half < len(items) else [(0, len(items))]
        if isinstance(items, ColumnRows):
            return [(ColumnRows(items.batch.slice(a, b - a), False), anchors and anchors[a:b]) for a, b in cuts]
        return [(Packed(items[a:b]), anchors and anchors[a:b]) for a, b in cuts]


class Packed(list[Any]):
    """Stands for PackedItems."""


class Sender:
    """One emitting task with a group over some targets, and its streams "a" and "b" to the same targets."""

    def __init__(self, kind: str, boxes: dict[int, Any], seed: int) -> None:
        self.stirs = 0
        self.roots: dict[int, int] = {}  # what an acker would have
        self.failed: set[int] = set()
        ids = IdSource(random.Random(seed).randbytes)
        self.outbox = Outbox(
            self._on_unblock,
            self._lost,
            ids.take,
            lambda pack, piece, target: self.emitter.spreader.packed(pack, piece, target),
            boxes.__getitem__,
        )
        self.outlets = outlets = self.outbox.outlets
        streams = {}
        for name in ("a", "b"):
            origin = Origin("spout", 1, name, Fields("key", "n"))
            context = GroupingContext(
                "spout", 1, "bolt", Fields("key", "n"), random.Random(seed), local=frozenset((1, 2))
            )
            grouping: Any = {
                "shuffle": ShuffleGrouping,
                "none": NoneGrouping,
                "local first": LocalFirstGrouping,
                "partial key": lambda: PartialKeyGrouping(["key"]),
            }[kind]()
            grouping.prepare(context, StreamId("spout", name), list(boxes))
            streams[name] = OutStream(
                origin, [Route("bolt", grouping, False, outlets, Group(self.outbox, grouping, outlets))]
            )
        counters = TaskCounters()
        self.emitter = Emitter(
            OutStreams("task", streams),
            ids,
            AckBatch([], counters, tracer()),
            counters,
            lambda e, row, stream: Failure("failed"),
            stopwatch=float,
        )

    def _on_unblock(self) -> None:
        self.stirs += 1

    def _lost(self, segment: Segment, error: Exception) -> None:
        self.emitter.acks.failures += [(root, index, Failure("failed")) for root, index in segment.messages]
        self.emitter.acks.done(segment)

    def flush(self) -> None:
        """Send the ackers what is due."""
        for root, xor in self.emitter.acks.xors.items():
            self.roots[root] = self.roots.get(root, 0) ^ xor
        self.failed |= {index for _, index, _ in self.emitter.acks.failures}
        self.emitter.acks.xors, self.emitter.acks.failures = {}, []


class GroupMachine(RuleBasedStateMachine):
    """Rows are numbered in the order in which they are emitted; an anchor is numbered like a row."""

    @initialize(
        kind=st.sampled_from(["shuffle", "none", "local first", "partial key"]),
        capacities=st.lists(st.integers(1, 30), min_size=2, max_size=5),
        far=st.sets(st.integers(1, 5)),
        seed=st.integers(0, 99),
    )
    def begin(self, kind: str, capacities: list[int], far: set[int], seed: int) -> None:
        self.boxes = {t: Box(capacity, far=t in far) for t, capacity in enumerate(capacities, 1)}
        self.sender = Sender(kind, self.boxes, seed)
        self.kind = kind
        self.count = 0
        self.root = 100
        self.emitted: set[int] = set()
        self.bad: set[int] = set()
        self.direct: dict[int, int] = {}  # number → the target it was sent to
        self.watermarks: dict[int, list[int]] = {target: [] for target in self.boxes}
        self.taken: dict[int, list[Any]] = {target: [] for target in self.boxes}
        self.edges: dict[int, int] = {}
        self.batches: dict[int, set[int]] = {}  # of columns: message → its rows

    def numbers(self, count: int) -> list[int]:
        self.count += count
        return list(range(self.count - count, self.count))

    @rule(
        count=st.integers(1, 60),
        stream=st.sampled_from("ab"),
        lineage=st.booleans(),
        bad=st.booleans(),
        keys=st.integers(1, 9),
    )
    def emits(self, count: int, stream: str, lineage: bool, bad: bool, keys: int) -> None:
        numbers = self.numbers(count)
        items = [(n % keys, n) for n in numbers]
        if bad:
            items[count // 2] = (BAD, numbers[count // 2])
            self.bad.add(numbers[count // 2])
        emitter = self.sender.emitter
        self.root += 1
        if lineage:
            pairs = [((self.root, n), (1, n)) if n % 2 else ((self.root, n),) for n in numbers]
            emitter.add(MANY, emitter.streams[stream], items, pairs)
        else:
            emitter.add(self.root, emitter.streams[stream], items, numbers)
        emitter.seal()
        self.emitted |= set(numbers)
        self.sender.flush()

    @precondition(lambda self: self.kind == "partial key")
    @rule(count=st.integers(1, 60), stream=st.sampled_from("ab"), keys=st.integers(1, 9), tracked=st.booleans())
    def emits_columns(self, count: int, stream: str, keys: int, tracked: bool) -> None:
        """One message, of which parts go now, and parts wait for one of two targets."""
        pa: Any = pytest.importorskip("pyarrow")
        numbers = self.numbers(count)
        rows = ColumnRows(pa.record_batch({"key": [n % keys for n in numbers], "n": numbers}), False)
        emitter = self.sender.emitter
        self.root += 1
        pair = ((self.root, numbers[0]), (1, numbers[0]))
        root, anchor = (self.root, numbers[0]) if tracked else (MANY, pair)
        emitter.put_columns(root, emitter.streams[stream], None, rows, anchor)
        emitter.seal()
        self.emitted |= set(numbers)
        self.batches[numbers[0]] = set(numbers)
        self.sender.flush()

    @rule(data=st.data())
    def sends_to_one(self, data: st.DataObject) -> None:
        target = data.draw(st.sampled_from(sorted(self.boxes)))
        (number,) = self.numbers(1)
        self.root += 1
        emitter = self.sender.emitter
        stream = emitter.streams["a"]
        segment = emitter.edges.segment(stream.origin, [(0, number)], [number], self.root)
        self.sender.outlets[target].send(segment)
        self.emitted.add(number)
        self.direct[number] = target
        self.sender.flush()

    @rule()
    def flushes(self) -> None:
        (number,) = self.numbers(1)
        origin = Origin("spout", 1, "watermark", Fields("ms"))
        self.origin = getattr(self, "origin", origin)
        for target in self.boxes:
            self.sender.outlets[target].send_watermark(Segment(self.origin, [number]), number)
            if not self.boxes[target].closed:
                self.watermarks[target].append(number)

    @rule(data=st.data(), limit=st.integers(1, 40))
    def takes(self, data: st.DataObject, limit: int) -> None:
        target = data.draw(st.sampled_from(sorted(self.boxes)))
        self.take(target, limit)

    def take(self, target: int, limit: int) -> None:
        for segment in self.boxes[target].take_batch(limit):
            self.taken[target].append(segment)
            if segment.lineage is not None:
                for root, edge in segment.lineage.edges.items():
                    self.edges[root] = self.edges.get(root, 0) ^ edge
            elif segment.root:
                self.edges[segment.root] = self.edges.get(segment.root, 0) ^ segment.edge
        self.sender.flush()

    @precondition(lambda self: sum(not box.closed for box in self.boxes.values()) > 0)
    @rule(data=st.data())
    def ends(self, data: st.DataObject) -> None:
        target = data.draw(st.sampled_from([t for t, box in self.boxes.items() if not box.closed]))
        self.boxes[target].close()
        self.sender.flush()

    @invariant()
    def blocked_exactly_while_something_waits_that_no_target_can_take(self) -> None:
        if not hasattr(self, "sender"):
            return
        waits = self.waiting()
        singles = sum(isinstance(entry, Segment) for o in self.sender.outlets.values() for entry in o._ready)
        assert self.sender.outbox.blocked == len(waits) + singles
        for waiting in waits:
            for parcel in waiting._parcels:
                choices: Any = parcel.choices
                if isinstance(parcel, WaitingColumns):
                    may = parcel.targets()
                else:
                    may = set(self.boxes) if choices is None else {t for i in parcel._rest or () for t in choices[i]}
                assert not any(self.boxes[target].gate.is_open for target in may)

    @invariant()
    def none_parks_twice(self) -> None:
        for target, box in getattr(self, "boxes", {}).items():
            outlet = self.sender.outlets.get(target)  # it is made when it is first used
            assert box.parked <= 1
            assert box.parked == (outlet is not None and outlet.parked)
            assert not (box.parked and box.gate.is_open)
            entries = [] if outlet is None else [entry for entry in outlet._ready if isinstance(entry, Waiting)]
            assert len(entries) == len(set(map(id, entries)))

    @invariant()
    def what_was_taken_is_in_order(self) -> None:
        for target, segments in getattr(self, "taken", {}).items():
            numbers = [item[1] if isinstance(item, tuple) else item for s in segments for item in s.items]
            assert numbers == sorted(numbers)
            watermarks = [s.items[0] for s in segments if s.origin.stream == "watermark"]
            assert set(watermarks) <= set(self.watermarks[target])

    def waiting(self) -> list[Waiting]:
        found = {id(e): e for o in self.sender.outlets.values() for e in o._ready if isinstance(e, Waiting)}
        return [waiting for waiting in found.values() if not waiting.is_empty]

    def teardown(self) -> None:
        if not hasattr(self, "sender"):
            return
        while any(box.has_data for box in self.boxes.values()):
            for target in self.boxes:
                self.take(target, 10)
            self.what_was_taken_is_in_order()
        self.blocked_exactly_while_something_waits_that_no_target_can_take()
        assert not self.sender.outbox.blocked
        for target, outlet in self.sender.outlets.items():
            assert not outlet._ready
            assert not self.boxes[target].parked
            watermarks = [s.items[0] for s in self.taken[target] if s.origin.stream == "watermark"]
            if self.watermarks[target] and not self.boxes[target].closed:
                assert watermarks[-1] == self.watermarks[target][-1]  # the newest is never left out
        seen = [
            index
            for segments in self.taken.values()
            for s in segments
            if s.origin.stream != "watermark"
            for index in numbers_of(s)
        ]
        assert len(seen) == len(set(seen))
        lost = self.emitted - set(seen)
        failed = self.sender.failed
        assert lost <= failed.union(*(self.batches.get(message, ()) for message in failed))
        if all(not box.closed for box in self.boxes.values()):
            assert lost <= self.bad
        # Every edge was made once and is done once, by a target or by the sender: no tree is left open or done early.
        for root in self.sender.roots | self.edges:
            assert self.sender.roots.get(root, 0) == self.edges.get(root, 0)


def numbers_of(segment: Segment) -> list[int]:
    """The rows, identified by their anchors; those of columns share one."""
    anchors: Any = segment.indices if segment.lineage is None else [pairs[0][1] for pairs in segment.lineage.pairs]
    if isinstance(anchors_of(segment), RepeatedAnchor):
        assert len(set(anchors)) == 1
        return [number for _, number in segment.items]
    return list(anchors)


TestGroup = GroupMachine.TestCase
TestGroup.settings = settings(max_examples=examples(100), stateful_step_count=25)
