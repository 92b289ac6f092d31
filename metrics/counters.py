"""Counters: what a task counts on its hot path, and what others read of it.

1. A task adds to plain integer slots, once per segment where it can; nothing is locked, since one loop owns a task.
2. What is read is a copy: a `ComponentMetrics` does not change afterwards.

Storm: BoltStats, SpoutStats. "emitted" counts emits, "transferred" counts tuples sent (one emit to three tasks: three).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Self


class TaskCounters:
    """The counters of one task. Seconds for times."""

    __slots__ = (
        "acked",
        "complete_s",
        "dead_lettered",
        "dropped_tuples",
        "dropped_windows",
        "emitted",
        "errors",
        "execute_s",
        "executed",
        "failed",
        "fired",
        "late",
        "replayed",
        "restarts",
        "transferred",
        "trees",
    )

    def __init__(self) -> None:
        self.emitted = 0
        self.transferred = 0
        self.executed = 0
        self.acked = 0
        self.failed = 0
        self.late = 0
        self.fired = 0
        self.dropped_windows = 0
        self.dropped_tuples = 0
        self.replayed = 0
        self.dead_lettered = 0
        self.errors = 0
        self.restarts = 0
        self.trees = 0
        self.execute_s = 0.0
        self.complete_s = 0.0


@dataclass(frozen=True, slots=True)
class TimeMetrics:
    """How far time is for a task with windows, or with windows behind it. Times in milliseconds.

    `live`: windows that are open, one for each key (of buffered windows: rows that are kept). `watermark_ms`: None
    before the first and when all inputs have ended (`ended`). `lag_ms`: how far it is behind the clock. `inputs`: pairs
    of input task and its watermark; `idle`: those that are not waited for. `buffered`: `live` are rows.
    """

    live: int = 0
    watermark_ms: int | None = None
    lag_ms: int | None = None
    ended: bool = False
    inputs: tuple[tuple[int, int | None], ...] = ()
    idle: tuple[int, ...] = ()
    buffered: bool = False


@dataclass(frozen=True, slots=True)
class ProgressMetrics:
    """How far a task or a component is with what it has to do: `done` of `total` parts, of which `unit` is the name.

    `rows`: so many have been processed. `before`: parts that an earlier run had done. `note`: what there is to say of
    them.
    """

    unit: str
    done: int
    total: int
    rows: int = 0
    before: int = 0
    note: str = ""

    def __str__(self) -> str:
        rows = f", {self.rows:,} row{'' if self.rows == 1 else 's'}" if self.rows else ""
        return f"{self.done:,} of {self.total:,} {self.unit}{rows}"


@dataclass(frozen=True, slots=True)
class TaskMetrics:
    """One task at one moment.

    `acked` and `failed` are messages for a spout and tuples for a bolt; `replayed` and `dead_lettered` are a spout's.
    `forgotten`: failed messages that a spout had not emitted again when its worker ended; the instance that began anew
    knows nothing of them, and whether its source offers them again is the source's business.
    `late` are tuples that came too late for their windows, `fired` windows (of one key) that have fired.
    `dropped_windows` were open, and `dropped_tuples` were kept by buffered windows, when their instance ended; of a
    worker that died as it was last seen.
    `execute_s` is the time spent in `execute`, `complete_s` the sum over acked messages from emit to ack, `trees` the
    tuple trees a spout has emitted, `pending` its open messages and `pending_trees` the trees they are in. `fill` and
    `capacity` are of the mailbox, in tuples.
    """

    task_id: int
    emitted: int = 0
    transferred: int = 0
    executed: int = 0
    acked: int = 0
    failed: int = 0
    late: int = 0
    fired: int = 0
    dropped_windows: int = 0
    dropped_tuples: int = 0
    replayed: int = 0
    dead_lettered: int = 0
    errors: int = 0
    restarts: int = 0
    trees: int = 0
    execute_s: float = 0.0
    complete_s: float = 0.0
    pending: int = 0
    pending_trees: int = 0
    fill: int = 0
    capacity: int = 0
    forgotten: int = 0
    time: TimeMetrics | None = None
    progress: ProgressMetrics | None = None

    @classmethod
    def of(
        cls,
        task_id: int,
        counters: TaskCounters,
        *,
        pending: int,
        fill: int,
        capacity: int,
        pending_trees: int = 0,
        time: TimeMetrics | None = None,
        progress: ProgressMetrics | None = None,
    ) -> TaskMetrics:
        """A copy of a task's counters."""
        copied = {name: getattr(counters, name) for name in TaskCounters.__slots__}
        return cls(
            task_id=task_id,
            pending=pending,
            pending_trees=pending_trees,
            fill=fill,
            capacity=capacity,
            time=time,
            progress=progress,
            **copied,
        )

    def ended(self) -> Self:
        """What is left of it when its worker has ended: what it has counted, and nothing that was open."""
        left = max(0, self.failed - self.replayed - self.dead_lettered) if self.trees else 0
        ended = replace(self, pending=0, pending_trees=0, fill=0, forgotten=left)
        if self.time is None or not self.time.live:
            return ended
        name = "dropped_tuples" if self.time.buffered else "dropped_windows"
        dropped = {name: getattr(self, name) + self.time.live}
        return replace(ended, time=replace(self.time, live=0), **dropped)

    def after(self, earlier: TaskMetrics) -> Self:
        """With what earlier lives of its worker have counted."""
        counts = {name: getattr(earlier, name) + getattr(self, name) for name in TaskCounters.__slots__}
        return replace(self, **counts, forgotten=earlier.forgotten)


@dataclass(frozen=True, slots=True)
class ComponentMetrics:
    """The tasks of one component, and their sums."""

    component: str
    kind: str
    tasks: tuple[TaskMetrics, ...]

    @property
    def emitted(self) -> int:
        """Tuples emitted."""
        return sum(t.emitted for t in self.tasks)

    @property
    def transferred(self) -> int:
        """Tuples sent to tasks."""
        return sum(t.transferred for t in self.tasks)

    @property
    def executed(self) -> int:
        """Tuples executed."""
        return sum(t.executed for t in self.tasks)

    @property
    def acked(self) -> int:
        """Messages (spout) or tuples (bolt) acked."""
        return sum(t.acked for t in self.tasks)

    @property
    def failed(self) -> int:
        """Messages (spout) or tuples (bolt) failed; a message that fails twice counts twice."""
        return sum(t.failed for t in self.tasks)

    @property
    def late(self) -> int:
        """Tuples that came too late for their windows."""
        return sum(t.late for t in self.tasks)

    @property
    def fired(self) -> int:
        """Windows that have fired, one for each key."""
        return sum(t.fired for t in self.tasks)

    @property
    def dropped_windows(self) -> int:
        """Windows, one for each key, that were open when an instance, a worker or the topology ended: not fired."""
        return sum(t.dropped_windows for t in self.tasks)

    @property
    def dropped_tuples(self) -> int:
        """Tuples that buffered windows kept when a worker or the topology ended: neither acked nor failed."""
        return sum(t.dropped_tuples for t in self.tasks)

    @property
    def live_windows(self) -> int:
        """Windows that are open, one for each key (of buffered windows: rows that are kept)."""
        return sum(t.time.live for t in self.tasks if t.time is not None)

    @property
    def watermark_ms(self) -> int | None:
        """The least watermark of its tasks, in milliseconds since 1970; None: there is none (any more)."""
        known = [t.time for t in self.tasks if t.time is not None and not t.time.ended]
        marks = [time.watermark_ms for time in known if time.watermark_ms is not None]
        return min(marks) if marks and len(marks) == len(known) else None

    @property
    def watermark_lag_s(self) -> float | None:
        """How far that is behind the clock."""
        lags = [t.time.lag_ms for t in self.tasks if t.time is not None and t.time.lag_ms is not None]
        return max(lags) / 1000 if lags and self.watermark_ms is not None else None

    @property
    def progress(self) -> ProgressMetrics | None:
        """The sum of what its tasks know; None if none knows."""
        known = [t.progress for t in self.tasks if t.progress is not None]
        if not known:
            return None
        names = ("done", "total", "rows", "before")
        done, total, rows, before = (sum(getattr(p, name) for p in known) for name in names)
        note = next((p.note for p in known if p.note), "")
        return ProgressMetrics(known[0].unit, done, total, rows, before, note)

    @property
    def replayed(self) -> int:
        """Messages emitted again after a failure."""
        return sum(t.replayed for t in self.tasks)

    @property
    def dead_lettered(self) -> int:
        """Messages given up after `topology.max.retries` replays."""
        return sum(t.dead_lettered for t in self.tasks)

    @property
    def forgotten(self) -> int:
        """Failed messages that were not emitted again when the worker of their spout ended."""
        return sum(t.forgotten for t in self.tasks)

    @property
    def errors(self) -> int:
        """Errors reported."""
        return sum(t.errors for t in self.tasks)

    @property
    def restarts(self) -> int:
        """Times a task was started again after a failure."""
        return sum(t.restarts for t in self.tasks)

    @property
    def trees(self) -> int:
        """Tuple trees emitted."""
        return sum(t.trees for t in self.tasks)

    @property
    def pending(self) -> int:
        """Open messages."""
        return sum(t.pending for t in self.tasks)

    @property
    def pending_trees(self) -> int:
        """Trees with open messages."""
        return sum(t.pending_trees for t in self.tasks)

    @property
    def execute_latency_s(self) -> float:
        """Mean time in `execute` per tuple; 0 before the first."""
        executed = self.executed
        return sum(t.execute_s for t in self.tasks) / executed if executed else 0.0

    @property
    def complete_latency_s(self) -> float:
        """Mean time from emit to ack per message; 0 before the first."""
        acked = self.acked
        return sum(t.complete_s for t in self.tasks) / acked if acked else 0.0

    @property
    def fill_ratio(self) -> float:
        """The fullest mailbox of its tasks, 0 to 1."""
        return max((t.fill / t.capacity for t in self.tasks if t.capacity), default=0.0)


class TopologyMetrics(Mapping[str, ComponentMetrics]):
    """Component id → its metrics, at one moment; the acker is there as `__acker`."""

    __slots__ = ("_components",)

    def __init__(self, components: Iterable[ComponentMetrics]) -> None:
        self._components = {c.component: c for c in components}

    @property
    def pending(self) -> int:
        """Open messages of all spouts."""
        return sum(c.pending for c in self._components.values())

    def __getitem__(self, component: str) -> ComponentMetrics:
        try:
            return self._components[component]
        except KeyError:
            known = ", ".join(sorted(self._components))
            raise KeyError(f"no component {component!r}; there are: {known}") from None

    def __iter__(self) -> Iterator[str]:
        return iter(self._components)

    def __len__(self) -> int:
        return len(self._components)

    def __repr__(self) -> str:
        return f"TopologyMetrics({', '.join(self._components)})"
