"""Emitter: from emitted rows to segments in other tasks' mailboxes, and the edge ids that track them.

    collector.emit ─► emit buffer (rows + marks, per root and stream)
                            │ seal, at the end of the turn
                            ▼
            route.split ─► shares, one per target ─► segment(edge) ─► outlet ─► mailbox
                                                         └─ xor of the root ─► acker

1. An emit buffer has the rows of one root in one turn: they become one segment per target, with one edge each.
2. An edge is XORed into the turn's number of its root when it is made, and the input's edge when its last row is done
   (ack_batch.py).
3. Rows with several anchors share the emit buffer `MANY`: their segments have one edge per root (Lineage).
4. A segment weighs no more than its target's `piece`, unless all of it fits. A segment of columns is never cut: it
   weighs what fits (outbox.py).
5. A batch of columns has an emit buffer of its own, in the order of the emits, and one mark for all of its rows. With
   workers, a part of a chunk is cut to the size that a link carries before its target is known (identity.py).
6. Where windows downstream use timestamps of the rows, watermarks are sent between the rows, and after those of a turn
   (event_time/following.py).

Storm makes an edge per tuple and target (depart: semantics.md, section 2).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import repeat
from typing import TYPE_CHECKING, Any

from ...acker import IdSource
from ...actors import Inbox
from ...metrics import TaskCounters
from ...topology import (
    ColumnRows,
    EmitError,
    Lineage,
    Origin,
    RepeatedMark,
    Row,
    Segment,
    Share,
    column_rows,
    has_identity,
    pieces_of,
)
from ...transport import WHOLE_BYTES, UnsendableError
from ..drive import USER_ERRORS, user_error
from .ack_batch import AckBatch
from .emit_buffer import MANY, UNTRACKED, EmitBuffer, OutStream, Route
from .outbox import Outlet
from .spreading import Spreader

if TYPE_CHECKING:
    from ..event_time.following import Following
    from ..event_time.watermark_emitter import WatermarkEmitter


class Emitter(AckBatch):
    """What a task has emitted, done and failed in this turn. `in_hand`: the segments that are being executed.

    `spread`: there are other workers. `refused(error, row, stream)` is called for a row that a grouping refused (an
    unhashable key, an error in a custom grouping); it reports the error and returns the `Failure` for the message.
    """

    __slots__ = (
        "_batch_pairs",
        "_batch_roots",
        "_emit_buffers",
        "_ids",
        "counters",
        "following",
        "in_hand",
        "name",
        "on_emit",
        "refused",
        "spread",
        "spreader",
        "streams",
        "watermarks",
    )

    def __init__(
        self,
        name: str,
        streams: dict[str, OutStream],
        ids: IdSource,
        ackers: Sequence[Inbox],
        counters: TaskCounters,
        refused: Callable[[Exception, Row, str], Any],
    ) -> None:
        super().__init__(ackers)
        self.name = name
        self.watermarks: WatermarkEmitter
        self.following: Following | None = None
        self.in_hand: Sequence[Segment] | None = None
        self.refused = refused
        self.spread = False
        self.spreader = Spreader(self, ids.take)
        self.streams = streams
        self.counters = counters
        self.on_emit: Callable[[Row, str], None] | None = None
        self._ids = ids
        self._emit_buffers: list[EmitBuffer] = []
        self._batch_pairs: Any = None
        self._batch_roots: tuple[int, ...] = ()

    @property
    def dirty(self) -> bool:
        """Is there anything to flush?"""
        if self.following is not None and self.following.due:
            return True
        return bool(self._emit_buffers or self.xors or self.failures or self.resets)

    def emit_buffer(self, root: int) -> EmitBuffer:
        """The emit buffer of a root (or UNTRACKED, or MANY) for what is emitted next.

        Only the last emit buffer is added to: on each stream, rows from one task to another keep the order of the
        emits.
        """
        last = self._emit_buffers[-1] if self._emit_buffers else None
        if last is not None and last.root == root:
            return last
        found = EmitBuffer(root)
        self._emit_buffers.append(found)
        return found

    def add(self, root: int, stream: OutStream, items: list[Any], marks: Sequence[Any] | None) -> None:
        """Several rows of one root. The items are handed over, the marks (None: untracked) are not."""
        emit_buffers = self._emit_buffers
        if emit_buffers and emit_buffers[-1].root == root:
            own_items, own_marks = emit_buffers[-1].buffer(stream)
            own_items += items
            own_marks += marks if marks is not None else repeat(None, len(items))
        else:
            emit_buffers.append(EmitBuffer(root, stream, items, marks))

    def put_columns(self, root: int, stream: OutStream, target: int | None, rows: ColumnRows, mark: Any) -> None:
        """A batch of columns, after what was emitted before. Later emits go into another emit buffer."""
        self._emit_buffers += [EmitBuffer.of_columns(root, stream, target, rows, mark), EmitBuffer(root)]

    def flush(self) -> None:
        """Seal every emit buffer, send, post to the ackers. Never waits (see Outbox.blocked).

        At the end of a turn, or in the middle if user code suspends or drains: then the segments in hand are open.
        """
        if self.in_hand is not None:
            for segment in self.in_hand:
                self.withhold(segment)
        if self._emit_buffers or self.following is not None:
            self.seal_emit_buffers()
        self.post()

    def seal_emit_buffers(self) -> None:
        """Send what was emitted, in the order of the emits."""
        emit_buffers = self._emit_buffers
        if emit_buffers:
            self._emit_buffers = []
            for emit_buffer in emit_buffers:
                self.seal(emit_buffer)
        if self.following is not None:
            self.following.send_due()

    def sent(self) -> int:
        """How many rows were emitted so far; all of them have been sent."""
        self.seal_emit_buffers()
        return self.counters.emitted

    def seal(self, emit_buffer: EmitBuffer) -> None:
        """Turn an emit buffer into segments and send them; adds their edges to `xors`."""
        if self.following is not None:
            self.following.seal(emit_buffer, self._seal_all)
            return
        if emit_buffer.stream is not None and emit_buffer.items:  # (`_seal_all`, inlined: this is the hot path)
            self._seal_rows(emit_buffer.root, emit_buffer.stream, None, emit_buffer.items, emit_buffer.marks)
        if emit_buffer.others:
            self._seal_others(emit_buffer)

    def _seal_all(self, emit_buffer: EmitBuffer) -> None:
        """As `seal`, without reading timestamps."""
        if emit_buffer.stream is not None and emit_buffer.items:
            self._seal_rows(emit_buffer.root, emit_buffer.stream, None, emit_buffer.items, emit_buffer.marks)
        self._seal_others(emit_buffer)

    def _seal_others(self, emit_buffer: EmitBuffer) -> None:
        for (stream, target), (items, marks) in emit_buffer.others.items():
            self._seal_rows(emit_buffer.root, stream, target, items, marks)

    def _seal_rows(
        self, root: int, stream: OutStream, target: int | None, items: Sequence[Any], marks: Sequence[Any] | None
    ) -> None:
        counters, origin = self.counters, stream.origin
        counters.emitted += len(items)
        if self.on_emit is not None:
            for item in items.readable() if isinstance(items, ColumnRows) else items:
                self.on_emit(stream.row(item), origin.stream)
        if root == UNTRACKED:
            marks = None
        columns = type(items) is ColumnRows
        send = self._send_columns if columns and self.spread else self._send
        if target is not None:
            send(stream.outlet(target), origin, items, marks, root)
            return
        for route in stream.routes:
            if route.group is not None:
                self.spreader.send(route, route.group, stream, items, marks, root)
                continue
            if route.only is not None and not columns:
                send(route.outlets[route.only], origin, items, marks, root)
                continue
            try:
                shares = (route.split_columns if columns else route.split)(items, marks)
            except USER_ERRORS as error:
                shares = self._split_by_row(route, stream, items, marks, root, user_error(error))
            outlets = route.outlets
            for to, share, share_marks in shares:
                send(outlets[to], origin, share, share_marks, root)

    def _send_columns(self, outlet: Outlet, origin: Origin, rows: Any, marks: Any, root: int) -> None:
        """Cut a part of a chunk here, so that its pieces are the same for every worker."""
        pieces = pieces_of(rows.batch, WHOLE_BYTES) if has_identity(rows.batch) else ()
        if len(pieces) < 2:
            self._send(outlet, origin, rows, marks, root)
            return
        for piece in pieces:
            some = None if marks is None else RepeatedMark(marks.mark, piece.num_rows)
            self._send(outlet, origin, ColumnRows(piece, rows.bare), some, root)

    def _split_by_row(
        self,
        route: Route,
        stream: OutStream,
        items: Sequence[Any],
        marks: Sequence[Any] | None,
        root: int,
        error: Exception,
    ) -> list[Share]:
        """A grouping refused a batch: find the rows that it refuses, fail their messages, and route the others."""
        if isinstance(items, ColumnRows):  # one message: it fails as a whole
            self.refuse(error, (items.batch,), stream.origin.stream, marks and marks[0], root)
            return []
        shares: list[Share] = []
        for i, item in enumerate(items):
            try:
                shares += route.split([item], None if marks is None else [marks[i]])
            except USER_ERRORS as refusal:
                mark = None if marks is None else marks[i]
                self.refuse(user_error(refusal), stream.row(item), stream.origin.stream, mark, root)
        return shares

    def refuse(self, error: Exception, row: Row, stream: str, mark: Any, root: int) -> None:
        """A row is not sent: its message fails."""
        failure = self.refused(error, row, stream)
        if mark is not None:
            pairs = mark if root == MANY else ((root, mark),)
            self.failures += [(anchor, index, failure) for anchor, index in pairs]

    def _send(
        self, outlet: Outlet, origin: Origin, items: Sequence[Any], marks: Sequence[Any] | None, root: int
    ) -> None:
        if outlet.pack is not None:
            self.send_packed(outlet, outlet.pack, outlet.send, origin, items, marks, root)
            return
        count, inbox = len(items), outlet.inbox
        self.counters.transferred += count
        fits = count <= inbox.piece or (inbox.fill + count <= inbox.limit and inbox.gate_open and not outlet.parked)
        if fits or type(items) is ColumnRows:
            outlet.send(self.segment(origin, items, marks, root))
            return
        piece = outlet.piece
        for start in range(0, count, piece):
            part = None if marks is None else marks[start : start + piece]
            outlet.send(self.segment(origin, items[start : start + piece], part, root))

    def send_packed(
        self,
        outlet: Outlet,
        pack: Callable[[Origin, Any, Any], Any],
        send: Callable[[Segment], None],
        origin: Origin,
        items: Sequence[Any],
        marks: Sequence[Any] | None,
        root: int,
    ) -> None:
        """Send to another worker. A row that cannot be sent fails its message; the others are sent."""
        columns = type(items) is ColumnRows
        if marks is not None and type(marks) is not RepeatedMark:
            marks = list(marks)  # they may be computed lazily, and are read more than once here
        count, start = len(items), 0
        stop = most = count if columns else min(count, outlet.piece)
        while start < count:
            whole = stop - start == count
            part, part_marks = items, marks
            if not whole:
                part, part_marks = items[start:stop], marks if marks is None else marks[start:stop]
            try:
                pieces = pack(origin, part, part_marks)
            except UnsendableError as error:
                refused = start + (error.offset or 0)
                if columns:  # one message: it fails as a whole
                    self.refuse(error, (items,), origin.stream, marks and marks[0], root)
                    return
                if refused > start:
                    stop = refused  # those before it first
                    continue
                mark = None if marks is None else marks[start]
                self.refuse(error, (items[start],) if origin.bare else items[start], origin.stream, mark, root)
                start, stop = start + 1, min(start + 1 + most, count)
                continue
            self.counters.transferred += stop - start
            for packed, packed_marks in pieces:
                send(self.segment(origin, packed, packed_marks, root))
            start, stop = stop, min(stop + most, count)

    def segment(self, origin: Origin, items: Sequence[Any], marks: Sequence[Any] | None, root: int) -> Segment:
        """Rows of one root under a new edge, which is counted as made."""
        if marks is None:
            return Segment(origin, items)
        xors = self.xors
        if root != MANY:
            edge = self._ids.take()
            xors[root] = xors.get(root, 0) ^ edge
            return Segment(origin, items, root, edge, marks)
        edges: dict[int, int] = {}
        for anchor in self._anchors(marks):
            edge = edges[anchor] = self._ids.take()
            xors[anchor] = xors.get(anchor, 0) ^ edge
        return Segment(origin, items, lineage=Lineage(edges, marks))

    def _anchors(self, marks: Sequence[Any]) -> Iterable[int]:
        """The roots of rows with several anchors. Rows of one batch share their pairs, and so do its segments."""
        if not isinstance(marks, RepeatedMark):
            return dict.fromkeys(
                anchor for pairs in {id(pairs): pairs for pairs in marks}.values() for anchor, _ in pairs
            )
        if self._batch_pairs is not marks.mark:
            self._batch_pairs = marks.mark
            self._batch_roots = tuple(dict.fromkeys([anchor for anchor, _ in marks.mark]))
        return self._batch_roots

    # -- checks ------------------------------------------------------------------------------------------------------

    def row(self, values: Any, stream: str, *, direct_to: int | None = None) -> tuple[OutStream, Row]:
        """The declared stream and the row, or an EmitError that says what to do."""
        out = self._stream(stream)
        if isinstance(values, str | bytes) or not isinstance(values, tuple | list):
            raise EmitError(
                f"{self.name} emits {values!r:.200} on stream {stream!r}: a tuple or list of values is needed; "
                f"for one value write emit((value,))"
            )
        row = values if type(values) is tuple else tuple(values)
        if len(row) != out.arity:
            raise EmitError(
                f"{self.name} emits {len(row)} values on stream {stream!r}, which has {out.arity} fields "
                f"({', '.join(out.origin.fields)}): {row!r:.200}"
            )
        self._check_direct(out, stream, direct_to)
        return out, row

    def columns(self, batch: Any, stream: str, *, direct_to: int | None = None) -> tuple[OutStream, ColumnRows]:
        """The same for a RecordBatch."""
        out = self._stream(stream)
        self._check_direct(out, stream, direct_to)
        return out, column_rows(batch, out.origin, self.name)

    def _stream(self, stream: str) -> OutStream:
        out = self.streams.get(stream)
        if out is None:
            declared = ", ".join(s for s in self.streams if not s.startswith("__")) or "none"
            raise EmitError(f"{self.name} emits on stream {stream!r}, which it does not declare (declared: {declared})")
        return out

    def _check_direct(self, out: OutStream, stream: str, direct_to: int | None) -> None:
        if direct_to is None:
            if out.direct is not None:
                raise EmitError(f"stream {stream!r} of {self.name} is direct: use emit_direct(task, values)")
        elif out.direct is None:
            raise EmitError(f"stream {stream!r} of {self.name} is not direct: declare it with direct(...) or use emit")
        elif direct_to not in out.direct.receivers:
            known = ", ".join(map(str, sorted(out.direct.receivers))) or "none"
            raise EmitError(
                f"{self.name} emits to task {direct_to}, which does not take stream {stream!r} (receivers: {known})"
            )

    def declared(self, stream: str) -> OutStream:
        """A declared stream that is not direct, or an EmitError that says what to do."""
        out = self._stream(stream)
        self._check_direct(out, stream, None)
        return out
