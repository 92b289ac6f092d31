"""W5, windows: sum and count by key over tumbling windows of 10 s of event time. `size` is events.

Input: seed 42, 1,000 events a second of event time, 1,000 keys drawn evenly, values from 0 to 999. Each event comes up
to a second after its time, so that they are out of order; one in a hundred comes another 6 to 30 s later, evenly drawn.
Watermarks stay 5 s behind the greatest time, so the one in a hundred are late, and the others never.

Oracle: the events sorted by key and window, each run of equals added up; it has no table. No window has two results.
All but the late ones must be in it, and nothing that never was. Which of the late ones are depends on the system:

* by its window ("window"): an event counts until the watermark has passed its window's end. When an engine knows its
  watermark is its affair, so it may count more, but must count what came before the end.
* by its time ("time"): whatever is behind the watermark is late (bytewax).

Where an engine reports late rows, both together must be all rows, window by window.

Limit: a dict of (key, window). It has no watermark and closes nothing.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping
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
JITTER_MS = 1_000
LAG_MS = 5_000
LATE_SHARE = 0.01
LATE_MS = (6_000, 30_000)
Event = tuple[str, int, int]
"""Key, event time in milliseconds, value."""
Windows = Mapping[tuple[str, int], tuple[int, int]]
"""(key, start of the window in milliseconds) → (sum, count)."""
Result = tuple[str, int, int, int]
"""Key, start of the window, sum, count."""
NONE = 0, 0


@dataclass(frozen=True, slots=True)
class Events:
    """What comes in, in the order in which it comes, and what must come out.

    `expected` is of all events; `late` of those that came late; `closed` of those of them whose window the watermark
    had passed before they came.
    """

    events: list[Event]
    expected: Windows
    late: Windows
    closed: Windows

    def check(self, windows: Windows) -> None:
        """WrongResultError unless these are the sums and counts of all events."""
        if dict(windows) != self.expected:
            count = sum(count for _, count in windows.values())
            raise WrongResultError(
                f"{len(windows)} windows of {count} events; expected {len(self.expected)} of {len(self.events)}"
            )

    def check_results(self, results: Iterable[Result], *, late: Iterable[Event] | None = None, by: str) -> int:
        """How many events were dropped. WrongResultError unless results and `late` are as the oracle has it."""
        windows: dict[tuple[str, int], tuple[int, int]] = {}
        for key, start, total, count in results:
            if (key, start) in windows:
                raise WrongResultError(f"{key} has two results for the window from {start} ms on")
            windows[key, start] = total, count
        may_drop = self.closed if by == "window" else self.late
        unknown = windows.keys() - self.expected.keys()
        if unknown:
            raise WrongResultError(f"{len(unknown)} windows that no event is in, such as {min(unknown)}")
        expected = None if late is None else _expected(late)
        dropped = 0
        for window, (total, count) in self.expected.items():
            counted = windows.get(window, NONE)
            missing = total - counted[0], count - counted[1]
            most = may_drop.get(window, NONE)
            exact = expected is None or expected.get(window, NONE) == missing
            if not (0 <= missing[0] <= most[0] and 0 <= missing[1] <= most[1] and exact):
                raise WrongResultError(f"{window} has {counted} of {(total, count)}; {most} of it may be missing")
            dropped += missing[1]
        return dropped


@lru_cache(maxsize=2)  # the warm-up's, and the run's
def events(size: int) -> Events:
    """So many events."""
    rng = random.Random(SEED)
    keys = [f"key{n}" for n in range(KEYS)]
    drawn: list[Event] = []
    late: list[Event] = []
    closed: list[Event] = []
    greatest_ms = 0
    begin_ms = LATE_MS[1] + JITTER_MS  # no event is before time zero
    for number in range(size):
        at_ms = begin_ms + number * 1_000 // RATE - rng.randrange(JITTER_MS)
        if rng.random() < LATE_SHARE:
            at_ms -= rng.randint(*LATE_MS)
            late.append((rng.choice(keys), at_ms, rng.randrange(1_000)))
            drawn.append(late[-1])
            if at_ms - at_ms % WINDOW_MS + WINDOW_MS <= greatest_ms - LAG_MS:
                closed.append(late[-1])
            continue
        drawn.append((rng.choice(keys), at_ms, rng.randrange(1_000)))
        greatest_ms = max(greatest_ms, at_ms)
    return Events(drawn, _expected(drawn), _expected(late), _expected(closed))


def _expected(drawn: Iterable[Event]) -> Windows:
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
    late = sum(count for _, count in given.late.values())
    closed = sum(count for _, count in given.closed.values())
    return Outcome(size, watch.wall_s, watch.cpu_s, seen={"late": late, "closed": closed, "windows": len(windows)})


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
