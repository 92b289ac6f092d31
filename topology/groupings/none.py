"""None: any task that has room, drawn at random for each row. Storm: none grouping."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..tuples import Row
from .shares import Share, share_each
from .spreading import Rest, Room, Spreading


class NoneGrouping(Spreading):
    """The emitter does not care: for each row a random one of the targets that have room."""

    def choose(self, values: Row) -> Sequence[int]:
        """Any target."""
        return (self.split((values,), None)[0][0],)

    def deal(self, rows: Sequence[Any], marks: Sequence[Any] | None, room: Room) -> tuple[list[Share], Rest | None]:
        """Any target for each row."""
        rooms = {target: found for target in self.targets if (found := room(target)) > 0}
        count, rng = len(rows), self.context.rng
        takers = list(rooms)
        if len(self.targets) == 1 and count and rooms and rooms[takers[0]] >= count:
            return [(takers[0], rows, marks)], None
        picks: list[int] = []
        while takers and len(picks) < count:
            some = min(count - len(picks), min(rooms.values()))  # so many fit wherever they go
            drawn = rng.choices(takers, k=some)
            picks += drawn
            for target in drawn:
                rooms[target] -= 1
            rooms = {target: left for target, left in rooms.items() if left}
            takers = list(rooms)
        dealt = len(picks)
        if dealt == count:
            return share_each(picks, rows, marks), None
        rest = Rest(rows[dealt:], None if marks is None else marks[dealt:])
        return share_each(picks, rows, marks) if dealt else [], rest
