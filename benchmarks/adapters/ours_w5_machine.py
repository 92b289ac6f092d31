"""The machine of aiostorm's windows does W5 alone: batches of 256 rows, no topology, no acks. What windows cost."""

from __future__ import annotations

from aiostorm.windows import Combined, Count, Sum, Tumbling, time_windows

from ..cells import Outcome
from ..clocking import Stopwatch
from ..w5 import LAG_MS, WINDOW_MS, Event, Result, events

BATCH = 256


def machine(size: int, *, batch: int = BATCH, lag_ms: int = LAG_MS) -> Outcome:
    """One run. The watermark follows each batch."""
    given = events(size)
    results: list[Result] = []
    late: list[Event] = []
    windows = time_windows(Tumbling(WINDOW_MS), Combined(sum=Sum(2), count=Count()))
    with Stopwatch() as watch:
        greatest_ms = 0
        for begin in range(0, size, batch):
            rows = given.events[begin : begin + batch]
            keys = [row[0] for row in rows]
            timestamps = [row[1] for row in rows]
            late += [rows[place] for place in windows.add(keys, timestamps, rows).late]
            greatest_ms = max(greatest_ms, *timestamps)
            fired = windows.advance(greatest_ms - lag_ms)
            results += [(key, window.start, both["sum"], both["count"]) for window, key, both, _ in fired]
        fired = windows.advance(greatest_ms + WINDOW_MS)  # the end: all that is open
        results += [(key, window.start, both["sum"], both["count"]) for window, key, both, _ in fired]
    dropped = given.check_results(results, late=late, by="window")
    return Outcome(size, watch.wall_s, watch.cpu_s, seen={"dropped": dropped})
