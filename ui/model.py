"""Model: what the page and the REST interface say of a topology. Frozen data; its JSON is these fields.

What is not measured is None or left out, never a number that was made up. Times end in `_s` (seconds; points in time
are since 1970) or `_ms`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from ..cluster import LogLevel  # noqa: TC001 - pydantic reads the types of the fields
from ..metrics import SnapshotMetrics  # noqa: TC001
from ..runtime import ProcessMetrics  # noqa: TC001

SeriesKind = Literal["counter", "gauge", "meter", "histogram"]

Level = Literal["calm", "filling", "blocked"]
"""Of a bolt's mailboxes: below the low mark; above it; a task is blocked (until it is relieved at the low mark)."""


@dataclass(frozen=True, slots=True)
class TopologySummary:
    """A topology in the list. `throttled`: a spout is slowed down. `errors`: of user code, in all."""

    name: str
    state: str
    degraded: str
    throttled: bool
    spouts: int
    bolts: int
    tasks: int
    workers: int
    errors: int


@dataclass(frozen=True, slots=True)
class TopologyList:
    """The topologies that run. `read_only`: nothing can be changed from here. `cluster`: this page is of one."""

    version: str
    read_only: bool
    topologies: tuple[TopologySummary, ...]
    cluster: bool = False


@dataclass(frozen=True, slots=True)
class Marks:
    """Shares of a mailbox: a task counts as blocked above `high`, and as relieved at or below `low`."""

    low: float
    high: float


@dataclass(frozen=True, slots=True)
class GraphNode:
    """A component, and its place: `layer` counts from the spouts, `position` across, in heights of a node."""

    id: str
    kind: Literal["spout", "bolt"]
    tasks: int
    layer: int
    position: float


@dataclass(frozen=True, slots=True)
class GraphEdge:
    """A subscription. `feedback`: it closes a cycle. `points`: (layer, position) of its way, both ends included."""

    source: str
    target: str
    stream: str
    grouping: str
    fields: tuple[str, ...]
    feedback: bool
    points: tuple[tuple[float, float], ...]


@dataclass(frozen=True, slots=True)
class Graph:
    """A topology as it is drawn: `layers` long and `width` across. `guarantee`: what a row does to the results."""

    topology: str
    guarantee: str
    layers: int
    width: float
    nodes: tuple[GraphNode, ...]
    edges: tuple[GraphEdge, ...]


@dataclass(frozen=True, slots=True)
class Cause:
    """A spout that is slowed down, and the mailbox that is why.

    It waits `wait_s` for each tuple (the slowest of its tasks), since `since_s`. `mailbox` is the bolt's id, and `path`
    the components from the spout to it; both are empty while no reason is known. `fill`: 0 to 1.
    """

    spout: str
    wait_s: float
    since_s: float
    mailbox: str
    fill: float
    path: tuple[str, ...]
    words: str


@dataclass(frozen=True, slots=True)
class Latency:
    """How long `count` tuples took: half of them at most `p50_s`, 99 % at most `p99_s` (with an error of 1/9)."""

    count: int
    p50_s: float
    p99_s: float


@dataclass(frozen=True, slots=True)
class ComponentTick:
    """A component in one second. `counts`: every declared metric, since the start of the topology.

    `edges`: (stream, target, tuples transferred). `latencies`: of the last seconds (`latency_s` of the tick): `execute`
    and `process` of a bolt, `complete` of a spout; those without a tuple in that time are left out.

    `fill` is that of its fullest mailbox, 0 to 1, as the backpressure samples it: a share of what the mailbox accepts
    now, which is less than its capacity if each tuple takes long. `wait_s`: of a spout that is slowed down.
    `execute_s` and `complete_s`: means since the start; None before the first tuple.
    """

    component: str
    kind: str
    tasks: int
    counts: Mapping[str, float]
    fill: float
    level: Level
    blocked_tasks: int
    wait_s: float
    execute_s: float | None
    complete_s: float | None
    open_windows: int
    watermark_ms: int | None
    watermark_lag_s: float | None
    progress: str
    edges: tuple[tuple[str, str, int], ...] = ()
    latencies: Mapping[str, Latency] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Tick:
    """A topology in one second: `second` is the number of the tick, `at_s` its time.

    `latency_s`: the length of the time of which the latencies are; None: since the start. `processes`: of the workers,
    by name (`local`: this process). `snapshots`: None without exactly once.
    """

    second: int
    at_s: float
    state: str
    degraded: str
    pressure: str
    pending: int
    errors: int
    marks: Marks
    components: tuple[ComponentTick, ...]
    causes: tuple[Cause, ...]
    latency_s: float | None = None
    processes: Mapping[str, ProcessMetrics] = field(default_factory=dict)
    snapshots: SnapshotMetrics | None = None


@dataclass(frozen=True, slots=True)
class Series:
    """The past: for each point of time, for each component, a value for each of `names`.

    `step_s`: the time between two points; where more is missing, the topology was not watched.
    """

    names: tuple[str, ...]
    components: tuple[str, ...]
    step_s: int
    points: tuple[tuple[float, tuple[tuple[float | None, ...], ...]], ...]


@dataclass(frozen=True, slots=True)
class TaskRow:
    """A task. `worker` is empty in one process. `latencies`: as of a component, since the start."""

    task_id: int
    worker: str
    fill: int
    capacity: int
    blocked: bool
    counts: Mapping[str, float]
    execute_s: float | None
    open_windows: int
    watermark_ms: int | None
    watermark_lag_s: float | None
    progress: str
    latencies: Mapping[str, Latency]


@dataclass(frozen=True, slots=True)
class OwnSeries:
    """What a component measures by itself (`context.metrics`), merged over its tasks.

    `value`: of a histogram the number of its values, and `mean`, `p50`, `p99` (in its own unit) are of them; `rate`: of
    a meter, per second, of the last minute.
    """

    name: str
    kind: SeriesKind
    labels: Mapping[str, str]
    value: float | None
    rate: float | None
    mean: float | None
    p50: float | None
    p99: float | None


@dataclass(frozen=True, slots=True)
class ComponentDetail:
    """A component at `at_s`, task by task. `inputs` and `outputs` in words. `own`: what it measures by itself."""

    at_s: float
    component: str
    kind: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    tasks: tuple[TaskRow, ...]
    own: tuple[OwnSeries, ...]


@dataclass(frozen=True, slots=True)
class ErrorGroup:
    """Errors of one component that are alike. Numbers in their texts may differ; the rest is that of the last one."""

    component: str
    where: str
    error: str
    count: int
    tasks: tuple[int, ...]
    first_s: float
    last_s: float
    on_tuple: str | None
    traceback: str


@dataclass(frozen=True, slots=True)
class StallRow:
    """A call of user code that has blocked the event loop."""

    task: str
    blocked_s: float
    place: str
    line: str


@dataclass(frozen=True, slots=True)
class Errors:
    """The last errors in user code, alike ones together, and the last calls that blocked. `total`: errors in all."""

    total: int
    kept: int
    groups: tuple[ErrorGroup, ...]
    stalls: tuple[StallRow, ...]


@dataclass(frozen=True, slots=True)
class WorkerRow:
    """A worker: its process, and its tasks by component."""

    name: str
    pid: int
    phase: str
    restarts: int
    degraded: str
    tasks: Mapping[str, tuple[int, ...]]


@dataclass(frozen=True, slots=True)
class Workers:
    """The workers; none if all tasks are in this process, whose number is `pid`."""

    pid: int
    workers: tuple[WorkerRow, ...]


@dataclass(frozen=True, slots=True)
class SnapshotRow:
    """A snapshot. `problem`: why it cannot be restored; empty: it can. `tasks` by component."""

    number: int
    taken_s: float
    savepoint: bool
    size_bytes: int
    tasks: Mapping[str, int]
    problem: str


@dataclass(frozen=True, slots=True)
class Snapshots:
    """The snapshots, the oldest first. `available`: they are taken (exactly once)."""

    available: bool
    guarantee: str
    snapshots: tuple[SnapshotRow, ...]


@dataclass(frozen=True, slots=True)
class LogLine:
    """A log record, or a line that a worker has printed or logged. What is not known is empty, or None."""

    number: int
    at_s: float
    level: str
    logger: str
    topology: str
    worker: str
    component: str
    task: int | None
    text: str


@dataclass(frozen=True, slots=True)
class Logs:
    """The last log records. `levels`: logger → its own level, ``: the root logger; `loggers`: all of this process."""

    levels: Mapping[str, str]
    loggers: tuple[str, ...]
    lines: tuple[LogLine, ...]


@dataclass(frozen=True, slots=True)
class LogLevelOrder:
    """The body of `log-level`. An empty logger is the root logger; an empty level that of the logger above."""

    logger: str
    level: LogLevel


@dataclass(frozen=True, slots=True)
class SettingRow:
    """A setting. `key`: as in YAML. `value` and `default` are JSON texts. `source`: where the value is from."""

    name: str
    key: str
    value: str
    default: str
    source: str
    help: str
    updatable: bool


@dataclass(frozen=True, slots=True)
class Settings:
    """Every setting. `tag`: of these values; a change may name it in If-Match, and is refused if they have changed."""

    tag: str
    settings: tuple[SettingRow, ...]


@dataclass(frozen=True, slots=True)
class Done:
    """What a command has done. `state`: of the topology now."""

    state: str
    message: str


@dataclass(frozen=True, slots=True)
class KillOrder:
    """The body of `kill`. `wait_s`: how long it may drain; None: the message timeout; 0: stop at once."""

    wait_s: float | None = None


@dataclass(frozen=True, slots=True)
class ConfigOrder:
    """The body of a change of settings: by field or key."""

    settings: Mapping[str, bool | float | int | str | None]


@dataclass(frozen=True, slots=True)
class Problem:
    """Why a request was refused."""

    error: str
