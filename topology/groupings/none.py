"""None: any task with free capacity, drawn at random for each row. Storm: none grouping."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from .shares import Share, share_each
from .spreading import FreeCapacity, Rest, Spreading

if TYPE_CHECKING:
    from ..tuples import Row
    from ..values import Anchor, Item


class NoneGrouping(Spreading):
    """For each row a random target with free capacity."""

    def choose(self, values: Row) -> Sequence[int]:
        """Any target."""
        return (self.split((values,), None)[0][0],)

    def deal(
        self, rows: Sequence[Item], anchors: Sequence[Anchor] | None, free: FreeCapacity
    ) -> tuple[list[Share], Rest | None]:
        """Any target for each row."""
        capacities = {target: found for target in self.targets if (found := free(target)) > 0}
        count, rng = len(rows), self.context.rng
        takers = list(capacities)
        if len(self.targets) == 1 and count and capacities and capacities[takers[0]] >= count:
            return [(takers[0], rows, anchors)], None
        picks: list[int] = []
        while takers and len(picks) < count:
            some = min(count - len(picks), min(capacities.values()))  # this many fit into any of them
            drawn = rng.choices(takers, k=some)
            picks += drawn
            for target in drawn:
                capacities[target] -= 1
            capacities = {target: left for target, left in capacities.items() if left}
            takers = list(capacities)
        dealt = len(picks)
        if dealt == count:
            return share_each(picks, rows, anchors), None
        rest = Rest(rows[dealt:], None if anchors is None else anchors[dealt:])
        return share_each(picks, rows, anchors) if dealt else [], rest
