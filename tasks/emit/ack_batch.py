"""AckBatch: what a task has to send to the ackers: edges made and done, failures, timeouts to reset.

Edges gives each segment its edge.

    made, done ─► xors ─┬─ no open segment of that root ─► Acks, once a turn
                        └─ an open one ─► withheld ─ the last one is done, or detached ─► Acks
    failed ─► failures ─► Acks, at once; for a withheld root, again with its edges
    detached ─► sub-trees ─► Acks, with the edges of their root

1. The acker gets one number for each root and turn, and never finds a root complete before the children are counted.
2. **While a task has an open segment of a root (a rich bolt that keeps tuples, a turn that ended in the middle of a
   segment), it sends no edge of that root.** So an edge that was made is sent in the same frame as the edge that it was
   made of, and a failure (also) in the frame of the edge that failed. The ledger's proof depends on it: with separate
   frames, the loss of one frame and of the segment that it counts would produce a false ACK. It costs no time, because
   the tree cannot be complete earlier.
3. A segment whose rows are held, or wait behind a call that does not return, is detached (detached.py): its edge is
   done, and what was withheld is sent, with the sub-trees of its rows, in one message. After that, rule 2 applies to
   the roots of the sub-trees.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

from ...acker import Acks, IdSource
from ...metrics import LONG
from ...topology import Lineage, Origin, RepeatedAnchor, Segment
from .detached import MAX_DETACHED, Detached, SubTree, can_detach, detach_rows
from .lineage import MANY

if TYPE_CHECKING:
    from ...actors import Inbox
    from ...metrics import TaskCounters
    from ...topology import Anchor, Failure, Item
    from .stamping import Stamps
    from .tracing import TaskTracer


class AckBatch:
    """The batch of one task. `xors`: root → edges made and done in this turn; `failures`: (root, index, failure).

    `in_hand`: the segments that are being executed. `bolt_acks`: the bolt acks by itself, so the time of its rows is
    added to `counters` here (of others see Execution). `tracer`: keeps what becomes of sampled segments.
    """

    __slots__ = (
        "_ackers",
        "_counters",
        "_detached",
        "_held",
        "_open",
        "_withheld",
        "bolt_acks",
        "failures",
        "in_hand",
        "resets",
        "tracer",
        "xors",
    )

    def __init__(self, ackers: Sequence[Inbox], counters: TaskCounters, tracer: TaskTracer) -> None:
        self.bolt_acks = False
        self._counters = counters
        self.tracer = tracer
        self.xors: dict[int, int] = {}
        self.failures: list[tuple[int, int, Failure]] = []
        self.resets: list[int] = []
        self.in_hand: Sequence[Segment] | None = None
        self._ackers = ackers
        self._detached: list[SubTree] = []
        self._held: set[Segment] = set()
        self._open: dict[int, int] = {}
        self._withheld: dict[int, _Withheld] = {}

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
        if segment.traced:
            self.tracer.done(segment)
        if self.bolt_acks and segment.sent_s:
            counters, rows, used_s = self._counters, len(segment.items), self.tracer.stopwatch() - segment.sent_s
            timings = counters.process_latency
            timings += (used_s, rows)
            if len(timings) > LONG:
                timings.counts()
            counters.process_s += used_s * rows

    def settled(self, segment: Segment, offset: int) -> None:
        """A row of a received segment was acked or failed: an edge may be done."""
        lineage = segment.lineage
        if isinstance(lineage, Detached):
            self._settled(lineage, offset)
            lineage.forget(offset)
        if not segment.open:
            self.done(segment)

    def executed(self, segment: Segment, stop: int) -> None:
        """The rows of a detached segment before `stop` have been executed, which settles each of them."""
        lineage: Detached = segment.lineage  # type: ignore[assignment]
        done = segment.done
        if done is None:
            done = segment.done = bytearray(len(segment.items))
        start = done.find(0)
        for offset in range(start, stop):
            self._settled(lineage, offset)
        done[start:stop] = b"\1" * (stop - start)
        segment.open -= stop - start
        if not segment.open:
            self.done(segment)

    def detach(self, segment: Segment, ids: IdSource, executed: int = 0) -> bool:
        """The open rows of this segment leave their trees. False if they have to stay.

        Edges made from these rows must be in `xors` already: they are sent with the edge of the segment. `executed`:
        how many of its first rows are done, where execution settles a row.
        """
        if not can_detach(segment) or not self._has_space(segment):
            return False
        self.withhold(segment)
        if segment.traced:
            ids = self.tracer.marked_ids(ids)
        detached = detach_rows(segment, ids, len(self._ackers), executed)
        if segment.traced:
            self.tracer.detached(segment, detached.sub_trees)
        for root, edge in detached.done.items():
            self.xors[root] = self.xors.get(root, 0) ^ edge
            self._release_root(root)
        for sub_tree in detached.sub_trees:
            self._open[sub_tree[2]] = 1
        self._detached += detached.sub_trees
        return True

    def withhold(self, segment: Segment) -> None:
        """A turn ends (or suspends) with this segment open: send nothing of its roots until it is done."""
        if segment.open and segment not in self._held and (roots := _roots(segment)):
            self._held.add(segment)
            for root in roots:
                self._open[root] = self._open.get(root, 0) + 1

    def post(self) -> None:
        """Send the ackers what is due. In the middle of a turn, the segments in hand are open."""
        if self.tracer.finished:
            self.tracer.sent()
        if self.in_hand is not None:
            for segment in self.in_hand:
                self.withhold(segment)
        if self._open:
            self._keep_back()
        if not (self.xors or self.failures or self.resets):
            return
        items, self.xors = self.xors, {}
        failures, self.failures = self.failures, []
        resets, self.resets = self.resets, []
        detached: list[SubTree] | None = None
        if self._detached:
            detached, self._detached = self._detached, []
        ackers = self._ackers
        if len(ackers) == 1:
            ackers[0].post(Acks(list(items.items()), failures, resets, detached))
            return
        for i, mailbox in enumerate(ackers):
            mine = Acks(
                [(root, xor) for root, xor in items.items() if root % len(ackers) == i],
                [failure for failure in failures if failure[0] % len(ackers) == i],
                [root for root in resets if root % len(ackers) == i],
                None if detached is None else [sub_tree for sub_tree in detached if sub_tree[0] % len(ackers) == i],
            )
            if mine.items or mine.failures or mine.resets:
                mailbox.post(mine)

    def _settled(self, lineage: Detached, offset: int) -> None:
        for root, edge in lineage.settle_row(offset):
            self.xors[root] = self.xors.get(root, 0) ^ edge
            self._release_root(root)

    def _keep_back(self) -> None:
        held = self._open
        for root in [root for root in self.xors if root in held]:
            self._withheld_of(root).xor ^= self.xors.pop(root)
        for failure in self.failures:
            if failure[0] in held:
                self._withheld_of(failure[0]).failures.append(failure)
        if self._detached:
            for sub_tree in self._detached:
                if sub_tree[0] in held:
                    self._withheld_of(sub_tree[0]).detached.append(sub_tree)
            self._detached = [sub_tree for sub_tree in self._detached if sub_tree[0] not in held]

    def _withheld_of(self, root: int) -> _Withheld:
        withheld = self._withheld.get(root)
        if withheld is None:
            withheld = self._withheld[root] = _Withheld()
        return withheld

    def _release(self, segment: Segment) -> None:
        self._held.discard(segment)
        for root in _roots(segment):
            self._release_root(root)

    def _release_root(self, root: int) -> None:
        """One open segment less of this root."""
        left = self._open[root] - 1
        if left:
            self._open[root] = left
            return
        del self._open[root]
        withheld = self._withheld.pop(root, None)
        if withheld is not None:
            self.xors[root] = self.xors.get(root, 0) ^ withheld.xor
            self.failures += withheld.failures
            self._detached += withheld.detached

    def _has_space(self, segment: Segment) -> bool:
        """Is there space in the message? What concerns one root is sent in one message, of bounded size."""
        kept = [len(found.detached) for root in _roots(segment) if (found := self._withheld.get(root)) is not None]
        space = MAX_DETACHED - len(self._detached) - max(kept, default=0)
        return segment.open <= space or len(segment.messages) <= space


class Edges:
    """Makes the segments of one task: each has an edge of its own, which is counted in `acks`.

    `stamps`: of the segments, if a window downstream needs them.
    """

    __slots__ = ("_acks", "_batch", "_ids", "_stopwatch", "stamps")

    def __init__(self, ids: IdSource, acks: AckBatch, stamps: Stamps | None, stopwatch: Callable[[], float]) -> None:
        self._stopwatch = stopwatch
        self.stamps = stamps
        self._acks = acks
        self._ids = ids
        self._batch: tuple[Anchor, tuple[int, ...]] = (None, ())  # the pairs of the last batch, and their roots

    def segment(self, origin: Origin, items: Sequence[Item], anchors: Sequence[Anchor] | None, root: int) -> Segment:
        """Rows of one root under a new edge."""
        if anchors is None:
            made = Segment(origin, items)
        elif root != MANY:
            xors, edge = self._acks.xors, self._ids.take()
            xors[root] = xors.get(root, 0) ^ edge
            made = Segment(origin, items, root, edge, anchors)
        else:
            xors, edges = self._acks.xors, dict[int, int]()
            for anchor in self._roots(anchors):
                edge = edges[anchor] = self._ids.take()
                xors[anchor] = xors.get(anchor, 0) ^ edge
            made = Segment(origin, items, lineage=Lineage(edges, anchors))
        made.sent_s = self._stopwatch()
        if self._acks.tracer.roots:
            self._acks.tracer.mark(made)
        if self.stamps is not None:
            self.stamps.stamp(made)
        return made

    def _roots(self, anchors: Sequence[Anchor]) -> Iterable[int]:
        """The roots of rows with several anchors. Rows of one batch share their pairs, and so do its segments."""
        if not isinstance(anchors, RepeatedAnchor):
            return dict.fromkeys(
                anchor for pairs in {id(pairs): pairs for pairs in anchors}.values() for anchor, _ in pairs
            )
        pairs, roots = self._batch
        if pairs is not anchors.anchor:
            roots = tuple(dict.fromkeys([anchor for anchor, _ in anchors.anchor]))
            self._batch = anchors.anchor, roots
        return roots


class _Withheld:
    """What is not sent yet for a root."""

    __slots__ = ("detached", "failures", "xor")

    def __init__(self) -> None:
        self.xor = 0
        self.failures: list[tuple[int, int, Failure]] = []
        self.detached: list[SubTree] = []


def _roots(segment: Segment) -> Iterable[int]:
    if segment.lineage is not None:
        return segment.lineage.edges
    return (segment.root,) if segment.root else ()
