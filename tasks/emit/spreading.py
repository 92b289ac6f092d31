"""Spreading: rows that several targets may take, where one target has no capacity.

    rows ─► grouping.deal(capacity of each) ─┬─ shares ─► the targets with capacity, at once
                                             └─ rest ───► group ─► the first target with capacity

1. A row is sent at once if any of its possible targets has capacity. A target in a long call (see long_call.py) gets
   what the others cannot take.
2. Rows that wait have their edge already. For another worker they are packed when the target takes them: a row that
   cannot be packed fails its message then, in the frame in which its edge is done.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from ...topology import ColumnRows, Origin, RepeatedAnchor, Segment, deal_columns, has_identity, pieces_of
from ...transport.codec import UnsendableError
from ...transport.exchange import WHOLE_BYTES
from ..drive import USER_ERRORS, user_error
from .waiting import Group, WaitingSegment, anchors_of, cut_off

if TYPE_CHECKING:
    from ...actors import Pack
    from ...topology import Anchor, ColumnChoices, Item
    from .emitter import Emitter
    from .out_streams import OutStream, Route
    from .outbox import Outlet


class Spreader:
    """The spreader of one emitter. `spread`: there are other workers."""

    __slots__ = ("_emitter", "_new_edge", "spread")

    def __init__(self, emitter: Emitter, new_edge: Callable[[], int], *, spread: bool) -> None:
        self.spread = spread
        self._emitter = emitter
        self._new_edge = new_edge

    def send(
        self,
        route: Route,
        group: Group,
        stream: OutStream,
        items: Sequence[Item],
        anchors: Sequence[Anchor] | None,
        root: int,
    ) -> None:
        """Send to the targets that have capacity; the rest waits for the first that has."""
        if type(items) is ColumnRows:
            columns: RepeatedAnchor | None = anchors  # type: ignore[assignment] # the rows of a batch share one
            self._send_columns(route, group, stream.origin, items, columns, root)
            return
        origin, outlets, free_rows = stream.origin, route.outlets, route.free_rows
        while True:
            try:
                shares, rest = route.deal(items, anchors, free_rows)
            except USER_ERRORS as error:
                self._send_by_row(route, group, stream, items, anchors, root, user_error(error))
                return
            for to, share, share_anchors in shares:
                self._send_now(outlets[to], origin, share, share_anchors, root)
            if rest is None:
                return
            items, anchors, choices = rest
            if shares and choices is None:
                continue  # a target in another worker takes one piece at a time
            if free_rows != route.free_rows or not outlets.passed_over:
                break
            outlets.passed_over, free_rows = False, outlets.free_rows_of_any
        self._emitter.counters.transferred += len(items)
        group.wait(self._emitter.edges.segment(origin, items, anchors, root), choices)

    def packed(self, pack: Pack, piece: Segment, target: int) -> list[Segment]:
        """Pack a piece, which has its edge, for a target in another worker.

        Rows that cannot be sent fail their messages.
        """
        found: list[Segment] = []
        todo = [piece]
        while todo:
            part = todo.pop()
            anchors = anchors_of(part)
            if anchors is not None and type(anchors) is not RepeatedAnchor:
                anchors = list(anchors)  # they may be computed lazily, and are read more than once
            try:
                parts = pack(part.origin, part.items, anchors)
            except UnsendableError as error:
                todo += self._around_row(part, error, target)
                continue
            for at, (items, part_anchors) in enumerate(parts, 1):
                found.append(cut_off(part, items, part_anchors, self._new_edge, last=at == len(parts)))
        return found

    def _send_by_row(
        self,
        route: Route,
        group: Group,
        stream: OutStream,
        items: Sequence[Item],
        anchors: Sequence[Anchor] | None,
        root: int,
        error: Exception,
    ) -> None:
        """A grouping refused a batch: find the rows that it refuses, fail their messages, and route the others."""
        if len(items) == 1:
            anchor = None if anchors is None else anchors[0]
            self._emitter.refuse(error, stream.row(items[0]), stream.origin.stream, anchor, root)
            return
        for i, item in enumerate(items):
            self.send(route, group, stream, [item], None if anchors is None else [anchors[i]], root)

    def _send_columns(
        self, route: Route, group: Group, origin: Origin, rows: ColumnRows, anchors: RepeatedAnchor | None, root: int
    ) -> None:
        """A batch of columns: whole to one target, or split. Parts of chunks are cut first (Emitter._send_columns)."""
        emitter = self._emitter
        pieces = pieces_of(rows.batch, WHOLE_BYTES) if self.spread and has_identity(rows.batch) else ()
        parts = [rows] if len(pieces) < 2 else [ColumnRows(piece, rows.bare) for piece in pieces]
        for part in parts:
            try:
                dealt = deal_columns(route.spreading, part, route.free_rows)
            except USER_ERRORS as error:  # a key without a hash: the batch is one message, and fails as a whole
                emitter.refuse(user_error(error), (part.batch,), origin.stream, anchors and anchors[0], root)
                continue
            if dealt is None:
                self._send_whole(route, group, origin, part, anchors, root)
            else:
                self._send_dealt(route, group, origin, dealt, anchors, root)

    def _send_whole(
        self, route: Route, group: Group, origin: Origin, rows: ColumnRows, anchors: RepeatedAnchor | None, root: int
    ) -> None:
        row_anchors = None if anchors is None else RepeatedAnchor(anchors.anchor, len(rows))
        target = route.place(route.free_rows)
        if target is None and route.outlets.passed_over:
            target = route.place(route.outlets.free_rows_of_any)
        if target is not None:
            self._send_now(route.outlets[target], origin, rows, row_anchors, root)
        else:
            self._emitter.counters.transferred += len(rows)
            group.wait(self._emitter.edges.segment(origin, rows, row_anchors, root))

    def _send_dealt(
        self,
        route: Route,
        group: Group,
        origin: Origin,
        dealt: tuple[list[tuple[int, ColumnRows]], ColumnChoices | None],
        anchors: RepeatedAnchor | None,
        root: int,
    ) -> None:
        emitter = self._emitter
        shares, rest = dealt
        for to, share in shares:
            share_anchors = None if anchors is None else RepeatedAnchor(anchors.anchor, len(share))
            self._send_now(route.outlets[to], origin, share, share_anchors, root)
        if rest is not None:
            emitter.counters.transferred += len(rest)
            rest_anchors = None if anchors is None else RepeatedAnchor(anchors.anchor, len(rest))
            group.wait_columns(emitter.edges.segment(origin, rest.rows, rest_anchors, root), rest)

    def _send_now(
        self, outlet: Outlet, origin: Origin, items: Sequence[Item], anchors: Sequence[Anchor] | None, root: int
    ) -> None:
        """To a target that has the capacity."""
        emitter = self._emitter
        if outlet.pack is not None:
            emitter.send_packed(outlet, outlet.pack, outlet.send_bound, origin, items, anchors, root)
            return
        emitter.counters.transferred += len(items)
        outlet.send(emitter.edges.segment(origin, items, anchors, root))

    def _around_row(self, part: Segment, error: UnsendableError, target: int) -> list[Segment]:
        """Split at the row that cannot be sent: what is after it, and what is before it (taken first)."""
        emitter, count, at = self._emitter, len(part.items), error.offset or 0
        if count > 1 and type(part.items) is not ColumnRows:
            parcel = WaitingSegment(part, self._new_edge)
            cuts = [parcel.take(0, size) for size in (at, 1, count - at - 1) if size]
            return [cut for cut in reversed(cuts) if cut is not None]
        # One row, or a batch, which is one message: it fails as a whole.
        emitter.counters.transferred -= count
        for route in emitter.streams[part.origin.stream].routes:
            if route.group is not None and target in route.spreading.targets:
                route.rows -= count
        row = (part.items,) if type(part.items) is ColumnRows else part.row(0)
        failure = emitter.refused(error, row, part.origin.stream)
        emitter.acks.failures += [(root, index, failure) for root, index in part.messages]
        part.sent_s = 0.0  # it did not arrive
        emitter.acks.done(part)
        return []
