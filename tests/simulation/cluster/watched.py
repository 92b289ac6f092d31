"""The store of the world of clusters: who writes assignments, and what moves."""

from __future__ import annotations

from collections.abc import Sequence

from aiostorm.cluster.coordination import HOLDER, Operation
from aiostorm.cluster.coordination.tree import Tree
from aiostorm.cluster.nimbus import (
    ASSIGNMENTS,
    REASSIGN_S,
    SUPERVISORS,
    AssignmentRecord,
    SupervisorRecord,
    path_of,
    unpack,
)
from aiostorm.testing.simulation import World

NAME = "numbers"
LOOK_S = 0.1
"""So often the world looks which supervisors are there."""


class WatchedTree(Tree):
    """Also checks who writes assignments, and what they change."""

    def __init__(self, world: World) -> None:
        super().__init__()
        self.world = world
        self.silent_s = 0.0
        self.missing_since_s: dict[str, float] = {}
        self.moves = 0

    def apply(self, operations: Sequence[Operation], session: int) -> tuple[int, ...]:
        before = self._assignment()
        versions = super().apply(operations, session)
        self.look_at_supervisors()
        if any(operation.path.startswith(f"{ASSIGNMENTS}/") for operation in operations):
            holder = self.nodes.get(HOLDER)
            if holder is None or holder.session != session:
                self.world.problem("an assignment was written by one who does not lead")
            after = self._assignment()
            if before is not None and after is not None and before.generation == after.generation:
                self._check_moves(before, after)
        return versions

    def _assignment(self) -> AssignmentRecord | None:
        path = path_of(ASSIGNMENTS, NAME)
        node = self.nodes.get(path)
        return None if node is None else unpack(AssignmentRecord, path, node.value)

    def look_at_supervisors(self) -> None:
        """Who is missing, and since when?"""
        for name in ("a", "b", "c"):
            if path_of(SUPERVISORS, name) in self.nodes:
                self.missing_since_s.pop(name, None)
            else:
                self.missing_since_s.setdefault(name, self.world.now_s)

    def _check_moves(self, before: AssignmentRecord, after: AssignmentRecord) -> None:
        pairs = [(before.parent, after.parent), *zip(before.workers, after.workers, strict=True)]
        for old, new in pairs:
            if old != new:
                self.moves += 1
                silent_s = self.world.now_s - self.missing_since_s.get(old, self.world.now_s) + self.silent_s
                if silent_s < REASSIGN_S - LOOK_S and not self._fails(old):
                    self.world.problem(f"a process was moved from {old}, which was silent for {silent_s:g} s")

    def _fails(self, supervisor: str) -> bool:
        node = self.nodes.get(path_of(SUPERVISORS, supervisor))
        return node is not None and bool(unpack(SupervisorRecord, SUPERVISORS, node.value).failed)
