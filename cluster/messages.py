"""Messages between a parent and its workers. The parent asks all of them but those that are sent without an answer.

    parent                                       worker
                ◄── WorkerJoined ──              it has started, or its parent was; the answer is the parent's id
    "setup actor":  ImportTopology, Connect, Prepare, Open ──► in this order, each after the answer to the previous one
                GatherResults, FetchResult, Finish ────────► results, in pieces; the end
    "control actor":  GetStatus, UpdateConfig, GetIdleReport, Peer… ──► answered at once, whatever the setup actor does
                     SetLogLevel, WantTraces, GetSpans, TakeProfile ─► the same
                ◄── TaskGaveUp, WorkerLeaving, ProfileTaken ──                           sent without an answer

With exactly once (see snapshots/messages.py for the rest):
    "setup actor":  … Open, Rebuild, Connect, Prepare, Open, Rebuild … ──► a SnapshotSetup in each Connect
    "control actor":  EndTasks, TakeSnapshot, CommitSnapshot, AbortSnapshot, HoldSpouts ──►  sent without an answer
                ◄── TasksSaved, SaveFailed, TasksCommitted, RowsFailed, RowsHeld ──      sent without an answer

1. If a worker cannot execute a command, it answers CommandFailed, whose kind decides which error the parent raises.
2. Each message has at most one frame; results, which may be larger, come in pieces.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from ..runtime import ProcessMetrics

if TYPE_CHECKING:
    from ..backpressure import Backpressure
    from ..metrics import SpanRow, WireRow
    from ..runtime import Profile, Stall
    from ..tasks import ErrorReport
    from ..topology import Setting
    from .snapshots.messages import SnapshotSetup

PARENT: Final = "parent"
"""The parent's name, its role, and the name of its actor."""

WORKER: Final = "worker"
"""The role of workers, and of processes that start workers for a parent (see transport's authentication)."""

DRIVER: Final = "driver"
"""The prefix of the name of a worker that runs in the parent's process."""

SETUP, CONTROL = "setup", "control"

CODE_DIFFERS: Final = "CodeDiffers"
"""The kind of the CommandFailed for another code fingerprint."""

FAILED_IMPORT: Final = "failed"
"""The digest of a process that could not import its topology: it imports no other one."""

PLAN_AFTER: Final = "."
"""In a digest: between that of what one process imports, and that of what its tasks are."""

PIECE_BYTES: Final = 512 * 1024

RESULT_ITEMS: Final = 10_000_000
"""How many values a result may have (see scan). More than in other messages: it comes from our own workers."""


@dataclass(frozen=True, slots=True)
class ImportTopology:
    """Import the topology: only one that the worker was started for, and no other code in the same process.

    `config`: its settings. `shape`: the description of the parent's topology; another one is refused. `code`: the
    fingerprint of its code; empty: not compared. `digest`: of all that must be equal for a later parent to go on with
    this process (see Standing and adoption.py). `parallelism`: component → tasks, where they are not as declared.

    When its tasks were ended, a process may get the same code again, with other settings, parallelism and placement.
    """

    name: str
    target: str
    arguments: tuple[str, ...]
    config: Mapping[str, Setting]
    placement: Mapping[int, str]
    shape: str
    code: str = ""
    digest: str = ""
    parallelism: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Connect:
    """Listen, open links to the peers (dial the address; None: the peer dials), and make the tasks.

    `nodes`: worker → its machine. The answer is the address at which the worker listens. With exactly once, `snapshots`
    says how the tasks begin, and `build` (see Exchange) is the number of this attempt to start them.
    """

    peers: Mapping[str, str | None]
    nodes: Mapping[str, str]
    snapshots: SnapshotSetup | None = None
    build: int = 0


@dataclass(frozen=True, slots=True)
class Prepare:
    """Start the ackers and prepare the bolts."""


@dataclass(frozen=True, slots=True)
class Open:
    """Open the spouts. They emit once they are activated."""


@dataclass(frozen=True, slots=True)
class PeerEnded:
    """A process of a peer has ended: send nothing to it. Another one with its name will start."""

    peer: str
    incarnation: int


@dataclass(frozen=True, slots=True)
class PeerDied:
    """All workers that answer know that it has ended: pending messages fail now."""

    peer: str
    incarnation: int


@dataclass(frozen=True, slots=True)
class PeerRestarted:
    """A peer was restarted and listens at this address, perhaps on another machine."""

    peer: str
    address: str


@dataclass(frozen=True, slots=True)
class GetStatus:
    """Ask for a StatusReport. `errors`, `stalls`, `events`, `spans`: how many the parent has received already.

    `mode`: the mode of the spouts from now on, "active", "inactive" or "ended"; empty: unchanged.
    """

    errors: int = 0
    stalls: int = 0
    events: int = 0
    pending: bool = False
    mode: str = ""
    spans: int = 0


@dataclass(frozen=True, slots=True)
class StatusReport:
    """The answer to GetStatus and Finish. `tasks`: their metrics, packed. `errors`: the new ones, `error_count`: of
    all; the same for stalls.

    `pending`: component → pending message ids, if requested, not too many, and sendable. `pressure`: from the worker
    with the topology master, with the new events; `event_count`: of all. `process`: what the worker's process uses.
    `spans`: new rows of sampled tuple trees; `span_count`: the number to ask with the next time; `clock_s`: their
    stopwatch now.
    """

    tasks: tuple[WireRow, ...] = ()
    errors: tuple[ErrorReport, ...] = ()
    error_count: int = 0
    stalls: tuple[Stall, ...] = ()
    stall_count: int = 0
    pending: Mapping[str, tuple[object, ...]] = field(default_factory=dict)
    pressure: Backpressure | None = None
    event_count: int = 0
    process: ProcessMetrics = field(default_factory=ProcessMetrics)
    spans: tuple[SpanRow, ...] = ()
    span_count: int = 0
    clock_s: float = 0.0


@dataclass(frozen=True, slots=True)
class WantTraces:
    """The next `count` trees of each task of these spouts are sampled."""

    spouts: tuple[str, ...]
    count: int


@dataclass(frozen=True, slots=True)
class TakeProfile:
    """Sample where this process is, for so long. ProfileTaken follows."""

    seconds: float


@dataclass(frozen=True, slots=True)
class ProfileTaken:
    """From a worker: a profile."""

    profile: Profile


@dataclass(frozen=True, slots=True)
class GetSpans:
    """Ask for the rows of sampled tuple trees after the first `count`; the answer is a StatusReport with only them."""

    count: int


@dataclass(frozen=True, slots=True)
class UpdateConfig:
    """The settings of the topology's configuration from now on."""

    config: Mapping[str, Setting]


@dataclass(frozen=True, slots=True)
class SetLogLevel:
    """The level of a logger from now on; empty names are the root logger, and the level of the logger above."""

    logger: str
    level: str


@dataclass(frozen=True, slots=True)
class GetIdleReport:
    """Set the mode as in GetStatus, then answer with an IdleReport. `away`: lost workers that do not matter."""

    mode: str
    finished: bool
    still: bool
    quiet_s: float
    away: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class GatherResults:
    """Ask the tasks for their results. The answer: (task, size in bytes) of each result, for FetchResult."""


@dataclass(frozen=True, slots=True)
class FetchResult:
    """Ask for a piece of a gathered result, from this byte on. The answer: bytes."""

    task: int
    offset: int


@dataclass(frozen=True, slots=True)
class Finish:
    """End in order, or at once. The answer is the last StatusReport; then the process ends.

    `stay`: only the tasks end. ImportTopology comes next, of the same code.
    """

    at_once: bool
    stay: bool = False
    errors: int = 0
    stalls: int = 0
    events: int = 0
    spans: int = 0


@dataclass(frozen=True, slots=True)
class CommandFailed:
    """The worker cannot execute a command. `kind`: the name of the error's class; `problems`: its texts.

    For CODE_DIFFERS, `problems` are the worker's modules, name and digest in turn.
    """

    kind: str
    problems: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class TaskGaveUp:
    """From a worker: a task has failed for good. `build`: of the task (see Connect)."""

    path: str
    error: str
    traceback: str
    build: int = 0


@dataclass(frozen=True, slots=True)
class Standing:
    """What a worker that outlives its parent tells the next one about itself.

    `parent`: the id of the parent that it had last. `digest`: of what it has imported (see ImportTopology); empty:
    nothing. `has_tasks`: they were made; `works`: all are open, and the spouts were not ended. `address`: at which it
    listens. `incarnations`: peer → its incarnation, as known here; `ended`: the peers whose incarnation has ended, as a
    parent has said. `gave_up`: the first task that has failed for good.
    """

    parent: int
    digest: str = ""
    has_tasks: bool = False
    works: bool = False
    address: str = ""
    incarnations: Mapping[str, int] = field(default_factory=dict)
    ended: tuple[str, ...] = ()
    gave_up: TaskGaveUp | None = None


def without_plan(digest: str) -> str:
    """The digest of a process that has imported its topology, and whose tasks have ended for good."""
    return f"{digest.partition(PLAN_AFTER)[0]}{PLAN_AFTER}"


@dataclass(frozen=True, slots=True)
class WorkerJoined:
    """From a worker that has started, or whose parent has (`standing`). `node`: its machine.

    Its name is the one of the link, not in the message. The answer is the id of the parent: a number that differs for
    each process. `generation`: of the topology which it was started for, in a cluster; 0: any.
    """

    pid: int
    node: str
    standing: Standing | None = None
    generation: int = 0


@dataclass(frozen=True, slots=True)
class WorkerLeaving:
    """From a worker that received SIGTERM, and ends within this time."""

    within_s: float
