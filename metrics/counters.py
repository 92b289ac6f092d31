"""What a task counts on its hot path, and what others read of it.

    Counts (the declarations: declared.py) ─┬─ TaskCounters: plain slots that a task adds to
                                            ├─ TaskMetrics: a copy of one task's, at one moment
                                            └─ ComponentMetrics: those of several tasks, aggregated

1. A task adds to plain slots, once per segment where it can; nothing is locked, since one loop owns a task.
2. What is read is a copy: a `ComponentMetrics` does not change afterwards.
3. A metric is declared once, in declared.py. What copies, adds up, sends or exports metrics reads the declarations.

Storm: BoltStats, SpoutStats. "emitted" counts emits, "transferred" counts tuples sent (one emit to three tasks: three).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Self

from .declared import COUNTERS, METRICS, Counts


class TaskCounters:
    """The counters of one task: a slot for each that is declared. They begin at 0."""

    __slots__ = COUNTERS

    def __init__(self) -> None:
        for name in COUNTERS:
            setattr(self, name, METRICS[name].zero)

    if TYPE_CHECKING:
        # Type checkers do not see these slots. At run time there is nothing else: a name that is not declared raises
        # AttributeError. (Two counters, of seconds, are floats.)

        def __getattr__(self, name: str) -> int: ...
        def __setattr__(self, name: str, value: float) -> None: ...


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
class TaskMetrics(Counts):
    """One task at one moment: what it has counted, and how full its mailbox is (`fill` of `capacity`, in tuples).

    Of a worker that died the counts are those of its last report.
    """

    task_id: int
    fill: int = 0
    capacity: int = 0
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
        copied = {name: getattr(counters, name) for name in COUNTERS}
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
        """With the counts of earlier processes of its worker."""
        counts = {name: getattr(earlier, name) + getattr(self, name) for name in COUNTERS}
        return replace(self, **counts, forgotten=earlier.forgotten)


@dataclass(frozen=True, slots=True, init=False)
class ComponentMetrics(Counts):
    """The tasks of one component, and what the declared metrics of all of them come to."""

    component: str
    kind: str
    tasks: tuple[TaskMetrics, ...]

    def __init__(self, component: str, kind: str, tasks: tuple[TaskMetrics, ...]) -> None:
        setting = object.__setattr__  # it is frozen
        setting(self, "component", component)
        setting(self, "kind", kind)
        setting(self, "tasks", tasks)
        for name, metric in METRICS.items():
            setting(self, name, metric.aggregate([getattr(task, name) for task in tasks]))

    @property
    def live_windows(self) -> int:
        """Windows that are open, one for each key (of buffered windows: rows that are kept)."""
        return sum(t.time.live for t in self.tasks if t.time is not None)

    @property
    def watermark_ms(self) -> int | None:
        """The least watermark of its tasks, in milliseconds since 1970; None: there is none (any more)."""
        known = [t.time for t in self.tasks if t.time is not None and not t.time.ended]
        watermarks = [time.watermark_ms for time in known if time.watermark_ms is not None]
        return min(watermarks) if watermarks and len(watermarks) == len(known) else None

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
    def execute_latency_s(self) -> float:
        """Mean time in `execute` per tuple; 0 before the first."""
        executed = self.executed
        return self.execute_s / executed if executed else 0.0

    @property
    def complete_latency_s(self) -> float:
        """Mean time from emit to ack per message; 0 before the first."""
        acked = self.acked
        return self.complete_s / acked if acked else 0.0

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
