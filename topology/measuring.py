"""Measuring: what a component measures by itself, in any task: `context.metrics`.

    self.hits = context.metrics.counter("hits", {"kind": "a"})      in `open` or `prepare`
    self.hits.inc()                                                 afterwards: a slot of the task, nothing else

They are in `running.metrics()` as `.own`, in `aiostorm run --json`, and in what is exported (docs/how-to/watch.md).
Storm: TopologyContext.registerCounter, registerMeter, registerTimer, registerGauge (of Dropwizard's metrics).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, Protocol

Labels = Mapping[str, str]


class CounterSlot(Protocol):
    """Counts what happens."""

    def inc(self, count: int = 1) -> None:
        """Add `count`, 0 or more."""
        ...


class GaugeSlot(Protocol):
    """A number that goes up and down."""

    def set(self, value: float) -> None:
        """It is this number now."""
        ...

    def add(self, change: float) -> None:
        """It is more by this; less, if negative."""
        ...


class MeterSlot(Protocol):
    """Counts what happens, and how often it does in a second."""

    def mark(self, count: int = 1) -> None:
        """It has happened `count` times, 0 or more."""
        ...


class HistogramSlot(Protocol):
    """How many values came of each size: for quantiles."""

    def observe(self, value: float, count: int = 1) -> None:
        """A value, 0 or more, came `count` times."""
        ...


class TaskMetricsSource(Protocol):
    """Gives a task the slots that it measures with; the same one each time that it asks.

    The name has letters, digits and `_`; labels say of what it is, by a few fixed values. MetricError for a name or
    label that is not allowed, for one that is another kind elsewhere in the topology, and for too many of them.
    """

    def counter(self, name: str, labels: Labels | None = None) -> CounterSlot:
        """A counter. It goes on after a restart."""
        ...

    def gauge(
        self, name: str, labels: Labels | None = None, *, combine: Literal["sum", "max", "min"] = "sum"
    ) -> GaugeSlot:
        """A gauge, at first 0. `combine`: what those of several tasks come to."""
        ...

    def meter(self, name: str, labels: Labels | None = None) -> MeterSlot:
        """A meter: a counter with the rate of about the last minute."""
        ...

    def histogram(self, name: str, labels: Labels | None = None) -> HistogramSlot:
        """A histogram."""
        ...
