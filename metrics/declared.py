"""The metrics, each declared once: its name, what it is, its unit, and what those of several tasks come to.

    declaration ─┬─ the slot that a task adds to, and its zero            (TaskCounters)
                 ├─ the copy that others read, and that workers send      (TaskMetrics)
                 ├─ the aggregate over the tasks of a component           (ComponentMetrics)
                 └─ what is exported: `aiostorm run --json`, the page docs/reference/metrics.md

A *counter* only grows while a task lives; what earlier processes of a worker have counted is added. A *gauge* is a
value at one moment.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from types import MappingProxyType
from typing import Final, Literal

Unit = Literal["tuples", "messages", "trees", "windows", "seconds", "times"]
Aggregate = Callable[[Sequence[float]], float]
"""One number from the numbers of several tasks."""


@dataclass(frozen=True, slots=True)
class Metric:
    """The declaration of one metric. `group`: under which name the JSON report has it; empty: at the top."""

    name: str
    help: str
    unit: Unit
    kind: Literal["counter", "gauge"]
    aggregate: Aggregate
    group: str
    zero: float


def counter(help_text: str, unit: Unit, *, group: str = "") -> int:
    """A field that is a counter."""
    return _declared(help_text, unit, "counter", sum, group)


def gauge(help_text: str, unit: Unit, *, group: str = "", aggregate: Aggregate = sum) -> int:
    """A field that is a gauge. `aggregate` makes one number of those of several tasks (of none, too)."""
    return _declared(help_text, unit, "gauge", aggregate, group)


def _declared(help_text: str, unit: Unit, kind: str, aggregate: Aggregate, group: str) -> int:
    zero = 0.0 if unit == "seconds" else 0
    made = {"help": help_text, "unit": unit, "kind": kind, "aggregate": aggregate, "group": group, "zero": zero}
    return field(default=zero, metadata={"metric": made})  # type: ignore[return-value] # an int is also a float


@dataclass(frozen=True, slots=True, kw_only=True)
class Counts:
    """Every metric, declared. To add one is a line here, and the line where it happens."""

    emitted: int = counter("Tuples emitted.", "tuples")
    transferred: int = counter("Tuples sent to tasks: one emit to three tasks is three.", "tuples")
    executed: int = counter("Tuples executed.", "tuples")
    acked: int = counter("Messages (spout) or tuples (bolt) acked.", "messages")
    failed: int = counter("Messages (spout) or tuples (bolt) failed; one that fails twice counts twice.", "messages")
    replayed: int = counter("Messages that a spout has emitted again after a failure.", "messages")
    dead_lettered: int = counter("Messages given up after `topology.max.retries` replays.", "messages")
    forgotten: int = gauge(
        "Failed messages that a spout had not emitted again when its worker ended. The instance that began anew knows "
        "nothing of them; whether its source offers them again is up to the source.",
        "messages",
    )
    errors: int = counter("Errors in user code that were reported.", "times")
    restarts: int = counter("Times that a task was started again after a failure.", "times")
    trees: int = counter("Tuple trees that a spout has emitted.", "trees")
    pending: int = gauge("Open messages: neither acked nor failed.", "messages")
    pending_trees: int = gauge("Tuple trees with open messages.", "trees")
    fired: int = counter("Windows that have fired, one for each key.", "windows", group="windows")
    late: int = counter("Tuples that came too late for their windows.", "tuples", group="windows")
    dropped_windows: int = counter(
        "Windows, one for each key, that were open when an instance, a worker or the topology ended: not fired.",
        "windows",
        group="windows",
    )
    dropped_tuples: int = counter(
        "Tuples that buffered windows kept when an instance, a worker or the topology ended: neither acked nor failed.",
        "tuples",
        group="windows",
    )
    execute_s: float = counter("Time spent in `execute`.", "seconds")
    complete_s: float = counter("Time from emit to ack, the sum over the acked messages of a spout.", "seconds")


METRICS: Final[Mapping[str, Metric]] = MappingProxyType(
    {declared.name: Metric(declared.name, **declared.metadata["metric"]) for declared in fields(Counts)}
)
"""Name → declaration, in the order in which they are shown."""

COUNTERS: Final = tuple(name for name, metric in METRICS.items() if metric.kind == "counter")


def metrics_table() -> str:
    """All metrics as a Markdown table: what docs/reference/metrics.md holds."""
    rows = [f"| `{m.name}` | {m.kind} | {m.unit} | {m.help} |" for m in METRICS.values()]
    return "\n".join(["| name | kind | unit | is |", "|---|---|---|---|", *rows])
