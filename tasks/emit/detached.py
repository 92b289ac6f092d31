"""Detached: a segment whose open rows have left the trees by which they came (a pure machine).

    segment: root 7, edge 100, rows of messages 0 1 2 3      0 and 2 are done, 1 and 3 are held
        └─► edge 100 of 7 is done                            all in one message
            message 1 continues under root 8, by edge 200    "
            message 3 continues under root 9, by edge 300    "

1. The message of a row gets one sub-tree and one edge, at the acker of its root, however many of its rows are in the
   segment. A row of several messages (anchors) is in several sub-trees.
2. A tree of one message is never split: its edge stays, and is done when the last of its rows is. A segment with
   several such trees, and no others, is detached all the same: then none of them waits for the row of another.
3. Afterwards rows are counted down for each root, no longer for the segment. A row that was acked or failed has no
   messages any more: rows emitted as its children later are untracked.
4. A row that has been executed and is held, and one that waits to be executed, are treated alike.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from ...acker import IdSource, is_single_root, single_root
from ...topology import Lineage, RepeatedAnchor, Segment

if TYPE_CHECKING:
    from ...topology import Anchor

MAX_DETACHED: Final = 8_192
"""At most so many sub-trees in one message to an acker: 256 kB."""

SubTree = tuple[int, int, int, int]
"""(root, index, root of the sub-tree, its edge)."""


Pairs = tuple[tuple[int, int], ...]
"""The (root, index) pairs of one row."""


class Detached(Lineage):
    """The lineage of a detached segment. `left`: for each root, how many rows are not settled."""

    __slots__ = ("left",)

    def __init__(
        self, edges: dict[int, int], pairs: Sequence[tuple[tuple[int, int], ...]], left: dict[int, int]
    ) -> None:
        super().__init__(edges, pairs)
        self.left = left

    def settle_row(self, offset: int) -> list[tuple[int, int]]:
        """A row is settled: returns the (root, edge) pairs that are done with it."""
        pairs = self.pairs
        left = self.left
        done: list[tuple[int, int]] = []
        for root in dict.fromkeys([root for root, _ in pairs[offset]]):
            left[root] -= 1
            if not left[root]:
                del left[root]
                done.append((root, self.edges.pop(root)))
        return done

    def forget(self, offset: int) -> None:
        """A settled row has no messages any more. (Not for a batch of columns, whose rows share one anchor.)"""
        pairs: list[Pairs] | RepeatedAnchor = self.pairs  # type: ignore[assignment] # _open_pairs made them
        if not isinstance(pairs, RepeatedAnchor):
            pairs[offset] = ()


class DetachResult(NamedTuple):
    """Edges that are done, and the sub-trees to send with them."""

    done: dict[int, int]
    sub_trees: list[SubTree]


def can_detach(segment: Segment) -> bool:
    """Has the segment open rows that can leave their trees?"""
    lineage = segment.lineage
    if not segment.open or type(lineage) is Detached:
        return False
    if lineage is None:
        return bool(segment.root) and not is_single_root(segment.root)
    if not all(map(is_single_root, lineage.edges)):
        return True
    # Trees of one message stay. But of several each must wait for its own rows only; the rows of a batch of columns
    # are in all of them.
    return len(lineage.edges) > 1 and not isinstance(lineage.pairs, RepeatedAnchor)


def detach_rows(segment: Segment, ids: IdSource, ackers: int, executed: int = 0) -> DetachResult:
    """Detach the open rows of a segment (see can_detach). `executed`: how many of the first rows are done."""
    if executed:
        segment.open = len(segment.items) - executed
        segment.done = bytearray(b"\1" * executed + bytes(segment.open))
    before = segment.lineage.edges if segment.lineage is not None else {segment.root: segment.edge}
    pairs = _open_pairs(segment)
    leaving = dict.fromkeys(
        pair
        for row in ([pairs.anchor] if isinstance(pairs, RepeatedAnchor) else pairs)
        for pair in row
        if not is_single_root(pair[0])
    )
    subs = {pair: (single_root(ids.take(), pair[0], ackers), pair[1]) for pair in leaving}
    edges = {sub: ids.take() for sub, _ in subs.values()}
    sub_trees = [(root, index, sub, edges[sub]) for (root, index), (sub, _) in subs.items()]
    left: dict[int, int] = {}
    if isinstance(pairs, RepeatedAnchor):
        pairs = RepeatedAnchor(tuple([subs.get(pair, pair) for pair in pairs.anchor]), len(pairs))
        left = dict.fromkeys([root for root, _ in pairs.anchor], segment.open)
    else:
        for offset, row in enumerate(pairs):
            if row:
                moved = tuple([subs.get(pair, pair) for pair in row])
                pairs[offset] = moved
                for root in dict.fromkeys([root for root, _ in moved]):
                    left[root] = left.get(root, 0) + 1
        if segment.done is None:
            segment.done = bytearray(len(segment.items))  # each row is settled separately now
    edges |= {root: edge for root, edge in before.items() if root in left}  # trees of one message: they stay
    segment.root, segment.edge, segment.indices = 0, 0, None
    segment.lineage = Detached(edges, pairs, left)
    return DetachResult({root: edge for root, edge in before.items() if root not in left}, sub_trees)


def _open_pairs(segment: Segment) -> list[Pairs] | RepeatedAnchor:
    """The messages of each open row: for a batch of columns one anchor, else a list."""
    lineage = segment.lineage
    anchors: Sequence[Anchor] | None = segment.indices if lineage is None else lineage.pairs
    if isinstance(anchors, RepeatedAnchor):
        return RepeatedAnchor(((segment.root, anchors.anchor),), len(anchors)) if lineage is None else anchors
    pairs: list[Pairs] = [()] * len(segment.items)
    is_done = segment.done
    for offset in range(len(pairs)):
        if is_done is None or not is_done[offset]:
            pairs[offset] = segment.pairs_of(offset)
    return pairs
