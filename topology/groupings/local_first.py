"""Local first: a shuffle among near tasks while one has free capacity, else among all. JStorm: LocalFirstGrouper."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from .shuffle import ShuffleGrouping
from .spreading import FreeCapacity, Rest, Spreading

if TYPE_CHECKING:
    from ..streams import StreamId
    from ..tuples import Row
    from ..values import Anchor, Item
    from .base import GroupingContext
    from .shares import Share


class LocalFirstGrouping(Spreading):
    """Shuffle among the targets in the same worker while one has free capacity, else the same node, else all."""

    def prepare(self, context: GroupingContext, stream: StreamId, targets: Sequence[int]) -> None:
        """Make one shuffle for each ring (worker, node, all) of targets."""
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
        """The next target of the nearest ring with free capacity."""
        return (self.split((values,), None)[0][0],)

    def deal(
        self, rows: Sequence[Item], anchors: Sequence[Anchor] | None, free: FreeCapacity
    ) -> tuple[list[Share], Rest | None]:
        """Deal to the nearest ring with free capacity; rows that do not fit there are the rest."""
        for ring in self._rings[:-1]:
            if any(free(target) > 0 for target in ring.targets):
                return ring.deal(rows, anchors, free)
        return self._rings[-1].deal(rows, anchors, free)

    def place(self, free: FreeCapacity) -> int | None:
        """The target of a batch of columns."""
        for ring in self._rings[:-1]:
            if any(free(target) > 0 for target in ring.targets):
                return ring.place(free)
        return self._rings[-1].place(free)

    def split(self, rows: Sequence[Item], anchors: Sequence[Anchor] | None) -> list[Share]:
        """To the nearest ring with a target below its high mark; when there is none, to all."""
        shares, rest = self.deal(rows, anchors, self._below_mark)
        return shares if rest is None else self._rings[-1].split(rows, anchors)

    split_values = split
