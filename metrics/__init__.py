"""What tasks count, and what others read of it."""

from .components import ComponentMetrics, SnapshotMetrics, TopologyMetrics
from .counters import ProgressMetrics, TaskCounters, TaskMetrics, TimeMetrics, added
from .declared import HISTOGRAMS, METRICS, Metric, metrics_table
from .histogram import BOUNDS, RELATIVE_ERROR, Histogram, bucket_of
from .openmetrics import OPENMETRICS, PLAIN_TEXT, content_type, render
from .own import MetricError, Names, OwnMetrics
from .series import Series
from .wire import WireRow, pack_task, unpack_task

__all__ = [
    "BOUNDS",
    "HISTOGRAMS",
    "METRICS",
    "OPENMETRICS",
    "PLAIN_TEXT",
    "RELATIVE_ERROR",
    "ComponentMetrics",
    "Histogram",
    "Metric",
    "MetricError",
    "Names",
    "OwnMetrics",
    "ProgressMetrics",
    "Series",
    "SnapshotMetrics",
    "TaskCounters",
    "TaskMetrics",
    "TimeMetrics",
    "TopologyMetrics",
    "WireRow",
    "added",
    "bucket_of",
    "content_type",
    "metrics_table",
    "pack_task",
    "render",
    "unpack_task",
]
