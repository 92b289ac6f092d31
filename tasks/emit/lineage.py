"""Lineage: which messages the rows of a segment belong to, and which of its rows are done.

1. A row is settled once: acking it twice must not count twice.
2. The same message named twice as an anchor counts once.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import chain
from typing import TYPE_CHECKING, Final

from ...topology import EmitError, Segment, Tuple, TupleBatch

if TYPE_CHECKING:
    from ...topology import Anchor

UNTRACKED: Final = 0
"""In place of a root: of rows that no acker tracks."""
MANY: Final = -1
"""In place of a root: of rows with several anchors, whose roots are in their lineage."""

Anchors = Tuple | TupleBatch | list[Tuple] | tuple[Tuple, ...] | None


def mark_done(segment: Segment, offset: int) -> bool:
    """Mark a row as done. False if it was done before."""
    done = segment.done
    if done is None:
        done = segment.done = bytearray(len(segment.items))
    if done[offset]:
        return False
    done[offset] = 1
    segment.open -= 1
    return True


def settle_all(segment: Segment) -> int:
    """Mark every row as done, of a segment without settled rows; how many."""
    count = len(segment.items)
    segment.done = bytearray(b"\1") * count
    segment.open = 0
    return count


def lineage_of(anchors: Anchors) -> tuple[int, Anchor]:
    """The emit buffer's root and the row's anchor for these anchors. The same message named twice counts once."""
    if anchors is None:
        return UNTRACKED, None
    if isinstance(anchors, Tuple):
        segment = anchors.segment
        if segment.lineage is None:
            return (segment.root, segment.indices[anchors.offset]) if segment.indices is not None else (UNTRACKED, None)
        anchors = (anchors,)
    elif isinstance(anchors, TupleBatch):
        return joined(chain.from_iterable([segment.messages for segment in anchors.segments]))
    for anchor in anchors:
        if not isinstance(anchor, Tuple):
            raise EmitError(f"an anchor is a Tuple (or a list of them), not {anchor!r:.200}")
    return joined(pair for anchor in anchors for pair in anchor.segment.pairs_of(anchor.offset))


def joined(pairs: Iterable[tuple[int, int]]) -> tuple[int, Anchor]:
    """The emit buffer's root and the row's anchor for these (root, index) pairs."""
    distinct = dict.fromkeys(pairs)
    if not distinct:
        return UNTRACKED, None
    if len(distinct) == 1:
        return next(iter(distinct))
    return MANY, tuple(distinct)
