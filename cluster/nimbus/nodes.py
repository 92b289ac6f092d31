"""Nodes: which of them a topology may have, by labels, pins and isolation; and what is free there. Pure.

supervisors ─► labels of the topology ─► isolation of others, or its own ─► allowed
                                                                           ╰─► those that its pins need: cover
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import TYPE_CHECKING, Final

from .capacity import Capacity, Demand
from .isolation import Isolation, isolated_nodes
from .pins import Candidate, Pins

if TYPE_CHECKING:
    from .planning import Seen
    from .records import AssignmentRecord, TopologyRecord

REASSIGN_S: Final = 8.5
"""How long a supervisor may be missing before its processes move. Longer than any lease of its own."""


class Nodes:
    """The nodes in one round of planning. `capacity`, `isolation`: with what is planned so far.

    `left_out`: those that get work last.
    """

    def __init__(self, seen: Seen, left_out: frozenset[str]) -> None:
        self.capacity = Capacity(seen.supervisors)
        self.left_out = left_out
        self.isolation = Isolation(seen.topologies, seen.assignments)
        self._seen = seen

    def cover(
        self,
        name: str,
        allowed: list[str],
        most: int,
        current: Collection[str] = (),
        had: Iterable[frozenset[str]] = (),
    ) -> tuple[str, ...] | None:
        """At most so many nodes with a free slot that its pins need, beside workers with `had`; None: there are none.

        Those of `current` rather than others.
        """
        pins = Pins(self._seen.topologies[name])
        missing = pins.missing(had) if pins else []
        if not missing:
            return ()
        demand = self.demand(name)
        free = {on: self.capacity.free(on, demand) for on in allowed}
        nodes = [
            Candidate(on, self._seen.supervisors[on].labels, (on not in current) + 100 * (on in self.left_out))
            for on in sorted(allowed, key=lambda on: (-free[on], on))
            if free[on]
        ]
        return pins.cover(missing, nodes, most)

    def had(self, before: AssignmentRecord, on: str) -> frozenset[str]:
        """The labels of a node; of one that is not there those that its workers say."""
        if on in self._seen.supervisors:
            return self._seen.supervisors[on].labels
        return frozenset().union(*(before.labels_of(i) for i, each in enumerate(before.workers) if each == on))

    def labels(
        self, name: str, placed: AssignmentRecord, before: AssignmentRecord | None = None
    ) -> tuple[frozenset[str], ...]:
        """Of each worker that is placed, those of the labels that pins name."""
        pins = Pins(self._seen.topologies[name])
        return tuple(pins.named & self.had(before or placed, on) for on in placed.workers) if pins else ()

    def with_labels(self, nodes: Iterable[str], labels: frozenset[str]) -> list[str]:
        """Those of these nodes that have all the labels."""
        return [on for on in nodes if labels <= self._seen.supervisors[on].labels]

    def labelled(self, topology: TopologyRecord) -> list[str]:
        """The nodes that have the labels of the whole topology, sorted."""
        return self.with_labels(sorted(self._seen.supervisors), topology.labels)

    def allowed(self, name: str, before: AssignmentRecord | None = None, *, stays: bool = False) -> list[str]:
        """The nodes that a topology may have, whose own processes are taken out.

        `stays`: it keeps those that it has (`before`); else it may have others, where it is isolated.
        """
        topology = self._seen.topologies[name]
        found = self.isolation.open_to(name, self.labelled(topology))
        most = isolated_nodes(topology)
        if not most:
            return found
        demand = self.demand(name)
        had = () if before is None else (before.parent, *before.workers)
        away = set(self.away(had))
        most = max(0, most - len(away))
        lost = [] if before is None else [before.labels_of(i) for i, on in enumerate(before.workers) if on not in found]
        labels = {on: self._seen.supervisors[on].labels for on in found}
        rank = {on: (on in self.left_out, -self.capacity.free(on, demand), on) for on in found}
        if stays:
            needs = {on: -sum(each <= labels[on] for each in lost) for on in found}
            return sorted(sorted(found, key=lambda on: (on not in had, needs[on], rank[on]))[:most])
        cover = self.cover(name, found, min(most, topology.workers), had) or ()
        own_first = sorted(found, key=lambda on: (on not in cover, on not in had, rank[on]))[:most]
        if self.free(own_first, demand) >= topology.workers - len(self.away(had[1:])):
            return sorted(own_first)
        return sorted(sorted(found, key=lambda on: (on not in cover, rank[on]))[:most])

    def away(self, places: Iterable[str]) -> list[str]:
        """Those on supervisors that are missing since a moment only."""
        return [on for on in places if on not in self._seen.supervisors and self.stays(on, (), rebalanced=True)]

    def stays(self, on: str, allowed: Iterable[str], *, rebalanced: bool) -> bool:
        """Does a process stay there? A rebalance may have other labels; else they do not matter any more."""
        if on in self._seen.supervisors:
            return on in allowed or not rebalanced
        return self._seen.missing_s.get(on, 0.0) < REASSIGN_S

    def demand(self, name: str) -> Demand:
        """What each worker of a topology takes."""
        return Demand.of(self._seen.topologies.get(name))

    def free(self, allowed: Iterable[str], demand: Demand) -> int:
        """How many more workers these supervisors may have."""
        return sum(self.capacity.free(on, demand) for on in allowed)
