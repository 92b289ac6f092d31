"""Collectors: user code emits, acks and fails with them. Their protocols are in topology.components.

`emit` is synchronous and buffers, like `StreamWriter.write`; the end of the turn sends (or a suspension, or `drain`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import chain
from typing import TYPE_CHECKING

from ...topology import DEFAULT_STREAM, ColumnRows, EmitError, RepeatedAnchor, Row, Segment, Tuple, TupleBatch
from ...windows import to_ms
from .lineage import UNTRACKED, Anchors, joined, lineage_of, mark_done, settle_all

if TYPE_CHECKING:
    from ...topology import Anchor, Item, RecordBatch, Timestamp, Value
    from .emitter import Emitter
    from .out_streams import OutStream
    from .outbox import Outbox


class TaskCollector:
    """Base of all collectors."""

    __slots__ = ("_emitter", "_outbox", "_report", "closed")

    def __init__(self, emitter: Emitter, outbox: Outbox, report: Callable[[BaseException], None]) -> None:
        self._emitter = emitter
        self._outbox = outbox
        self._report = report
        self.closed = False

    async def drain(self) -> None:
        """Send what was emitted so far and wait until the targets have taken it."""
        self.flush()
        await self._outbox.unblocked()

    def flush(self) -> None:
        """Send what was emitted so far, without waiting (for the framework)."""
        self._emitter.flush()

    def emit_watermark(self, timestamp: Timestamp) -> None:
        """Declare that no tuple before `timestamp` follows: windows downstream rely on it."""
        self.check_open()
        self._emitter.watermarks.check()
        self._before_watermark()
        self._emitter.send_watermark(to_ms(timestamp))

    def _before_watermark(self) -> None:
        """What was emitted before the watermark is sent before it."""

    def report_error(self, error: BaseException) -> None:
        """Report an error without failing anything."""
        self._report(error)

    def close(self) -> None:
        """From now on, an emit is an error (for the framework)."""
        self.closed = True

    def check_open(self) -> None:
        """EmitError once the task has ended (for the framework)."""
        if self.closed:
            raise EmitError(f"{self._emitter.streams.name} emits after it was closed: the tuple would be lost")


class BoltTaskCollector(TaskCollector):
    """For rich bolts: anchors, acks and fails by name, at any time. `wake` makes a sleeping task flush."""

    __slots__ = ("_fail", "_fail_all", "_on_ack", "_wake")

    def __init__(
        self,
        emitter: Emitter,
        outbox: Outbox,
        report: Callable[[BaseException], None],
        fail: Callable[[Segment, int, BaseException | str | None], None],
        fail_all: Callable[[Segment, BaseException | str | None], None],
        wake: Callable[[], None],
    ) -> None:
        super().__init__(emitter, outbox, report)
        self._fail = fail
        self._fail_all = fail_all
        self._wake = wake
        self._on_ack: Callable[[Tuple], None] | None = None

    def emit(self, values: Row | list[Value], anchors: Anchors = None, stream: str = DEFAULT_STREAM) -> None:
        """Emit one tuple, as a child of its anchors."""
        self._emit(values, anchors, stream, None)

    def emit_direct(
        self, task: int, values: Row | list[Value], anchors: Anchors = None, stream: str = DEFAULT_STREAM
    ) -> None:
        """Emit to one task, as a child of its anchors."""
        self._emit(values, anchors, stream, task)

    def emit_arrow(
        self, batch: RecordBatch, anchors: Anchors = None, stream: str = DEFAULT_STREAM, *, task: int | None = None
    ) -> None:
        """Emit a RecordBatch, as a child of its anchors."""
        self.check_open()
        out, rows = self._emitter.streams.columns(batch, stream, direct_to=task)
        root, anchor = lineage_of(anchors)
        self._emitter.put_columns(root, out, task, rows.with_identity_of(None), anchor)
        self._wake()

    def ack(self, tup: Tuple | TupleBatch) -> None:
        """The tuple (or all of a batch) has been processed. Twice, or after `fail`, is harmless."""
        if isinstance(tup, TupleBatch):
            for segment in tup.segments:
                self._ack_all(segment)
            return
        segment = tup.segment
        if mark_done(segment, tup.offset):
            self._emitter.counters.acked += 1
            if self._on_ack is not None:
                self._on_ack(tup)
            if not segment.open or segment.lineage is not None:
                self._emitter.acks.settled(segment, tup.offset)
            self._wake()

    def fail(self, tup: Tuple | TupleBatch, error: BaseException | str | None = None) -> None:
        """The messages of the tuple (or of all of a batch) fail at their spouts."""
        if isinstance(tup, TupleBatch):
            for segment in tup.segments:
                self._fail_each(segment, error)
            return
        segment = tup.segment
        if mark_done(segment, tup.offset):
            self._fail(segment, tup.offset, error)
            self._emitter.acks.settled(segment, tup.offset)
            self._wake()

    def _ack_all(self, segment: Segment) -> None:
        if segment.done is not None or self._on_ack is not None:  # some of it is settled, or a hook needs each tuple
            for offset in range(len(segment)):
                self.ack(segment.tuple_at(offset))
            return
        self._emitter.counters.acked += settle_all(segment)
        self._emitter.acks.done(segment)
        self._wake()

    def _fail_each(self, segment: Segment, error: BaseException | str | None) -> None:
        if segment.done is not None or type(segment.items) is not ColumnRows:
            for offset in range(len(segment)):
                self.fail(segment.tuple_at(offset), error)
            return
        settle_all(segment)  # a batch of columns is one message
        self._fail_all(segment, error)
        self._emitter.acks.done(segment)
        self._wake()

    def reset_timeout(self, tup: Tuple) -> None:
        """Restart the timeout of the tuple's trees."""
        self._emitter.acks.resets += {root for root, _ in tup.segment.pairs_of(tup.offset)}
        self._wake()

    def on_ack(self, hook: Callable[[Tuple], None] | None) -> None:
        """Call a hook for every acked tuple, or none."""
        self._on_ack = hook

    def _emit(self, values: Row | list[Value], anchors: Anchors, stream: str, task: int | None) -> None:
        self.check_open()
        out, row = self._emitter.streams.row(values, stream, direct_to=task)
        root, anchor = lineage_of(anchors)
        items, anchors = self._emitter.emit_buffer(root).buffer(out, task)
        items.append(out.item(row))
        anchors.append(anchor)
        self._wake()


class WindowCollector(BoltTaskCollector):
    """For incremental windows, which ack a tuple when it is in its windows: user code must not."""

    __slots__ = ()

    def ack(self, tup: Tuple | TupleBatch) -> None:
        """Without effect: the window acks it."""

    def fail(self, tup: Tuple | TupleBatch, error: BaseException | str | None = None) -> None:
        """EmitError: the tuple may be in windows already."""
        raise EmitError(
            f"{self._emitter.streams.name} fails a tuple, but windows ack and fail their tuples themselves: "
            "raise an exception in execute, and the tuple fails and is in no window"
        )


_THE_BATCH: Tuple = object()  # type: ignore[assignment] # compared by identity


class BasicBatchCollector(TaskCollector):
    """For `execute_batch` and `execute_arrow`: an emit is a child of the whole batch, unless it names its anchors.

    A tuple anchored to the batch fails all messages of it; `anchors=tup` names the tuple that it really comes from.
    """

    __slots__ = ("_batch", "_emitted", "_given", "_lineage")

    def __init__(self, emitter: Emitter, outbox: Outbox, report: Callable[[BaseException], None]) -> None:
        super().__init__(emitter, outbox, report)
        self._batch: Sequence[Segment] | None = None
        self._lineage: tuple[int, Anchor] | None = None
        self._given: RecordBatch | None = None
        self._emitted = 0

    def enter(self, segments: Sequence[Segment], given: RecordBatch | None = None) -> None:
        """From now on, emits are children of these. `given`: the RecordBatch that is executed, if there is one."""
        self._batch = segments
        self._lineage = None
        self._given, self._emitted = given, 0

    def refresh(self) -> None:
        """Segments of the batch have left their trees while user code was suspended."""
        self._lineage = None

    def leave(self) -> None:
        """No batch is being executed: an emit without anchors is an error."""
        self._batch = self._given = None

    def emit(self, values: Row | list[Value], stream: str = DEFAULT_STREAM, *, anchors: Anchors = _THE_BATCH) -> None:
        """Emit one tuple, anchored to the batch or to `anchors` (None: untracked)."""
        self._emit(values, anchors, stream, None)

    def emit_direct(
        self, task: int, values: Row | list[Value], stream: str = DEFAULT_STREAM, *, anchors: Anchors = _THE_BATCH
    ) -> None:
        """Emit to one task."""
        self._emit(values, anchors, stream, task)

    def emit_arrow(
        self,
        batch: RecordBatch,
        stream: str = DEFAULT_STREAM,
        *,
        anchors: Anchors = _THE_BATCH,
        task: int | None = None,
    ) -> None:
        """Emit a RecordBatch, anchored to the batch being executed or to `anchors` (None: untracked)."""
        self.check_open()
        out, rows = self._emitter.streams.columns(batch, stream, direct_to=task)
        rows = rows.with_identity_of(self._given, out.origin.component, stream, self._emitted)
        self._emitted += 1
        root, anchor = self._batch_lineage() if anchors is _THE_BATCH else lineage_of(anchors)
        self._emitter.put_columns(root, out, task, rows, anchor)

    def _emit(self, values: Row | list[Value], anchors: Anchors, stream: str, task: int | None) -> None:
        self.check_open()
        out, row = self._emitter.streams.row(values, stream, direct_to=task)
        root, anchor = self._batch_lineage() if anchors is _THE_BATCH else lineage_of(anchors)
        items, anchors = self._emitter.emit_buffer(root).buffer(out, task)
        items.append(out.item(row))
        anchors.append(anchor)

    def emit_rows(self, rows: Iterable[Row], stream: str = DEFAULT_STREAM, *, anchors: Anchors = _THE_BATCH) -> None:
        """Emit many tuples at once."""
        out = self._declared(stream)
        items = list(rows)
        arity = out.arity
        if not all([type(row) is tuple and len(row) == arity for row in items]):  # noqa: C419 - faster
            checked = self._emitter.streams.row
            items = [checked(row, stream)[1] for row in items]  # lists, or an error that names the row
        self._emit_items(out, [row[0] for row in items] if out.bare else items, anchors)

    def emit_column(
        self, values: Iterable[Value], stream: str = DEFAULT_STREAM, *, anchors: Anchors = _THE_BATCH
    ) -> None:
        """Emit many tuples of one value each."""
        out = self._declared(stream)
        if not out.bare:
            raise EmitError(
                f"{self._emitter.streams.name} emits a column on stream {stream!r}, which has {out.arity} fields "
                f"({', '.join(out.origin.fields)}): use emit_rows"
            )
        self._emit_items(out, list(values), anchors)

    def _declared(self, stream: str) -> OutStream:
        self.check_open()
        return self._emitter.streams.not_direct(stream)

    def _emit_items(self, out: OutStream, items: list[Item], anchors: Anchors) -> None:
        root, anchor = self._batch_lineage() if anchors is _THE_BATCH else lineage_of(anchors)
        if items:
            self._emitter.add(root, out, items, None if root == UNTRACKED else RepeatedAnchor(anchor, len(items)))

    def _batch_lineage(self) -> tuple[int, Anchor]:
        if self._batch is None:
            raise EmitError(
                f"{self._emitter.streams.name} emits outside of execute_batch: a basic bolt's emits are anchored to "
                f"the batch it executes. Emit before execute_batch returns, or use Bolt, which names its anchors"
            )
        if self._lineage is None:
            self._lineage = joined(chain.from_iterable([segment.messages for segment in self._batch]))
        return self._lineage
