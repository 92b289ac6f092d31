"""OpenMetrics: the metrics of topologies as the text that Prometheus reads.

    running.metrics() of each topology ─► families, each with its samples ─► text, in the format that was asked for

1. Pure: the caller serves it. It is our own, and not prometheus-client's, because all numbers exist already: its
   counters would be a second copy of ours, each `inc` costs ten times what a slot costs, and a registry of its own
   would have to follow every restart.
2. Names and units are Prometheus': seconds and bytes, `_total` for counters. Labels have few values: a topology, a
   component, a stream. Tasks are added up, and are in `running.metrics()`.
3. Histograms have the same few buckets always, so that they can be added up over time and over components.
4. What components measure by themselves begins with `aiostorm_user_`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Literal, Protocol

from .declared import METRICS

if TYPE_CHECKING:
    from .components import ComponentMetrics, TopologyMetrics
    from .histogram import Histogram
    from .series import Series

OPENMETRICS: Final = "application/openmetrics-text; version=1.0.0; charset=utf-8"
PLAIN_TEXT: Final = "text/plain; version=0.0.4; charset=utf-8"

LATENCY_BOUNDS: Final = tuple(2.0**octave for octave in range(-20, 9, 2))
"""About 1 µs to 256 s, each four times the one before."""

USER_BOUNDS: Final = tuple(2.0**octave for octave in range(-10, 31, 2))
"""About 0.001 to 1.07e9."""

Labels = Mapping[str, str]
Kind = Literal["counter", "gauge", "histogram"]


@dataclass(frozen=True, slots=True)
class Family:
    """The samples of one name. `samples`: (suffix, labels, value)."""

    name: str
    kind: Kind
    help: str
    unit: str = ""
    samples: list[tuple[str, Labels, float]] = field(default_factory=list)

    def add(self, labels: Labels, value: float | None) -> None:
        """A sample; None is not known, and not shown."""
        if value is not None:
            self.samples.append(("_total" if self.kind == "counter" else "", labels, value))

    def add_histogram(self, labels: Labels, found: Histogram, bounds: tuple[float, ...]) -> None:
        """A histogram, with the number of values up to each bound."""
        for bound, count in zip(bounds, found.below(bounds), strict=True):
            self.samples.append(("_bucket", {**labels, "le": _number(bound)}, count))
        count = found.count
        self.samples.append(("_bucket", {**labels, "le": "+Inf"}, count))
        self.samples.extend((("_count", labels, count), ("_sum", labels, found.total)))


def content_type(accept: str) -> str:
    """The format for a client that sends this `Accept`: OpenMetrics if it prefers that, else Prometheus' own text."""
    openmetrics = plain = -1.0
    for part in accept.lower().split(","):
        kind, *parameters = (piece.strip() for piece in part.split(";"))
        weights = [text.removeprefix("q=") for text in parameters if text.startswith("q=")]
        try:
            weight = float(weights[0]) if weights else 1.0
        except ValueError:
            continue
        if kind == "application/openmetrics-text":
            openmetrics = max(openmetrics, weight)
        elif kind in ("text/plain", "text/*", "*/*"):
            plain = max(plain, weight)
    return OPENMETRICS if openmetrics > 0 and openmetrics >= plain else PLAIN_TEXT


def render(topologies: Mapping[str, TopologyMetrics], kind: str = OPENMETRICS) -> str:
    """The text for topologies, by name. `kind`: what `content_type` returned."""
    openmetrics = kind == OPENMETRICS
    lines: list[str] = []
    for family in families(topologies):
        name = family.name if openmetrics or family.kind != "counter" else f"{family.name}_total"
        lines += (f"# HELP {name} {_help(family.help, openmetrics)}", f"# TYPE {name} {family.kind}")
        if openmetrics and family.unit:
            lines.append(f"# UNIT {name} {family.unit}")
        for suffix, labels, value in family.samples:
            shown = ",".join(f'{key}="{_escaped(text)}"' for key, text in labels.items())
            lines.append(f"{family.name}{suffix}{{{shown}}} {_number(value)}")
    if openmetrics:
        lines.append("# EOF")
    return "\n".join(lines) + "\n"


def families(topologies: Mapping[str, TopologyMetrics]) -> list[Family]:
    """All families that have samples, each once."""
    found: dict[str, Family] = {}

    def family(name: str, kind: Kind, text: str, unit: str = "") -> Family:
        if name in found and found[name].kind != kind:  # of two topologies, or of workers with other code
            name = f"{name}_{kind}"
        return found.setdefault(name, Family(name, kind, text, unit))

    for topology, metrics in topologies.items():
        for component, of in metrics.items():
            labels = {"topology": topology, "component": component}
            if of.kind != "acker":  # it counts nothing
                _add_declared(family, labels, of)
            _add_gauges(family, labels, of)
            for series in of.own:
                _add_series(family, labels, series)
        _add_processes(family, topology, metrics)
        _add_snapshots(family, topology, metrics)
    return [family for family in found.values() if family.samples]


class _MakeFamily(Protocol):
    def __call__(self, name: str, kind: Kind, text: str, unit: str = "") -> Family: ...


def _add_declared(family: _MakeFamily, labels: Labels, of: ComponentMetrics) -> None:
    for name, metric in METRICS.items():
        if not metric.exported:
            continue
        seconds = metric.unit == "seconds"
        made = family(
            f"aiostorm_{metric.exported}{'_seconds' if seconds else ''}",
            metric.kind,
            metric.help,
            "seconds" if seconds else "",
        )
        value = getattr(of, name)
        if name == "emitted":
            for stream, rows in of.streams.items():
                made.add({**labels, "stream": stream}, rows)
        elif name == "transferred":
            for (stream, target), rows in of.edges.items():
                made.add({**labels, "stream": stream, "target": target}, rows)
        elif metric.kind == "histogram":
            if value.count:
                made.add_histogram(labels, value, LATENCY_BOUNDS)
        else:
            made.add(labels, value)


def _add_gauges(family: _MakeFamily, labels: Labels, of: ComponentMetrics) -> None:
    family("aiostorm_mailbox_fill_ratio", "gauge", "The fullest mailbox of the tasks, 0 to 1.", "ratio").add(
        labels, of.fill_ratio
    )
    capacity = sum(task.capacity for task in of.tasks)
    family("aiostorm_mailbox_capacity", "gauge", "Tuples that the mailboxes take.").add(labels, capacity)
    family("aiostorm_tasks", "gauge", "Tasks.").add(labels, len(of.tasks))
    lag_s, progress = of.watermark_lag_s, of.progress
    family("aiostorm_watermark_lag_seconds", "gauge", "How far event time is behind the clock.", "seconds").add(
        labels, lag_s
    )
    if any(task.time is not None for task in of.tasks):
        family("aiostorm_window_open", "gauge", "Open windows (of buffered windows: rows that are kept).").add(
            labels, of.live_windows
        )
    if progress is not None:
        left = family("aiostorm_spout_left", "gauge", "What a source has still to give, in its unit.")
        left.add({**labels, "unit": progress.unit}, progress.total - progress.done)


def _add_series(family: _MakeFamily, labels: Labels, series: Series) -> None:
    own = {**labels, **dict(series.labels)}
    name = f"aiostorm_user_{series.name}"
    if series.kind == "histogram":
        made = family(name, "histogram", "A histogram of the component.")
        made.add_histogram(own, series.histogram, USER_BOUNDS)
        return
    kind: Kind = "gauge" if series.kind == "gauge" else "counter"
    family(name, kind, f"A {series.kind} of the component.").add(own, series.value)


def _add_processes(family: _MakeFamily, topology: str, metrics: TopologyMetrics) -> None:
    for worker, process in metrics.processes.items():
        labels = {"topology": topology, "worker": worker}
        lag = family("aiostorm_event_loop_lag_seconds", "gauge", "The longest delay since it was read.", "seconds")
        lag.add(labels, process.loop_lag_s)
        cpu = family("aiostorm_worker_cpu_seconds", "counter", "Processor time of the process.", "seconds")
        cpu.add(labels, process.cpu_s)
        family("aiostorm_worker_memory_bytes", "gauge", "Memory of the process.", "bytes").add(
            labels, process.rss_bytes
        )
        family("aiostorm_worker_open_files", "gauge", "Open descriptors.").add(labels, process.open_files)
        runs = family("aiostorm_worker_gc_collections", "counter", "Collections of the garbage collector.")
        runs.add(labels, process.gc_collections)
        pause = family("aiostorm_worker_gc_pause_seconds", "counter", "Time that collections took.", "seconds")
        pause.add(labels, process.gc_pause_s)


def _add_snapshots(family: _MakeFamily, topology: str, metrics: TopologyMetrics) -> None:
    found, labels = metrics.snapshots, {"topology": topology}
    if found is None:
        return
    family("aiostorm_snapshots_taken", "counter", "Snapshots that count.").add(labels, found.taken)
    family("aiostorm_snapshots_failed", "counter", "Snapshots that failed.").add(labels, found.failed)
    family("aiostorm_rollbacks", "counter", "Returns of all tasks to a snapshot.").add(labels, found.rolled_back)
    stored = "Of all kept snapshots together."
    family("aiostorm_snapshots_stored_bytes", "gauge", stored, "bytes").add(labels, found.stored_bytes)
    if found.quota_bytes:
        quota = "That the kept snapshots may have together."
        family("aiostorm_snapshots_quota_bytes", "gauge", quota, "bytes").add(labels, found.quota_bytes)
    if found.taken:
        took = family("aiostorm_snapshot_duration_seconds", "gauge", "Of the last snapshot.", "seconds")
        took.add(labels, found.duration_s)
        family("aiostorm_snapshot_size_bytes", "gauge", "Of the last snapshot.", "bytes").add(labels, found.size_bytes)
        age = family("aiostorm_snapshot_age_seconds", "gauge", "Since the last one counted.", "seconds")
        age.add(labels, found.age_s)


def _number(value: float) -> str:
    if isinstance(value, int) or math.isfinite(value):
        return repr(value)
    return "NaN" if math.isnan(value) else "+Inf" if value > 0 else "-Inf"


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"')


def _help(text: str, openmetrics: bool) -> str:
    return _escaped(text) if openmetrics else text.replace("\\", "\\\\").replace("\n", "\\n")


def families_table() -> str:
    """All families as a Markdown table: what docs/reference/metrics.md holds."""
    rows = []
    for metric in METRICS.values():
        if metric.exported:
            end = "_seconds" if metric.unit == "seconds" else ""
            labels = {"emitted": ", stream", "transferred": ", stream, target"}.get(metric.name, "")
            rows.append(f"| `aiostorm_{metric.exported}{end}` | component{labels} | `{metric.name}` |")
    return "\n".join(rows)
