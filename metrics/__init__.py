"""What tasks count, and what others read of it."""

from .components import ComponentMetrics, SnapshotMetrics, TopologyMetrics
from .counters import ProgressMetrics, TaskCounters, TaskMetrics, TimeMetrics, added
from .declared import METRICS, Metric, metrics_table
from .histogram import BOUNDS, RELATIVE_ERROR, Histogram, bucket_of
from .series import Series
from .wire import WireRow, pack_task, unpack_task

__all__ = [
    "BOUNDS",
    "METRICS",
    "RELATIVE_ERROR",
    "ComponentMetrics",
    "Histogram",
    "Metric",
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
    "metrics_table",
    "pack_task",
    "unpack_task",
]
