"""The store of the world of clusters: who writes assignments, and what moves."""

from __future__ import annotations

from collections.abc import Sequence

from aiostorm.cluster.coordination import HOLDER, Operation, Put
from aiostorm.cluster.coordination.tree import Tree
from aiostorm.cluster.nimbus import (
    ASSIGNMENTS,
    PARENTS,
    REASSIGN_S,
    SUPERVISORS,
    TOPOLOGIES,
    AssignmentRecord,
    ParentRecord,
    SupervisorRecord,
    TopologyRecord,
    path_of,
    unpack,
)
from aiostorm.testing.simulation import World

NAME = "numbers"
LOOK_S = 0.1
"""So often the world looks which supervisors are there."""

QUIET_S = 5.0
"""So long a topology of the world must have run before nimbus rebalances it by itself."""


class WatchedTree(Tree):
    """Also checks who writes assignments, and what they change. `labelled`: nodes to which a component is pinned."""

    def __init__(self, world: World) -> None:
        super().__init__()
        self.world = world
        self.silent_s = 0.0
        self.labelled = ""
        self.missing_since_s: dict[str, float] = {}
        self.moves = 0
        self.joined, self.joined_s = 0, float("-inf")

    def apply(self, operations: Sequence[Operation], session: int) -> tuple[int, ...]:
        before = self._assignment()
        versions = super().apply(operations, session)
        self.look_at_supervisors()
        if any(operation.path == path_of(TOPOLOGIES, NAME) for operation in operations if isinstance(operation, Put)):
            self._check_joining(session)
        if any(operation.path.startswith(f"{ASSIGNMENTS}/") for operation in operations):
            holder = self.nodes.get(HOLDER)
            if holder is None or holder.session != session:
                self.world.problem("an assignment was written by one who does not lead")
            after = self._assignment()
            if after is not None:
                self._check_labels(after)
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

    def _check_labels(self, after: AssignmentRecord) -> None:
        for index, on in enumerate(after.workers):
            if after.labels_of(index) and on not in self.labelled:
                self.world.problem(f"a worker with tasks of a pinned component is placed on {on}")

    def _check_joining(self, session: int) -> None:
        """A rebalance by nimbus itself: not too often, and only of a topology that runs."""
        holder = self.nodes.get(HOLDER)
        record = unpack(TopologyRecord, TOPOLOGIES, self.nodes[path_of(TOPOLOGIES, NAME)].value)
        if holder is None or holder.session != session or record.refused is not None:  # a plan is taken back
            return
        self.joined += 1
        assignment, node = self._assignment(), self.nodes.get(path_of(PARENTS, NAME))
        parent = None if node is None else unpack(ParentRecord, PARENTS, node.value)
        if parent is None or assignment is None or parent.generation != assignment.generation or parent.degraded:
            self.world.problem(f"nimbus rebalanced a topology that does not run well: {parent}")
        if self.world.now_s - self.joined_s < QUIET_S:
            self.world.problem(f"nimbus rebalanced again after {self.world.now_s - self.joined_s:g} s")
        self.joined_s = self.world.now_s

    def _fails(self, supervisor: str) -> bool:
        node = self.nodes.get(path_of(SUPERVISORS, supervisor))
        return node is not None and bool(unpack(SupervisorRecord, SUPERVISORS, node.value).failed)
