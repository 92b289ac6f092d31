"""Trials: a rebalance or other code that does not come to run, and whose parent cannot say so. Pure.

    a topology that keeps what was before (`former`): its parent confirms the present plan, or takes it back
        the parent does not stay alive                    ─╮
        a worker does not, on any node that it may have   ─┼─► the leader takes it back
        nothing of it has come to run within TRIAL_S      ─╯

1. The time counts from when no parent of an earlier generation is there: to drain may take long.
2. A new leader counts anew.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from .failing import Failed

if TYPE_CHECKING:
    from .planning import Seen
    from .records import ParentRecord, TopologyRecord

TRIAL_S: Final = 300.0


class Trials:
    """The trials of all topologies, as one leader sees them. Times are monotonic seconds."""

    def __init__(self) -> None:
        self._since_s: dict[tuple[str, int], float] = {}

    def to_take_back(
        self, seen: Seen, parents: Mapping[str, ParentRecord], stuck: Mapping[str, str], now_s: float
    ) -> dict[str, str]:
        """Topologies whose present plan is to be taken back, and why. `stuck`: those with a process that fails on every
        node, and why."""
        since_s: dict[tuple[str, int], float] = {}
        found: dict[str, str] = {}
        for name, topology in seen.topologies.items():
            if name in seen.unread or not _is_on_trial(topology, name, seen):
                continue
            why = Failed.of(name, topology, seen.supervisors).why_of_parent() or stuck.get(name, "")
            if why:
                found[name] = why
            parent = parents.get(name)
            if parent is None or parent.generation == topology.generation:
                key = name, topology.generation
                since_s[key] = self._since_s.get(key, now_s)
                if now_s - since_s[key] >= TRIAL_S:
                    found.setdefault(name, f"it did not run within {TRIAL_S:g} s")
        self._since_s = since_s
        return found

    def due_s(self, now_s: float) -> float | None:
        """In how many seconds one may be over; None: there is none."""
        return min(self._since_s.values()) + TRIAL_S - now_s if self._since_s else None

    def count_anew(self) -> None:
        """Nothing was seen for a while."""
        self._since_s.clear()


def _is_on_trial(topology: TopologyRecord, name: str, seen: Seen) -> bool:
    """Is its present plan placed, and neither confirmed nor taken back?"""
    assignment = seen.assignments.get(name)
    if topology.former is None or topology.wanted == "KILLED":
        return False
    return assignment is not None and assignment.generation == topology.generation


__all__ = ["TRIAL_S", "Trials"]
