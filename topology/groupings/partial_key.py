"""Partial key: equal keys go to one of two tasks, the less used one.

Storm: PartialKeyGrouping (M. A. U. Nasir et al., "The power of both choices", ICDE 2015). The two candidates are always
distinct (Storm 1 may draw the same twice, Storm 2 does not).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, overload

from ..tuples.columns import ColumnRows
from .keyed import KeyedGrouping
from .shares import Share, share_each
from .spreading import UNLIMITED, ColumnDeal, FreeCapacity, Rest, Spreading

if TYPE_CHECKING:
    from ..column_keys import Hashes
    from ..column_split import Places
    from ..streams import StreamId
    from ..tuples import Row
    from ..values import Anchor, Item, Value
    from .base import GroupingContext


class PartialKeyGrouping(KeyedGrouping[tuple[int, int]], Spreading):
    """Two candidate tasks per key; each row goes to the one that this emitter has used less, a tie to the first.

    A full candidate is skipped while the other has free capacity; if both are full, the row waits for either.
    A very frequent key is shared by two tasks; the consumer's counts must be added up downstream.
    """

    def prepare(self, context: GroupingContext, stream: StreamId, targets: Sequence[int]) -> None:
        """Start counting at zero."""
        super().prepare(context, stream, targets)
        self.used = dict.fromkeys(self.targets, 0)

    def _remembered_for(self) -> object:
        return self.targets  # the candidates are task ids

    def _compute(self, hashed: int) -> tuple[int, int]:
        """The two candidates; distinct when there is more than one target."""
        if len(self.targets) == 1:
            return (self.targets[0], self.targets[0])
        first, second = self.candidates(hashed)
        return (self.targets[first], self.targets[second])

    @overload
    def candidates(self, hashed: int) -> tuple[int, int]: ...
    @overload
    def candidates(self, hashed: Hashes) -> tuple[Hashes, Hashes]: ...
    def candidates(self, hashed: int | Hashes) -> tuple[int | Hashes, int | Hashes | Places]:
        """The indices of the two candidates of a hash (or of each hash of an array), for more than one target."""
        count = len(self.targets)
        first = hashed % count
        second = hashed // count % (count - 1)
        return first, second + (second >= first)

    def choose(self, values: Row) -> Sequence[int]:
        """The less used of the two candidates."""
        return (self.split((values,), None)[0][0],)

    def deal(
        self, rows: Sequence[Row], anchors: Sequence[Anchor] | None, free: FreeCapacity
    ) -> tuple[list[Share], Rest | None]:
        """Shares by the less used candidate of each row's key with free capacity."""
        pairs = [self._lookup_one(rows)] if len(rows) == 1 else self._lookup(rows)
        return self._by_pairs(pairs, rows, anchors, free)

    def deal_values(
        self, rows: Sequence[Value], anchors: Sequence[Anchor] | None, free: FreeCapacity
    ) -> tuple[list[Share], Rest | None]:
        """The same for rows with a single value."""
        return self._by_pairs(self._lookup_values(rows), rows, anchors, free)

    def places(self, hashes: Hashes) -> Places:
        """The less used candidate of each hash."""
        return self._less_used(*self.candidates(hashes), [True] * len(self.targets))

    def deal_columns(self, rows: ColumnRows, free: FreeCapacity) -> ColumnDeal | None:
        """Shares of a batch for targets with free capacity; waiting rows may go to either candidate."""
        import numpy as np

        from ..column_split import WaitingRows, dealt, rows_at

        batch, targets = rows.batch, self.targets
        firsts, seconds = (found.astype(np.int64) for found in self.candidates(self.hashes_of(batch)))
        places = self._less_used(firsts, seconds, [free(target) > 0 for target in targets])
        now = np.flatnonzero(places >= 0)
        if len(now) == len(places):
            return dealt(batch, None, places, targets), None
        waits = np.flatnonzero(places < 0)
        shares = dealt(batch, now, places[now], targets) if len(now) else []
        left = ColumnRows(rows_at(batch, waits), rows.bare)
        return shares, WaitingRows(left, firsts[waits], seconds[waits], targets)

    def _less_used(self, firsts: Hashes | Places, seconds: Hashes | Places, has_capacity: Sequence[bool]) -> Places:
        """For each row the index of its target: rows of a pair of candidates are dealt so that both are equally used.

        If one of them is full, the rows go to the other; if both are full, the index is -1.
        """
        import numpy as np

        count, used, targets = len(self.targets), self.used, self.targets
        pairs = firsts.astype(np.int64) * count + seconds.astype(np.int64)
        order = np.argsort(pairs, kind="stable")
        distinct, begins = np.unique(pairs[order], return_index=True)
        places = np.full(len(firsts), -1, np.int64)
        numbers: list[int] = distinct.tolist()
        for pair, rows in zip(numbers, np.split(order, begins[1:]), strict=True):
            first, second = divmod(pair, count)
            one, other = targets[first], targets[second]
            if has_capacity[first] and has_capacity[second]:
                # Equal use, with a tie to the first; at least none and at most all rows.
                ahead = min(max((used[other] - used[one] + len(rows) + 1) // 2, 0), len(rows))
            elif has_capacity[first] or has_capacity[second]:
                ahead = len(rows) if has_capacity[first] else 0
            else:
                continue
            places[rows[:ahead]], places[rows[ahead:]] = first, second
            used[one] += ahead
            used[other] += len(rows) - ahead
        return places

    def on_taken(self, target: int, count: int) -> None:
        """A target has taken rows of the rest: count them as its use."""
        self.used[target] += count

    def _by_pairs(
        self,
        pairs: list[tuple[int, int]],
        items: Sequence[Item],
        anchors: Sequence[Anchor] | None,
        free: FreeCapacity,
    ) -> tuple[list[Share], Rest | None]:
        if not items:
            return [], None
        # The keys were still looked up: an invalid key must be an error here too.
        if len(self.targets) == 1 and free(self.targets[0]) >= len(items):
            return [(self.targets[0], items, anchors)], None
        used = self.used
        capacities = {target: free(target) for target in (pairs[0] if len(items) == 1 else self.targets)}
        chosen: list[int] = []
        if min(capacities.values()) >= len(items):
            for first, second in pairs:
                target = first if used[first] <= used[second] else second
                used[target] += 1
                chosen.append(target)
            return share_each(chosen, items, anchors), None
        left: list[int] = []
        for i, (first, second) in enumerate(pairs):
            target, other = (first, second) if used[first] <= used[second] else (second, first)
            if capacities[target] <= 0:
                target = other
            if capacities[target] > 0:
                capacities[target] -= 1
                used[target] += 1
                chosen.append(target)
            else:
                left.append(i)
        if not left:
            return share_each(chosen, items, anchors), None
        rest = Rest([items[i] for i in left], _at(anchors, left), [pairs[i] for i in left])
        waits = set(left)
        dealt = [i for i in range(len(items)) if i not in waits]
        return share_each(chosen, [items[i] for i in dealt], _at(anchors, dealt)), rest

    def _below_mark(self, target: int) -> int:
        return UNLIMITED  # on an edge without waiting, only the use counts


def _at(anchors: Sequence[Anchor] | None, places: Sequence[int]) -> Sequence[Anchor] | None:
    return None if anchors is None else [anchors[i] for i in places]
