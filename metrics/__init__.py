"""What tasks count, and what others read of it."""

from .components import ComponentMetrics, SnapshotMetrics, TopologyMetrics
from .counters import ProgressMetrics, TaskCounters, TaskMetrics, TimeMetrics, added
from .declared import HISTOGRAMS, METRICS, NUMBERS, Metric, metrics_table
from .histogram import LONG, RELATIVE_ERROR, Histogram, Timings
from .openmetrics import OPENMETRICS, PLAIN_TEXT, Family, content_type, families, render
from .own import MetricError, Names, OwnMetrics
from .series import Series
from .spans import (
    EMITTED,
    HANDLED,
    MAX_TEXT_CHARS,
    SETTLED,
    SPAN_ROWS,
    SPLIT,
    ClockEstimate,
    SpanRing,
    SpanRow,
    mask_of,
)
from .traces import PlacedRow, Span, Step, Trace, joined_traces
from .wire import WireRow, pack_task, unpack_task

__all__ = [
    "EMITTED",
    "HANDLED",
    "HISTOGRAMS",
    "LONG",
    "MAX_TEXT_CHARS",
    "METRICS",
    "NUMBERS",
    "OPENMETRICS",
    "PLAIN_TEXT",
    "RELATIVE_ERROR",
    "SETTLED",
    "SPAN_ROWS",
    "SPLIT",
    "ClockEstimate",
    "ComponentMetrics",
    "Family",
    "Histogram",
    "Metric",
    "MetricError",
    "Names",
    "OwnMetrics",
    "PlacedRow",
    "ProgressMetrics",
    "Series",
    "SnapshotMetrics",
    "Span",
    "SpanRing",
    "SpanRow",
    "Step",
    "TaskCounters",
    "TaskMetrics",
    "TimeMetrics",
    "Timings",
    "TopologyMetrics",
    "Trace",
    "WireRow",
    "added",
    "content_type",
    "families",
    "joined_traces",
    "mask_of",
    "metrics_table",
    "pack_task",
    "render",
    "unpack_task",
]
