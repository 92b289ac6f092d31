"""Sampler: how a task's mailbox has been, judged once a period. Pure: samples in, verdicts out.

    above high, or gate closed ───────┐                      more than `rate` high ─► BLOCKED:  flagged
    between                           ├─ `samples` of them ─►
    at or below low ──────────────────┘                      more than `rate` low, and flagged ─► RELIEVED

1. A task is flagged from its first BLOCKED on, and gets a verdict each period, until it is cleared (`clear`) or its
   component is another instance (`forget`).
2. `step` counts verdicts: a receiver that gets the same one twice counts it once. `blocks` counts the BLOCKED ones
   since the last RELIEVED (or since the first verdict): a task with more than one stays blocked.
3. A flagged task that is low and was idle for most of an interval is RELIEVED at once: later samples add nothing.
4. A mailbox whose gate is closed counts as high, whatever its fill: it accepts nothing until it is at its low mark, and
   its senders wait meanwhile. So does a mailbox whose gate has closed since the last sample, if its task always had
   work: a small mailbox closes and opens several times between two samples.
5. A task that is itself blocked is full because of a bolt behind it, and cannot change that: it counts as between. Its
   low rate in that time says nothing about its capacity.

From: JStorm 2.1.1, BackpressureTrigger ("more than", as its text says; its code of 2.1.1 says "at least"). 3 to 5 are
ours: a period is four seconds, which is long for a spout that waits needlessly; and JStorm's queues have no low mark of
their own, so a blocked one is full.
"""

from __future__ import annotations

import enum
from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from .settings import Settings

IDLE: Final = 0.5
"""A task that is less busy than this is idle."""


class Level(enum.Enum):
    """The position of a mailbox relative to its marks."""

    LOW = "low"
    BETWEEN = "between"
    HIGH = "high"


class PressureVerdict(enum.StrEnum):
    """The result of a period."""

    NONE = "none"
    BLOCKED = "blocked"
    RELIEVED = "relieved"


@dataclass(frozen=True, slots=True)
class Sample:
    """One observation of a task. `fill` and `capacity` in tuples; `executed` so far.

    `closed`: the gate is closed, or was since the last sample. `execute_s`: seconds spent on tuples so far, with the
    current one. `dry`: the task has run out of work since the last sample. `instance`: differs for each instance of its
    component.
    """

    fill: int
    capacity: int
    closed: bool
    executed: int
    execute_s: float
    dry: bool = False
    instance: int = 0
    stuck: bool = False


@dataclass(frozen=True, slots=True)
class _Observation:
    at_s: float
    sample: Sample
    level: Level


def level_of(sample: Sample, settings: Settings) -> Level:
    """Above high, at or below low, or between."""
    if sample.stuck:
        return Level.BETWEEN
    share = sample.fill / sample.capacity  # a share, as the marks are: 0.29 * 100 is less than 29
    if sample.closed or share > settings.high:
        return Level.HIGH
    return Level.LOW if share <= settings.low else Level.BETWEEN


class Sampler:
    """The sampler of one task. `busy`: its busy share of the time that the last verdict is about, 0 to 1."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.flagged = False
        self.verdict = PressureVerdict.NONE
        self.step = 0
        self.blocks = 0
        self.busy = 0.0
        self._observations: deque[_Observation] = deque(maxlen=settings.samples + 1)
        self._begun: _Observation | None = None
        self._high = self._low = self._seen = 0

    @property
    def high(self) -> int:
        """The samples of this period that were high."""
        return self._high

    @property
    def load(self) -> float:
        """How busy it was in the last interval: 0 to 1; 1 if it always had work."""
        if len(self._observations) < 2:
            return 0.0
        return _busy(self._observations[-2], self._observations[-1]) if self._observations[-1].sample.dry else 1.0

    @property
    def starved(self) -> bool:
        """Has it run out of work within the last period: could it have done more?"""
        return any(observation.sample.dry for observation in self._observations)

    def sample(self, sample: Sample, now_s: float) -> PressureVerdict:
        """Add a sample. Returns the verdict if a period ends with it; else NONE."""
        if self._observations and sample.instance != self._observations[-1].sample.instance:
            self.forget()
        last = self._observations[-1] if self._observations else None
        observation = _Observation(now_s, sample, level_of(sample, self.settings))
        self._observations.append(observation)
        if self._begun is None or last is None:  # a period is the time between samples
            self._begun = observation
            return PressureVerdict.NONE
        self._seen += 1
        self._high += observation.level is Level.HIGH
        self._low += observation.level is Level.LOW
        if self.flagged and observation.level is Level.LOW and (busy := _busy(last, observation)) < IDLE:
            return self._decided(PressureVerdict.RELIEVED, busy)
        if self._seen < self.settings.samples:
            return PressureVerdict.NONE
        return self._decided(self._counted(), _busy(self._begun, observation))

    def clear(self) -> None:
        """The state is NORMAL again: the task is no longer flagged."""
        self.flagged = False
        self.verdict = PressureVerdict.NONE
        self.blocks = 0

    def forget(self) -> None:
        """Start again, without a sample."""
        self.clear()
        self._observations.clear()
        self._begin_period(None)

    def update(self, settings: Settings) -> None:
        """Apply other settings; the period starts again. The flag stays, unless backpressure is switched off."""
        self.settings = settings
        self._observations = deque(maxlen=settings.samples + 1)
        self._begin_period(None)
        if not settings.enable:
            self.clear()

    def _counted(self) -> PressureVerdict:
        if self.settings.are_enough(self._high):
            return PressureVerdict.BLOCKED
        return (
            PressureVerdict.RELIEVED if self.flagged and self.settings.are_enough(self._low) else PressureVerdict.NONE
        )

    def _decided(self, verdict: PressureVerdict, busy: float) -> PressureVerdict:
        self.busy = busy
        if verdict is not PressureVerdict.NONE:
            self.flagged = True
            self.verdict = verdict
            self.step += 1
            self.blocks = self.blocks + 1 if verdict is PressureVerdict.BLOCKED else 0
        self._begin_period(self._observations[-1])
        return verdict

    def _begin_period(self, begun: _Observation | None) -> None:
        self._begun = begun
        self._high = self._low = self._seen = 0


def _busy(first: _Observation, last: _Observation) -> float:
    spent_s = last.sample.execute_s - first.sample.execute_s
    return min(max(spent_s / max(last.at_s - first.at_s, 1e-9), 0.0), 1.0)
