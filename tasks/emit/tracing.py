"""Tracing: what a task keeps of the sampled tuple trees that pass it (rows: metrics/spans).

    emitted ─► marked: segments made from a sampled tree ─► begun ─► done
                  in another worker: by the bits of the root (transport's exchange)

1. A segment says itself whether it is sampled (`Segment.traced`). For all others a task asks that, and for each segment
   that it makes, whether it has a sampled tree in hand: nothing else.
2. What a task makes while it has a sampled tree in hand, or in the same turn, and what is anchored to it, is sampled.
3. A message of a sampled tree that fails is sampled again when it is emitted again.
4. The context in which a sampled tree was emitted goes with its segments (contexts.py).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final

from ...acker import IdSource
from ...metrics import EMITTED, HANDLED, MAX_TEXT_CHARS, SETTLED, SPLIT, SpanRing
from .contexts import is_sampled

if TYPE_CHECKING:
    from ...topology import MessageId, Segment
    from .detached import SubTree

MAX_STREAM_CHARS: Final = 64

MAX_FAILED: Final = 1000
"""So many failed messages are sampled again; of so many trees the context is kept for that."""


class TaskTracer:
    """What one task keeps. `roots`: sampled trees of which it has segments in hand, or has had in this turn.

    `mask`: the bits that all sampled roots have (callers ask that by themselves: a call costs more than the rest).
    `wanted`: so many of the next trees are sampled, whatever their bits. `stopwatch`: for all times.
    """

    __slots__ = (
        "_contexts",
        "_emitted_in",
        "_failed",
        "_now_s",
        "_open",
        "_ring",
        "_task_id",
        "finished",
        "mask",
        "roots",
        "stopwatch",
        "wanted",
    )

    def __init__(
        self, ring: SpanRing, mask: int, task_id: int, stopwatch: Callable[[], float], now_s: Callable[[], float]
    ) -> None:
        self._ring = ring
        self.mask = mask
        self._task_id = task_id
        self._now_s = now_s
        self._open: dict[Segment, tuple[list[tuple[int, int]], float]] = {}
        self._contexts: dict[int, str] = {}  # of some of `roots`
        self._emitted_in: dict[int, str] = {}
        self._failed: dict[MessageId, tuple[int, str]] = {}
        self.stopwatch = stopwatch
        self.roots: dict[int, int] = {}
        self.finished = False
        self.wanted = 0

    # -- bolts ---------------------------------------------------------------------------------------------------------

    def mark(self, segment: Segment) -> None:
        """A segment was made while a sampled tree is in hand: is it of that tree?"""
        roots, contexts = self.roots, self._contexts
        if segment.lineage is None:
            segment.traced = segment.root in roots and contexts.get(segment.root, True)
        else:
            found = {contexts.get(root, True) for root in segment.lineage.edges if root in roots}
            segment.traced = found.pop() if len(found) == 1 else bool(found)

    def begun(self, segment: Segment, at_s: float) -> None:
        """The first rows of a sampled segment are executed; or more of them, which changes nothing."""
        if segment in self._open:
            return
        edges = ((segment.root, segment.edge),) if segment.lineage is None else tuple(segment.lineage.edges.items())
        sampled = [(root, edge) for root, edge in edges if root and self.samples(root)]
        self._open[segment] = sampled, at_s
        for root, _ in sampled:
            self.roots[root] = self.roots.get(root, 0) + 1
            if type(segment.traced) is str:
                self._contexts[root] = segment.traced

    def done(self, segment: Segment) -> None:
        """All rows of a sampled segment are acked or failed. One that was never begun is not shown: it was lost."""
        sampled, begun_s = self._open.pop(segment, ((), 0.0))
        ended_s, origin = self.stopwatch(), segment.origin
        for root, edge in sampled:
            self.roots[root] -= 1
            if not edge:  # a sub-tree, which the segment has joined in hand
                continue
            times = segment.sent_s or begun_s, begun_s, ended_s
            row = (
                HANDLED,
                root,
                edge,
                self._task_id,
                origin.task,
                origin.stream[:MAX_STREAM_CHARS],
                *times,
                len(segment.items),
            )
            self._ring.add(row)
        self.finished = True

    def sent(self) -> None:
        """What was made of the trees in hand is sent: forget those that are done."""
        self.finished = False
        self.roots = {root: count for root, count in self.roots.items() if count > 0}
        self._contexts = {root: context for root, context in self._contexts.items() if root in self.roots}

    def marked_ids(self, ids: IdSource) -> IdSource:
        """Ids for the sub-trees of a sampled segment: they are sampled, too."""
        return _MarkedIds(ids, self.mask)

    def detached(self, segment: Segment, sub_trees: Sequence[SubTree]) -> None:
        """The open rows of a sampled segment have left their trees."""
        in_hand = segment in self._open
        for root, _, sub, _ in sub_trees:
            if self.samples(root):
                self._ring.add((SPLIT, root, sub))
                if in_hand:  # until the turn in which the segment is done
                    self._open[segment][0].append((sub, 0))  # an edge is never 0
                    self.roots[sub] = self.roots.get(sub, 0) + 1
                    if root in self._contexts:
                        self._contexts[sub] = self._contexts[root]

    # -- spouts --------------------------------------------------------------------------------------------------------

    def samples(self, root: int) -> bool:
        """Is this root sampled? Its bits say so."""
        return root & self.mask == self.mask

    def chosen(self, root: int, ids: Sequence[MessageId], failures: int, context: str = "") -> int:
        """The root of a tree that is emitted: with the bits of a sampled one, if one is wanted or has failed.

        `context`: in which it is emitted; if that is sampled, the tree is, too.
        """
        if (failures and ids[0] in self._failed) or is_sampled(context):
            return root | self.mask
        if self.wanted:
            self.wanted -= 1
            return root | self.mask
        return root

    def emitted(self, root: int, ids: Sequence[MessageId], failures: int, context: str = "") -> None:
        """A sampled tree is about to be sent; `sent` afterwards. Emitted again, it keeps its first context."""
        before, first = self._failed.pop(ids[0], (0, "")) if failures else (0, "")
        context = context or first
        now_s = self.stopwatch(), self._now_s()
        self._ring.add((EMITTED, root, self._task_id, *now_s, len(ids), failures, before, context))
        self.roots[root] = 0
        if context:
            if len(self._emitted_in) >= MAX_FAILED:
                del self._emitted_in[next(iter(self._emitted_in))]
            self._contexts[root] = self._emitted_in[root] = context

    def settled(self, root: int, messages: int, outcome: str, why: str = "") -> None:
        """Messages of a sampled tree were acked or failed."""
        self._ring.add((SETTLED, root, self._task_id, self.stopwatch(), messages, outcome, why[:MAX_TEXT_CHARS]))
        if outcome == "acked":  # all that had not failed
            self._emitted_in.pop(root, None)

    def failed(self, root: int, message_id: MessageId, why: str) -> None:
        """A message of a sampled tree has failed: it may be emitted again."""
        self.settled(root, 1, "failed", why)
        if len(self._failed) >= MAX_FAILED:
            del self._failed[next(iter(self._failed))]
        self._failed[message_id] = root, self._emitted_in.get(root, "")


class _MarkedIds(IdSource):
    """Ids that have the bits of sampled roots."""

    __slots__ = ()

    def __init__(self, ids: IdSource, mask: int) -> None:
        super().__init__(bytes)
        self.take = lambda: ids.take() | mask
