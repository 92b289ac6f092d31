"""bytewax does W5: one worker thread in this process, keyed events from a TestingSource, five thousand at a time.

Styles: "fold_window" is its windows, as its documentation has them. The input is what they need, (key, (time as a
datetime, value)); making it is not timed. The clock is an EventClock that waits 5 s. It is set not to wake by itself
(`to_system_utc` gives None), which is faster here by half, since these events are of 1970. Each key has a clock of its
own, and what is behind that is late, though its window may still be open. (`window` with a WindowLogic of our own is as
fast; batches of 1,000 are two thirds as fast, of 20,000 as fast; `ordered=True`, its default, costs a tenth.)

"by hand" is bytewax without its windows: a `stateful_batch` that keeps a dict of windows and a watermark for each key.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta, timezone

import bytewax.operators as op
import bytewax.operators.windowing as win
from bytewax.dataflow import Dataflow
from bytewax.testing import TestingSink, TestingSource, run_main

from ..cells import Outcome
from ..clocking import Stopwatch
from ..w5 import LAG_MS, WINDOW_MS, events

BATCH = 5_000
EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)  # noqa: UP017 - as the peer's own examples have it
LAG = timedelta(milliseconds=LAG_MS)
MS = timedelta(milliseconds=1)
Value = tuple[datetime, int]
State = tuple[int, int]
"""Sum and count."""


def windows(size: int, *, style: str = "fold_window") -> Outcome:
    """One run."""
    return by_hand(size) if style == "by hand" else fold_window(size)


def add(state: State, value: Value) -> State:
    """An event."""
    return state[0] + value[1], state[1] + 1


def merge(one: State, other: State) -> State:
    """Two windows made one (which tumbling ones never are)."""
    return one[0] + other[0], one[1] + other[1]


def fold_window(size: int) -> Outcome:
    """With its windows."""
    given = events(size)
    source = [(key, (EPOCH + at_ms * MS, value)) for key, at_ms, value in given.events]
    results: list[tuple[str, tuple[int, State]]] = []
    late: list[tuple[str, tuple[int, Value]]] = []
    flow = Dataflow("w5")
    keyed = op.input("events", flow, TestingSource(source, batch_size=BATCH))
    clock = win.EventClock(lambda value: value[0], LAG, to_system_utc=lambda _: None)
    windower = win.TumblingWindower(length=WINDOW_MS * MS, align_to=EPOCH)
    out = win.fold_window("windows", keyed, clock, windower, lambda: (0, 0), add, merge, ordered=False)
    op.output("results", out.down, TestingSink(results))
    op.output("late", out.late, TestingSink(late))
    with Stopwatch() as watch:
        run_main(flow)
    dropped = given.check_results(
        ((key, number * WINDOW_MS, total, count) for key, (number, (total, count)) in results),
        late=[(key, (at - EPOCH) // MS, value) for key, (_, (at, value)) in late],
        by="time",
    )
    return Outcome(size, watch.wall_s, watch.cpu_s, seen={"dropped": dropped})


class OneKey(op.StatefulBatchLogic[tuple[int, int], tuple[int, int, int], dict[int, list[int]]]):
    """All windows of one key, and its watermark."""

    def __init__(self, windows: dict[int, list[int]] | None) -> None:
        self.windows = windows or {}
        self.watermark = 0

    def on_batch(self, values: list[tuple[int, int]]) -> tuple[Iterable[tuple[int, int, int]], bool]:
        windows = self.windows
        for at_ms, value in values:
            start = at_ms - at_ms % WINDOW_MS
            if start + WINDOW_MS <= self.watermark:
                continue
            row = windows.get(start)
            if row is None:
                windows[start] = [value, 1]
            else:
                row[0] += value
                row[1] += 1
            if at_ms - LAG_MS > self.watermark:
                self.watermark = at_ms - LAG_MS
        closed = [start for start in windows if start + WINDOW_MS <= self.watermark]
        return [(start, *windows.pop(start)) for start in closed], op.StatefulBatchLogic.RETAIN

    def on_eof(self) -> tuple[Iterable[tuple[int, int, int]], bool]:
        return [(start, *row) for start, row in self.windows.items()], op.StatefulBatchLogic.DISCARD

    def snapshot(self) -> dict[int, list[int]]:
        return {start: list(row) for start, row in self.windows.items()}


def by_hand(size: int) -> Outcome:
    """Without its windows."""
    given = events(size)
    source = [(key, (at_ms, value)) for key, at_ms, value in given.events]
    results: list[tuple[str, tuple[int, int, int]]] = []
    flow = Dataflow("w5")
    keyed = op.input("events", flow, TestingSource(source, batch_size=BATCH))
    op.output("results", op.stateful_batch("windows", keyed, OneKey), TestingSink(results))
    with Stopwatch() as watch:
        run_main(flow)
    dropped = given.check_results(((key, *result) for key, result in results), by="window")
    return Outcome(size, watch.wall_s, watch.cpu_s, seen={"dropped": dropped})
