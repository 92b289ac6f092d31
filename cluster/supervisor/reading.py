"""Reading: what the store says of the processes of one supervisor.

Only topologies that it runs, or has run, are read whole. A record that cannot be read is named in the log, and its
topology is left as it is.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from ..nimbus import (
    ASSIGNMENTS,
    PARENT_PROCESS,
    PARENTS,
    TOPOLOGIES,
    AssignmentRecord,
    ParentRecord,
    RecordError,
    TopologyRecord,
    name_in,
    path_of,
    unpack,
    worker_names,
)
from .wanted import Assigned, Parent, Wanted

if TYPE_CHECKING:
    from ..coordination import Coordination

log = logging.getLogger("aiostorm.supervisor")

_Record = TypeVar("_Record")


class Reading(NamedTuple):
    """What is wanted, and the records of the topologies.

    `concerned`: names of those whose records are read. `addresses`: of their parents, for each topology with processes
    here; empty: it has none, or it is not known.
    """

    wanted: Wanted
    topologies: Mapping[str, TopologyRecord]
    addresses: Mapping[str, str]
    concerned: frozenset[str]


class Reader:
    """Reads for one supervisor. `name`: its own."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._unreadable: dict[str, str] = {}

    async def read(self, coordination: Coordination, running: Collection[str]) -> Reading:
        """What is wanted. `running`: topologies with processes here.

        UnavailableError, SessionLostError; NoNodeError if it is no cluster yet.
        """
        bad: dict[str, str] = {}
        assigned: dict[str, Assigned] = {}
        topologies: dict[str, TopologyRecord] = {}
        parents: dict[str, Parent] = {}
        addresses: dict[str, str] = {}
        killed: set[str] = set()
        unread: set[str] = set()
        concerned: set[str] = set()
        for child in await coordination.children(ASSIGNMENTS):
            name = name_in(child)
            try:
                assignment = await _record(coordination, AssignmentRecord, ASSIGNMENTS, name)
                if assignment is None:  # it has just been deleted
                    continue
                found = Assigned(assignment.generation, self._here(assignment), renewed=assignment.since)
                if not found.here and name not in running:
                    continue
                concerned.add(name)
                topology = await _record(coordination, TopologyRecord, TOPOLOGIES, name)
                parent = await _record(coordination, ParentRecord, PARENTS, name)
            except (RecordError, ValueError) as error:
                bad[name] = str(error)
                unread.add(name)
                addresses[name] = ""
                continue
            assigned[name] = found
            addresses[name] = "" if parent is None else parent.address
            if topology is not None:
                assigned[name] = replace(found, submitted_s=topology.submitted_s)
                topologies[name] = topology.as_of(assignment.generation)
            if topology is None or topology.wanted == "KILLED":
                killed.add(name)
            if parent is not None:
                own = parent.supervisor == self._name
                parents[name] = Parent(
                    parent.generation, frozenset(parent.abandoned), parent.pid if own else 0, parent.renewed
                )
        self._report(bad)
        wanted = Wanted(assigned, frozenset(killed), parents, frozenset(unread))
        return Reading(wanted, topologies, addresses, frozenset(concerned))

    def _here(self, assignment: AssignmentRecord) -> frozenset[str]:
        names = worker_names(len(assignment.workers))
        here = {name for name, on in zip(names, assignment.workers, strict=True) if on == self._name}
        return frozenset(here | {PARENT_PROCESS} if assignment.parent == self._name else here)

    def _report(self, bad: dict[str, str]) -> None:
        for name, why in bad.items():
            if self._unreadable.get(name) != why:
                log.error("%s is left as it is: %s", name, why)
        self._unreadable = bad


async def names_of(coordination: Coordination) -> set[str]:
    """The names of all topologies, also of those that are to be killed. UnavailableError, SessionLostError."""
    found = await coordination.children(TOPOLOGIES) + await coordination.children(ASSIGNMENTS)
    return set(map(name_in, found))


async def used_code(coordination: Coordination) -> set[str]:
    """The code that topologies name. RecordError if one cannot be read; UnavailableError, SessionLostError."""
    used = set()
    for child in await coordination.children(TOPOLOGIES):
        topology = await _record(coordination, TopologyRecord, TOPOLOGIES, name_in(child))
        for plan in (topology, None if topology is None else topology.former):
            if plan is not None and plan.blob:
                used.add(plan.blob)
    return used


async def _record(coordination: Coordination, kind: type[_Record], folder: str, name: str) -> _Record | None:
    path = path_of(folder, name)
    node = await coordination.get(path)
    return None if node is None else unpack(kind, path, node.value)
