"""Slowness: how fast the tasks of the slow bolt work at each moment, and what they can bear in all.

    speed 2 ┐    ┌─┐  ┌──     a tuple is 5 ms of work: 5 ms at speed 1, 50 ms at 0.1, 2.5 ms at 2,
          0 └────┘ └──┘       and work started during a hang ends after it

1. Seconds are since the start of the run. What work is begun when is not the schedule's business: it only says when it
   ends.
2. All tasks together bear 2,000 tuples/s at speed 1, and on average while it is bursty.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

TASKS: Final = 10
SERVICE_S: Final = 0.005
"""Work of a tuple, at speed 1."""
PER_S: Final = TASKS / SERVICE_S
"""Tuples a second that all tasks bear at speed 1."""
SEED: Final = 42


@dataclass(frozen=True, slots=True)
class Speed:
    """Stretches of time: (begins at, speed), the first at 0, the last without an end and with a speed above 0."""

    stretches: tuple[tuple[float, float], ...] = ((0.0, 1.0),)

    def end(self, begin_s: float, work_s: float = SERVICE_S) -> float:
        """When so much work is done that is begun then."""
        left_s = work_s
        for (at_s, speed), (next_s, _) in pairwise((*self.stretches, (float("inf"), 0.0))):
            from_s = max(at_s, begin_s)
            if next_s <= from_s or not speed:
                continue
            if left_s <= (next_s - from_s) * speed:
                return from_s + left_s / speed
            left_s -= (next_s - from_s) * speed
        raise AssertionError("the last stretch has no end, and is not at speed 0")

    def work(self, from_s: float, to_s: float) -> float:
        """How much work can be done between two moments."""
        ends = [at_s for at_s, _ in self.stretches[1:]] + [float("inf")]
        return sum(
            max(0.0, min(to_s, end_s) - max(from_s, at_s)) * speed
            for (at_s, speed), end_s in zip(self.stretches, ends, strict=True)
        )


@dataclass(frozen=True, slots=True)
class Slowness:
    """A kind of slowness: the speed of each task. `swings_s`: over how long it is taken together where it swings.

    `keyed`: tuples go by their key, evenly: then all tasks wait for the slowest.
    """

    name: str
    title: str
    speeds: tuple[Speed, ...]
    swings_s: float = 1.0
    keyed: bool = False

    def bears(self, from_s: float, to_s: float) -> float:
        """How many tuples all tasks can do between two moments."""
        work = [speed.work(from_s, to_s) for speed in self.speeds]
        return (min(work) * len(work) if self.keyed else sum(work)) / SERVICE_S

    def rate(self, at_s: float) -> float:
        """Tuples a second that it can bear around a moment: what an even flow would have."""
        from_s = max(0.0, at_s - self.swings_s / 2)
        return self.bears(from_s, from_s + self.swings_s) / self.swings_s


def _slow(_: float) -> Slowness:
    return Slowness("slow", "always as slow", (Speed(),) * TASKS)


def _bursty(seconds: float) -> Slowness:
    """Twice as fast for about a second, then it hangs for about a second, all tasks together."""
    chance = random.Random(SEED)
    stretches = [(0.0, 2.0)]
    while stretches[-1][0] < seconds + 10:
        stretches.append((stretches[-1][0] + chance.uniform(0.5, 1.5), 2.0 - stretches[-1][1]))
    if not stretches[-1][1]:
        stretches.pop()
    return Slowness("bursty", "fast for a second, hung for a second", (Speed(tuple(stretches)),) * TASKS, 10.0)


def _some(_: float) -> Slowness:
    return Slowness("some", "one task of ten is ten times as slow", (Speed(((0.0, 0.1),)), *(Speed(),) * (TASKS - 1)))


def _keyed(_: float) -> Slowness:
    """Its share is less than the ratio at which a component triggers."""
    speeds = (Speed(((0.0, 0.1),)), *(Speed(),) * TASKS)
    return Slowness("keyed", "by key, one task of eleven is ten times as slow", speeds, keyed=True)


def _minute(seconds: float) -> Slowness:
    """In two minutes, the middle one."""
    speed = Speed(((0.0, 1.0), (seconds / 4, 0.1), (seconds * 3 / 4, 1.0)))
    return Slowness("minute", "a tenth of its speed for half of the time", (speed,) * TASKS)


KINDS: Final[dict[str, Callable[[float], Slowness]]] = {
    "slow": _slow,
    "bursty": _bursty,
    "some": _some,
    "keyed": _keyed,
    "minute": _minute,
}
"""Name → a run of so many seconds."""
