"""Isolation: topologies that have nodes of their own. Pure.

    topology.isolate.machines = 2: x      y: no isolation
    nodes: a (x), b (x), c (y), d         x may have a and b; y may have c and d

1. Where a process of an isolated topology is assigned, its parent or a worker, no process of another topology is
   placed; and it is placed only where no other one is.
2. It gets as many nodes as it asks for, at most one for each worker, and no more. Without `fewer` it waits until there
   are as many.
3. Nothing is evicted: others keep their places until they end, move or are rebalanced.
4. A node is a supervisor. Two on one machine are two nodes.

From: `topology.isolate.machines` of Storm's MultitenantScheduler. Storm's IsolationScheduler takes the slots of other
topologies: 3 departs from it, since that interrupts topologies whose users have ordered nothing.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from .records import AssignmentRecord, TopologyRecord

ISOLATE_KEY: Final = "topology.isolate.machines"


def isolated_nodes(topology: TopologyRecord | None) -> int:
    """How many nodes of its own a topology asks for; 0: none."""
    asked = 0 if topology is None else topology.config.get(ISOLATE_KEY)
    if isinstance(asked, bool) or not isinstance(asked, int) or asked < 1 or topology is None:
        return 0
    return min(asked, max(1, topology.workers))


class Isolation:
    """Which topologies are on which nodes, as far as it is planned."""

    def __init__(self, topologies: Mapping[str, TopologyRecord], assignments: Mapping[str, AssignmentRecord]) -> None:
        self._isolated = frozenset(name for name, each in topologies.items() if isolated_nodes(each))
        self._nodes: dict[str, frozenset[str]] = {}
        self._users: defaultdict[str, set[str]] = defaultdict(set)
        for name, assignment in assignments.items():
            self.put(name, assignment)

    def put(self, name: str, assignment: AssignmentRecord | None) -> None:
        """A topology is there now; None: nowhere."""
        after = frozenset() if assignment is None else frozenset((assignment.parent, *assignment.workers))
        before = self._nodes.get(name, frozenset())
        for on in before - after:
            self._users[on].discard(name)
        for on in after - before:
            self._users[on].add(name)
        self._nodes[name] = after

    def open_to(self, name: str, nodes: Iterable[str]) -> list[str]:
        """Those of these nodes on which a topology may be, with regard to the others."""
        if not self._isolated:
            return list(nodes)
        if name in self._isolated:
            return [on for on in nodes if self._users[on] <= {name}]
        return [on for on in nodes if not self._users[on] & self._isolated]

    def owner(self, on: str) -> str:
        """The isolated topology that has this node; empty: none."""
        return min(self._users[on] & self._isolated, default="")
