"""Joining: which topologies nimbus rebalances by itself, since a node could take part that does not. Pure.

    topologies that want it, and run ─► would a rebalance use a node without a worker of it? ─► for QUIET_S? ─► order it

1. Only a topology with `topology.rebalance.auto` is rebalanced so. It drains, as with any rebalance: others must not
   notice that a node joins.
2. It must have run for QUIET_S as it is, as far as this leader has seen: so no topology is rebalanced more often, nor
   while its parent starts, or a plan is on trial.
3. One whose last plan was taken back waits for an order; one of which something does not stay alive, until that is
   over.
4. A rebalance that uses no other node is not ordered. So it comes to an end: a node that has a worker is no reason.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Final, NamedTuple

from .planning import Seen, plan

if TYPE_CHECKING:
    from .records import ParentRecord

AUTO_KEY: Final = "topology.rebalance.auto"

QUIET_S: Final = 60.0
"""So long a topology must have run as it is."""

_RUNS: Final = ("ACTIVE", "INACTIVE")


class Due(NamedTuple):
    """`now`: the topologies that are to be rebalanced. `in_s`: when the next one may be; None: none is waiting."""

    now: tuple[str, ...] = ()
    in_s: float | None = None


class Joining:
    """What one leader has seen: since when topologies run as they are. `quiet_s`: how long that must be."""

    def __init__(self, quiet_s: float = QUIET_S) -> None:
        self._quiet_s = quiet_s
        self._since: dict[str, tuple[int, float]] = {}  # generation, seconds

    def due(self, seen: Seen, parents: Mapping[str, ParentRecord], now_s: float) -> Due:
        """Which topologies are to be rebalanced. `parents`: those that run, by topology."""
        settled = [name for name in sorted(seen.topologies) if is_settled(seen, parents, name)]
        before, self._since = self._since, {}
        for name in settled:
            generation = seen.topologies[name].generation
            since = before.get(name)
            self._since[name] = since if since is not None and since[0] == generation else (generation, now_s)
        now, later = [], []
        for name in settled:
            if not newcomers(seen, name):
                continue
            left_s = self._quiet_s - (now_s - self._since[name][1])
            if left_s <= 0:
                now.append(name)
            else:
                later.append(left_s)
        return Due(tuple(now), min(later, default=None))

    def clear(self) -> None:
        """Nothing was seen for a while: count anew."""
        self._since.clear()


def is_settled(seen: Seen, parents: Mapping[str, ParentRecord], name: str) -> bool:
    """Does a topology that may be rebalanced run as it should, without anything under way?"""
    topology, assignment, parent = seen.topologies[name], seen.assignments.get(name), parents.get(name)
    return (
        topology.config.get(AUTO_KEY) is True
        and name not in seen.unread
        and topology.wanted != "KILLED"
        and topology.former is None
        and topology.refused is None
        and assignment is not None
        and parent is not None
        and topology.generation == assignment.generation == parent.generation
        and parent.state in _RUNS
        and not parent.degraded
        and all(on in seen.supervisors for on in (assignment.parent, *assignment.workers))
        and not any(failed.topology == name for each in seen.supervisors.values() for failed in each.failed)
    )


def newcomers(seen: Seen, name: str) -> frozenset[str]:
    """The supervisors without a worker of a topology that would get one by a rebalance."""
    topology = seen.topologies[name]
    again = replace(topology, generation=topology.generation + 1)
    after = plan(replace(seen, topologies={**seen.topologies, name: again})).write.get(name)
    return frozenset() if after is None else frozenset(after.workers) - frozenset(seen.assignments[name].workers)
