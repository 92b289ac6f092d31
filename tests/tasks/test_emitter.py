"""The emitter alone, over real mailboxes: who gets which rows, in which pieces, and when they came in."""

from __future__ import annotations

import random
from typing import Any

import pyarrow as pa

from aiostorm.acker import IdSource
from aiostorm.actors.lanes import Lanes
from aiostorm.metrics import TaskCounters
from aiostorm.tasks.emit.ack_batch import AckBatch
from aiostorm.tasks.emit.emitter import Emitter
from aiostorm.tasks.emit.out_streams import OutStream, OutStreams, Route
from aiostorm.tasks.emit.outbox import Outbox
from aiostorm.tasks.emit.stamping import Stamps
from aiostorm.topology import ColumnRows, Failure, Fields, FieldsGrouping, GroupingContext, Origin, StreamId
from aiostorm.transport import WHOLE_BYTES, UnsendableError

from .parts import tracer

ORIGIN = Origin("spout", 1, "default", Fields("key", "n"))
ROOT = 7
BAD = "cannot be sent"


class Box(Lanes):
    """A mailbox of this worker."""

    pack = None


class FarBox(Lanes):
    """A mailbox seen from another worker; `packed`: the rows of each call."""

    def __init__(self, capacity: int) -> None:
        super().__init__(capacity)
        self.packed: list[list[Any]] = []

    def pack(self, origin: Origin, items: Any, anchors: Any) -> list[tuple[Any, Any]]:
        self.packed.append(list(items))
        for offset, item in enumerate(items):
            if item[0] == BAD:
                raise UnsendableError("bad", where="here", offset=offset)
        return [(items, anchors)]


class Sender:
    """A task whose rows go to these mailboxes by `key`."""

    def __init__(self, *boxes: Any, spread: bool = False, stamps: Stamps | None = None) -> None:
        known = dict(enumerate(boxes, 1))
        ids = IdSource(random.Random(1).randbytes)
        self.outbox = Outbox(lambda: None, self._lost, ids.take, self._packed, known.__getitem__)
        grouping = FieldsGrouping(Fields("key"))
        context = GroupingContext("spout", 1, "bolt", ORIGIN.fields, random.Random(1), local=frozenset(known))
        grouping.prepare(context, StreamId("spout", "default"), list(known))
        self.stream = OutStream(ORIGIN, [Route("bolt", grouping, False, self.outbox.outlets)])
        self.counters = TaskCounters()
        self.acks = AckBatch([], self.counters, tracer())
        self.emitter = Emitter(
            OutStreams("spout", {"default": self.stream}),
            ids,
            self.acks,
            self.counters,
            lambda error, row, stream: Failure("failed"),
            stopwatch=float,
            stamps=stamps,
            spread=spread,
        )

    def emit(self, *rows: tuple[Any, ...]) -> None:
        for index, row in enumerate(rows):
            items, anchors = self.emitter.emit_buffer(ROOT).buffer(self.stream)
            items.append(row)
            anchors.append(index)

    def emit_columns(self, keys: list[str], metadata: dict[bytes, bytes] | None = None) -> Any:
        batch: Any = pa.record_batch({"key": keys, "n": list(range(len(keys)))})
        batch = batch.replace_schema_metadata(metadata)
        self.emitter.put_columns(ROOT, self.stream, None, ColumnRows(batch, False), 0)
        return batch

    def _lost(self, segment: Any, error: Exception) -> None:
        raise AssertionError("no mailbox is closed")

    def _packed(self, *_: Any) -> Any:
        raise AssertionError("nothing waits for a group")


def rows_in(box: Lanes) -> list[list[Any]]:
    """The rows of each segment in a mailbox."""
    segments: list[Any] = []
    while box.has_data:
        segments.append(box.take_data())
    return [list(segment.rows) for segment in segments]


def test_rows_and_columns_go_by_their_key_and_in_order() -> None:
    boxes = Box(100), Box(100)
    sender = Sender(*boxes)
    keys = [f"k{n % 5}" for n in range(20)]
    sender.emit(*zip(keys, range(20), strict=True))
    sender.emit_columns(keys)
    sender.emitter.flush()
    of_rows, of_columns = [], []
    for box in boxes:
        first, second = rows_in(box)
        of_rows.append(first)
        of_columns.append(second)
    assert of_rows == of_columns
    assert sorted(row for rows in of_rows for row in rows) == sorted(zip(keys, range(20), strict=True))
    assert not {key for key, _ in of_rows[0]} & {key for key, _ in of_rows[1]}
    assert (sender.counters.emitted, sender.counters.transferred) == (40, 40)


def test_rows_that_came_in_at_different_times_are_in_different_segments() -> None:
    box, stamps = Box(100), Stamps(lambda: 99)
    sender = Sender(box, stamps=stamps)
    sender.emitter.enter(5)
    sender.emit(("a", 1))
    sender.emitter.enter(5)
    sender.emit(("a", 2))
    sender.emitter.enter(9)
    sender.emit(("a", 3))
    sender.emitter.enter(None)
    sender.emit(("a", 4))
    sender.emitter.flush()
    segments = [box.take_data() for _ in range(3)]
    assert not box.has_data
    assert [(segment.ingested_ms, [n for _, n in segment.rows]) for segment in segments] == [
        (5, [1, 2]),
        (9, [3]),
        (99, [4]),
    ]


def test_the_first_stamp_begins_no_buffer() -> None:
    sender = Sender(Box(100), stamps=Stamps(lambda: 99))
    sender.emitter.enter(5)
    assert not sender.emitter.dirty


def test_a_batch_of_columns_weighs_a_piece_and_fits() -> None:
    box = Box(10)
    sender = Sender(box)
    batch = sender.emit_columns(["a"] * 1000)
    sender.emitter.flush()
    assert box.gate.fill == box.gate.max_piece < 1000
    segment: Any = box.take_data()
    assert segment.items.batch.equals(batch)


def test_a_part_of_a_chunk_is_cut_before_it_is_spread() -> None:
    for keys, spread, pieces in ((2, True, 2), (2, False, 1), (1, True, 1)):
        box = Box(100)
        sender = Sender(box, spread=spread)
        sender.emit_columns(["x" * WHOLE_BYTES] * keys, {b"aiostorm.chunk": b"c"})
        sender.emitter.flush()
        assert [len(rows) for rows in rows_in(box)] == [keys // pieces] * pieces


def test_after_a_row_that_cannot_be_sent_pieces_are_as_large_as_before() -> None:
    box = FarBox(100)
    sender = Sender(box)
    most = box.gate.piece
    rows = [("a", n) for n in range(3 * most)]
    rows[most] = (BAD, most)
    sender.emit(*rows)
    sender.emitter.seal()
    assert [len(found) for found in box.packed] == [most, most, most, most - 1]
    assert rows_in(box) == [rows[:most], rows[most + 1 : 2 * most + 1], rows[2 * most + 1 :]]
    assert [(root, index) for root, index, _ in sender.acks.failures] == [(ROOT, most)]
    sender.emitter.flush()
    assert not sender.acks.failures, "they are posted to the ackers"
    assert sender.counters.transferred == 3 * most - 1
