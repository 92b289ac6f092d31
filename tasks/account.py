"""Account: what a task owes the ackers: the edges that it has made and done, what failed, whose clock to restart.

    made, done ─► xors ─┬─ no open segment of that root ─► Acks, once a turn
                        └─ an open one ─► kept ─ the last one is done ─► Acks
    failed ─► failures ─► Acks, at once; of a root that is kept, again with its edges

1. The acker gets one number per root and turn, and never sees a root complete before the children are in.
2. **Of a root of which the task holds an open segment (a rich bolt that keeps tuples, a turn that ended in the middle
   of a segment) it tells no edge before that segment is done.** So an edge that was made is in the frame of the edge
   that it was made of, and a failure is (also) in the frame of the edge that failed. The ledger's proof stands on it:
   were they told apart, the loss of one frame and of the segment that it tells of would make a false ACK. It costs no
   time: the tree cannot be complete before.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from ..acker import Acks
from ..actors import Inbox
from ..topology import Segment


class Account:
    """Of one task. `xors`: root → the edges made and done in this turn; `failures`: (root, index, failure)."""

    __slots__ = ("_ackers", "_held", "_kept", "_open", "failures", "resets", "xors")

    def __init__(self, ackers: Sequence[Inbox]) -> None:
        self.xors: dict[int, int] = {}
        self.failures: list[tuple[int, int, Any]] = []
        self.resets: list[int] = []
        self._ackers = ackers
        self._held: set[Segment] = set()
        self._open: dict[int, int] = {}
        self._kept: dict[int, _Kept] = {}

    def done(self, segment: Segment) -> None:
        """Every row of a received segment is acked or failed: its edge is done."""
        xors = self.xors
        if segment.lineage is not None:
            for root, edge in segment.lineage.edges.items():
                xors[root] = xors.get(root, 0) ^ edge
        elif segment.root:
            root = segment.root
            xors[root] = xors.get(root, 0) ^ segment.edge
        if self._held and segment in self._held:
            self._release(segment)

    def hold(self, segment: Segment) -> None:
        """A turn ends (or suspends) and this segment is open: tell nothing of its roots until it is done."""
        if segment.open and segment not in self._held and (roots := _roots(segment)):
            self._held.add(segment)
            for root in roots:
                self._open[root] = self._open.get(root, 0) + 1

    def post(self) -> None:
        """Tell the ackers what there is to tell."""
        if self._open:
            self._keep_back()
        if not (self.xors or self.failures or self.resets):
            return
        items, self.xors = self.xors, {}
        failures, self.failures = self.failures, []
        resets, self.resets = self.resets, []
        ackers = self._ackers
        if len(ackers) == 1:
            ackers[0].post(Acks(list(items.items()), failures, resets))
            return
        for i, mailbox in enumerate(ackers):
            mine = Acks(
                [(root, xor) for root, xor in items.items() if root % len(ackers) == i],
                [failure for failure in failures if failure[0] % len(ackers) == i],
                [root for root in resets if root % len(ackers) == i],
            )
            if mine.items or mine.failures or mine.resets:
                mailbox.post(mine)

    def _keep_back(self) -> None:
        held = self._open
        for root in [root for root in self.xors if root in held]:
            self._kept_of(root).xor ^= self.xors.pop(root)
        for failure in self.failures:
            if failure[0] in held:
                self._kept_of(failure[0]).failures.append(failure)

    def _kept_of(self, root: int) -> _Kept:
        kept = self._kept.get(root)
        if kept is None:
            kept = self._kept[root] = _Kept()
        return kept

    def _release(self, segment: Segment) -> None:
        self._held.discard(segment)
        for root in _roots(segment):
            left = self._open[root] - 1
            if left:
                self._open[root] = left
                continue
            del self._open[root]
            kept = self._kept.pop(root, None)
            if kept is not None:
                self.xors[root] = self.xors.get(root, 0) ^ kept.xor
                self.failures += kept.failures


class _Kept:
    """What is not told yet of a root."""

    __slots__ = ("failures", "xor")

    def __init__(self) -> None:
        self.xor = 0
        self.failures: list[tuple[int, int, Any]] = []


def _roots(segment: Segment) -> Iterable[int]:
    if segment.lineage is not None:
        return segment.lineage.edges
    return (segment.root,) if segment.root else ()
