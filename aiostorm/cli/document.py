"""Document: the report of a run as JSON, for programs. Values that JSON cannot represent become text."""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Mapping, Set
from typing import TYPE_CHECKING, Any

from ..metrics import HISTOGRAMS, METRICS, ComponentMetrics, Histogram, Series, TopologyMetrics

if TYPE_CHECKING:
    from .report import RunReport

OCCUPATION = "busy_s", "blocked_s", "idle_s", "throttled_s"


def as_json(report: RunReport) -> str:
    """The report as one JSON document."""
    document = {
        "topology": report.topology,
        "state": report.state,
        "elapsed_s": round(report.elapsed_s, 3),
        "problems": list(report.problems),
        "done_before": report.done_before or None,
        "summary": report.summary,
        "results": report.results if report.summary is None else None,
        "messages": report.messages if report.snapshots is None else None,
        "trees": report.trees if report.snapshots is None else None,
        "snapshots": report.snapshots,
        "backpressure": report.pressure,
        "pending": dict(report.pending),
        "components": {name: _component(c, report.elapsed_s) for name, c in shown_components(report.metrics)},
        "processes": report.metrics.processes,
        "error_count": report.error_count,
        "errors": list(report.errors),
    }
    return json.dumps(plain(document), indent=2, ensure_ascii=False, allow_nan=False)


def _component(c: ComponentMetrics, elapsed_s: float) -> dict[str, Any]:
    return {
        "kind": c.kind,
        "tasks": len(c.tasks),
        **_group(c, ""),
        "emitted_per_s": rate(c.emitted, elapsed_s),
        "executed_per_s": rate(c.executed, elapsed_s),
        "execute_latency_s": c.execute_latency_s,
        "complete_latency_s": c.complete_latency_s,
        "latencies": {name.removesuffix("_latency"): _quantiles(getattr(c, name)) for name in HISTOGRAMS},
        "seconds": {name: getattr(c, name) for name in OCCUPATION},
        "streams": c.streams,
        "edges": [{"stream": stream, "to": target, "tuples": rows} for (stream, target), rows in c.edges.items()],
        "metrics": [_series(series) for series in c.own],
        "windows": _windows(c),
        "progress": c.progress,
    }


def _quantiles(found: Histogram) -> dict[str, float] | None:
    """In seconds; None: nothing was measured."""
    if not found.count:
        return None
    return {"count": found.count, "mean": found.mean, **{f"p{n}": found.quantile(n / 100) for n in (50, 95, 99)}}


def _series(series: Series) -> dict[str, Any]:
    """What a component measures by itself."""
    shown: dict[str, Any] = {"name": series.name, "kind": series.kind, "labels": dict(series.labels)}
    if series.kind == "histogram":
        return shown | (_quantiles(series.histogram) or {"count": 0})
    return shown | {"value": series.value} | ({"per_s": series.rate} if series.kind == "meter" else {})


def _group(c: ComponentMetrics, group: str) -> dict[str, Any]:
    """The declared metrics of a group. Sums of seconds are shown as means."""
    shown = (name for name, metric in METRICS.items() if metric.group == group and metric.unit != "seconds")
    return {name: getattr(c, name) for name in shown}


def _windows(c: ComponentMetrics) -> dict[str, Any] | None:
    """The windows and watermarks of a component. None: it has no windows, and is not between such components."""
    if not any(_group(c, "windows").values()) and all(task.time is None for task in c.tasks):
        return None
    return {
        **_group(c, "windows"),
        "open": c.live_windows,
        "watermark_ms": c.watermark_ms,
        "watermark_lag_s": c.watermark_lag_s,
    }


def rate(count: int, seconds: float) -> float:
    """So many a second, to one decimal; 0 for no time."""
    return round(count / seconds, 1) if seconds > 0 else 0.0


def plain(value: Any) -> Any:
    """The value as JSON data: mappings with text keys, lists, text, numbers. NaN and infinity are null."""
    match value:
        case None | bool() | int() | str():
            return value
        case float():
            return value if math.isfinite(value) else None
        case Mapping():
            return {key if isinstance(key, str) else _key(key): plain(item) for key, item in value.items()}
        case list() | tuple():
            return [plain(item) for item in value]
        case Set():
            return [plain(item) for item in sorted(value, key=repr)]
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {f.name: plain(getattr(value, f.name)) for f in dataclasses.fields(value)}
    return str(value)


def _key(key: Any) -> str:
    given = plain(key)
    return given if isinstance(given, str) else json.dumps(given, ensure_ascii=False)


def shown_components(metrics: TopologyMetrics) -> list[tuple[str, ComponentMetrics]]:
    """The user's components: not the acker."""
    return [(name, c) for name, c in metrics.items() if not name.startswith("__")]
