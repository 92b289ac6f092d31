"""Capacity: how many tuples a second a component could process, and how long spout tasks must wait because of it. Pure.

    each task: its rate (if it always has work)                    then that is its capacity
               its rate / how busy it is (if it ran out of work)   the utilization law
    component: the sum over its tasks, if its tuples go to any task with free capacity; else limited by the busiest task
    spout task: its share of that, in tuples that it emits

1. The capacity of a component is at least its rate over the last period: one interval without work does not lower it.
2. A spout task that emits less than its share is not limited by its wait; the rest of its share goes to the others.

From: the utilization law (Denning and Buzen, "The operational analysis of queueing network models", 1978).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from .sampler import PressureVerdict
from .throttle import MAX_WAIT

if TYPE_CHECKING:
    from .flows import Flows
    from .graph import Graph
    from .messages import BoltReading, SpoutReading
    from .settings import Settings

CONTENT: Final = 0.9
"""A paced task that emits less than this share of its allowed rate is limited by its source, not by its wait."""


LEAST_LOAD: Final = 0.25
"""A task that is less busy counts as this busy: its capacity is then four times its rate, and is measured again later.

(Work that a bolt starts without waiting for it counts as no time at all.)
"""


HEADROOM: Final = 1.02
"""A component that ran out of work gets this much more than was measured: a mailbox with little in it can bear that."""


@dataclass(slots=True)
class BoltState:
    """The last reading of a bolt task; blocked or not since `since_s` (wall clock)."""

    component: str
    reading: BoltReading
    incarnation: int
    reported_s: float
    since_s: float

    @property
    def blocked(self) -> bool:
        """Was its last verdict BLOCKED?"""
        return self.reading.flagged and self.reading.verdict is PressureVerdict.BLOCKED

    @property
    def stays_blocked(self) -> bool:
        """Has it been BLOCKED for two periods or more?"""
        return self.blocked and self.reading.blocks > 1


@dataclass(slots=True)
class SpoutState:
    """The last reading of a spout task; it has waited since `since_s` (wall clock)."""

    component: str
    reading: SpoutReading
    reported_s: float
    since_s: float


class Capacity:
    """The capacity of the components of one topology, from the readings of their tasks."""

    def __init__(
        self,
        graph: Graph,
        tasks: Mapping[str, Sequence[int]],
        flows: Flows,
        bolts: Mapping[int, BoltState],
        spouts: Mapping[int, SpoutState],
    ) -> None:
        self._graph = graph
        self._tasks = tasks
        self._flows = flows
        self._bolts = bolts
        self._spouts = spouts

    def rate(self, component: str) -> float:
        """The tuples a second that the component could process; 0 if it processes nothing."""
        flows, known = self._flows, self._bolts
        bolts = [known[task] for task in self._tasks[component] if task in known]
        if component in self._graph.balanced:
            return sum(self._of_task(bolt) for bolt in bolts)
        done = flows.rate(component)
        flagged = [bolt.reading for bolt in bolts if bolt.reading.flagged]
        if any(reading.starved for reading in flagged):
            done = max(done, flows.rate_now(component) / max(LEAST_LOAD, *(reading.load for reading in flagged)))
        return done

    def time_us(self, component: str, settings: Settings) -> int:
        """The microseconds that the component takes for one tuple of one of the spout tasks that feed it."""
        rate = self.rate(component)
        if not rate:  # it is stuck
            return self._share_us(component, 1 / max(self._flows.observed_s(component), settings.period_s))
        return self._share_us(component, rate / self._flows.per_emitted(component, self._graph.sources[component]))

    def follow_us(self, spout: str) -> int:
        """The microseconds that a tuple takes now in the slowest flagged component behind this spout; 0 if unknown."""
        found = 0
        for component in self._flagged(spout):
            rate = self.rate(component)
            if rate:
                rate /= self._flows.per_emitted(component, self._graph.sources[component])
                found = max(found, self._share_us(component, rate))
        return found

    def fullest(self, spout: str, settings: Settings) -> tuple[float, float]:
        """The fill of the fullest flagged component behind this spout, and the seconds of work in its mailboxes."""
        found = [(self._fill(component), component) for component in self._flagged(spout)]
        if not found:
            return (settings.low + settings.high) / 2, settings.period_s
        fill, component = max(found)
        known = self._bolts
        capacity = sum(known[task].reading.capacity for task in self._tasks[component] if task in known)
        rate = self.rate(component)
        return fill, capacity / rate if rate else settings.period_s

    def _of_task(self, bolt: BoltState) -> float:
        reading = bolt.reading
        done = self._flows.rate_of(bolt.component, reading.task)
        if reading.starved:
            now = self._flows.rate_of(bolt.component, reading.task, now=True)
            return max(done, now / max(LEAST_LOAD, reading.load)) * HEADROOM
        return done

    def _flagged(self, spout: str) -> set[str]:
        sources = self._graph.sources
        return {b.component for b in self._bolts.values() if b.reading.flagged and spout in sources[b.component]}

    def _fill(self, component: str) -> float:
        """The fill of the fullest flagged task; the mean of all tasks if tuples go to any task with free capacity."""
        bolts = [self._bolts[task] for task in self._tasks[component] if task in self._bolts]
        if component in self._graph.balanced:
            return sum(fill_of(bolt.reading) for bolt in bolts) / len(bolts)
        return max(fill_of(bolt.reading) for bolt in bolts if bolt.reading.flagged)

    def _share_us(self, component: str, rate: float) -> int:
        """The wait of each spout task that feeds the component if together they emit at this rate (tuples a second)."""
        spouts = self._graph.sources[component]
        feeding = [s for s in self._spouts.values() if s.component in spouts and s.reading.active]
        if not feeding:
            return int(min(1e6 / rate, MAX_WAIT))
        wants = [self._flows.rate_of(s.component, s.reading.task) for s in feeding]
        content = [want for s, want in zip(feeding, wants, strict=True) if want * s.reading.wait_us < CONTENT * 1e6]
        others = len(feeding) - len(content)
        if others:  # the unused parts of some shares are divided among the others
            return int(min(others / max(rate - sum(content), rate * others / len(feeding)) * 1e6, MAX_WAIT))
        return int(min(len(feeding) / rate * 1e6, MAX_WAIT))


def fill_of(reading: BoltReading) -> float:
    """The fill of a mailbox, 0 to 1."""
    return min(reading.fill / reading.capacity, 1.0) if reading.capacity else 0.0
