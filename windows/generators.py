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


CONFIRMING_ROWS: Final = 8
"""So many rows in a row, all within `max_advance_ms`, are not all wrong about when it is."""


class MaxTimestamp:
    """The greatest timestamp, as far as it is believed. None: it is not known yet."""

    __slots__ = ("_first_row", "_max_advance_ms", "_near_each_other", "_unconfirmed", "ms")

    def __init__(self, max_advance_ms: int | None = None) -> None:
        self.ms: int | None = None
        self._first_row: int | None = None
        self._unconfirmed: int | None = None  # the row that it began with, while no other is near it,
        self._near_each_other: list[int] = []  # and the last ones that are far beyond that, near each other
        self._max_advance_ms = None if max_advance_ms is None else whole(max_advance_ms, "max_advance_ms")

    def is_order_free(self, greatest: int) -> bool:
        """If this is the greatest of rows: does it come to the greatest that there was, whatever their order?"""
        bound_ms = self._max_advance_ms
        return self._unconfirmed is None and (
            bound_ms is None or (self.ms is not None and greatest <= self.ms + bound_ms)
        )

    def observe(self, timestamps: Sequence[int]) -> None:
        """Those of rows, in the order in which they came."""
        if not timestamps:
            return
        bound_ms = self._max_advance_ms
        greatest = max(timestamps)
        if self._unconfirmed is None:
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
            if self._first_row is None:
                self._first_row = timestamp
                return
            self.ms, timestamp = min(self._first_row, timestamp), max(self._first_row, timestamp)
            self._unconfirmed = self.ms
        if self._unconfirmed is not None:
            self.ms = max(self.ms, self._lower_bound(self._unconfirmed, timestamp, bound_ms))
        self.ms = max(self.ms, min(timestamp, self.ms + bound_ms))

    def _lower_bound(self, unconfirmed: int, timestamp: int, bound_ms: int) -> int:
        """Where it is at the least: where it began, or where enough rows say that it is."""
        if abs(timestamp - unconfirmed) <= bound_ms:
            self._unconfirmed = None
        elif timestamp > unconfirmed:
            near = [*self._near_each_other, timestamp]
            self._near_each_other = near if max(near) - min(near) <= bound_ms else [timestamp]
            if len(self._near_each_other) >= CONFIRMING_ROWS:
                self._unconfirmed = None
                return min(self._near_each_other)
        return unconfirmed


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
        self._max_timestamp = MaxTimestamp(max_advance_ms)
        self._next_ms: int | None = None
        self._sent: int | None = None

    def observe(self, timestamps: Sequence[int], rows: Sequence[Any]) -> int | None:
        """Nothing yet."""
        self._max_timestamp.observe(timestamps)
        return None

    def tick(self, now_ms: int) -> int | None:
        """The watermark, if it is time and there is a new one."""
        if self._next_ms is None:
            self._next_ms = now_ms + self._interval_ms
        if now_ms < self._next_ms:
            return None
        self._next_ms += ((now_ms - self._next_ms) // self._interval_ms + 1) * self._interval_ms
        if self._max_timestamp.ms is None or self._max_timestamp.ms == self._sent:
            return None
        self._sent = self._max_timestamp.ms
        return self._sent - self._lag_ms

    @property
    def next_tick_ms(self) -> int | None:
        """When the next one is due; None: there is nothing new to tell."""
        return self._next_ms if self._max_timestamp.ms != self._sent else None


class Punctuated(Generator):
    """Tells how far its input has come at each row that `marks(row)` says is a mark."""

    def __init__(self, marks: Callable[[Any], bool], lag_ms: int = 0, max_advance_ms: int | None = None) -> None:
        if not callable(marks):
            raise WindowError(f"Punctuated by {marks!r}: give a function of a row that says whether it is a mark")
        self._marks = marks
        self._lag_ms = duration(lag_ms, "the lag of watermarks (lag_ms)", 0)
        self._max_timestamp = MaxTimestamp(max_advance_ms)

    def observe(self, timestamps: Sequence[int], rows: Sequence[Any]) -> int | None:
        """The watermark at the last mark; None: there was none."""
        returned, begin = None, 0
        for at, row in enumerate(rows):
            if self._marks(row):
                self._max_timestamp.observe(timestamps[begin : at + 1])
                begin = at + 1
                returned = self._max_timestamp.ms
        self._max_timestamp.observe(timestamps[begin:])
        return None if returned is None else returned - self._lag_ms


class ByFunction(Generator):
    """Tells what `function(timestamp_ms, row)` returns: a watermark, or None."""

    def __init__(self, function: Callable[[int, Any], Any], max_advance_ms: int | None = None) -> None:
        if not callable(function):
            raise WindowError(f"ByFunction of {function!r}: give a function of a timestamp and a row")
        self._function = function
        self._max_timestamp = MaxTimestamp(max_advance_ms)

    def observe(self, timestamps: Sequence[int], rows: Sequence[Any]) -> int | None:
        """The greatest that it has returned so far."""
        returned = [self._function(timestamp, row) for timestamp, row in zip(timestamps, rows, strict=True)]
        marks = [to_ms(mark) for mark in returned if mark is not None]
        self._max_timestamp.observe(marks)
        return self._max_timestamp.ms if marks else None
