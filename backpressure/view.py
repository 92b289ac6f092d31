"""View: what is known of the backpressure of a topology, as data. `running.backpressure()` gives it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

NORMAL, THROTTLED = "NORMAL", "THROTTLED"


@dataclass(frozen=True, slots=True)
class TaskPressure:
    """A flagged task. `fill` 0 to 1; `blocked` since `since_s` (seconds since 1970), or relieved since then.

    `execute_s`: seconds that the component takes for one of its tuples, all of its tasks together.
    """

    task_id: int
    fill: float
    blocked: bool
    since_s: float
    execute_s: float


@dataclass(frozen=True, slots=True)
class ComponentPressure:
    """A bolt. `fill` of its fullest task, 0 to 1; `tasks`: the flagged ones."""

    fill: float
    tasks: tuple[TaskPressure, ...] = ()


@dataclass(frozen=True, slots=True)
class SpoutPacing:
    """A spout task that is paced: it waits `wait_s` for each tuple, since `since_s`, because of components `why`."""

    component: str
    task_id: int
    wait_s: float
    since_s: float
    why: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class PressureEvent:
    """Something changed, at `at_s` (seconds since 1970). `component` is empty for what concerns all.

    `kind`: BLOCKED, RELIEVED (a bolt); THROTTLED, NORMAL (the topology); SLOWED, RELEASED (a spout); UPDATED.
    """

    at_s: float
    kind: str
    component: str
    text: str


@dataclass(frozen=True, slots=True)
class Backpressure:
    """Of a topology, at a moment. `state` is NORMAL or THROTTLED, since `since_s` (seconds since 1970).

    `spouts` are those that are paced; `events` the last, oldest first.
    """

    enabled: bool = True
    state: str = NORMAL
    since_s: float = 0.0
    components: Mapping[str, ComponentPressure] = field(default_factory=dict)
    spouts: tuple[SpoutPacing, ...] = ()
    events: tuple[PressureEvent, ...] = ()
