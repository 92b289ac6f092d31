"""Emitter: from emitted rows to segments in other tasks' mailboxes, and the edge ids that track them.

    collector.emit ─► emit buffer (rows + anchors, per root and stream)
                            │ seal, at the end of the turn
                            ▼
         route: the grouping ─► shares, one per target ─► send: segment(edge) ─► outlet ─► mailbox
                                                                   └─ xor of the root ─► ack batch

1. An emit buffer has the rows of one root in one turn: they become one segment per target, with one edge each.
2. An edge is XORed into the turn's number of its root when it is made, and the input's edge when its last row is done
   (ack_batch.py).
3. Rows with several anchors share the emit buffer `MANY`: their segments have one edge per root (Lineage).
4. A segment weighs no more than its target's `piece`, unless all of it fits. A segment of columns is never cut: it
   weighs what fits (outbox.py).
5. A batch of columns has an emit buffer of its own, in the order of the emits, and one anchor for all of its rows. With
   workers, a part of a chunk is cut to the size that a link carries before its target is known (identity.py).
6. Where windows downstream use timestamps of the rows, watermarks are sent between the rows, and after those of a turn
   (following.py).

Storm makes an edge per tuple and target (depart: semantics.md, section 2).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import repeat
from typing import TYPE_CHECKING, Final

from ...topology import (
    Anchor,
    ColumnRows,
    Item,
    Origin,
    RepeatedAnchor,
    Row,
    Segment,
    Share,
    has_identity,
    pieces_of,
)
from ...transport import WHOLE_BYTES, UnsendableError
from ..drive import USER_ERRORS, user_error
from .ack_batch import AckBatch, Edges
from .lineage import MANY, UNTRACKED
from .out_streams import OutStream, OutStreams, Route, Split
from .spreading import Spreader

if TYPE_CHECKING:
    from ...acker import IdSource
    from ...actors import Pack
    from ...metrics import TaskCounters
    from ...topology import Failure
    from .following import Following
    from .outbox import Outlet
    from .stamping import Stamps
    from .watermarks import WatermarkEmitter

Check = Callable[
    [int, OutStream, Sequence[Item], Sequence[Anchor] | None],
    tuple[Sequence[Item], Sequence[Anchor] | None],
]

_Send = Callable[["Outlet", Origin, Sequence[Item], Sequence[Anchor] | None, int], None]

_NONE: Final = -2
"""The root of no emit buffer."""


class Emitter:
    """What a task has emitted in this turn. `acks`: the edges that are made, and the messages of rows that are refused.

    `refused(error, row, stream)` is called for a row that a grouping refused (an unhashable key, an error in a custom
    grouping); it reports the error and returns the `Failure` for the message. `check`: see checking.py. `stamps`: see
    stamping.py; None: no window downstream needs them.
    """

    __slots__ = (
        "_emit_buffers",
        "acks",
        "check",
        "counters",
        "edges",
        "following",
        "on_emit",
        "refused",
        "spreader",
        "stamps",
        "streams",
        "watermarks",
    )

    def __init__(
        self,
        streams: OutStreams,
        ids: IdSource,
        acks: AckBatch,
        counters: TaskCounters,
        refused: Callable[[Exception, Row, str], Failure],
        *,
        stopwatch: Callable[[], float],
        stamps: Stamps | None = None,
        spread: bool = False,
    ) -> None:
        self.streams = streams
        self.acks = acks
        self.counters = counters
        self.refused = refused
        self.edges = Edges(ids, acks, stamps, stopwatch)
        self.stamps = stamps
        self.spreader = Spreader(self, ids.take, spread=spread)
        self.watermarks: WatermarkEmitter
        self.following: Following | None = None
        self.check: Check | None = None
        self.on_emit: Callable[[Row, str], None] | None = None
        self._emit_buffers: list[EmitBuffer] = []

    @property
    def dirty(self) -> bool:
        """Is there anything to flush?"""
        if self.following is not None and self.following.due:
            return True
        acks = self.acks
        return bool(self._emit_buffers or acks.xors or acks.failures or acks.resets)

    def emit_buffer(self, root: int) -> EmitBuffer:
        """The emit buffer of a root (or UNTRACKED, or MANY) for what is emitted next.

        Only the last emit buffer is added to: on each stream, rows from one task to another keep the order of the
        emits.
        """
        last = self._emit_buffers[-1] if self._emit_buffers else None
        if last is not None and last.root == root:
            return last
        found = EmitBuffer(root)
        if self.stamps is not None:
            found.ingested_ms = self.stamps.ingested_ms
        self._emit_buffers.append(found)
        return found

    def enter(self, ingested_ms: int | None) -> None:
        """Rows are stamped: later emits are of rows that came in at this time; None: they have no input row."""
        stamps = self.stamps
        if stamps is not None and ingested_ms != stamps.ingested_ms:
            stamps.ingested_ms = ingested_ms
            if self._emit_buffers:
                self._emit_buffers.append(EmitBuffer(_NONE))  # later rows must not be added to earlier buffers

    def buffer_of(self, segment: Segment) -> EmitBuffer:
        """The emit buffer for children of a segment's rows."""
        return self.emit_buffer(segment.root if segment.lineage is None else MANY)

    def add(self, root: int, stream: OutStream, items: list[Item], anchors: Sequence[Anchor] | None) -> None:
        """Several rows of one root. The items are handed over, the anchors (None: untracked) are not."""
        emit_buffers = self._emit_buffers
        if emit_buffers and emit_buffers[-1].root == root:
            own_items, own_anchors = emit_buffers[-1].buffer(stream)
            own_items += items
            own_anchors += anchors if anchors is not None else repeat(None, len(items))
        else:
            found = EmitBuffer(root, stream, items, anchors)
            if self.stamps is not None:
                found.ingested_ms = self.stamps.ingested_ms
            emit_buffers.append(found)

    def put_columns(self, root: int, stream: OutStream, target: int | None, rows: ColumnRows, anchor: Anchor) -> None:
        """A batch of columns, after what was emitted before. Later emits go into another emit buffer."""
        added = EmitBuffer.of_columns(root, stream, target, rows, anchor), EmitBuffer(root)
        if self.stamps is not None:
            for emit_buffer in added:
                emit_buffer.ingested_ms = self.stamps.ingested_ms
        self._emit_buffers += added

    def flush(self) -> None:
        """Seal, and post to the ackers. Never waits (see Outbox.blocked)."""
        if self._emit_buffers or self.following is not None:
            self.seal()
        self.acks.post()

    def seal(self) -> None:
        """Send what was emitted, in the order of the emits."""
        emit_buffers = self._emit_buffers
        if emit_buffers:
            self._emit_buffers = []
            for emit_buffer in emit_buffers:
                self.seal_buffer(emit_buffer)
        if self.following is not None:
            self.following.send_due()

    def sent(self) -> int:
        """How many rows were emitted so far; all of them have been sent."""
        self.seal()
        return self.counters.emitted

    def send_watermark(self, watermark_ms: int) -> None:
        """Send a watermark to all receivers, after what was emitted before."""
        self.seal()
        self.watermarks.send(watermark_ms)

    def seal_buffer(self, emit_buffer: EmitBuffer) -> None:
        """Turn an emit buffer into segments and send them; adds their edges to the ack batch."""
        stamps = self.stamps
        if stamps is not None:
            stamps.sealing_ms = emit_buffer.ingested_ms
        for part in (emit_buffer,) if self.following is None else self.following.parts(emit_buffer):
            if part.stream is not None and part.items:
                self._route(part.root, part.stream, None, part.items, part.anchors)
            if part.others:
                for (stream, target), (items, anchors) in part.others.items():
                    self._route(part.root, stream, target, items, anchors)
        if stamps is not None:
            stamps.sealing_ms = None

    def _route(
        self, root: int, stream: OutStream, target: int | None, items: Sequence[Item], anchors: Sequence[Anchor] | None
    ) -> None:
        columns = type(items) is ColumnRows
        if self.check is not None and not columns:
            items, anchors = self.check(root, stream, items, anchors)
            if not items:
                return
        counters, origin = self.counters, stream.origin
        counters.emitted += len(items)
        stream.emitted += len(items)
        if self.on_emit is not None:
            for item in items.readable() if isinstance(items, ColumnRows) else items:
                self.on_emit(stream.row(item), origin.stream)
        if root == UNTRACKED:
            anchors = None
        # With columns, the items are ColumnRows and the anchors are one RepeatedAnchor.
        send: _Send = self._send_columns if columns and self.spreader.spread else self._send  # type: ignore[assignment]
        before = counters.transferred
        if target is not None:
            send(stream.outlet(target), origin, items, anchors, root)
            stream.direct.rows[target] += counters.transferred - before  # type: ignore[union-attr] # it is direct
            return
        for route in stream.routes:
            if route.group is not None:
                self.spreader.send(route, route.group, stream, items, anchors, root)
            elif route.only is not None and not columns:
                send(route.outlets[route.only], origin, items, anchors, root)
            else:
                try:
                    split: Split = route.split_columns if columns else route.split  # type: ignore[assignment]
                    shares = split(items, anchors)
                except USER_ERRORS as error:
                    shares = self._split_by_row(route, stream, items, anchors, root, user_error(error))
                outlets = route.outlets
                for to, share, share_anchors in shares:
                    send(outlets[to], origin, share, share_anchors, root)
            sent = counters.transferred
            route.rows += sent - before
            before = sent

    def _send_columns(
        self, outlet: Outlet, origin: Origin, rows: ColumnRows, anchors: RepeatedAnchor | None, root: int
    ) -> None:
        """Cut a part of a chunk here, so that its pieces are the same for every worker."""
        pieces = pieces_of(rows.batch, WHOLE_BYTES) if has_identity(rows.batch) else ()
        if len(pieces) < 2:
            self._send(outlet, origin, rows, anchors, root)
            return
        for piece in pieces:
            some = None if anchors is None else RepeatedAnchor(anchors.anchor, piece.num_rows)
            self._send(outlet, origin, ColumnRows(piece, rows.bare), some, root)

    def _split_by_row(
        self,
        route: Route,
        stream: OutStream,
        items: Sequence[Item],
        anchors: Sequence[Anchor] | None,
        root: int,
        error: Exception,
    ) -> list[Share]:
        """A grouping refused a batch: find the rows that it refuses, fail their messages, and route the others."""
        if isinstance(items, ColumnRows):  # one message: it fails as a whole
            self.refuse(error, (items.batch,), stream.origin.stream, anchors and anchors[0], root)
            return []
        shares: list[Share] = []
        for i, item in enumerate(items):
            try:
                shares += route.split([item], None if anchors is None else [anchors[i]])
            except USER_ERRORS as refusal:
                anchor = None if anchors is None else anchors[i]
                self.refuse(user_error(refusal), stream.row(item), stream.origin.stream, anchor, root)
        return shares

    def refuse(self, error: Exception, row: Row, stream: str, anchor: Anchor, root: int) -> None:
        """A row is not sent: its message fails."""
        failure = self.refused(error, row, stream)
        if anchor is not None:
            pairs = anchor if root == MANY else ((root, anchor),)
            self.acks.failures += [(anchor, index, failure) for anchor, index in pairs]

    def _send(
        self, outlet: Outlet, origin: Origin, items: Sequence[Item], anchors: Sequence[Anchor] | None, root: int
    ) -> None:
        if outlet.pack is not None:
            self.send_packed(outlet, outlet.pack, outlet.send, origin, items, anchors, root)
            return
        count, gate = len(items), outlet.inbox.gate
        self.counters.transferred += count
        fits = count <= gate.piece or (gate.fill + count <= gate.limit and gate.is_open and not outlet.parked)
        if fits or type(items) is ColumnRows:
            segment = self.edges.segment(origin, items, anchors, root)
            # (The usual case of Outlet.send, inlined: this is the hot path.)
            if outlet.parked or type(items) is ColumnRows or not outlet.inbox.offer(segment, count):
                outlet.send(segment)
            else:
                outlet.rows += count
            return
        piece = outlet.piece
        for start in range(0, count, piece):
            part = None if anchors is None else anchors[start : start + piece]
            outlet.send(self.edges.segment(origin, items[start : start + piece], part, root))

    def send_packed(
        self,
        outlet: Outlet,
        pack: Pack,
        send: Callable[[Segment], None],
        origin: Origin,
        items: Sequence[Item],
        anchors: Sequence[Anchor] | None,
        root: int,
    ) -> None:
        """Send to another worker. A row that cannot be sent fails its message; the others are sent."""
        columns = type(items) is ColumnRows
        if anchors is not None and type(anchors) is not RepeatedAnchor:
            anchors = list(anchors)  # they may be computed lazily, and are read more than once here
        count, start = len(items), 0
        stop = most = count if columns else min(count, outlet.piece)
        while start < count:
            whole = stop - start == count
            part, part_anchors = items, anchors
            if not whole:
                part, part_anchors = items[start:stop], anchors if anchors is None else anchors[start:stop]
            try:
                pieces = pack(origin, part, part_anchors)
            except UnsendableError as error:
                refused = start + (error.offset or 0)
                if columns:  # one message: it fails as a whole
                    self.refuse(error, (items,), origin.stream, anchors and anchors[0], root)
                    return
                if refused > start:
                    stop = refused  # those before it first
                    continue
                anchor = None if anchors is None else anchors[start]
                self.refuse(error, (items[start],) if origin.bare else items[start], origin.stream, anchor, root)
                start, stop = start + 1, min(start + 1 + most, count)
                continue
            self.counters.transferred += stop - start
            for packed, packed_anchors in pieces:
                send(self.edges.segment(origin, packed, packed_anchors, root))
            start, stop = stop, min(stop + most, count)


class EmitBuffer:
    """Rows of one root, by stream (and target task, when direct), each with its anchor.

    Nearly always all rows go to one stream: `items` and `anchors` belong to it, `others` has further streams.
    `ingested_ms`: when the rows came in from which these were made, if that is known (stamping.py).

    An anchor says what a row is a child of: the index of its message, or with several anchors its lineage pairs.
    UNTRACKED rows have none.
    """

    __slots__ = ("_lent", "anchors", "ingested_ms", "items", "others", "root", "stream")

    def __init__(
        self,
        root: int,
        stream: OutStream | None = None,
        items: Sequence[Item] = (),
        anchors: Sequence[Anchor] | None = None,
    ) -> None:
        self.root = root
        self.stream = stream
        self.items: list[Item] = items  # type: ignore[assignment] # without a stream it is replaced before use
        self.anchors: Sequence[Anchor] | None = anchors
        self.others: dict[tuple[OutStream, int | None], tuple[Sequence[Item], Sequence[Anchor]]] = {}
        self.ingested_ms: int | None = None
        self._lent = stream is not None  # the anchors belong to the caller: copied before anything is added

    @classmethod
    def of_columns(
        cls, root: int, stream: OutStream, target: int | None, rows: ColumnRows, anchor: Anchor
    ) -> EmitBuffer:
        """An emit buffer for a batch of columns, and the anchor of all its rows. An empty batch is not sent."""
        emit_buffer = cls(root)
        if len(rows):
            emit_buffer.others[stream, target] = (rows, RepeatedAnchor(anchor, len(rows)))
        return emit_buffer

    def part(self, start: int, stop: int) -> EmitBuffer:
        """Some of its rows, if all are of one stream."""
        anchors = self.anchors
        return EmitBuffer(
            self.root, self.stream, self.items[start:stop], None if anchors is None else anchors[start:stop]
        )

    def buffer(self, stream: OutStream, target: int | None = None) -> tuple[list[Item], list[Anchor]]:
        """The items (see OutStream.item) and anchors to append to; always append to both."""
        if target is None:
            if self.stream is None:
                self.stream, self.items, self.anchors = stream, [], []
            if self.stream is stream:
                if self._lent:
                    self._lent = False
                    self.anchors = list(self.anchors) if self.anchors is not None else [None] * len(self.items)
                return self.items, self.anchors  # type: ignore[return-value] # here it is a list
        found = self.others.get((stream, target))
        if found is None:
            found = self.others[stream, target] = ([], [])
        return found  # type: ignore[return-value] # lists, but for a batch of columns, to which nothing is added
