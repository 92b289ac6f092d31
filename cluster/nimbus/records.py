"""Records: what the coordination store holds of topologies, supervisors and placements, as JSON.

/topologies/NAME    what was submitted, and what is wanted of it      written by the leader
/assignments/NAME   on which supervisors its processes run            written by the leader
/supervisors/ID     ephemeral: a node of the cluster, and its slots   written by that supervisor
/parents/NAME       ephemeral: the process that runs the topology     written by that process
/errors/NAME        the last errors of a topology                     written by that process
/nimbuses/HASH      ephemeral: a nimbus that is there                 written by that nimbus
/cluster            what all commands must know                       written by the first nimbus

1. No record holds a secret: who can read the store learns nothing but names, places and settings.
2. A reader ignores fields that it does not know: daemons of two versions live beside each other during an upgrade.
3. What cannot be read is refused with its path and the reason: nothing is guessed.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields, replace
from functools import cache
from typing import Any, Final, Literal, Self, TypeVar, cast
from urllib.parse import quote, unquote

from pydantic import TypeAdapter, ValidationError

from ..coordination import MAX_VALUE_BYTES, CoordinationError
from ..names import check_name

TOPOLOGIES: Final = "/topologies"
ASSIGNMENTS: Final = "/assignments"
SUPERVISORS: Final = "/supervisors"
PARENTS: Final = "/parents"
ERRORS: Final = "/errors"
NIMBUSES: Final = "/nimbuses"
CLUSTER: Final = "/cluster"

PARENT_PROCESS: Final = "parent"
"""The name of the process that runs a topology, beside those of its workers."""

NO_STORE: Final = 69
"""The exit code of a parent that could not reach the store (EX_UNAVAILABLE)."""

MAX_ENCODED: Final = 200
"""Characters of a name in a path."""

Wanted = Literal["ACTIVE", "INACTIVE", "KILLED"]

Setting = bool | int | float | str | None
"""In this order: pydantic 2.8 writes a bool as the first type that takes it, which may be a float."""

_Record = TypeVar("_Record")


class RecordError(CoordinationError):
    """A node of the store holds something that is no such record, or a record does not fit into a node."""


@dataclass(frozen=True, slots=True)
class FormerPlan:
    """What a topology was before a rebalance, or before its code was replaced. `generation`: the last that it ran in.

    The other fields are those of TopologyRecord.
    """

    generation: int
    target: str
    arguments: tuple[str, ...] = ()
    blob: str = ""
    config: dict[str, Setting] = field(default_factory=dict)
    workers: int = 1
    parallelism: dict[str, int] = field(default_factory=dict)
    worker_memory_bytes: int = 0
    worker_cores: float = 0.0
    pins: dict[str, frozenset[str]] = field(default_factory=dict)


_OF_A_PLAN: Final = tuple(each.name for each in fields(FormerPlan) if each.name != "generation")


@dataclass(frozen=True, slots=True)
class RefusedPlan:
    """A rebalance or new code that did not run: the topology went back to what it was before. `at_s`: Unix time."""

    generation: int
    why: str
    at_s: float = 0.0


@dataclass(frozen=True, slots=True)
class RefusedUpdate:
    """An update of settings that the topology could not take, and that was taken back. `at_s`: Unix time."""

    number: int
    why: str
    at_s: float = 0.0


@dataclass(frozen=True, slots=True)
class TopologyRecord:
    """A submitted topology.

    `blob`: the SHA-256 of its code, in hexadecimal; empty: the code is installed on the nodes. `workers`: how many
    processes. `parallelism`: component → tasks, where its code says otherwise. `fewer`: it may run with fewer workers
    if there are too few free slots. `labels`: those that its nodes must have. `pins`: component → the labels of the
    nodes that alone may run its tasks (see pins.py). `generation`: one more with each rebalance. `submitted_s`: Unix
    time. `wait_s`: how long it may drain, when it is killed or rebalanced; None: its message timeout.
    `worker_memory_bytes`, `worker_cores`: what each worker may take; 0: that is not declared.

    `renewed`: the generation since which processes may be kept: an earlier one has other code. `former`: what it was
    before, until the present plan runs; `refused`: the last plan that did not run, until there is another order.

    `updates`: settings that were changed since it was submitted, by key; they hold in all generations. `update`: how
    often. `refused_update`: the last one that was taken back, until there is another one.
    """

    target: str
    arguments: tuple[str, ...] = ()
    blob: str = ""
    config: dict[str, Setting] = field(default_factory=dict)
    workers: int = 1
    fewer: bool = False
    labels: frozenset[str] = frozenset()
    wanted: Wanted = "ACTIVE"
    generation: int = 1
    submitted_by: str = ""
    submitted_s: float = 0.0
    wait_s: float | None = None
    worker_memory_bytes: int = 0
    worker_cores: float = 0.0
    parallelism: dict[str, int] = field(default_factory=dict)
    pins: dict[str, frozenset[str]] = field(default_factory=dict)
    renewed: int = 1
    former: FormerPlan | None = None
    refused: RefusedPlan | None = None
    updates: dict[str, Setting] = field(default_factory=dict)
    update: int = 0
    refused_update: RefusedUpdate | None = None

    def plan(self) -> FormerPlan:
        """Its present plan, to be kept as the former one."""
        return FormerPlan(self.generation, **{name: getattr(self, name) for name in _OF_A_PLAN})

    def with_plan(self, plan: FormerPlan) -> Self:
        """The same topology with that plan; its generation stays."""
        return replace(self, **{name: getattr(plan, name) for name in _OF_A_PLAN})

    def as_of(self, generation: int) -> Self:
        """What runs in this generation of the assignment: the former plan until nimbus has placed the present one."""
        former = self.former
        if former is None or former.generation != generation:
            return self
        return replace(self.with_plan(former), generation=generation, former=None)


@dataclass(frozen=True, slots=True)
class FailedProcess:
    """A process that did not stay alive on a node. `generation`, `submitted_s`: of its topology then."""

    topology: str
    process: str
    generation: int
    submitted_s: float = 0.0
    why: str = ""


@dataclass(frozen=True, slots=True)
class SupervisorRecord:
    """A node of the cluster while its supervisor lives. `slots`: how many workers it may run; parents need none.

    `address`: of the node, at which its processes listen for those of other nodes; empty: they listen at sockets in
    `home`. `boot`: the machine since its start, so that process ids of before are not taken for those of now.
    `process`: which process it is, and which session of it. `memory_bytes`, `cores`: what its workers may have
    together; 0: it is not declared. `credentials`: which ones its processes have, as a fingerprint. `failed`: processes
    that do not stay alive here, and those that did not some minutes ago. `limits`: what keeps its processes to what was
    declared: cgroup or rlimit; empty: an earlier version, which does not say it. `logs`: the address at which it is
    asked for the output of its processes; empty: there is none.
    """

    host: str
    address: str
    slots: int
    version: str = ""
    labels: frozenset[str] = frozenset()
    boot: str = ""
    process: str = ""
    memory_bytes: int = 0
    cores: float = 0.0
    home: str = ""
    credentials: str = ""
    failed: tuple[FailedProcess, ...] = ()
    limits: str = ""
    logs: str = ""


@dataclass(frozen=True, slots=True)
class AssignmentRecord:
    """Where a topology runs: the supervisor of its parent, and that of each worker, in the order of the workers.

    `generation`: that of the topology which it was made for. `renewed`: processes that were started since this
    generation are kept where they are assigned; 0: none of an earlier one. `labels`: for each worker those that its
    node has, of the labels that pins name: it may only move to a node that has them, too. Empty: there are no pins.
    """

    generation: int
    parent: str
    workers: tuple[str, ...]
    renewed: int = 0
    labels: tuple[frozenset[str], ...] = ()

    def labels_of(self, index: int) -> frozenset[str]:
        """The labels that the node of this worker must have because of its tasks."""
        return self.labels[index] if index < len(self.labels) else frozenset()

    def staying(self, after: AssignmentRecord | None) -> list[str]:
        """The names of the workers that are where they were."""
        places = () if after is None else after.workers
        pairs = zip(worker_names(len(places)), self.workers, places, strict=False)
        return [name for name, old, new in pairs if old == new]

    @property
    def since(self) -> int:
        """The first generation whose processes are kept."""
        return self.renewed or self.generation


@dataclass(frozen=True, slots=True)
class ParentRecord:
    """The process that runs a topology. `generation`: of the assignment that it runs; `degraded`: why, or empty.

    `abandoned`: processes of workers that it has given up, as `worker-1@4711`: their supervisors kill them.
    `started_s`: Unix time of the process. `process`: which process of its machine it is (see ProcessIdentity).
    `address`: at which it listens for its workers; empty: not yet. `renewed`: of its assignment. `updated`: the number
    of the last update of settings that it has dealt with.
    """

    supervisor: str
    generation: int
    pid: int = 0
    host: str = ""
    state: str = ""
    degraded: str = ""
    abandoned: tuple[str, ...] = ()
    started_s: float = 0.0
    process: str = ""
    address: str = ""
    renewed: int = 0
    updated: int = 0


@dataclass(frozen=True, slots=True)
class ErrorEntry:
    """An error of user code, or of a process. `at_s`: Unix time. `text`: as in the log, cut."""

    at_s: float
    where: str
    text: str


@dataclass(frozen=True, slots=True)
class ErrorsRecord:
    """The last errors of a topology, the oldest first. They outlive its processes."""

    errors: tuple[ErrorEntry, ...] = ()


@dataclass(frozen=True, slots=True)
class ClusterRecord:
    """What all commands must know. `blobs`: the place of submitted code, a URL; empty: the home folder."""

    blobs: str = ""


def worker_names(count: int) -> list[str]:
    """The names of the workers of a topology, in the order of its assignment."""
    return [f"worker-{index + 1}" for index in range(count)]


def pinned_workers(topology: TopologyRecord, assignment: AssignmentRecord) -> dict[str, tuple[str, ...]]:
    """Pinned component → the workers that may run its tasks. `topology`: as of the generation of the assignment."""
    workers = worker_names(len(assignment.workers))
    return {
        component: tuple(name for index, name in enumerate(workers) if labels <= assignment.labels_of(index))
        for component, labels in topology.pins.items()
        if labels
    }


def path_of(folder: str, name: str) -> str:
    """The path of a topology's or a supervisor's record. ValueError for a name that has none."""
    check_name(name)
    encoded = quote(name, safe="")
    if len(encoded) > MAX_ENCODED:
        raise ValueError(
            f"the name {name[:40]!r}… has {len(encoded)} characters when it is written with A-Z a-z 0-9 _ . ~ - and "
            f"%XX, and may have {MAX_ENCODED}: choose a shorter one"
        )
    return f"{folder}/{encoded}"


def name_in(child: str) -> str:
    """The name that a child of one of the folders has."""
    return unquote(child)


def check_path(path: str) -> None:
    """RecordError if this is not the path of a name: the name would have another path, or none."""
    folder, _, child = path.rpartition("/")
    try:
        known = path_of(folder, name_in(child)) == path
    except ValueError:
        known = False
    if not known:
        raise RecordError(f"{path} has a name that no record has")


def pack(record: Any) -> bytes:
    """A record as the value of a node. RecordError if it is too large."""
    kind: Any = type(record)
    value: bytes = _adapter(kind).dump_json(record, exclude_defaults=True)
    if len(value) > MAX_VALUE_BYTES:
        raise RecordError(
            f"the {type(record).__name__} has {len(value):,} bytes, and may have {MAX_VALUE_BYTES:,}: give large "
            "settings in a file of the code, not on the command line"
        )
    return value


def unpack(kind: type[_Record], path: str, value: bytes) -> _Record:
    """The record in a node. RecordError, with the path and the fields that are wrong."""
    adapter = _adapter(cast(Any, kind))
    try:
        record: _Record = adapter.validate_json(value)
    except ValidationError as error:
        wrong = "; ".join(f"{'.'.join(map(str, each['loc'])) or 'value'}: {each['msg']}" for each in error.errors()[:3])
        raise RecordError(f"{path} holds no {kind.__name__}: {wrong}") from error
    return record


@cache
def _adapter(kind: Any) -> TypeAdapter[Any]:
    return TypeAdapter(kind)
