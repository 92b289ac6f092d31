"""Local first: a shuffle among near tasks while one of them has room, else among all. JStorm: LocalFirstGrouper."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..streams import StreamId
from ..tuples import Row
from .base import GroupingContext
from .shares import Share
from .shuffle import ShuffleGrouping
from .spreading import Rest, Room, Spreading


class LocalFirstGrouping(Spreading):
    """Shuffle among the targets in the same worker while one has room, else the same node, else all."""

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
        return (self.split((values,), None)[0][0],)

    def deal(self, rows: Sequence[Any], marks: Sequence[Any] | None, room: Room) -> tuple[list[Share], Rest | None]:
        """Deal to the nearest ring that has room; what it does not take is the rest, also if a wider one would."""
        for ring in self._rings[:-1]:
            if any(room(target) > 0 for target in ring.targets):
                return ring.deal(rows, marks, room)
        return self._rings[-1].deal(rows, marks, room)

    def place(self, room: Room) -> int | None:
        """The target of a batch of columns."""
        for ring in self._rings[:-1]:
            if any(room(target) > 0 for target in ring.targets):
                return ring.place(room)
        return self._rings[-1].place(room)

    def split(self, rows: Sequence[Any], marks: Sequence[Any] | None) -> list[Share]:
        """To the nearest ring with a target below its high mark; when there is none, to all."""
        shares, rest = self.deal(rows, marks, self._below_mark)
        return shares if rest is None else self._rings[-1].split(rows, marks)

    split_values = split
