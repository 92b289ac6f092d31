"""Samples: what a run was like over time, of bounded size: a long run is kept at longer steps.

    take, each second ─► [1 s] ─ full: every second one is dropped ─► [2 s] ─► [4 s] …       at most MOST

Rates are of the time between two samples that are kept: counts only grow, so none is lost by dropping one.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

if TYPE_CHECKING:
    from ...backpressure import Backpressure
    from ...metrics import ComponentMetrics, Histogram, TopologyMetrics

MOST: Final = 400


@dataclass(frozen=True, slots=True)
class Point:
    """A component at one moment. `count`: tuples emitted by a spout, executed by a bolt. `wait_s`: of a paced spout."""

    count: int
    fill: float
    wait_s: float
    latency: Histogram


@dataclass(frozen=True, slots=True)
class Sample:
    """A topology at one moment: seconds since 1970."""

    at_s: float
    points: Mapping[str, Point]


class Samples:
    """The samples of a run."""

    def __init__(self, step_s: float) -> None:
        self.step_s = step_s
        self._kept: list[Sample] = []

    @property
    def kept(self) -> list[Sample]:
        """The samples, the oldest first."""
        return list(self._kept)

    def take(self, at_s: float, metrics: TopologyMetrics, pressure: Backpressure) -> None:
        """Add one. A clock that was set back adds nothing."""
        if self._kept and at_s <= self._kept[-1].at_s:
            return
        if len(self._kept) >= MOST:
            self._kept = self._kept[::2]
            self.step_s *= 2
        waits: dict[str, float] = {}
        for task in pressure.spouts:
            waits[task.component] = max(waits.get(task.component, 0.0), task.wait_s)
        shown = {name: c for name, c in metrics.items() if not name.startswith("__")}
        points = {name: _point(c, pressure, waits.get(name, 0.0)) for name, c in shown.items()}
        self._kept.append(Sample(at_s, points))


def _point(found: ComponentMetrics, pressure: Backpressure, wait_s: float) -> Point:
    known = pressure.components.get(found.component)
    fill = found.fill_ratio if known is None else known.fill
    if found.kind == "spout":
        return Point(found.emitted, 0.0, wait_s, found.complete_latency)
    return Point(found.executed, fill, wait_s, found.process_latency)


def rates(samples: list[Sample], component: str) -> list[tuple[float, float]]:
    """(time, tuples a second) of a component."""
    found = []
    for before, now in itertools.pairwise(samples):
        if component in before.points and component in now.points:
            count = now.points[component].count - before.points[component].count
            found.append((now.at_s, max(0.0, count / (now.at_s - before.at_s))))
    return found


def values(samples: list[Sample], component: str, field: Literal["fill", "wait_s"]) -> list[tuple[float, float]]:
    """(time, value) of a component."""
    return [(each.at_s, getattr(each.points[component], field)) for each in samples if component in each.points]


def quantiles(samples: list[Sample], component: str, q: float) -> list[tuple[float, float]]:
    """(time, quantile in seconds) of what a component took between two samples; left out where it took nothing."""
    found = []
    for before, now in itertools.pairwise(samples):
        if component in before.points and component in now.points:
            recent = now.points[component].latency.since(before.points[component].latency)
            if recent.count:
                found.append((now.at_s, recent.quantile(q)))
    return found
