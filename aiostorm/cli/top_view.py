"""Top view: running topologies as the lines and the document of `aiostorm top`. Decisions only.

    readings, one a second ─► Top.take ─► rates of the last seconds ─► lines (as wide as the terminal), document

1. Rates, latencies and shares are of the time since the reading before; a value that is not known yet is `–`.
2. Nothing is wider than the terminal: what is less important is left out, and names are cut.
3. Names are escaped: a text of the user's never moves the cursor.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from ..topology import printable, shortened
from .document import plain
from .pressure import duration, paced_text

if TYPE_CHECKING:
    from ..backpressure import ComponentPressure
    from ..cluster import RemoteTopology
    from ..metrics import ComponentMetrics, Histogram, TopologyMetrics

SORTS: Final = ("declared", "rate", "mailbox", "p99", "busy", "name")

UNKNOWN: Final = "–"
_BAR: Final = 7
_NAME: Final = 12
"""The least width of a name."""


@dataclass(frozen=True, slots=True)
class Row:
    """A component, or a task of one. `per_s`: tuples a second; `p50_s`, `p99_s`: of the time since the last reading.

    `busy`, `blocked`: shares of that time, 0 to 1, of a task on average. None: not known.
    """

    name: str
    kind: str
    tasks: int
    per_s: float | None
    failed: int
    errors: int
    fill: float | None
    blocked_tasks: int
    p50_s: float | None
    p99_s: float | None
    busy: float | None
    blocked: float | None


@dataclass(frozen=True, slots=True)
class Reading:
    """A topology at one moment, and its rows."""

    name: str
    pid: int
    state: str
    degraded: str
    uptime_s: float
    pending: int
    acked_per_s: float | None
    failed: int
    errors: int
    paced: str
    last_error: str
    rows: tuple[Row, ...]
    tasks: Mapping[str, tuple[Row, ...]]


@dataclass(frozen=True, slots=True)
class Choice:
    """What the user looks at: the topology and the component by number, whether its tasks, and in which order."""

    topology: int = 0
    component: int = 0
    tasks: bool = False
    sort: str = SORTS[0]
    help: bool = False


class Top:
    """Keeps the reading before of each topology."""

    def __init__(self) -> None:
        self._before: dict[str, tuple[float, TopologyMetrics]] = {}
        self._shown: dict[str, Reading] = {}

    def take(self, topologies: Mapping[str, RemoteTopology]) -> list[Reading]:
        """The topologies now, by name."""
        before, shown = self._before, self._shown
        self._before, self._shown = {}, {}
        for name, running in sorted(topologies.items()):
            at_s, metrics = running.read_at_s, running.metrics()
            earlier = before.get(name)
            if earlier is not None and earlier[0] >= at_s and name in shown and not running.degraded:
                self._before[name], self._shown[name] = earlier, shown[name]
                continue
            self._before[name] = at_s, metrics
            seconds = 0.0 if earlier is None else at_s - earlier[0]
            known = _Before(earlier[1] if earlier is not None and seconds > 0 else None, seconds)
            self._shown[name] = _reading(running, name, at_s, metrics, known)
        return list(self._shown.values())


@dataclass(frozen=True, slots=True)
class _Before:
    """The metrics of the reading before, and how long ago it was; None: there was none."""

    metrics: TopologyMetrics | None
    seconds: float

    def component(self, name: str) -> ComponentMetrics | None:
        """Those of a component."""
        return self.metrics[name] if self.metrics is not None and name in self.metrics else None


def _reading(running: RemoteTopology, name: str, at_s: float, metrics: TopologyMetrics, before: _Before) -> Reading:
    pressure = running.backpressure()
    shown = [c for component, c in metrics.items() if component in running.topology.components]
    spouts = [c for c in shown if c.kind == "spout"]
    earlier = [old for c in spouts if (old := before.component(c.component)) is not None]
    acked = sum(c.acked for c in spouts) - sum(c.acked for c in earlier)
    errors = running.errors()
    return Reading(
        name=name,
        pid=running.pid,
        state=running.state.value,
        degraded=running.degraded,
        uptime_s=max(0.0, at_s - running.started_s),
        pending=metrics.pending,
        acked_per_s=max(0, acked) / before.seconds if earlier else None,
        failed=sum(c.failed for c in spouts),
        errors=sum(c.errors for c in shown),
        paced=paced_text(pressure),
        last_error=f"{errors[-1].component}: {errors[-1].error}" if errors else "",
        rows=tuple(_component_row(c, before, pressure.components.get(c.component)) for c in shown),
        tasks={c.component: _task_rows(c, before, pressure.components.get(c.component)) for c in shown},
    )


def _component_row(now: ComponentMetrics, before: _Before, pressure: ComponentPressure | None) -> Row:
    fill = None if now.kind == "spout" else now.fill_ratio if pressure is None else pressure.fill
    blocked = sum(task.blocked for task in pressure.tasks) if pressure is not None else 0
    old = before.component(now.component)
    return _row(now.component, now.kind, now, old, before.seconds, fill, blocked, len(now.tasks))


def _task_rows(now: ComponentMetrics, before: _Before, pressure: ComponentPressure | None) -> tuple[Row, ...]:
    blocked = {task.task_id for task in pressure.tasks if task.blocked} if pressure is not None else set[int]()
    component = before.component(now.component)
    old = {task.task_id: task for task in component.tasks} if component is not None else {}
    rows = []
    for task in now.tasks:
        name, number = f"task {task.task_id}", task.task_id
        fill = None if now.kind == "spout" else task.fill / max(1, task.capacity)
        rows.append(_row(name, now.kind, task, old.get(number), before.seconds, fill, int(number in blocked), 1))
    return tuple(rows)


def _row(name: str, kind: str, now: Any, old: Any, seconds: float, fill: float | None, blocked: int, tasks: int) -> Row:
    """`now` and `old` are of a component or of a task: both have every metric."""
    counted = "emitted" if kind == "spout" else "executed"
    latency = "complete_latency" if kind == "spout" else "process_latency"

    def rate(metric: str) -> float | None:
        return None if old is None else max(0.0, getattr(now, metric) - getattr(old, metric)) / seconds

    recent: Histogram | None = None if old is None else getattr(now, latency).since(getattr(old, latency))
    has_values = recent is not None and recent.count > 0
    busy, waits = rate("busy_s"), rate("blocked_s")
    return Row(
        name=name,
        kind=kind,
        tasks=tasks,
        per_s=rate(counted),
        failed=now.failed,
        errors=now.errors,
        fill=fill,
        blocked_tasks=blocked,
        p50_s=recent.quantile(0.5) if recent is not None and has_values else None,
        p99_s=recent.quantile(0.99) if recent is not None and has_values else None,
        busy=None if busy is None else min(1.0, busy / max(1, tasks)),
        blocked=None if waits is None else min(1.0, waits / max(1, tasks)),
    )


def document(readings: Sequence[Reading]) -> dict[str, Any]:
    """The JSON document."""
    return {"topologies": [plain(reading) for reading in readings]}


# -- lines -------------------------------------------------------------------------------------------------------------

_COLUMNS: Final[tuple[tuple[str, int, Callable[[Row], str]], ...]] = (
    ("tasks", 5, lambda row: str(row.tasks)),
    ("tuples/s", 9, lambda row: _rate(row.per_s)),
    ("mailbox", _BAR + 5, lambda row: _bar(row.fill)),
    ("p50", 7, lambda row: _time(row.p50_s)),
    ("p99", 7, lambda row: _time(row.p99_s)),
    ("failed", 6, lambda row: _count(row.failed)),
    ("busy", 4, lambda row: _share(row.busy)),
    ("blkd", 4, lambda row: _share(row.blocked)),
    ("errors", 6, lambda row: _count(row.errors)),
)
"""The most important first: what does not fit is left out."""

HELP: Final = (
    "q  end              s  sort by " + ", ".join(SORTS[1:]),
    "n  next topology    ↑ ↓ (j k)  choose a component",
    "t  its tasks        ?  this help",
    "",
    "tuples/s: emitted by a spout, executed by a bolt. mailbox: the fullest one. p50, p99: from emit to ack",
    "of a spout, from the mailbox to the end of a bolt. busy, blkd: shares of the time of its tasks.",
)


def lines(readings: Sequence[Reading], choice: Choice, width: int) -> list[tuple[str, str]]:
    """(text, style) of each line; a style is "", "bold", "dim", "red", "yellow" or "reverse"."""
    if choice.help:
        return [(shortened(line, width), "") for line in HELP]
    if not readings:
        return [(shortened("No topology of yours runs here with `aiostorm run`.", width), "dim")]
    found: list[tuple[str, str]] = []
    at = choice.topology % len(readings)
    if len(readings) > 1:
        for i, each in enumerate(readings):
            found.append((shortened(_summary(each), width), "bold" if i == at else "dim"))
        found.append(("", ""))
    return found + _one(readings[at], choice, width)


def _one(reading: Reading, choice: Choice, width: int) -> list[tuple[str, str]]:
    found = [(shortened(_summary(reading), width), "bold")]
    if reading.degraded:
        found.append((shortened(printable(reading.degraded), width), "red"))
    found += [(shortened(part, width), "yellow") for part in reading.paced.split("; ") if part]
    rows = ordered(reading.rows, choice.sort)
    chosen = rows[choice.component % len(rows)].name if rows else ""
    found += [("", ""), *table(rows, width, chosen)]
    if choice.tasks and chosen:
        found += [("", ""), (shortened(f"tasks of {printable(chosen)}", width), "bold")]
        found += table(ordered(reading.tasks[chosen], choice.sort), width)
    if reading.last_error:
        text = f"{_count(reading.errors)} errors, the last of {printable(reading.last_error)}"
        found += [("", ""), (shortened(text, width), "red")]
    return found


def ordered(rows: Sequence[Row], sort: str) -> list[Row]:
    """By a column, the greatest first; by name; or as declared."""
    keys: dict[str, Callable[[Row], Any]] = {
        "rate": lambda row: -(row.per_s or 0.0),
        "mailbox": lambda row: -(row.fill or 0.0),
        "p99": lambda row: -(row.p99_s or 0.0),
        "busy": lambda row: -(row.busy or 0.0),
        "name": lambda row: row.name,
    }
    return sorted(rows, key=keys[sort]) if sort in keys else list(rows)


def table(rows: Sequence[Row], width: int, chosen: str = "") -> list[tuple[str, str]]:
    """A head and a line for each row."""
    columns = list(_COLUMNS)
    while columns and _NAME + sum(size + 1 for _, size, _ in columns) > width:
        columns.pop()
    names = max(
        1, min(width - sum(size + 1 for _, size, _ in columns), max((len(r.name) for r in rows), default=0) + 1, 40)
    )
    names = max(names, min(_NAME, width))
    head = shortened("component", names).ljust(names) + "".join(f" {title:>{size}}" for title, size, _ in columns)
    found = [(head, "dim")]
    for row in rows:
        name = shortened(printable(row.name), names).ljust(names)
        cells = "".join(f" {cell(row):>{size}}" for _, size, cell in columns)
        style = "reverse" if row.name == chosen else "red" if row.blocked_tasks or row.errors else ""
        found.append((name + cells, style))
    return found


def _summary(reading: Reading) -> str:
    parts = [
        f"{printable(reading.name)} (pid {reading.pid}) {reading.state}",
        f"up {duration(reading.uptime_s)}",
        f"{_rate(reading.acked_per_s)} acked/s",
        f"{_count(reading.pending)} pending",
        f"{_count(reading.failed)} failed",
    ]
    return "  ".join(parts)


def _bar(fill: float | None) -> str:
    if fill is None:
        return ""
    full = round(max(0.0, min(1.0, fill)) * _BAR)
    return "█" * full + "░" * (_BAR - full) + f" {fill:>4.0%}"


def _rate(per_s: float | None) -> str:
    return UNKNOWN if per_s is None else _count(round(per_s))


def _count(number: float) -> str:
    """At most six characters: `12,345`, `1.23M`."""
    for limit, size, unit in ((1e5, 1.0, ""), (1e7, 1e3, "k"), (1e10, 1e6, "M")):
        if number < limit:
            return f"{number / size:,.0f}{unit}"
    return f"{number / 1e9:,.0f}G"


def _time(seconds: float | None) -> str:
    return UNKNOWN if seconds is None else duration(seconds)


def _share(share: float | None) -> str:
    return UNKNOWN if share is None else f"{share:.0%}"
