"""Recent: how long tuples took in the last seconds: the histograms now, without those of some seconds ago.

    since the start:  ──────────────────────┤ earlier ├──────── now ─► now.since(earlier)

1. It keeps one copy of the histograms a second at most, of the last SPAN_S seconds.
2. Without an earlier copy (there was no look for longer) the latencies are those since the start, and it says so.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from ..metrics import Histogram
from .model import Latency

if TYPE_CHECKING:
    from ..metrics import ComponentMetrics, TaskMetrics

SPAN_S: Final = 30.0

STEP_S: Final = 0.9
"""Two copies are so far apart at least; a shorter time says nothing."""

Histograms = Mapping[str, Histogram]

_OF: Final = {"execute": "execute_latency", "process": "process_latency", "complete": "complete_latency"}


class Recent:
    """The histograms of the components in the last seconds."""

    def __init__(self) -> None:
        self._copies: deque[tuple[float, Mapping[str, Histograms]]] = deque()

    def latencies(
        self, at_s: float, now: Mapping[str, Histograms]
    ) -> tuple[float | None, dict[str, dict[str, Latency]]]:
        """The latencies of each component, and the length of the time that they are of; None: since the start."""
        copies = self._copies
        if copies and at_s < copies[-1][0]:
            copies.clear()  # the clock was set back
        while copies and at_s - copies[0][0] > SPAN_S:
            copies.popleft()
        began_s, before = copies[0] if copies and at_s - copies[0][0] >= STEP_S else (None, {})
        found: dict[str, dict[str, Latency]] = {}
        for component, histograms in now.items():
            earlier = before.get(component, {})
            of = {name: each.since(earlier[name]) if name in earlier else each for name, each in histograms.items()}
            found[component] = {name: latency_of(each) for name, each in of.items() if each.buckets}
        if not copies or at_s - copies[-1][0] >= STEP_S:
            copies.append((at_s, now))
        return (None if began_s is None else at_s - began_s), found


def histograms_of(found: ComponentMetrics | TaskMetrics) -> dict[str, Histogram]:
    """`execute`, `process`, `complete` → the times since the start."""
    return {name: getattr(found, metric) for name, metric in _OF.items()}


def latency_of(found: Histogram) -> Latency:
    """The quantiles of a histogram that has values."""
    return Latency(found.count, found.quantile(0.5), found.quantile(0.99))
