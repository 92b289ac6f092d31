"""The store of the world of clusters: who writes assignments, and what moves."""

from __future__ import annotations

from collections.abc import Callable, Sequence

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

from .topology import TARGETS

LOOK_S = 0.1
"""So often the world looks which supervisors are there."""

QUIET_S = 5.0
"""So long a topology of the world must have run before nimbus rebalances it by itself."""

ROUND_S = 2.0
"""The longest time from what a nimbus reads to what it writes, where messages to the store take time."""


class WatchedTree(Tree):
    """Also checks who writes assignments, and what they change. `round_s`: see ROUND_S.

    `labelled`: nodes to which a component is pinned.
    """

    def __init__(self, world: World) -> None:
        super().__init__()
        self.world = world
        self.silent_s = self.round_s = 0.0
        self.labelled = ""
        self.on_expired: Callable[[int], None] = lambda session: None
        self.missing_since_s: dict[str, float] = {}
        self.moves = 0
        self.joined = 0
        self._back: dict[str, tuple[float, float]] = {}  # since when it had been missing, and when it came back
        self._joined_s: dict[str, float] = {}
        self._well_s: dict[str, float] = {}

    def expire(self, now_s: float) -> None:
        before = sorted(self.sessions) if now_s >= self._none_before_s else []
        super().expire(now_s)
        for session in before:
            if session not in self.sessions:
                self.on_expired(session)

    def apply(self, operations: Sequence[Operation], session: int) -> tuple[int, ...]:
        before = {name: self._assignment(name) for name in TARGETS}
        versions = super().apply(operations, session)
        self.look()
        leads = (holder := self.nodes.get(HOLDER)) is not None and holder.session == session
        for name in TARGETS:
            paths = [operation.path for operation in operations if isinstance(operation, Put)]
            if leads and path_of(TOPOLOGIES, name) in paths:
                self._check_joining(name)
            after, was = self._assignment(name), before[name]
            if after is not None:
                self._check_labels(after)
            if was is not None and after is not None and was.generation == after.generation:
                self._check_moves(was, after)
        if not leads and any(operation.path.startswith(f"{ASSIGNMENTS}/") for operation in operations):
            self.world.problem("an assignment was written by one who does not lead")
        return versions

    def look(self) -> None:
        """Which supervisors are missing, and since when? Which topologies run well?"""
        now_s = self.world.now_s
        for name in ("a", "b", "c", "d"):
            if path_of(SUPERVISORS, name) not in self.nodes:
                self.missing_since_s.setdefault(name, now_s)
            elif (since_s := self.missing_since_s.pop(name, None)) is not None:
                self._back[name] = since_s, now_s
        for name in TARGETS:
            assignment, parent = self._assignment(name), self._parent(name)
            if parent is None or assignment is None or parent.degraded:
                continue
            if parent.generation == assignment.generation:
                self._well_s[name] = now_s

    def _assignment(self, name: str) -> AssignmentRecord | None:
        path = path_of(ASSIGNMENTS, name)
        node = self.nodes.get(path)
        return None if node is None else unpack(AssignmentRecord, path, node.value)

    def _parent(self, name: str) -> ParentRecord | None:
        path = path_of(PARENTS, name)
        node = self.nodes.get(path)
        return None if node is None else unpack(ParentRecord, path, node.value)

    def _silent_s(self, supervisor: str) -> float:
        """How long a supervisor was silent, as a nimbus could read a moment ago."""
        now_s = self.world.now_s
        since_s, back_s = self._back.get(supervisor, (now_s, now_s))
        if supervisor in self.missing_since_s:
            since_s = self.missing_since_s[supervisor]
        elif now_s - back_s > self.round_s:
            since_s = now_s
        return now_s - since_s + self.silent_s

    def _check_moves(self, before: AssignmentRecord, after: AssignmentRecord) -> None:
        pairs = [(before.parent, after.parent), *zip(before.workers, after.workers, strict=True)]
        for old, new in pairs:
            if old != new:
                self.moves += 1
                silent_s = self._silent_s(old)
                if silent_s < REASSIGN_S - LOOK_S and not self._fails(old):
                    self.world.problem(f"a process was moved from {old}, which was silent for {silent_s:g} s")

    def _check_labels(self, after: AssignmentRecord) -> None:
        for index, on in enumerate(after.workers):
            if after.labels_of(index) and on not in self.labelled:
                self.world.problem(f"a worker with tasks of a pinned component is placed on {on}")

    def _check_joining(self, name: str) -> None:
        """A rebalance by nimbus itself: not too often, and only of a topology that runs."""
        now_s = self.world.now_s
        record = unpack(TopologyRecord, TOPOLOGIES, self.nodes[path_of(TOPOLOGIES, name)].value)
        if record.refused is not None:  # a plan is taken back
            return
        self.joined += 1
        if now_s - self._well_s.get(name, float("-inf")) > self.round_s:
            self.world.problem(f"nimbus rebalanced a topology that does not run well: {self._parent(name)}")
        if now_s - self._joined_s.get(name, float("-inf")) < QUIET_S:
            self.world.problem(f"nimbus rebalanced again after {now_s - self._joined_s[name]:g} s")
        self._joined_s[name] = now_s

    def _fails(self, supervisor: str) -> bool:
        node = self.nodes.get(path_of(SUPERVISORS, supervisor))
        return node is not None and bool(unpack(SupervisorRecord, SUPERVISORS, node.value).failed)
