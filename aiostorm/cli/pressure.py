"""Pressure: a topology's backpressure for people: one line while it runs, or a page of its own.

1. The line is empty unless a spout is paced.
2. Times are shown as durations until now. The JSON document has them unchanged: seconds, since 1970 for points in time.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

from .document import plain
from .report import printable, table

if TYPE_CHECKING:
    from ..backpressure import Backpressure, SpoutPacing, TaskPressure
    from ..cluster import StatusResponse

SHOWN_EVENTS = 10
SHOWN_TASKS = 4


def paced_text(pressure: Backpressure) -> str:
    """Which spouts wait, and why: `lines waits 1.2 ms a tuple, because count cannot keep up`. Empty if none waits."""
    spouts: dict[str, list[SpoutPacing]] = {}
    for task in pressure.spouts:
        spouts.setdefault(task.component, []).append(task)
    return "; ".join(_paced(component, tasks) for component, tasks in spouts.items())


def _paced(component: str, tasks: Sequence[SpoutPacing]) -> str:
    why = list(dict.fromkeys(printable(name) for task in tasks for name in task.why))
    because = f", because {_listed(why)} cannot keep up" if why else ""  # without a reason just after a restart
    least, most = duration(min(t.wait_s for t in tasks)), duration(max(t.wait_s for t in tasks))
    waits = most if least == most else f"{least} to {most}"
    return f"{printable(component)} waits {waits} a tuple{because}"


def duration(seconds: float) -> str:
    """`850 µs`, `1.2 ms`, `3.5 s`, `12 s`, `4 min`, `2.5 h`."""
    for limit, unit, size in ((1e-3, "µs", 1e-6), (1.0, "ms", 1e-3), (120.0, "s", 1.0), (7200.0, "min", 60.0)):
        if seconds < limit:
            return _number(seconds / size, unit)
    return _number(seconds / 3600.0, "h")


def _number(value: float, unit: str) -> str:
    return f"{value:.0f} {unit}" if value >= 10 or unit == "µs" else f"{value:.1f} {unit}".replace(".0 ", " ")


# -- for people --------------------------------------------------------------------------------------------------------


def as_text(status: StatusResponse) -> str:
    """The text of `aiostorm pressure`."""
    return "\n\n".join(block for block in _blocks(status) if block)


def _blocks(status: StatusResponse) -> Iterator[str]:
    pressure, now_s = status.pressure, status.now_s
    head = f"{printable(status.topology)} (pid {status.pid}) {status.state}"
    if not pressure.enabled:
        yield f"{head}, and is not paced: topology.backpressure.enable is false"
    else:
        since = f" for {duration(now_s - pressure.since_s)}" if pressure.since_s else ""
        yield f"{head}, its backpressure is {pressure.state}{since}"
    components = [
        (printable(name), f"{found.fill:.0%}", _tasks(found.tasks, now_s), _slowest(found.tasks))
        for name, found in pressure.components.items()
    ]
    if components:
        yield table(components, ("component", "fill", "blocked tasks", "a tuple takes"), right=frozenset({1, 3}))
    spouts = [
        (
            f"{printable(task.component)} [{task.task_id}]",
            duration(task.wait_s),
            duration(max(0.0, now_s - task.since_s)),
            _listed([printable(name) for name in task.why]) or "-",
        )
        for task in pressure.spouts
    ]
    if spouts:
        yield table(spouts, ("spout", "waits a tuple", "for", "because of"), right=frozenset({1, 2}))
    events = [
        (
            f"{datetime.fromtimestamp(event.at_s):%H:%M:%S}",
            event.kind,
            printable(event.component),
            printable(event.text),
        )
        for event in pressure.events[-SHOWN_EVENTS:]
    ]
    if events:
        yield table(events, ("at", "event", "component", ""))


def _tasks(tasks: Sequence[TaskPressure], now_s: float) -> str:
    blocked = [task for task in tasks if task.blocked]
    shown = [f"{task.task_id} for {duration(max(0.0, now_s - task.since_s))}" for task in blocked[:SHOWN_TASKS]]
    return ", ".join([*shown, *([f"and {len(blocked) - SHOWN_TASKS} more"] if len(blocked) > SHOWN_TASKS else [])])


def _slowest(tasks: Sequence[TaskPressure]) -> str:
    execute_s = max((task.execute_s for task in tasks if task.blocked), default=0.0)
    return duration(execute_s) if execute_s > 0 else ""


def _listed(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}" if names else ""


# -- for programs ------------------------------------------------------------------------------------------------------


def as_document(status: StatusResponse) -> dict[str, Any]:
    """The JSON document of `aiostorm pressure`."""
    names = {"topology": status.topology, "pid": status.pid, "topology_state": status.state, "now_s": status.now_s}
    document: dict[str, Any] = {**names, **plain(status.pressure)}
    return document
