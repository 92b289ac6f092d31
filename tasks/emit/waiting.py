"""Waiting: rows that any of several tasks may take, while none of them has capacity.

    group ─ rest ─► waiting ◄─ take ─ outlet a ◄─ pull ─ mailbox a      the first with capacity takes the next piece
                        ▲──── take ─ outlet b ◄─ pull ─ mailbox b

1. First in, first out: a target takes the rows that it may have in the order in which they were emitted.
2. It has one entry in the queue of each outlet that may take from it, at its place among what goes to that target
   alone. What is put after the entry seals it: later rows wait in another one, after that. So rows from one task to
   another stay in order, and a watermark (or a barrier) passes no row that was emitted before it.
3. The task is blocked by rows that wait here exactly while there are any: then all their targets are full.
4. An outlet that finds it empty skips it, at any time: a task that hangs costs one entry in its mailbox.
5. A segment has its edge before its target is known. A piece that is cut from it takes an edge of its own, and the
   segment keeps the XOR of both: what was sent to the acker, or will be, stays true (`acker.ledger`).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

from ...actors import MailboxClosedError
from ...topology import ColumnChoices, ColumnRows, Lineage, Segment, Spreading

if TYPE_CHECKING:
    from ...topology import Anchor, Item
    from .outbox import Outbox


class Receiver(Protocol):
    """The part of an outlet that waiting rows use."""

    target: int

    def wait_for(self, waiting: Waiting) -> None:
        """Take from it when there is capacity, after what waits already. It may take some at once."""
        ...


class Group:
    """The targets of one shuffle-like subscription, for one emitting task."""

    __slots__ = ("_grouping", "_last", "_outbox", "_receivers")

    def __init__(self, outbox: Outbox, grouping: Spreading, receivers: Mapping[int, Receiver]) -> None:
        self._outbox = outbox
        self._receivers = receivers  # created on access, when something waits
        self._grouping = grouping
        self._last: Waiting | None = None

    def wait(self, segment: Segment, choices: Sequence[tuple[int, ...]] | None = None) -> None:
        """Rows without capacity now; `choices`: the targets that may take each (None: any)."""
        self._add(WaitingSegment(segment, self._outbox.new_edge, choices))

    def wait_columns(self, segment: Segment, choices: ColumnChoices) -> None:
        """Rows of a batch that was split by key."""
        self._add(WaitingColumns(segment, self._outbox.new_edge, choices))

    def _add(self, parcel: WaitingSegment | WaitingColumns) -> None:
        last = self._last
        if last is None or last.sealed:
            last = self._last = Waiting(self._outbox, self._grouping, self._receivers)
        last.add(parcel)


class Waiting:
    """Some of the rows of a group. `sealed`: no more may be added."""

    __slots__ = ("_absent", "_closed", "_on_taken", "_outbox", "_parcels", "_receivers", "_targets", "sealed")

    def __init__(self, outbox: Outbox, grouping: Spreading, receivers: Mapping[int, Receiver]) -> None:
        self.sealed = False
        self._outbox = outbox
        self._receivers = receivers
        self._targets = grouping.targets
        self._on_taken = grouping.on_taken
        self._absent = set(grouping.targets)  # the targets whose outlets have no entry for it
        self._closed: set[int] = set()
        self._parcels: deque[WaitingSegment | WaitingColumns] = deque()

    @property
    def is_empty(self) -> bool:
        """Does nothing wait?"""
        return not self._parcels

    def add(self, parcel: WaitingSegment | WaitingColumns) -> None:
        """Rows, after those that wait already."""
        parcels = self._parcels
        parcels.append(parcel)
        if len(parcels) == 1:
            self._outbox.blocks()
        needed = self._absent if parcel.choices is None else self._absent.intersection(parcel.targets())
        for target in list(needed):  # mostly none: all outlets still have the entry
            if not parcels:
                return  # a target had capacity after all, or all are closed
            self._absent.discard(target)
            self._receivers[target].wait_for(self)
        if self._closed:
            self._report_lost(MailboxClosedError("the target task has ended"))
            self._outbox.notify_unblocked()

    def take(self, target: int, most: int) -> Segment | None:
        """The next piece of rows for a target, of at most `most`; None: there are none for it."""
        parcels = self._parcels
        for parcel in parcels:
            piece = parcel.take(target, most)
            if piece is not None:
                if parcel.is_empty:
                    parcels.remove(parcel)  # mostly the first
                    if not parcels:
                        self._outbox.released()
                self._on_taken(target, len(piece.items))
                return piece
        return None

    def passed(self, target: int) -> None:
        """The target's outlet found nothing for it here and removed its entry."""
        self._absent.add(target)

    def refused(self, target: int, error: MailboxClosedError) -> None:
        """The target takes nothing any more: others may."""
        self._absent.discard(target)
        self._closed.add(target)
        self._report_lost(error)

    def _report_lost(self, error: MailboxClosedError) -> None:
        """Rows whose targets are all closed are lost."""
        closed, parcels = self._closed, self._parcels
        alive = closed.symmetric_difference(self._targets)  # closed is a subset of the targets
        for parcel in list(parcels):
            lost = parcel.lost(closed, alive)
            if lost is not None:
                self._outbox.lost(lost, error)
            if parcel.is_empty:
                parcels.remove(parcel)
                if not parcels:
                    self._outbox.released()


class WaitingSegment:
    """A segment from which pieces are taken. `choices`: for each row, its possible targets; None: any, in order."""

    __slots__ = ("_at", "_new_edge", "_rest", "_segment", "choices")

    def __init__(
        self, segment: Segment, new_edge: Callable[[], int], choices: Sequence[tuple[int, ...]] | None = None
    ) -> None:
        self.choices = choices
        self._segment = segment
        self._new_edge = new_edge
        self._at = 0
        self._rest = None if choices is None else list(range(len(choices)))

    @property
    def is_empty(self) -> bool:
        """Has all of it been taken?"""
        return not self._rest if self._rest is not None else self._at >= len(self._segment.items)

    def targets(self) -> set[int]:
        """All targets that may take a row of it."""
        return {target for choice in self.choices or () for target in choice}

    def take(self, target: int, most: int) -> Segment | None:
        """The next rows for a target, in order. A batch of columns is taken whole."""
        if self._rest is not None:
            choices = self.choices or ()
            places = [i for i in self._rest if target in choices[i]][:most]
            return self._take_places(places) if places else None
        start, length = self._at, len(self._segment.items)
        if start == 0 and (length <= most or type(self._segment.items) is ColumnRows):
            self._at = length
            return self._segment
        self._at = stop = min(start + most, length)
        return self._piece(slice(start, stop), last=stop == length)

    def lost(self, closed: set[int], alive: Iterable[int]) -> Segment | None:
        """The rows that no target can take any more."""
        if self._rest is None:
            return None if alive else self.take(0, len(self._segment.items))
        choices = self.choices or ()
        places = [i for i in self._rest if closed.issuperset(choices[i])]
        return self._take_places(places) if places else None

    def _take_places(self, places: list[int]) -> Segment:
        taken = set(places)
        self._rest = [i for i in self._rest or () if i not in taken]
        return self._piece(places, last=not self._rest)

    def _piece(self, where: slice | list[int], *, last: bool) -> Segment:
        whole = self._segment
        anchors = anchors_of(whole)
        cut = None if anchors is None else _at(anchors, where)
        return cut_off(whole, _at(whole.items, where), cut, self._new_edge, last=last)


class WaitingColumns:
    """The same for a batch of columns that was split by key."""

    __slots__ = ("_new_edge", "_segment", "choices")

    def __init__(self, segment: Segment, new_edge: Callable[[], int], choices: ColumnChoices) -> None:
        self.choices = choices
        self._segment = segment
        self._new_edge = new_edge

    @property
    def is_empty(self) -> bool:
        """Has all of it been taken?"""
        return not len(self.choices)

    def targets(self) -> set[int]:
        return self.choices.targets()

    def take(self, target: int, most: int) -> Segment | None:
        """The next rows for a target: a whole share, because columns are not cut."""
        return self._piece(self.choices.take(target))

    def lost(self, closed: set[int], alive: Iterable[int]) -> Segment | None:
        return self._piece(self.choices.lost(closed))

    def _piece(self, rows: ColumnRows | None) -> Segment | None:
        if rows is None:
            return None
        anchors = anchors_of(self._segment)
        cut = None if anchors is None else anchors[: len(rows)]  # all are of one message
        return cut_off(self._segment, rows, cut, self._new_edge, last=self.is_empty)


def anchors_of(segment: Segment) -> Sequence[Anchor] | None:
    """What each row is a child of: message indices, or with several anchors lineage pairs; None: untracked."""
    return segment.lineage.pairs if segment.lineage is not None else segment.indices


def cut_off(
    whole: Segment, items: Sequence[Item], anchors: Sequence[Anchor] | None, new_edge: Callable[[], int], *, last: bool
) -> Segment:
    """A piece of a segment, which keeps the edge of the rest; the last piece gets the remaining edge."""
    piece = Segment(whole.origin, items)
    piece.ingested_ms, piece.sent_s, piece.traced = whole.ingested_ms, whole.sent_s, whole.traced
    if anchors is None:
        return piece
    if whole.lineage is not None:
        left = whole.lineage.edges
        edges = left
        if not last:
            edges = {root: new_edge() for root in dict.fromkeys([root for pairs in anchors for root, _ in pairs])}
            for root, edge in edges.items():
                left[root] ^= edge
        piece.lineage = Lineage(edges, anchors)
        return piece
    piece.root, piece.indices = whole.root, anchors
    piece.edge = whole.edge if last else new_edge()
    whole.edge ^= piece.edge
    return piece


def _at(items: Sequence[Item], where: slice | list[int]) -> Sequence[Item]:
    return items[where] if isinstance(where, slice) else [items[i] for i in where]
