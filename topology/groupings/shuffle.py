"""Shuffle: rows are distributed evenly over the targets with free capacity, whatever their values.

A round deals one row to each target, in an order that is drawn for each round. A batch is dealt like this (3 targets, a
round of which one target was left):

    rows   r0 │ r1 r2 r3 │ r4 r5 r6 │ r7
           ╰─ end of the old round   ╰─ start of a new one; its rest is dealt by the next call
               ╰─ whole rounds, each permuted in one step

1. Of k·n rows from one emitter each of n targets gets exactly k, however the rows were cut into batches, as long as all
   targets have free capacity. If the targets need far less than a millisecond for a row, a round deals a piece of
   several rows to each (pieces.py): it is even over k·n pieces.
2. A full target loses its turns while another one has free capacity.
3. Rows that fit nowhere are the rest, which may go to any target (`Spreading`).
4. A batch of columns counts as one row of a round of single rows, whatever its size (`place`).
5. Orders come from a table, drawn once for all emitters of a process; each round of each emitter draws an entry.

Storm: ShuffleGrouping (round robin over a shuffled list). Using free capacity is ours; Storm's
LoadAwareShuffleGrouping gets the load in messages once a second (depart).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import itemgetter
from typing import TYPE_CHECKING

from ..values import Anchor, Item
from .pieces import piece_size
from .shares import Share, share_each, share_slices
from .spreading import FreeCapacity, Rest, Spreading

if TYPE_CHECKING:
    from random import Random

    from ..streams import StreamId
    from ..tuples import Row
    from .base import GroupingContext

_ORDERS = 64
_FEW = 32

_Tables = tuple[list[list[int]], list[Callable[[Sequence[Item]], tuple[Item, ...]]]]


def _tables(targets: Sequence[int], rng: Random) -> _Tables:
    """Random orders, as targets and as functions that permute one round of rows. Indexed by a random byte."""
    places = list(range(len(targets)))
    orders = [sorted(places, key=lambda _: rng.random()) for _ in range(_ORDERS)] if len(targets) > 1 else []
    permute: list[Callable[[Sequence[Item]], tuple[Item, ...]]] = [itemgetter(*order) for order in orders]
    repeats = 256 // _ORDERS
    return [[targets[place] for place in order] for order in orders] * repeats, permute * repeats


class ShuffleGrouping(Spreading):
    """Round robin in a random order, drawn for each round."""

    def prepare(self, context: GroupingContext, stream: StreamId, targets: Sequence[int]) -> None:
        """Draw the table of orders."""
        super().prepare(context, stream, targets)
        self._rng = context.rng
        self._left: list[int] = []
        self._size = 1  # rows of a piece, in this round
        self._more = self._to = 0  # rows left of a piece, and its target
        # One table for all tasks of this process that emit to these targets: with a thousand tasks on both sides, a
        # table for each would take most of the start time and memory. Each task draws its own next entry.
        tables: _Tables | None = context.shared.get((ShuffleGrouping, self.targets))
        if tables is None:
            tables = context.shared[ShuffleGrouping, self.targets] = _tables(self.targets, context.rng)
        self._orders, self._permute = tables

    def choose(self, values: Row) -> Sequence[int]:
        """The next target of the round."""
        return (self.split((values,), None)[0][0],)

    def only_target(self) -> int | None:
        """The only target, if there is just one."""
        return self.targets[0] if len(self.targets) == 1 else None

    def split(self, rows: Sequence[Item], anchors: Sequence[Anchor] | None) -> list[Share]:
        """Shares for an edge without waiting, or for a single target."""
        if len(self.targets) == 1:
            return [(self.targets[0], rows, anchors)] if rows else []
        return super().split(rows, anchors)

    split_values = split

    def deal(
        self, rows: Sequence[Item], anchors: Sequence[Anchor] | None, free: FreeCapacity
    ) -> tuple[list[Share], Rest | None]:
        """Whole rounds while all targets have free capacity, else round by round over those that have."""
        count = len(rows)
        if not count:
            return [], None
        if self._size > 1 or (count > len(self._left) and len(self.targets) > 1 and self._piece_size() > 1):
            return self._in_pieces(rows, anchors, free)
        if count == 1:
            target = self._one(free)
            return ([], Rest(rows, anchors)) if target is None else ([(target, rows, anchors)], None)
        capacities = list(map(free, self.targets))
        # No target gets more than whole rounds and a turn of each of the rounds at the ends.
        if min(capacities) >= count // len(capacities) + 2:
            return self._split_evenly(rows, anchors), None
        picks = self._skipping_full(count, dict(zip(self.targets, capacities, strict=True)))
        dealt = len(picks)
        if dealt == count:
            return share_each(picks, rows, anchors), None
        rest = Rest(rows[dealt:], None if anchors is None else anchors[dealt:])
        return share_each(picks, rows, anchors) if dealt else [], rest

    deal_values = deal  # the rows are not read

    def place(self, free: FreeCapacity) -> int | None:
        """The target of a batch of columns."""
        return self._one(free)

    def _piece_size(self) -> int:
        return piece_size(self.targets, self.context.row_s)

    def _in_pieces(
        self, rows: Sequence[Item], anchors: Sequence[Anchor] | None, free: FreeCapacity
    ) -> tuple[list[Share], Rest | None]:
        """Piece by piece to targets with free capacity; the last piece continues with the next batch."""
        count, n_targets = len(rows), len(self.targets)
        capacities: dict[int, int] = {}
        slices: dict[int, list[slice]] = {}
        at = skipped = 0
        while at < count:
            if not self._more:
                if skipped >= 2 * n_targets:  # these contain a whole round
                    break
                if not self._left:
                    self._left = self._orders[self._rng.getrandbits(8)].copy()
                    self._size = self._piece_size()
                self._to, self._more = self._left.pop(), self._size
            target = self._to
            capacity = capacities[target] if target in capacities else free(target)
            some = min(self._more, capacity, count - at)
            if some <= 0:
                self._more = 0
                skipped += 1
                continue
            slices.setdefault(target, []).append(slice(at, at + some))
            capacities[target] = capacity - some
            self._more -= some
            at += some
            skipped = 0
        if at < count:
            rest = Rest(rows[at:], None if anchors is None else anchors[at:])
            return share_slices(slices, rows, anchors), rest
        if len(slices) == 1:  # small batches, within one piece
            return [(self._to, rows, anchors)], None
        return share_slices(slices, rows, anchors), None

    def _one(self, free: FreeCapacity) -> int | None:
        """The target of one row."""
        left = self._left
        for place in range(len(left) - 1, -1, -1):
            if free(target := left[place]) > 0:
                del left[place:]
                return target
        if len(self.targets) == 1:
            return self.targets[0] if free(self.targets[0]) > 0 else None
        order = self._orders[self._rng.getrandbits(8)]
        for place in range(len(order) - 1, -1, -1):
            if free(target := order[place]) > 0:
                self._left = order[:place]
                return target
        return None

    def _skipping_full(self, count: int, capacities: dict[int, int]) -> list[int]:
        """The targets of the next rows, as many as fit."""
        picks: list[int] = []
        left = self._left
        takers = [target for target, capacity in capacities.items() if capacity > 0]
        while takers and len(picks) < count:
            if not left:
                left = takers.copy()
                self._rng.shuffle(left)
            target = left.pop()
            capacity = capacities[target]
            if capacity > 0:
                picks.append(target)
                capacities[target] = capacity - 1
                if capacity == 1:
                    takers.remove(target)
        self._left = left
        return picks

    def _picks(self, count: int) -> list[int]:
        """The targets of the next rows if no target is skipped."""
        left = self._left
        while len(left) < count:
            left = self._orders[self._rng.getrandbits(8)] + left  # dealt from the end
        at = len(left) - count
        self._left = left[:at]
        return left[at:][::-1]

    def _split_evenly(self, rows: Sequence[Row], anchors: Sequence[Anchor] | None) -> list[Share]:
        """Many rows: whole rounds are permuted and transposed in C; only the ends are dealt one by one."""
        if len(self.targets) == 1:
            return [(self.targets[0], rows, anchors)]
        if len(rows) < _FEW:
            return share_each(self._picks(len(rows)), rows, anchors)
        head = len(self._left)
        rounds, tail = divmod(len(rows) - head, len(self.targets))
        if rounds <= 0:
            return share_each(self._picks(len(rows)), rows, anchors)
        drawn = self._rng.randbytes(rounds)
        end = len(rows) - tail
        targets = self._picks(head)
        ends = [*range(head), *range(end, len(rows))]
        targets += self._picks(tail)
        shares = self._whole_rounds(rows, drawn, head, end, targets, ends)
        if anchors is None:
            return [(target, shares[target], None) for target in self.targets]
        share_anchors = self._whole_rounds(anchors, drawn, head, end, targets, ends)
        return [(target, shares[target], share_anchors[target]) for target in self.targets]

    def _whole_rounds(
        self, items: Sequence[Item], drawn: bytes, head: int, end: int, targets: list[int], ends: list[int]
    ) -> dict[int, list[Item]]:
        """Items by target: whole rounds between `head` and `end`, and the ends that were dealt one by one."""
        rounds = zip(*[iter(items[head:end])] * len(self.targets))  # noqa: B905 - its length is whole rounds
        permute = self._permute
        columns = zip(*[permute[order](dealt) for order, dealt in zip(drawn, rounds)])  # noqa: B905
        shares = dict(zip(self.targets, map(list, columns)))  # noqa: B905
        for target, i in zip(targets, ends):  # noqa: B905
            if i < head:
                shares[target].insert(0, items[i])
            else:
                shares[target].append(items[i])
        return shares
