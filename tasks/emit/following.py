"""Following: a task reads the timestamps of the rows that it emits, for components with windows by event time.

    emit buffer ─► timestamps ─► StreamClock of the component ─► cuts? ─► rows, watermark, rows … to their targets
                                                        turn ends ─► watermark, to all tasks of the component

1. A watermark reaches every task of the component, whichever of them the rows went to, after what was emitted before.
2. Watermarks for one component are sent to it alone: another component may read another time in the same rows.
3. A row whose time cannot be read moves no clock: the component fails it.
4. Rows that are emitted in one turn on several streams, or to tasks by id, and a batch of columns, are not cut: they
   are late or not by what was emitted before all of them.
5. A function that returns the time of a row is called once, here, and its result or error is sent with the row. (For a
   batch of columns, and for rows to a task by id, the component calls it.)
6. A component that emits watermarks itself is not followed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import repeat
from typing import TYPE_CHECKING

from ...topology import (
    ColumnRows,
    ColumnsError,
    Item,
    Origin,
    Segment,
    Share,
    TimedItems,
    Timestamp,
    greatest_of,
)
from ...windows import AddResult, StreamClock, TimestampError, bounds_ms, column, readable_row, to_ms

if TYPE_CHECKING:
    from ...topology import Anchor, RecordBatch
    from .emitter import EmitBuffer
    from .out_streams import OutStream, Split
    from .watermarks import WatermarkEmitter

Values = Callable[[Sequence[Item]], Sequence[Timestamp]]


class TimeReader:
    """The timestamps of one stream, as one component reads them."""

    __slots__ = ("_computed", "_field", "_function", "_origin", "_take", "clock")

    def __init__(self, clock: StreamClock, timestamp: Timestamp, origin: Origin) -> None:
        self.clock = clock
        self._origin = origin
        self._function = timestamp if callable(timestamp) else None
        self._field = timestamp
        self._computed: dict[int, Sequence[Timestamp]] = {}  # by the identity of rows that are being sent
        self._take: Values | None = None if callable(timestamp) else column(origin.fields, timestamp)

    @property
    def uses_function(self) -> bool:
        """Does a function return the time of rows?"""
        return self._function is not None

    def cuts(self, items: Sequence[Item]) -> Sequence[tuple[int, int]]:
        """For rows that are emitted in this order: before which of them is a watermark sent?"""
        values = self._values(items)
        try:
            if self.clock.observe_max(to_ms(max(values))):
                return ()
        except Exception:  # not all are timestamps: read them one by one
            values = list(values)
        if bounds_ms(values) is not None:
            return self.clock.observe(values)
        places, times = _readable(values)
        return [(places[at], watermark_ms) for at, watermark_ms in self.clock.observe(times)]

    def observe_unordered(self, items: Sequence[Item]) -> None:
        """Rows whose order is not known."""
        try:
            if type(items) is ColumnRows:
                field = self._field
                if not callable(field) and self._observe_column(items.batch, field):
                    return
                items = items.items
            self.clock.observe_unordered(_readable(self._values(items))[1])
        except ColumnsError:  # a value cannot be converted: the component fails the batch
            return

    def _observe_column(self, batch: RecordBatch, field: str) -> bool:
        try:
            return self.clock.observe_max(to_ms(greatest_of(batch, field)))
        except TimestampError:  # not all are timestamps, as above
            return False

    def _values(self, items: Sequence[Item]) -> Sequence[Timestamp]:
        if self._take is not None:
            return self._take(items)
        times = self._computed[id(items)] = self._compute(items)
        return times

    def times_of(self, items: Sequence[Item]) -> Sequence[Timestamp]:
        """The results of the function, or its errors. (Called again if a grouping refuses some rows.)"""
        times = self._computed.get(id(items))
        return self._compute(items) if times is None else times

    def part(self, items: Sequence[Item], part: Sequence[Item], start: int) -> None:
        """Some of the rows are sent separately."""
        if self._function is not None:
            self._computed[id(part)] = self._computed[id(items)][start : start + len(part)]

    def sent(self) -> None:
        """The rows were sent."""
        if self._computed:
            self._computed.clear()

    def _compute(self, items: Sequence[Item]) -> list[Timestamp]:
        segment, function = Segment(self._origin, items), self._function
        assert function is not None  # noqa: S101 - for the type checker: it is a field or a function
        found: list[Timestamp] = []
        for place in range(len(items)):
            try:
                found.append(to_ms(function(segment.tuple_at(place))))
            except Exception as error:  # sent with the row: the component fails the row with it
                found.append(error)
        return found


class TimedSplit:
    """The split for a component that has a function for row times: the times are sent with the rows."""

    __slots__ = ("_reader", "_split")

    def __init__(self, split: Split, reader: TimeReader) -> None:
        self._split = split
        self._reader = reader

    def __call__(self, items: Sequence[Item], anchors: Sequence[Anchor] | None) -> list[Share]:
        times = self._reader.times_of(items)
        pairs = list(zip(times, repeat(None) if anchors is None else anchors, strict=False))
        return [
            (
                to,
                TimedItems(share, [at for at, _ in found or ()]),
                None if anchors is None else [anchor for _, anchor in found or ()],
            )
            for to, share, found in self._split(items, pairs)
        ]


class Following:
    """The following of one task. `readers`: by stream; `tasks`: the receivers of a clock's watermarks."""

    def __init__(
        self,
        readers: Mapping[OutStream, Sequence[TimeReader]],
        tasks: Mapping[StreamClock, Sequence[int]],
        watermarks: WatermarkEmitter,
        monotonic: Callable[[], float],
    ) -> None:
        self._readers = readers
        self._tasks = tasks
        self._watermarks = watermarks
        self._monotonic = monotonic
        self._sealed = False
        self._with_function = [reader for of_stream in readers.values() for reader in of_stream if reader.uses_function]

    @property
    def due(self) -> bool:
        """May there be a watermark to send?"""
        return self._sealed

    def parts(self, emit_buffer: EmitBuffer) -> Iterator[EmitBuffer]:
        """The parts of an emit buffer to send one after the other. Between them this sends watermarks."""
        self._sealed = True
        try:
            yield from self._parts(emit_buffer)
        finally:
            for reader in self._with_function:
                reader.sent()

    def _parts(self, emit_buffer: EmitBuffer) -> Iterator[EmitBuffer]:
        if emit_buffer.others:
            yield emit_buffer
            self._observe_unordered(emit_buffer)
            return
        readers = (
            self._readers.get(emit_buffer.stream, ()) if emit_buffer.stream is not None and emit_buffer.items else ()
        )
        cuts = [
            (place, reader.clock, watermark_ms)
            for reader in readers
            for place, watermark_ms in reader.cuts(emit_buffer.items)
        ]
        if not cuts:
            yield emit_buffer
            return
        cuts.sort(key=lambda cut: cut[0])
        begin = 0
        for place, clock, watermark_ms in [*cuts, (len(emit_buffer.items), None, 0)]:
            if place > begin:
                part = emit_buffer.part(begin, place)
                for reader in readers:
                    reader.part(emit_buffer.items, part.items, begin)
                yield part
                begin = place
            if clock is not None:
                self._watermarks.send_to(self._tasks[clock], watermark_ms)

    def send_due(self) -> None:
        """The rows were sent: send watermarks after them."""
        if self._sealed:
            self._sealed, now_ms = False, int(self._monotonic() * 1000)
            for clock, tasks in self._tasks.items():
                watermark_ms = clock.due_watermark(now_ms)
                if watermark_ms is not None:
                    self._watermarks.send_to(tasks, watermark_ms)

    def _observe_unordered(self, emit_buffer: EmitBuffer) -> None:
        groups = [(stream, items) for (stream, _), (items, _) in emit_buffer.others.items()]
        if emit_buffer.stream is not None and emit_buffer.items:
            groups.append((emit_buffer.stream, emit_buffer.items))
        for stream, items in groups:
            for reader in self._readers.get(stream, ()):
                reader.observe_unordered(items)


def _readable(values: Sequence[Timestamp]) -> tuple[list[int], list[int]]:
    """Positions and milliseconds of the values that are timestamps."""
    places: list[int] = []
    times: list[int] = []
    for place, value in enumerate(values):
        at_ms = readable_row(value, place, AddResult())  # the component fails the row with the error
        if at_ms is not None:
            places.append(place)
            times.append(at_ms)
    return places, times
