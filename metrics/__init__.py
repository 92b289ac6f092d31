"""What tasks count, and what others read of it."""

from .counters import ComponentMetrics, ProgressMetrics, TaskCounters, TaskMetrics, TimeMetrics, TopologyMetrics

__all__ = ["ComponentMetrics", "ProgressMetrics", "TaskCounters", "TaskMetrics", "TimeMetrics", "TopologyMetrics"]
