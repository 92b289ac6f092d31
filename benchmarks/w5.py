"""W5, windows: sum and count by key over tumbling windows of 10 s of event time. `size` is events.

Input: seed 42, 1,000 events a second of event time, 1,000 keys drawn evenly, values from 0 to 999; one event in a
hundred is late by 6 to 30 s, evenly drawn. Nothing is later than that, so with a lateness of 30 s nothing is dropped,
and every event counts.

Oracle: the events sorted by key and window, each run of equals added up; it has no table.

Limit: a dict of (key, window).
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from itertools import groupby

from .cells import Outcome, WrongResultError
from .clocking import Stopwatch

SEED = 42
KEYS = 1_000
RATE = 1_000
"""Events in a second of event time."""
WINDOW_MS = 10_000
LATE_SHARE = 0.01
LATE_MS = (6_000, 30_000)
Event = tuple[str, int, int]
"""Key, event time in milliseconds, value."""
Windows = Mapping[tuple[str, int], tuple[int, int]]
"""(key, start of the window in milliseconds) → (sum, count)."""


@dataclass(frozen=True, slots=True)
class Events:
    """What comes in, in the order in which it comes, and what must come out."""

    events: list[Event]
    expected: Windows
    late: int

    def check(self, windows: Windows) -> None:
        """WrongResultError unless these are the sums and counts."""
        if dict(windows) != self.expected:
            count = sum(count for _, count in windows.values())
            raise WrongResultError(
                f"{len(windows)} windows of {count} events; expected {len(self.expected)} of {len(self.events)}"
            )


@lru_cache(maxsize=2)  # the warm-up's, and the run's
def events(size: int) -> Events:
    """So many events."""
    rng = random.Random(SEED)
    keys = [f"key{n}" for n in range(KEYS)]
    drawn: list[Event] = []
    late = 0
    start_ms = LATE_MS[1]  # no event is before time zero
    for number in range(size):
        at_ms = start_ms + number * 1_000 // RATE
        if rng.random() < LATE_SHARE:
            at_ms -= rng.randint(*LATE_MS)
            late += 1
        drawn.append((rng.choice(keys), at_ms, rng.randrange(1_000)))
    return Events(drawn, _expected(drawn), late)


def _expected(drawn: list[Event]) -> Windows:
    windows: dict[tuple[str, int], tuple[int, int]] = {}
    in_order = sorted((key, at_ms - at_ms % WINDOW_MS, value) for key, at_ms, value in drawn)
    for window, members in groupby(in_order, key=lambda event: event[:2]):
        values = [value for _, _, value in members]
        windows[window] = sum(values), len(values)
    return windows


def dict_of_windows(size: int) -> Outcome:
    """The limit."""
    given = events(size)
    with Stopwatch() as watch:
        windows = add_up(given.events)
    given.check({window: (total, count) for window, (total, count) in windows.items()})
    return Outcome(size, watch.wall_s, watch.cpu_s, seen={"late": given.late, "windows": len(windows)})


def add_up(given: list[Event]) -> dict[tuple[str, int], list[int]]:
    """What is left of windows without anything around them."""
    windows: dict[tuple[str, int], list[int]] = {}
    for key, at_ms, value in given:
        at = key, at_ms // WINDOW_MS * WINDOW_MS
        row = windows.get(at)
        if row is None:
            windows[at] = [value, 1]
        else:
            row[0] += value
            row[1] += 1
    return windows
