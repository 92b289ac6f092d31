"""Following: the watches of one supervisor: all assignments, and the records of the topologies that concern it.

A change of another topology wakes no supervisor but those that run it: with 1,000 nodes, each of which would read what
each parent writes, the store would do little else (docs/notes/large-clusters.md).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Self

from ..coordination import any_changed
from ..nimbus import ASSIGNMENTS, PARENTS, TOPOLOGIES, path_of

if TYPE_CHECKING:
    from collections.abc import Collection

    from ..coordination import Coordination, Watch


class Following:
    """What one session of a supervisor watches."""

    def __init__(self, coordination: Coordination, assignments: Watch) -> None:
        self._coordination = coordination
        self._assignments = assignments
        self._of_topologies: dict[str, list[Watch]] = {}

    @classmethod
    async def begin(cls, coordination: Coordination) -> Self:
        """Watch all assignments."""
        return cls(coordination, await coordination.watch(ASSIGNMENTS))

    async def follow(self, names: Collection[str]) -> bool:
        """Watch the records of these topologies, and of no other. True: some were not watched: read them again."""
        for name in self._of_topologies.keys() - set(names):
            for watch in self._of_topologies.pop(name):
                watch.close()
        new = sorted(set(names) - self._of_topologies.keys())
        for name in new:
            paths = [path_of(folder, name) for folder in (TOPOLOGIES, PARENTS)]
            self._of_topologies[name] = [await self._coordination.watch(path) for path in paths]
        return bool(new)

    async def changed(self, within_s: float | None) -> None:
        """Wait until something of it may have changed, or the time is over."""
        await any_changed([self._assignments, *(w for each in self._of_topologies.values() for w in each)], within_s)

    def close(self) -> None:
        """Watch no longer."""
        self._assignments.close()
        for watches in self._of_topologies.values():
            for watch in watches:
                watch.close()
