"""Counters: what a task counts on its hot path, and what others read of it.

1. A task adds to plain integer slots, once per segment where it can; nothing is locked, since one loop owns a task.
2. What is read is a copy: a `ComponentMetrics` does not change afterwards.

Storm: BoltStats, SpoutStats. "emitted" counts emits, "transferred" counts tuples sent (one emit to three tasks: three).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass


class TaskCounters:
    """The counters of one task. Seconds for times."""

    __slots__ = (
        "acked",
        "complete_s",
        "dead_lettered",
        "emitted",
        "errors",
        "execute_s",
        "executed",
        "failed",
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
        self.replayed = 0
        self.dead_lettered = 0
        self.errors = 0
        self.restarts = 0
        self.trees = 0
        self.execute_s = 0.0
        self.complete_s = 0.0


@dataclass(frozen=True, slots=True)
class TaskMetrics:
    """One task at one moment.

    `acked` and `failed` are messages for a spout and tuples for a bolt; `replayed` and `dead_lettered` are a spout's.
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

    @classmethod
    def of(
        cls, task_id: int, counters: TaskCounters, *, pending: int, fill: int, capacity: int, pending_trees: int = 0
    ) -> TaskMetrics:
        """A copy of a task's counters."""
        copied = {name: getattr(counters, name) for name in TaskCounters.__slots__}
        return cls(
            task_id=task_id, pending=pending, pending_trees=pending_trees, fill=fill, capacity=capacity, **copied
        )


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
    def replayed(self) -> int:
        """Messages emitted again after a failure."""
        return sum(t.replayed for t in self.tasks)

    @property
    def dead_lettered(self) -> int:
        """Messages given up after `topology.max.retries` replays."""
        return sum(t.dead_lettered for t in self.tasks)

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
