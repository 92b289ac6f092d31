"""What tasks count, and what others read of it."""

from .counters import ComponentMetrics, ProgressMetrics, TaskCounters, TaskMetrics, TimeMetrics, TopologyMetrics
from .declared import METRICS, Metric, metrics_table

__all__ = [
    "METRICS",
    "ComponentMetrics",
    "Metric",
    "ProgressMetrics",
    "TaskCounters",
    "TaskMetrics",
    "TimeMetrics",
    "TopologyMetrics",
    "metrics_table",
]
