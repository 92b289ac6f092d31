"""Failing: processes that do not stay alive where they are, and nodes on which many do not. Pure.

    /supervisors/a: worker-1 of x fails        ─► it moves to a node where no worker of x has failed
    on every node that x may have              ─► it stays: it is the topology's fault, and that is said
    three processes fail on a, of topologies   ─► a is left out: it gets work only when no other node has a free slot
    that fail on no other node

1. What a supervisor names has failed there not long ago (see supervisor/failures.py): a node is left out as long as it
   names so many.
2. If all nodes were left out, none is.
3. A parent and workers fail for different reasons: where the one fails, the others may stay alive.

From: Storm's BlacklistScheduler, which looks at slots whose workers have not come (tolerance count 3 in 300 s, resumed
after 1800 s).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final, Self

from .records import PARENT_PROCESS

if TYPE_CHECKING:
    from .records import SupervisorRecord, TopologyRecord

LEFT_OUT_AFTER: Final = 3


def left_out(supervisors: Mapping[str, SupervisorRecord]) -> frozenset[str]:
    """The nodes that get work last."""
    nodes_of = Counter(topology for each in supervisors.values() for topology in {one.topology for one in each.failed})
    found = frozenset(
        name
        for name, each in supervisors.items()
        if sum(nodes_of[one.topology] == 1 for one in each.failed) >= LEFT_OUT_AFTER
    )
    return frozenset() if len(found) == len(supervisors) else found


class Failed:
    """What of one topology fails, as it was last submitted and rebalanced."""

    def __init__(
        self, name: str, submitted_s: float, generation: int, supervisors: Mapping[str, SupervisorRecord]
    ) -> None:
        self._failed = {
            (one.process, on): one.why
            for on, each in supervisors.items()
            for one in each.failed
            if (one.topology, one.submitted_s, one.generation) == (name, submitted_s, generation)
        }

    @classmethod
    def of(cls, name: str, topology: TopologyRecord, supervisors: Mapping[str, SupervisorRecord]) -> Self:
        """What fails of its present plan."""
        return cls(name, topology.submitted_s, topology.generation, supervisors)

    def __bool__(self) -> bool:
        """Does something of it fail?"""
        return bool(self._failed)

    def is_failing(self, process: str, on: str) -> bool:
        """Does this process fail on this node?"""
        return (process, on) in self._failed

    def where(self, process: str) -> frozenset[str]:
        """The nodes where such processes fail: the parent, or any worker."""
        is_parent = process == PARENT_PROCESS
        return frozenset(on for failed, on in self._failed if (failed == PARENT_PROCESS) == is_parent)

    def why_of_parent(self) -> str:
        """Why the parent does not stay alive on some node, for people; empty: it is not known to fail."""
        found = [(on, why) for (process, on), why in self._failed.items() if process == PARENT_PROCESS]
        return f"its parent does not stay alive on {found[0][0]}: {found[0][1]}" if found else ""

    def why_stuck(self, stuck: Mapping[str, Sequence[str]]) -> str:
        """Why processes that fail are not moved, for people. `stuck`: process → the nodes that it may have."""
        why = next((why for (process, _), why in self._failed.items() if process in stuck), "")
        names = ", ".join([*stuck][:5]) + (", …" if len(stuck) > 5 else "")
        keeps = "does" if len(stuck) == 1 else "do"
        nowhere = all(self.where(process).issuperset(allowed) for process, allowed in stuck.items())
        count = len({on for allowed in stuck.values() for on in allowed})
        if count > 1 and nowhere:
            where = f"on any of {count} nodes: the fault is the topology's"
        elif nowhere:
            where = "on its node, and there is no other one"
        else:
            where = "where it is, and no other node has a free slot"
        return f"{names} {keeps} not stay alive {where} ({why}; see aiostorm logs)"
