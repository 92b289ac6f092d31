"""View: the state of the backpressure of a topology, as data. `running.backpressure()` returns it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

NORMAL, THROTTLED = "NORMAL", "THROTTLED"


@dataclass(frozen=True, slots=True)
class TaskPressure:
    """A flagged task. `fill` 0 to 1; `blocked` since `since_s` (seconds since 1970), or relieved since then.

    `execute_s`: seconds that all tasks of the component together take for one tuple.
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
    """A paced spout task: it waits `wait_s` for each tuple, since `since_s`, because of the components `why`."""

    component: str
    task_id: int
    wait_s: float
    since_s: float
    why: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class PressureEvent:
    """A change at `at_s` (seconds since 1970). `component` is empty for changes that concern all components.

    `kind`: BLOCKED, RELIEVED (a bolt); THROTTLED, NORMAL (the topology); SLOWED, RELEASED (a spout); UPDATED.
    """

    at_s: float
    kind: str
    component: str
    text: str


@dataclass(frozen=True, slots=True)
class Backpressure:
    """The current backpressure of a topology. `state` is NORMAL or THROTTLED, since `since_s` (seconds since 1970).

    `spouts` are the paced ones; `events` are the last ones, oldest first.
    """

    enabled: bool = True
    state: str = NORMAL
    since_s: float = 0.0
    components: Mapping[str, ComponentPressure] = field(default_factory=dict[str, ComponentPressure])
    spouts: tuple[SpoutPacing, ...] = ()
    events: tuple[PressureEvent, ...] = ()
