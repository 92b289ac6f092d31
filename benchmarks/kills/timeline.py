"""What happens after a node was killed, step by step: pure, from looks at the store and at files."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from aiostorm.cluster.nimbus import PARENT_PROCESS, AssignmentRecord, ParentRecord, worker_names

STEPS: Final = ("session ended", "assigned elsewhere", "started elsewhere", "parent", "running elsewhere")


@dataclass(frozen=True, slots=True)
class Look:
    """One look. `supervisor`: the killed one is still registered. `noted`: node → processes that it has started."""

    supervisor: bool
    assignment: AssignmentRecord | None
    parent: ParentRecord | None
    noted: Mapping[str, frozenset[str]]


class Timeline:
    """When each step was first seen, in seconds after the kill. `lost_parent`: the parent was on the node."""

    def __init__(self, node: str, before: ParentRecord, *, lost_parent: bool) -> None:
        self.node = node
        self.at_s: dict[str, float] = {}
        self._before = before
        self._lost_parent = lost_parent

    @property
    def is_over(self) -> bool:
        """All of it runs elsewhere."""
        return STEPS[-1] in self.at_s

    def see(self, after_s: float, look: Look) -> None:
        """What is there so many seconds after the kill."""
        reached = dict.fromkeys(STEPS, False)
        reached["session ended"] = not look.supervisor
        assignment, parent = look.assignment, look.parent
        if assignment is not None and self.node not in (assignment.parent, *assignment.workers):
            reached["assigned elsewhere"] = True
            places = dict(zip(worker_names(len(assignment.workers)), assignment.workers, strict=True))
            places[PARENT_PROCESS] = assignment.parent
            reached["started elsewhere"] = all(name in look.noted.get(on, ()) for name, on in places.items())
        if parent is not None:
            another = (parent.supervisor, parent.process) != (self._before.supervisor, self._before.process)
            reached["parent"] = another or not self._lost_parent
            runs = parent.state == "ACTIVE" and not parent.degraded
            reached["running elsewhere"] = reached["parent"] and reached["started elsewhere"] and runs
        for step, is_reached in reached.items():
            if is_reached:
                self.at_s.setdefault(step, after_s)


def victim(assignment: AssignmentRecord, *, parent: bool) -> str | None:
    """The node to kill: that of the parent, or one with a worker and without the parent; None: there is none."""
    if parent:
        return assignment.parent
    return min((on for on in assignment.workers if on != assignment.parent), default=None)
