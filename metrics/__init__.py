"""What tasks count, and what others read of it."""

from .counters import ComponentMetrics, TaskCounters, TaskMetrics, TopologyMetrics

__all__ = ["ComponentMetrics", "TaskCounters", "TaskMetrics", "TopologyMetrics"]
