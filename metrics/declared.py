"""The metrics, each declared once: its name, what it is, its unit, and what those of several tasks come to.

    declaration ─┬─ the slot that a task adds to, and its zero            (TaskCounters)
                 ├─ the copy that others read, and that workers send      (TaskMetrics)
                 ├─ the aggregate over the tasks of a component           (ComponentMetrics)
                 └─ what is exported: `aiostorm run --json`, `/metrics`, the page docs/reference/metrics.md

A *counter* only grows while a task lives; what earlier processes of a worker have counted is added. So it is for a
*histogram*, which a task fills without a call (histogram.py). A *gauge* is a value at one moment.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from types import MappingProxyType
from typing import Any, Final, Literal

from .histogram import EMPTY, Histogram, merged

Unit = Literal["tuples", "messages", "trees", "windows", "keys", "seconds", "times"]
Kind = Literal["counter", "gauge", "histogram"]
Aggregate = Callable[[Sequence[Any]], Any]
"""One value from the values of several tasks."""


@dataclass(frozen=True, slots=True)
class Metric:
    """The declaration of one metric. `group`: under which name the JSON report has it; empty: at the top.

    `exported`: its name for Prometheus, without `aiostorm_` and without the suffix of its kind and unit; empty: it is
    part of another. `total`: of a histogram, the counter that is the sum of its values.
    """

    name: str
    help: str
    unit: Unit
    kind: Kind
    aggregate: Aggregate
    group: str
    zero: float
    exported: str
    total: str


def counter(help_text: str, unit: Unit, exported: str, *, group: str = "") -> int:
    """A field that is a counter."""
    return _declared(help_text, unit, "counter", sum, group, exported)  # type: ignore[no-any-return]


def gauge(help_text: str, unit: Unit, exported: str, *, group: str = "", aggregate: Aggregate = sum) -> int:
    """A field that is a gauge. `aggregate` makes one number of those of several tasks (of none, too)."""
    return _declared(help_text, unit, "gauge", aggregate, group, exported)  # type: ignore[no-any-return]


def histogram(help_text: str, exported: str, *, total: str) -> Histogram:
    """A field that is a histogram of seconds. `total`: the counter with their sum."""
    return _declared(help_text, "seconds", "histogram", merged, "", exported, total)  # type: ignore[no-any-return]


def _declared(
    help_text: str, unit: Unit, kind: Kind, aggregate: Aggregate, group: str, exported: str, total: str = ""
) -> Any:
    zero = 0.0 if unit == "seconds" else 0
    made = {"help": help_text, "unit": unit, "kind": kind, "aggregate": aggregate, "group": group, "zero": zero}
    made |= {"exported": exported, "total": total}
    return field(default=EMPTY if kind == "histogram" else zero, metadata={"metric": made})


@dataclass(frozen=True, slots=True, kw_only=True)
class Counts:
    """Every metric, declared. To add one is a line here, and the line where it happens."""

    emitted: int = counter("Tuples emitted.", "tuples", "tuples_emitted")
    transferred: int = counter(
        "Tuples sent to tasks: one emit to three tasks is three.", "tuples", "tuples_transferred"
    )
    executed: int = counter("Tuples executed.", "tuples", "tuples_executed")
    acked: int = counter("Messages (spout) or tuples (bolt) acked.", "messages", "tuples_acked")
    failed: int = counter(
        "Messages (spout) or tuples (bolt) failed; one that fails twice counts twice.", "messages", "tuples_failed"
    )
    replayed: int = counter("Messages that a spout has emitted again after a failure.", "messages", "messages_replayed")
    dead_lettered: int = counter(
        "Messages given up after `topology.max.retries` replays.", "messages", "messages_dead_lettered"
    )
    forgotten: int = gauge(
        "Failed messages that a spout had not emitted again when its worker ended. The instance that began anew knows "
        "nothing of them; whether its source offers them again is up to the source.",
        "messages",
        "messages_forgotten",
    )
    errors: int = counter("Errors in user code that were reported.", "times", "errors")
    restarts: int = counter("Times that a task was started again after a failure.", "times", "task_restarts")
    trees: int = counter("Tuple trees that a spout has emitted.", "trees", "trees_emitted")
    pending: int = gauge("Open messages: neither acked nor failed.", "messages", "messages_pending")
    pending_trees: int = gauge("Tuple trees with open messages.", "trees", "acker_pending")
    state_keys: int = gauge("Keys in the state of a bolt that declares `KeyedState`.", "keys", "state_keys")
    fired: int = counter("Windows that have fired, one for each key.", "windows", "window_fired", group="windows")
    late: int = counter("Tuples that came too late for their windows.", "tuples", "window_late", group="windows")
    dropped_windows: int = counter(
        "Windows, one for each key, that were open when an instance, a worker or the topology ended: not fired.",
        "windows",
        "window_dropped",
        group="windows",
    )
    dropped_tuples: int = counter(
        "Tuples that buffered windows kept when an instance, a worker or the topology ended: neither acked nor failed.",
        "tuples",
        "window_dropped_tuples",
        group="windows",
    )
    execute_s: float = counter("Time spent in `execute`.", "seconds", "")
    process_s: float = counter(
        "The sum of the times of `process_latency`.",
        "seconds",
        "",
    )
    complete_s: float = counter("Time from emit to ack, the sum over the acked messages of a spout.", "seconds", "")
    busy_s: float = counter(
        "Time that a task was busy: a bolt in `execute`, a spout in `next_tuple` (not while that waits for its source, "
        "or runs in a thread).",
        "seconds",
        "task_busy",
    )
    blocked_s: float = counter(
        "Time that a task waited, with nothing executed, for tasks behind it that were full.", "seconds", "task_blocked"
    )
    idle_s: float = counter("Time that a task was neither busy nor blocked.", "seconds", "task_idle")
    throttled_s: float = counter(
        "Time that backpressure has delayed a spout; it is part of `idle_s`.", "seconds", "spout_throttled"
    )
    execute_latency: Histogram = histogram(  # noqa: RUF009 - it returns a field
        "Time in `execute` for a tuple: the mean of the tuples that were executed together.",
        "execute_duration",
        total="execute_s",
    )
    process_latency: Histogram = histogram(  # noqa: RUF009 - it returns a field
        "Time from the arrival of a tuple at a bolt, in its mailbox or before a full one, until it was executed; if "
        "the bolt acks by itself, until it and those that came with it were acked or failed.",
        "process_duration",
        total="process_s",
    )
    complete_latency: Histogram = histogram(  # noqa: RUF009 - it returns a field
        "Time from emit to ack for a message of a spout.", "complete_duration", total="complete_s"
    )


METRICS: Final[Mapping[str, Metric]] = MappingProxyType(
    {declared.name: Metric(declared.name, **declared.metadata["metric"]) for declared in fields(Counts)}
)
"""Name → declaration, in the order in which they are shown."""

COUNTERS: Final = tuple(name for name, metric in METRICS.items() if metric.kind == "counter")
HISTOGRAMS: Final = tuple(name for name, metric in METRICS.items() if metric.kind == "histogram")
NUMBERS: Final = tuple(name for name, metric in METRICS.items() if metric.kind != "histogram")


def metrics_table() -> str:
    """All metrics as a Markdown table: what docs/reference/metrics.md holds."""
    rows = [f"| `{m.name}` | {m.kind} | {m.unit} | {m.help} |" for m in METRICS.values()]
    return "\n".join(["| name | kind | unit | is |", "|---|---|---|---|", *rows])
