"""Capacity: how many tuples a second a component could do, and what that makes a spout task wait. Pure.

    each task: what it does (it has something to do all the time)            that is what it can
               what it does / how busy it is (it ran out of work meanwhile)  the utilization law
    component: of all its tasks, if its tuples go to whichever has room; else what it does, by its most loaded task
    spout task: its share of that, in tuples that it emits

1. A component can do at least what it has done over the last period: one interval in which it stood still is no pace.
2. A spout task that emits less than its share is content; what it leaves is for the others.

From: the utilization law (Denning and Buzen, "The operational analysis of queueing network models", 1978).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from .flows import Flows
from .graph import Graph
from .messages import BoltReading, SpoutReading
from .sampler import PressureVerdict
from .settings import Settings
from .throttle import MAX_WAIT

CONTENT: Final = 0.9
"""A paced task that emits less than this share of what it might is held back by its source, not by its wait."""


LEAST_LOAD: Final = 0.25
"""Who is less busy than this is taken for so busy: that is four times as much, and then it is looked at again.

(What a bolt begins and does not wait for takes it no time at all.)
"""


HEADROOM: Final = 1.02
"""Who ran out of work is sent a little more than was measured: a mailbox that holds a moment bears that."""


@dataclass(slots=True)
class BoltState:
    """What a bolt task has said last; blocked or not since `since_s` (wall clock)."""

    component: str
    reading: BoltReading
    life: int
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
    """What a spout task has said last; it waits since `since_s` (wall clock)."""

    component: str
    reading: SpoutReading
    reported_s: float
    since_s: float


class Capacity:
    """Of the components of one topology, by what is known of their tasks."""

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
        """Tuples a second that it could do; 0 if it does nothing."""
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
        """What it takes for one tuple of one of the spout tasks that feed it."""
        rate = self.rate(component)
        if not rate:  # it hangs
            return self._share_us(component, 1 / max(self._flows.observed_s(component), settings.period_s))
        return self._share_us(component, rate / self._flows.per_emitted(component, self._graph.sources[component]))

    def follow_us(self, spout: str) -> int:
        """What a tuple takes now, of the slowest of the flagged components that it feeds; 0 if that cannot be told."""
        found = 0
        for component in self._flagged(spout):
            rate = self.rate(component)
            if rate:
                rate /= self._flows.per_emitted(component, self._graph.sources[component])
                found = max(found, self._share_us(component, rate))
        return found

    def fullest(self, spout: str, settings: Settings) -> tuple[float, float]:
        """Of the flagged components that it feeds: how full the fullest is, and the seconds that all it holds takes."""
        found = [(self._fill(component), component) for component in self._flagged(spout)]
        if not found:
            return (settings.low + settings.high) / 2, settings.period_s
        fill, component = max(found)
        known = self._bolts
        room = sum(known[task].reading.capacity for task in self._tasks[component] if task in known)
        rate = self.rate(component)
        return fill, room / rate if rate else settings.period_s

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
        """Of the fullest flagged task; of all, if its tuples go to whichever has room."""
        bolts = [self._bolts[task] for task in self._tasks[component] if task in self._bolts]
        if component in self._graph.balanced:
            return sum(fill_of(bolt.reading) for bolt in bolts) / len(bolts)
        return max(fill_of(bolt.reading) for bolt in bolts if bolt.reading.flagged)

    def _share_us(self, component: str, rate: float) -> int:
        """The wait of each of the spout tasks that feed it, if together they emit at that rate (in tuples a second)."""
        spouts = self._graph.sources[component]
        feeding = [s for s in self._spouts.values() if s.component in spouts and s.reading.active]
        if not feeding:
            return int(min(1e6 / rate, MAX_WAIT))
        wants = [self._flows.rate_of(s.component, s.reading.task) for s in feeding]
        content = [want for s, want in zip(feeding, wants, strict=True) if want * s.reading.wait_us < CONTENT * 1e6]
        others = len(feeding) - len(content)
        if others:  # what some leave of their shares is for the others
            return int(min(others / max(rate - sum(content), rate * others / len(feeding)) * 1e6, MAX_WAIT))
        return int(min(len(feeding) / rate * 1e6, MAX_WAIT))


def fill_of(reading: BoltReading) -> float:
    """0 to 1."""
    return min(reading.fill / reading.capacity, 1.0) if reading.capacity else 0.0
