"""Watermark generators: from the timestamps of one input task, how far its event time has advanced.

    timestamps ─► greatest (bounded) ─► - lag ─► watermark: at an interval (Periodic), at certain rows (Punctuated),
                                                            or given by a function (ByFunction)

1. A watermark is the greatest timestamp observed minus `lag_ms`; it never goes back.
2. With `max_advance_ms` one row advances it by at most that much, and it does not start with a single row: it starts
   with the earlier of the first two rows, and the later one is a step. So one wrong clock does not close every window,
   and a stream that really jumps gets there in steps.
3. It may have started with a clock that is behind (1970, say): as long as no other row is near that one,
   CONFIRMING_ROWS rows that are near each other are accepted, and it jumps to them. Steps would take years.
4. A batch has the same effect as its rows one by one.

From: JStorm, WatermarkGenerator and PeriodicWatermarkGenerator (interval 1 s, no bound: depart).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final

from .assigners import duration, whole
from .dumps import ms_after, ms_before, time_or_none, whole_number
from .errors import WindowError
from .timestamps import to_ms

if TYPE_CHECKING:
    from .values import Row, Value

INTERVAL_MS: Final = 1_000
"""The default interval of a periodic generator."""


CONFIRMING_ROWS: Final = 8
"""This many consecutive rows within `max_advance_ms` of each other are taken to be right."""


class MaxTimestamp:
    """The greatest timestamp, bounded by `max_advance_ms`. None: not known yet."""

    __slots__ = ("_first_row", "_max_advance_ms", "_near_each_other", "_unconfirmed", "ms")

    def __init__(self, max_advance_ms: int | None = None) -> None:
        self.ms: int | None = None
        self._first_row: int | None = None
        self._unconfirmed: int | None = None  # the first row, while no other row is near it,
        self._near_each_other: list[int] = []  # and the last rows far beyond it that are near each other
        self._max_advance_ms = None if max_advance_ms is None else whole(max_advance_ms, "max_advance_ms")

    def dump(self) -> tuple[Value, ...]:
        """What it knows, as plain values."""
        return self.ms, self._first_row, self._unconfirmed, list(self._near_each_other)

    def load(self, state: Value) -> None:
        """Load what `dump` gave."""
        self.ms, self._first_row, self._unconfirmed, near = state
        for value in (self.ms, self._first_row, self._unconfirmed):
            time_or_none(value, "a timestamp")
        self._near_each_other = [whole_number(timestamp, "a timestamp") for timestamp in near]

    def is_order_free(self, greatest: int) -> bool:
        """Whether the order of rows with this greatest timestamp makes no difference."""
        bound_ms = self._max_advance_ms
        return self._unconfirmed is None and (
            bound_ms is None or (self.ms is not None and greatest <= self.ms + bound_ms)
        )

    def observe(self, timestamps: Sequence[int]) -> None:
        """Add the timestamps of rows, in the order of arrival."""
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
        assert bound_ms is not None  # noqa: S101 - for the type checker: without a bound nothing is unconfirmed
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
        """The least value: the first timestamp, or the earliest of enough rows that agree."""
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
    """Generator for one input task. Write `observe`, `tick`, or both; each returns a new watermark or None."""

    @abstractmethod
    def observe(self, timestamps: Sequence[int], rows: Sequence[Row]) -> int | None:
        """Called with rows and their timestamps in milliseconds since 1970."""

    def tick(self, now_ms: int) -> int | None:
        """Called with the time of the task's clock."""
        return None

    @property
    def next_tick_ms(self) -> int | None:
        """When `tick` must be called next; None: never."""
        return None

    def dump(self, now_ms: int) -> Value:
        """What a new generator needs to continue as this one, as a value that can be sent to another process.

        `now_ms`: the time of the task's clock, which another task does not share. Without it a new generator begins
        anew after a restart; the watermark does not go back.
        """
        return None

    def load(self, state: Value, now_ms: int) -> None:  # noqa: B027 - not needed if dump gives None
        """Load what `dump` gave. Called once, before anything else; not if it gave None."""


class Periodic(Generator):
    """Gives a watermark every `interval_ms` of processing time."""

    def __init__(self, lag_ms: int = 0, interval_ms: int = INTERVAL_MS, max_advance_ms: int | None = None) -> None:
        self._lag_ms = duration(lag_ms, "the lag of watermarks (lag_ms)", 0)
        self._interval_ms = whole(interval_ms, "the interval of watermarks (interval_ms)")
        self._max_timestamp = MaxTimestamp(max_advance_ms)
        self._next_ms: int | None = None
        self._sent: int | None = None

    def observe(self, timestamps: Sequence[int], rows: Sequence[Row]) -> int | None:
        """Record the timestamps; the watermark comes with `tick`."""
        self._max_timestamp.observe(timestamps)
        return None

    def tick(self, now_ms: int) -> int | None:
        """The watermark, if the interval is over and there is a new one."""
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
        """When the next watermark is due; None: there is no new one."""
        return self._next_ms if self._max_timestamp.ms != self._sent else None

    def dump(self, now_ms: int) -> Value:
        return self._max_timestamp.dump(), ms_before(self._next_ms, now_ms), self._sent

    def load(self, state: Value, now_ms: int) -> None:
        known, in_ms, sent = state
        self._max_timestamp.load(known)
        self._next_ms = ms_after(time_or_none(in_ms, "the time until the next watermark"), now_ms)
        self._sent = time_or_none(sent, "the last watermark")


class Punctuated(Generator):
    """Gives a watermark at each row for which `gives_watermark(row)` is true."""

    def __init__(
        self, gives_watermark: Callable[[Row], bool], lag_ms: int = 0, max_advance_ms: int | None = None
    ) -> None:
        if not callable(gives_watermark):
            raise WindowError(
                f"Punctuated by {gives_watermark!r}: give a function of a row that says whether it gives a watermark"
            )
        self._gives_watermark = gives_watermark
        self._lag_ms = duration(lag_ms, "the lag of watermarks (lag_ms)", 0)
        self._max_timestamp = MaxTimestamp(max_advance_ms)

    def observe(self, timestamps: Sequence[int], rows: Sequence[Row]) -> int | None:
        """The watermark at the last row that gives one; None: there was no such row."""
        returned, begin = None, 0
        for at, row in enumerate(rows):
            if self._gives_watermark(row):
                self._max_timestamp.observe(timestamps[begin : at + 1])
                begin = at + 1
                returned = self._max_timestamp.ms
        self._max_timestamp.observe(timestamps[begin:])
        return None if returned is None else returned - self._lag_ms

    def dump(self, now_ms: int) -> Value:
        return self._max_timestamp.dump()

    def load(self, state: Value, now_ms: int) -> None:
        self._max_timestamp.load(state)


class ByFunction(Generator):
    """Gives what `function(timestamp_ms, row)` returns: a watermark, or None."""

    def __init__(self, function: Callable[[int, Row], object], max_advance_ms: int | None = None) -> None:
        if not callable(function):
            raise WindowError(f"ByFunction of {function!r}: give a function of a timestamp and a row")
        self._function = function
        self._max_timestamp = MaxTimestamp(max_advance_ms)

    def observe(self, timestamps: Sequence[int], rows: Sequence[Row]) -> int | None:
        """The greatest watermark that the function has returned so far."""
        returned = [self._function(timestamp, row) for timestamp, row in zip(timestamps, rows, strict=True)]
        timestamps = [to_ms(value) for value in returned if value is not None]
        self._max_timestamp.observe(timestamps)
        return self._max_timestamp.ms if timestamps else None

    def dump(self, now_ms: int) -> Value:
        return self._max_timestamp.dump()

    def load(self, state: Value, now_ms: int) -> None:
        self._max_timestamp.load(state)
