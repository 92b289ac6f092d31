"""What others read: the metrics of a component, of a topology, of its processes and of its snapshots."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import repeat
from operator import attrgetter
from typing import TYPE_CHECKING, Any

from .counters import ProgressMetrics, TaskMetrics, added
from .declared import METRICS, NUMBERS, Counts
from .series import Series, merged_series

if TYPE_CHECKING:
    from ..runtime import ProcessMetrics


_NUMBERS = tuple(METRICS[name] for name in NUMBERS)
_numbers_of = attrgetter(*NUMBERS)


@dataclass(frozen=True, slots=True, init=False)
class ComponentMetrics(Counts):
    """The tasks of one component, and what the declared metrics of all of them come to: computed when first read.

    (Who watches a topology reads a few of them, often.)
    """

    component: str
    kind: str
    tasks: tuple[TaskMetrics, ...]

    def __init__(self, component: str, kind: str, tasks: tuple[TaskMetrics, ...]) -> None:
        setting = object.__setattr__  # it is frozen
        setting(self, "component", component)
        setting(self, "kind", kind)
        setting(self, "tasks", tasks)

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:  # its slot is empty
            metric = METRICS.get(name)
            if metric is None:
                raise AttributeError(f"{type(self).__name__} has no metric {name!r}")
            value = metric.aggregate([getattr(task, name) for task in self.tasks])
            object.__setattr__(self, name, value)
            return value

    def numbers(self) -> dict[str, float]:
        """Name → value of each declared metric that is a number: all at once, which is cheaper than one by one."""
        columns = zip(*map(_numbers_of, self.tasks), strict=True) if self.tasks else repeat(())
        return {metric.name: metric.aggregate(column) for metric, column in zip(_NUMBERS, columns, strict=False)}

    @property
    def streams(self) -> dict[str, int]:
        """Stream → tuples emitted on it."""
        return dict(added(row for task in self.tasks for row in task.streams))

    @property
    def edges(self) -> dict[tuple[str, str], int]:
        """(stream, component that receives it) → tuples transferred: each tuple once for every task it was sent to."""
        found = added(row for task in self.tasks for row in task.edges)
        return {(stream, target): count for stream, target, count in found}

    @property
    def own(self) -> tuple[Series, ...]:
        """What the component measures by itself (`context.metrics`), merged over its tasks."""
        return merged_series(task.own for task in self.tasks)

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


@dataclass(frozen=True, slots=True)
class SnapshotMetrics:
    """The snapshots of a topology with exactly once, since it was submitted.

    `number`: of the newest that counts, or of the one that it began with; None: there is none. `taken`, `failed`: how
    many. `failing`: how many have failed since the newest, the last because of `problem`. Of the newest: `duration_s`,
    from its trigger until it counted; `size_bytes`: what is stored for it, with the parts that earlier ones have
    written; `age_s`: how long ago it counted. `rolled_back`: how often all tasks went back to a snapshot, the last time
    because of `reason`. `waiting`: why the spouts wait for a snapshot (a sink holds too many rows); empty: they do not.
    Of all that are kept, together: `stored_bytes`, and how many they may be, `quota_bytes` (0: any number).
    """

    number: int | None = None
    taken: int = 0
    failed: int = 0
    failing: int = 0
    problem: str = ""
    duration_s: float = 0.0
    size_bytes: int = 0
    age_s: float = 0.0
    rolled_back: int = 0
    reason: str = ""
    waiting: str = ""
    stored_bytes: int = 0
    quota_bytes: int = 0


class TopologyMetrics(Mapping[str, ComponentMetrics]):
    """Component id → its metrics, at one moment; the acker is there as `__acker`.

    `processes`: of the workers, by name (`local`: this process). `snapshots`: None without exactly once.
    """

    __slots__ = ("_components", "processes", "snapshots")

    def __init__(
        self,
        components: Iterable[ComponentMetrics],
        processes: Mapping[str, ProcessMetrics] | None = None,
        snapshots: SnapshotMetrics | None = None,
    ) -> None:
        self._components = {c.component: c for c in components}
        self.processes = {} if processes is None else processes
        self.snapshots = snapshots

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
