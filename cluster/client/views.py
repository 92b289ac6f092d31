"""Views: what the records of a cluster say of topologies and nodes. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from ..nimbus import (
    PARENT_PROCESS,
    REASSIGN_S,
    AssignmentRecord,
    ErrorEntry,
    Isolation,
    ParentRecord,
    Seen,
    SupervisorRecord,
    TopologyRecord,
    left_out,
    plan,
    worker_names,
)

RUNS = ("ACTIVE", "INACTIVE")
"""States of a topology whose processes all run."""

FAILED = "FAILED"


@dataclass(frozen=True, slots=True)
class Records:
    """What the store has, by name. `unread`: paths of records that cannot be read, with the reason."""

    topologies: Mapping[str, TopologyRecord]
    assignments: Mapping[str, AssignmentRecord] = field(default_factory=dict)
    supervisors: Mapping[str, SupervisorRecord] = field(default_factory=dict)
    parents: Mapping[str, ParentRecord] = field(default_factory=dict)
    unread: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class TopologyInfo:
    """A topology of the cluster.

    `record`: what was submitted, and what is wanted of it. `state`: WAITING (it has no place), STARTING, ACTIVE,
    INACTIVE, FAILED or ENDING. `where`: process (`parent`, `worker-1`, …) → the supervisor that runs it. `degraded`:
    why it does not run as it should, or empty. `waiting`: why it, or a part of it, has no place, as far as the records
    say; or empty. `running_generation`: that of its parent, which is behind until a rebalance is done; None: no parent.
    `started_s`: Unix time of the parent's start; 0: no parent. `updated`: the last update of settings that the parent
    has dealt with.
    """

    name: str
    record: TopologyRecord
    state: str
    where: Mapping[str, str]
    degraded: str = ""
    waiting: str = ""
    running_generation: int | None = None
    started_s: float = 0.0
    updated: int = 0

    @property
    def wanted(self) -> str:
        """ACTIVE, INACTIVE or KILLED."""
        return self.record.wanted

    @property
    def workers(self) -> int:
        """How many it is to have."""
        return self.record.workers

    @property
    def generation(self) -> int:
        """One more with each rebalance."""
        return self.record.generation

    @property
    def submitted_s(self) -> float:
        """Unix time."""
        return self.record.submitted_s

    @property
    def runs(self) -> bool:
        """Does it run, as it was last submitted or rebalanced?"""
        return self.state in RUNS and self.is_current

    def refused(self, generation: int) -> str:
        """Why the order of this generation, or a later one, was taken back; empty: it was not."""
        refused = self.record.refused
        if refused is None or refused.generation < generation:
            return ""
        return f"generation {refused.generation} of {self.name} did not run, and was taken back: {refused.why}"

    def refused_update(self, number: int) -> str:
        """Why the update of this number, or a later one, was taken back; empty: it was not."""
        refused = self.record.refused_update
        return "" if refused is None or refused.number < number else refused.why

    @property
    def is_current(self) -> bool:
        """Is its parent the one of the last rebalance?"""
        return self.running_generation == self.record.generation


@dataclass(frozen=True, slots=True)
class NodeInfo:
    """A supervisor that is there. `used`: slots with a worker; `parents`: topologies whose parent it runs.

    `memory_bytes`, `cores`: what its workers may have together; 0: that is not declared. `failed`: how many processes
    do not stay alive there, or did not some minutes ago; `left_out`: so many that it gets work last. `isolated`: the
    topology that has this node for itself; empty: none. `limits`: what keeps processes to what was declared: cgroup,
    rlimit; empty: not known.
    """

    name: str
    host: str
    address: str
    slots: int
    used: int
    parents: tuple[str, ...]
    labels: tuple[str, ...]
    version: str
    memory_bytes: int = 0
    cores: float = 0.0
    failed: int = 0
    left_out: bool = False
    isolated: str = ""
    limits: str = ""


def topologies_of(records: Records) -> list[TopologyInfo]:
    """All topologies, sorted by name."""
    places = {on for each in records.assignments.values() for on in (each.parent, *each.workers)}
    # Since when they are missing only nimbus knows. What would find no place if they were lost is said.
    missing_s = dict.fromkeys(places - records.supervisors.keys(), REASSIGN_S)
    known = Seen(records.topologies, records.assignments, records.supervisors, missing_s, frozenset(records.parents))
    waiting = plan(known).waiting
    return [topology_of(name, records, waiting.get(name, "")) for name in sorted(records.topologies)]


def topology_of(name: str, records: Records, waiting: str = "") -> TopologyInfo:
    """One of them. KeyError."""
    record, parent = records.topologies[name], records.parents.get(name)
    assignment = records.assignments.get(name)
    where: dict[str, str] = {}
    if assignment is not None:
        workers = worker_names(len(assignment.workers))
        where = {PARENT_PROCESS: assignment.parent, **dict(zip(workers, assignment.workers, strict=True))}
    return TopologyInfo(
        name,
        record,
        _state(record, assignment, parent),
        where,
        "" if parent is None else parent.degraded,
        "" if record.wanted == "KILLED" else waiting,
        None if parent is None else parent.generation,
        0.0 if parent is None else parent.started_s,
        0 if parent is None else parent.updated,
    )


def why_not_running(found: TopologyInfo, errors: Sequence[ErrorEntry], *, is_led: bool) -> str:
    """Why a topology does not run, as far as the store says. `errors`: of the topology; `is_led`: a nimbus leads."""
    if found.degraded:
        return found.degraded
    if found.waiting:
        return found.waiting
    if not is_led:
        return f"it is {found.state}, and no nimbus leads: start one (aiostorm nimbus)"
    if found.running_generation is not None and not found.is_current:
        return f"it is {found.state} as before the rebalance (aiostorm logs {found.name})"
    since = [each for each in errors if each.at_s >= found.submitted_s]
    last = f"; its last error: {since[-1].where}: {since[-1].text}" if since else ""
    return f"it is {found.state}{last} (aiostorm logs {found.name})"


def nodes_of(records: Records) -> list[NodeInfo]:
    """All supervisors, sorted by name."""
    used = Counter(on for each in records.assignments.values() for on in each.workers)
    parents: dict[str, list[str]] = {}
    for name, assignment in sorted(records.assignments.items()):
        parents.setdefault(assignment.parent, []).append(name)
    last = left_out(records.supervisors)
    isolation = Isolation(records.topologies, records.assignments)
    return [
        NodeInfo(
            name,
            each.host,
            each.address,
            each.slots,
            used[name],
            tuple(parents.get(name, ())),
            tuple(sorted(each.labels)),
            each.version,
            each.memory_bytes,
            each.cores,
            len(each.failed),
            name in last,
            isolation.owner(name),
            each.limits,
        )
        for name, each in sorted(records.supervisors.items())
    ]


def _state(record: TopologyRecord, assignment: AssignmentRecord | None, parent: ParentRecord | None) -> str:
    if record.wanted == "KILLED":
        return "ENDING"
    if parent is not None:
        return parent.state or "STARTING"
    return "WAITING" if assignment is None else "STARTING"
