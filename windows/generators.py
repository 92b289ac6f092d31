"""Watermark generators: what the timestamps of one input task say about how far its time has come.

    timestamps ─► how far (bounded) ─► - lag ─► watermark:  at an interval (Periodic), at certain rows (Punctuated),
                                                            or as a function has it (ByFunction)

1. A watermark is the greatest timestamp seen less `lag_ms`; it never goes back.
2. With `max_advance_ms` one row moves it by that much at most, and one row alone does not begin it: of the first two
   the earlier one counts, and the later one as a step. So one bad clock does not close every window, while a stream
   that really has jumped gets there in steps.
3. It may have begun with a clock that is behind (1970, say): as long as no other row is near that one, AGREED rows that
   are near each other are believed, and it goes where they are. Else it would take years of steps.
4. A batch is as its rows one by one.

From: JStorm, WatermarkGenerator and PeriodicWatermarkGenerator (interval 1 s, no bound: depart).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, Final

from .assigners import duration, whole
from .errors import WindowError
from .timestamps import to_ms

INTERVAL_MS: Final = 1_000
"""How often a periodic generator says something, unless told otherwise."""


AGREED: Final = 8
"""So many rows in a row, all within `max_advance_ms`, are not all wrong about when it is."""


class HowFar:
    """The greatest timestamp, as far as it is believed. None: it is not known yet."""

    __slots__ = ("_agreed", "_alone", "_first", "_max_advance_ms", "ms")

    def __init__(self, max_advance_ms: int | None = None) -> None:
        self.ms: int | None = None
        self._first: int | None = None
        self._alone: int | None = None  # the row that it began with, while no other is near it,
        self._agreed: list[int] = []  # and the last ones that are far beyond that, near each other
        self._max_advance_ms = None if max_advance_ms is None else whole(max_advance_ms, "max_advance_ms")

    def is_steady(self, greatest: int) -> bool:
        """If this is the greatest of rows: does it come to the greatest that there was, whatever their order?"""
        bound_ms = self._max_advance_ms
        return self._alone is None and (bound_ms is None or (self.ms is not None and greatest <= self.ms + bound_ms))

    def see(self, timestamps: Sequence[int]) -> None:
        """Those of rows, in the order in which they came."""
        if not timestamps:
            return
        bound_ms = self._max_advance_ms
        greatest = max(timestamps)
        if self._alone is None:
            if self.ms is not None and greatest <= self.ms:
                return
            if bound_ms is None or (self.ms is not None and greatest <= self.ms + bound_ms):
                self.ms = greatest
                return
        assert bound_ms is not None  # noqa: S101 - for the type checker: without one nothing is alone
        for timestamp in timestamps:
            self._step(timestamp, bound_ms)

    def _step(self, timestamp: int, bound_ms: int) -> None:
        if self.ms is None:
            if self._first is None:
                self._first = timestamp
                return
            self.ms, timestamp = min(self._first, timestamp), max(self._first, timestamp)
            self._alone = self.ms
        if self._alone is not None:
            self.ms = max(self.ms, self._believed(self._alone, timestamp, bound_ms))
        self.ms = max(self.ms, min(timestamp, self.ms + bound_ms))

    def _believed(self, alone: int, timestamp: int, bound_ms: int) -> int:
        """Where it is at the least: where it began, or where enough rows say that it is."""
        if abs(timestamp - alone) <= bound_ms:
            self._alone = None
        elif timestamp > alone:
            agreed = [*self._agreed, timestamp]
            self._agreed = agreed if max(agreed) - min(agreed) <= bound_ms else [timestamp]
            if len(self._agreed) >= AGREED:
                self._alone = None
                return min(self._agreed)
        return alone


class Generator(ABC):
    """Of one input task. Write `observe`, `tick`, or both; each returns a watermark if there is a new one."""

    @abstractmethod
    def observe(self, timestamps: Sequence[int], rows: Sequence[Any]) -> int | None:
        """Rows have come; milliseconds since 1970 of each."""

    def tick(self, now_ms: int) -> int | None:
        """It is so late, by the clock of the task."""
        return None

    @property
    def next_tick_ms(self) -> int | None:
        """When `tick` will have something to do; None: never."""
        return None


class Periodic(Generator):
    """Tells how far its input has come, each `interval_ms` of processing time."""

    def __init__(self, lag_ms: int = 0, interval_ms: int = INTERVAL_MS, max_advance_ms: int | None = None) -> None:
        self._lag_ms = duration(lag_ms, "the lag of watermarks (lag_ms)", 0)
        self._interval_ms = whole(interval_ms, "the interval of watermarks (interval_ms)")
        self._far = HowFar(max_advance_ms)
        self._next_ms: int | None = None
        self._told: int | None = None

    def observe(self, timestamps: Sequence[int], rows: Sequence[Any]) -> int | None:
        """Nothing yet."""
        self._far.see(timestamps)
        return None

    def tick(self, now_ms: int) -> int | None:
        """The watermark, if it is time and there is a new one."""
        if self._next_ms is None:
            self._next_ms = now_ms + self._interval_ms
        if now_ms < self._next_ms:
            return None
        self._next_ms += ((now_ms - self._next_ms) // self._interval_ms + 1) * self._interval_ms
        if self._far.ms is None or self._far.ms == self._told:
            return None
        self._told = self._far.ms
        return self._told - self._lag_ms

    @property
    def next_tick_ms(self) -> int | None:
        """When the next one is due; None: there is nothing new to tell."""
        return self._next_ms if self._far.ms != self._told else None


class Punctuated(Generator):
    """Tells how far its input has come at each row that `marks(row)` says is a mark."""

    def __init__(self, marks: Callable[[Any], bool], lag_ms: int = 0, max_advance_ms: int | None = None) -> None:
        if not callable(marks):
            raise WindowError(f"Punctuated by {marks!r}: give a function of a row that says whether it is a mark")
        self._marks = marks
        self._lag_ms = duration(lag_ms, "the lag of watermarks (lag_ms)", 0)
        self._far = HowFar(max_advance_ms)

    def observe(self, timestamps: Sequence[int], rows: Sequence[Any]) -> int | None:
        """The watermark at the last mark; None: there was none."""
        said, begin = None, 0
        for at, row in enumerate(rows):
            if self._marks(row):
                self._far.see(timestamps[begin : at + 1])
                begin = at + 1
                said = self._far.ms
        self._far.see(timestamps[begin:])
        return None if said is None else said - self._lag_ms


class ByFunction(Generator):
    """Tells what `function(timestamp_ms, row)` returns: a watermark, or None."""

    def __init__(self, function: Callable[[int, Any], Any], max_advance_ms: int | None = None) -> None:
        if not callable(function):
            raise WindowError(f"ByFunction of {function!r}: give a function of a timestamp and a row")
        self._function = function
        self._far = HowFar(max_advance_ms)

    def observe(self, timestamps: Sequence[int], rows: Sequence[Any]) -> int | None:
        """The greatest that it has returned so far."""
        said = [self._function(timestamp, row) for timestamp, row in zip(timestamps, rows, strict=True)]
        marks = [to_ms(mark) for mark in said if mark is not None]
        self._far.see(marks)
        return self._far.ms if marks else None
