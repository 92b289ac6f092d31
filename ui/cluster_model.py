"""Model of a cluster: what the page and the REST interface say of its daemons, nodes and topologies. Frozen data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar

from pydantic import ConfigDict


@dataclass(frozen=True, slots=True)
class NimbusRow:
    """A nimbus that is there. `started_s`: Unix time; 0: not known."""

    name: str
    host: str
    pid: int
    started_s: float
    leads: bool


@dataclass(frozen=True, slots=True)
class NodeRow:
    """A node: a machine with a supervisor. `used`: slots with a worker. `parents`: topologies whose parent it runs.

    `isolated`: the topology that has it for itself; empty: none. `limits`: what keeps processes to the memory and cores
    that were declared: cgroup, rlimit; empty: not known.
    """

    name: str
    host: str
    address: str
    slots: int
    used: int
    parents: tuple[str, ...]
    labels: tuple[str, ...]
    version: str
    isolated: str = ""
    limits: str = ""


@dataclass(frozen=True, slots=True)
class ClusterTopology:
    """A topology of the cluster.

    `workers`: as wanted; `placed`: that have a slot. `where`: process → node. `running_generation`: of its parent, if
    there is one. `waiting`: why it, or a part of it, has no place. `shown`: it has pages here: it runs on this machine.
    `tasks`: component → tasks, where an order says so; if it is shown, of all components. `pins`: component → labels
    that a node needs to run its tasks. `taken_back`: why its last rebalance or new code was taken back; empty: it was
    not.
    """

    name: str
    state: str
    wanted: str
    workers: int
    placed: int
    generation: int
    running_generation: int | None
    where: Mapping[str, str]
    degraded: str
    waiting: str
    target: str
    submitted_by: str
    submitted_s: float
    started_s: float
    shown: bool
    tasks: Mapping[str, int] = field(default_factory=dict)
    pins: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    taken_back: str = ""


@dataclass(frozen=True, slots=True)
class ClusterStatus:
    """A cluster. `store`: where its records are. `read_only`: nothing can be changed from here."""

    store: str
    read_only: bool
    nimbuses: tuple[NimbusRow, ...]
    nodes: tuple[NodeRow, ...]
    topologies: tuple[ClusterTopology, ...]


@dataclass(frozen=True, slots=True)
class NodeList:
    """All nodes."""

    nodes: tuple[NodeRow, ...]


@dataclass(frozen=True, slots=True)
class NodeProcess:
    """A process that a node runs. `has_log`: its output is on this machine."""

    topology: str
    process: str
    state: str
    generation: int
    has_log: bool


@dataclass(frozen=True, slots=True)
class NodeDetail:
    """A node and its processes, as assigned."""

    node: NodeRow
    processes: tuple[NodeProcess, ...]


@dataclass(frozen=True, slots=True)
class ProcessLogs:
    """The processes of a topology whose output is on this machine, the parent first."""

    topology: str
    processes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ProcessLog:
    """A piece of the output of a process. `next`: where the next piece begins (?from=). `skipped`: bytes left out.

    `again`: the file was replaced or cut since the last piece; it is shown from its beginning.
    """

    topology: str
    process: str
    text: str
    next: int
    skipped: int
    again: bool


@dataclass(frozen=True, slots=True)
class RebalanceOrder:
    """The body of `rebalance`. What is missing stays as it is. An unknown field is refused: it would have no effect.

    `workers`: how many. `parallelism`: component → tasks. `pins`: component → label, or labels, that a node needs to
    run its tasks; none ([]): its pin ends. `drain_s`: how long messages under way may take; None: its message timeout.
    """

    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(extra="forbid")

    workers: int | None = None
    parallelism: Mapping[str, int] = field(default_factory=dict)
    pins: Mapping[str, tuple[str, ...] | str] = field(default_factory=dict)
    drain_s: float | None = None
