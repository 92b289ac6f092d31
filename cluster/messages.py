"""Messages between a parent and its workers. All are asked by the parent, but for the last three.

    parent                                       worker
                ◄── WorkerJoined ──                    it is there, and listens
    "setup actor":  LoadTopology, Connect, Prepare, Open ──► in this order, each when the one before is answered
                GatherResults, FetchResult, Finish ─────────► results, in pieces; the end
    "control actor":  GetStatus, UpdateConfig, GetIdleReport, Peer… ──► answered at once, whatever the setup actor does
                ◄── TaskGaveUp, WorkerLeaving ──

1. What a worker cannot do is an answer (CommandFailed), not an error: its kind decides what the parent raises.
2. Each is one frame at most; what may be larger (results) comes in pieces.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from ..backpressure import Backpressure, ComponentPressure, PressureEvent, SpoutPacing, TaskPressure
from ..metrics import ProgressMetrics, TaskMetrics, TimeMetrics
from ..runtime import Stall
from ..tasks import ErrorReport
from ..transport import register_record
from .distributed_idle import IdleReport

PARENT: Final = "parent"
"""The parent's name, its role, and the name of its actor."""

WORKER: Final = "worker"
"""The role of workers, and of what starts some for a parent. (See transport's authentication.)"""

DRIVER: Final = "driver"
"""How the name of a worker beside the parent begins."""

SETUP, CONTROL = "setup", "control"

CODE_DIFFERS: Final = "CodeDiffers"
"""The kind of a CommandFailed."""

PIECE_BYTES: Final = 512 * 1024

RESULT_ITEMS: Final = 10_000_000
"""So many values a result may consist of (see scan): it comes in pieces, from workers of one's own."""


@dataclass(frozen=True, slots=True)
class LoadTopology:
    """Import the topology. Once a life, and one that the worker was started for.

    `config`: what is set in it. `shape`: what the parent's topology looks like; another one is refused. `code`: its
    fingerprint; empty: nobody looks.
    """

    name: str
    target: str
    arguments: tuple[str, ...]
    config: Mapping[str, Any]
    placement: Mapping[int, str]
    shape: str
    code: str = ""


@dataclass(frozen=True, slots=True)
class Connect:
    """Listen, have links to these peers (to dial at an address; None: to be dialled by), and make the tasks.

    `nodes`: worker → its machine. The answer: the address at which one listens.
    """

    peers: Mapping[str, str | None]
    nodes: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Prepare:
    """Start the ackers, prepare the bolts."""


@dataclass(frozen=True, slots=True)
class Open:
    """Open the spouts. They emit when they are told to."""


@dataclass(frozen=True, slots=True)
class PeerEnded:
    """A peer's process has ended, that life of it: send it nothing. Another one of that name will come."""

    peer: str
    life: int


@dataclass(frozen=True, slots=True)
class PeerDied:
    """And all workers know that, as far as they answer: what is open fails now."""

    peer: str
    life: int


@dataclass(frozen=True, slots=True)
class PeerRestarted:
    """A peer listens again: there, perhaps on another machine."""

    peer: str
    address: str


@dataclass(frozen=True, slots=True)
class GetStatus:
    """How are you? Errors, stalls and events come once, those before `errors`, `stalls` and `events` have.

    `mode`: how the spouts are to be from now on: "active", "inactive" or "ended"; empty: as they are.
    """

    errors: int = 0
    stalls: int = 0
    events: int = 0
    pending: bool = False
    mode: str = ""


@dataclass(frozen=True, slots=True)
class StatusReport:
    """The answer to GetStatus, and to Finish. `errors`: the new ones, `error_count`: of all; so for the stalls.

    `pending`: component → open message ids, if it was asked for and they are few and can be sent. `pressure`: from the
    worker that has the topology master, with the new events only; `event_count`: of all.
    """

    tasks: tuple[TaskMetrics, ...] = ()
    errors: tuple[ErrorReport, ...] = ()
    error_count: int = 0
    stalls: tuple[Stall, ...] = ()
    stall_count: int = 0
    pending: Mapping[str, tuple[Any, ...]] = field(default_factory=dict)
    pressure: Backpressure | None = None
    event_count: int = 0


@dataclass(frozen=True, slots=True)
class UpdateConfig:
    """Settings that hold from now on: what is set in the topology's configuration."""

    config: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class GetIdleReport:
    """Is the part quiet, in this mode? As in GetStatus, before the answer. The answer: a IdleReport."""

    mode: str
    finished: bool
    held: bool
    quiet_s: float


@dataclass(frozen=True, slots=True)
class GatherResults:
    """Ask the tasks for their results. The answer: (task, size in bytes) of each result, for FetchResult."""


@dataclass(frozen=True, slots=True)
class FetchResult:
    """A piece of a gathered result, from this byte on. The answer: bytes."""

    task: int
    offset: int


@dataclass(frozen=True, slots=True)
class Finish:
    """End: in order, or at once. The answer is the last StatusReport; then the process ends."""

    at_once: bool
    errors: int = 0
    stalls: int = 0
    events: int = 0


@dataclass(frozen=True, slots=True)
class CommandFailed:
    """It cannot be done. `kind`: the name of the error's class; `problems`: its texts.

    CODE_DIFFERS: `problems` are what the worker has, name and digest in turn.
    """

    kind: str
    problems: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class WorkerJoined:
    """From a worker: it is there. `node`: its machine. Which worker it is says the link, not the message."""

    pid: int
    node: str


@dataclass(frozen=True, slots=True)
class TaskGaveUp:
    """From a worker: a task was given up."""

    path: str
    error: str
    traceback: str


@dataclass(frozen=True, slots=True)
class WorkerLeaving:
    """From a worker: it was asked to end (SIGTERM), and has this long."""

    within_s: float


_RECORDS: Final[tuple[type[Any], ...]] = (
    LoadTopology,
    Connect,
    Prepare,
    Open,
    PeerEnded,
    PeerDied,
    PeerRestarted,
    GetStatus,
    StatusReport,
    UpdateConfig,
    GetIdleReport,
    GatherResults,
    FetchResult,
    Finish,
    CommandFailed,
    WorkerJoined,
    TaskGaveUp,
    WorkerLeaving,
    IdleReport,
    TaskMetrics,
    TimeMetrics,
    ProgressMetrics,
    ErrorReport,
    Stall,
    Backpressure,
    ComponentPressure,
    TaskPressure,
    SpoutPacing,
    PressureEvent,
)


def register() -> None:
    """Let these messages travel, in this process."""
    for record in _RECORDS:
        register_record(record, f"aiostorm.{record.__name__}")
