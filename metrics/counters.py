"""What a task counts on its hot path, and what others read of it.

    Counts (the declarations: declared.py) ─┬─ TaskCounters: plain slots that a task adds to
                                            ├─ TaskMetrics: a copy of one task's, at one moment
                                            └─ ComponentMetrics: those of several tasks, aggregated (components.py)

1. A task adds to plain slots, once per segment where it can; nothing is locked, since one loop owns a task.
2. What is read is a copy: a `TaskMetrics` does not change afterwards.
3. A metric is declared once, in declared.py. What copies, adds up, sends or exports metrics reads the declarations.

Storm: BoltStats, SpoutStats. "emitted" counts emits, "transferred" counts tuples sent (one emit to three tasks: three).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Self

from .declared import COUNTERS, HISTOGRAMS, METRICS, Counts
from .histogram import EMPTY, Histogram, Timings
from .series import Series, continued

_counts_of = attrgetter(*COUNTERS)  # in one call: who watches a topology reads every task each second


class TaskCounters:
    """The counters of one task: a slot for each that is declared. They begin at 0.

    `measured`: the histograms that the task fills; the slots of the others are None.
    """

    __slots__ = (*COUNTERS, *HISTOGRAMS)

    def __init__(self, *measured: str) -> None:
        for name in COUNTERS:
            setattr(self, name, METRICS[name].zero)
        for name in HISTOGRAMS:
            setattr(self, name, Timings() if name in measured else None)

    def count_times(self) -> None:
        """Count the times that were measured since the last call."""
        for name in HISTOGRAMS:
            timings: Timings | None = getattr(self, name)
            if timings is not None:
                timings.counts()

    if TYPE_CHECKING:
        # Type checkers do not see these slots. At run time there is nothing else: a name that is not declared raises
        # AttributeError. (Counters of seconds are floats.)
        execute_latency: Timings
        process_latency: Timings
        complete_latency: Timings

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

    `streams`: (stream, tuples emitted); `edges`: (stream, component that receives it, tuples transferred). `own`: what
    the component measures by itself. Of a worker that died the counts are those of its last report.
    """

    task_id: int
    fill: int = 0
    capacity: int = 0
    time: TimeMetrics | None = None
    progress: ProgressMetrics | None = None
    streams: tuple[tuple[str, int], ...] = ()
    edges: tuple[tuple[str, str, int], ...] = ()
    own: tuple[Series, ...] = ()

    @classmethod
    def of(cls, task_id: int, counters: TaskCounters, **seen: Any) -> TaskMetrics:
        """A copy of a task's counters. `seen`: its gauges, and counters that are computed when they are read."""
        copied: dict[str, Any] = dict(zip(COUNTERS, _counts_of(counters), strict=True))
        copied |= seen
        for name in HISTOGRAMS:
            timings: Timings | None = getattr(counters, name)
            copied[name] = EMPTY if timings is None else Histogram.of(timings.counts(), copied[METRICS[name].total])
        return cls(task_id=task_id, **copied)

    def ended(self) -> Self:
        """What is left of it when its worker has ended: what it has counted, and nothing that was open."""
        left = max(0, self.failed - self.replayed - self.dead_lettered) if self.trees else 0
        ended = replace(self, pending=0, pending_trees=0, fill=0, forgotten=left, state_keys=0)
        if self.time is None or not self.time.live:
            return ended
        name = "dropped_tuples" if self.time.buffered else "dropped_windows"
        dropped = {name: getattr(self, name) + self.time.live}
        return replace(ended, time=replace(self.time, live=0), **dropped)

    def after(self, earlier: TaskMetrics) -> Self:
        """With the counts of earlier processes of its worker."""
        counts = {name: getattr(earlier, name) + getattr(self, name) for name in (*COUNTERS, *HISTOGRAMS)}
        return replace(
            self,
            **counts,
            forgotten=earlier.forgotten,
            streams=tuple(added((*earlier.streams, *self.streams))),
            edges=tuple(added((*earlier.edges, *self.edges))),
            own=continued(earlier.own, self.own),
        )


def added(rows: Iterable[tuple[*tuple[str, ...], int]]) -> list[Any]:
    """Rows whose last value is a count: those with the same other values become one."""
    found: dict[tuple[Any, ...], int] = {}
    for *key, count in rows:
        found[tuple(key)] = found.get(tuple(key), 0) + count
    return [(*key, count) for key, count in found.items()]
