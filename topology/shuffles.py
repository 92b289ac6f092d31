"""Shuffle-like groupings: rows are spread evenly, whatever they hold.

A round deals one row to each target, in an order drawn anew for each round. A batch is dealt like this (3 targets, a
round of which one target was left):

    rows   r0 │ r1 r2 r3 │ r4 r5 r6 │ r7
           ╰─ end of the old round   ╰─ start of a new one; its rest is dealt by the next call
               ╰─ whole rounds, each permuted in one step

1. Over k·n rows from one emitter every one of n targets gets exactly k, however the rows were cut into batches, as long
   as no target was over its high mark.
2. A target that is over its high mark loses its turns while another target is not.
3. If all are, those who took most while others were skipped go first, each with as much as it takes in one go: the
   emitter has to wait, and with a row for a slow target it would wait for that one, while the others run out of work.
   What is left then is dealt to all.
4. Orders come from a table drawn once by `prepare`; each round draws its entry.

Storm: ShuffleGrouping (round robin over a shuffled list), LocalOrShuffleGrouping; JStorm: LocalFirstGrouper. The high
marks are ours; Storm's LoadAwareShuffleGrouping learns of load by messages once a second (depart).
"""

from __future__ import annotations

from collections.abc import Sequence
from operator import itemgetter
from typing import Any

from .groupings import Grouping, GroupingContext, Share, never, share_each
from .streams import StreamId
from .tuples import Row

_ORDERS = 64
_FEW = 32
_LATELY = 4_096
_NOBODY: frozenset[int] = frozenset()


class ShuffleGrouping(Grouping):
    """Round robin in a random order, redrawn each round."""

    def prepare(self, context: GroupingContext, stream: StreamId, targets: Sequence[int]) -> None:
        """Draw the table of orders."""
        super().prepare(context, stream, targets)
        self._rng = context.rng
        self._watched = context.is_high is not never
        self._left: list[int] = []
        self._taken = dict.fromkeys(self.targets, 0)  # so many lately, while others were skipped
        count = len(self.targets)
        places = list(range(count))
        orders = [sorted(places, key=lambda _: context.rng.random()) for _ in range(_ORDERS)] if count > 1 else []
        # As targets, and as a function that permutes one round of rows. Indexed by a random byte.
        self._orders = [[self.targets[place] for place in order] for order in orders] * (256 // _ORDERS)
        self._permute = [itemgetter(*order) for order in orders] * (256 // _ORDERS)

    def choose(self, values: Row) -> Sequence[int]:
        """The next target of the round."""
        if len(self.targets) == 1:
            return self.targets
        return (self._one(),)

    def split(self, rows: Sequence[Any], marks: Sequence[Any] | None) -> list[Share]:
        """Deal a batch."""
        if not rows:
            return []
        if len(self.targets) == 1:
            return [(self.targets[0], rows, marks)]
        if len(rows) == 1:
            return [(self._one(), rows, marks)]
        high = self._high()
        picks = self._around(high, len(rows)) if high else []
        if picks:
            return share_each(picks + self._picks(len(rows) - len(picks)), rows, marks)
        if len(rows) < _FEW:
            return share_each(self._picks(len(rows)), rows, marks)
        return self._deal(rows, marks)

    split_values = split  # nobody looks into what is dealt

    def _high(self) -> frozenset[int]:
        """The targets over their high mark."""
        if not self._watched:
            return _NOBODY
        is_high = self.context.is_high
        return frozenset([target for target in self.targets if is_high(target)])

    def _one(self) -> int:
        target = self._next(_NOBODY)
        if self._watched and self.context.is_high(target):
            return next(iter(self._around(self._high(), 1)), target)
        return target

    def _around(self, high: frozenset[int], count: int) -> list[int]:
        """The targets of the next rows when some are over their high mark. When all are: of those that may wait."""
        if len(high) == len(self.targets):
            return self._waiting(count)
        picks, taken = [self._next(high) for _ in range(count)], self._taken
        for target in picks:
            taken[target] += 1
        if max(taken.values()) > _LATELY:
            for target in taken:
                taken[target] //= 2
        return picks

    def _waiting(self, count: int) -> list[int]:
        """For the first of the next rows, the targets that are best to wait for."""
        picks: list[int] = []
        order = self._orders[self._rng.getrandbits(8)]
        for target in sorted(order, key=self._taken.__getitem__, reverse=True):
            picks += [target] * min(self.context.may_wait(target), count - len(picks))
        return picks

    def _next(self, high: frozenset[int]) -> int:
        left = self._left
        while True:
            if not left:
                left = self._left = self._orders[self._rng.getrandbits(8)].copy()
            target = left.pop()
            if target not in high:
                return target

    def _picks(self, count: int) -> list[int]:
        """The targets of the next rows, when nobody is skipped."""
        left = self._left
        while len(left) < count:
            left = self._orders[self._rng.getrandbits(8)] + left  # dealt from the end
        at = len(left) - count
        self._left = left[:at]
        return left[at:][::-1]

    def _deal(self, rows: Sequence[Row], marks: Sequence[Any] | None) -> list[Share]:
        """Many rows: whole rounds are permuted and turned into columns in C; only the ends are dealt one by one."""
        head = len(self._left)
        rounds, tail = divmod(len(rows) - head, len(self.targets))
        if rounds <= 0:
            return share_each(self._picks(len(rows)), rows, marks)
        drawn = self._rng.randbytes(rounds)
        end = len(rows) - tail
        targets = self._picks(head)
        ends = [*range(head), *range(end, len(rows))]
        targets += self._picks(tail)
        shares = self._whole(rows, drawn, head, end, targets, ends)
        if marks is None:
            return [(target, shares[target], None) for target in self.targets]
        share_marks = self._whole(marks, drawn, head, end, targets, ends)
        return [(target, shares[target], share_marks[target]) for target in self.targets]

    def _whole(
        self, items: Sequence[Any], drawn: bytes, head: int, end: int, targets: list[int], ends: list[int]
    ) -> dict[int, list[Any]]:
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


class NoneGrouping(Grouping):
    """The emitter does not care: a random target for each row, one that is not over its high mark if there is any."""

    def choose(self, values: Row) -> Sequence[int]:
        """Any target."""
        return (self.context.rng.choice(self._candidates()),)

    def split(self, rows: Sequence[Any], marks: Sequence[Any] | None) -> list[Share]:
        """Any target for each row."""
        candidates = self._candidates()
        if len(candidates) == 1 or len(rows) == 1:
            return [(self.context.rng.choice(candidates), rows, marks)] if rows else []
        return share_each(self.context.rng.choices(candidates, k=len(rows)), rows, marks)

    split_values = split

    def _candidates(self) -> Sequence[int]:
        is_high = self.context.is_high
        if is_high is never:
            return self.targets
        return [target for target in self.targets if not is_high(target)] or self.targets


class LocalOrShuffleGrouping(ShuffleGrouping):
    """Shuffle among the targets in the emitter's own worker; among all if there are none."""

    def prepare(self, context: GroupingContext, stream: StreamId, targets: Sequence[int]) -> None:
        """Keep the local targets if there are any."""
        super().prepare(context, stream, [target for target in targets if target in context.local] or targets)


class LocalFirstGrouping(Grouping):
    """Shuffle among the targets in the same worker while one is below its high mark, else the same node, else all."""

    def prepare(self, context: GroupingContext, stream: StreamId, targets: Sequence[int]) -> None:
        """Make one shuffle for each ring of targets."""
        super().prepare(context, stream, targets)
        rings = [
            [target for target in targets if target in context.local],
            [target for target in targets if target in context.local or target in context.same_node],
        ]
        self._rings: list[ShuffleGrouping] = []
        for ring in [ring for ring in rings if ring] + [list(targets)]:
            shuffle = ShuffleGrouping()
            shuffle.prepare(context, stream, ring)
            self._rings.append(shuffle)

    def choose(self, values: Row) -> Sequence[int]:
        """The next target of the nearest ring that has room."""
        return self._nearest().choose(values)

    def split(self, rows: Sequence[Any], marks: Sequence[Any] | None) -> list[Share]:
        """Deal a batch to the nearest ring that has room."""
        return self._nearest().split(rows, marks)

    split_values = split

    def _nearest(self) -> ShuffleGrouping:
        is_high = self.context.is_high
        for ring in self._rings[:-1]:
            for target in ring.targets:
                if not is_high(target):
                    return ring
        return self._rings[-1]
