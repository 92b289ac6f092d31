"""Series: what a component measures by itself, at one moment: a number, or a histogram, under a name and labels.

    context.metrics.counter("hits", {"kind": "a"}) ─► a slot of the task (own.py) ─► Series ─► merged over the tasks

Counters, meters and histograms go on after a restart of their worker; a gauge is what it is now.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Final, Literal

from .histogram import EMPTY, Histogram

SeriesKind = Literal["counter", "gauge", "meter", "histogram"]
Combine = Literal["sum", "max", "min"]
"""What the gauges of several tasks come to."""

_COMBINE: Final[Mapping[Combine, Callable[[float, float], float]]] = {"sum": operator.add, "max": max, "min": min}


@dataclass(frozen=True, slots=True)
class Series:
    """One series. `value`: of a histogram the number of its values; `rate`: of a meter, per second, of the last minute.

    `labels`: (name, value), ascending. `combine`: of a gauge.
    """

    name: str
    kind: SeriesKind
    labels: tuple[tuple[str, str], ...] = ()
    value: float = 0
    rate: float = 0.0
    histogram: Histogram = EMPTY
    combine: Combine = "sum"

    def plus(self, other: Series) -> Series:
        """The same series of another task."""
        combine = _COMBINE[self.combine] if self.kind == "gauge" else _COMBINE["sum"]
        return replace(
            self,
            value=combine(self.value, other.value),
            rate=self.rate + other.rate,
            histogram=self.histogram + other.histogram,
        )


def merged_series(tasks: Iterable[Iterable[Series]]) -> tuple[Series, ...]:
    """The series of several tasks, each once, by name and labels.

    Two of one name whose kinds differ (tasks of two workers that run different code) stay apart.
    """
    found: dict[tuple[str, str, tuple[tuple[str, str], ...]], Series] = {}
    for series in (one for of in tasks for one in of):
        key = series.name, series.kind, series.labels
        before = found.get(key)
        found[key] = series if before is None else before.plus(series)
    return tuple(found[key] for key in sorted(found))


def continued(earlier: Iterable[Series], now: Iterable[Series]) -> tuple[Series, ...]:
    """The series of a task, with what earlier processes of its worker have counted."""
    kept = (replace(series, rate=0.0) for series in earlier if series.kind != "gauge")
    return merged_series((kept, now))
