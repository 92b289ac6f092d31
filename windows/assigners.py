"""Assigners: which windows a timestamp (or a row's number) belongs to.

1. Time windows are aligned to 1970 plus `offset_ms`; [start, end), before 1970 as after it.
2. A sliding window slides by any part of its size: `slide_ms` <= `size_ms`.
3. A session ends `gap_ms` after its last tuple: tuples that are a gap apart, or less, are in one session.
4. Count windows count the rows of a key from 0: the first is [0, size), the next [slide, slide + size).
5. Mixed windows have a length in rows and a slide in time, or the reverse (mixed_windows.py).

    size 10, slide 4      0   2 4   6 8   10  12  14
    windows               ├──────────────────┤
                                ├─────────────────────┤
    slices                ├───┼─┼───┼─┼───┼───┼──┤          cut where any window begins or ends

Windows share *slices*: a row is counted in one slice, and a window consists of whole slices. A slide has at most two
slices, whatever size and slide are. (Panes of the greatest common divisor of size and slide would be more: 7,001 in
each slide of 7,001 ms if the size is an hour.)

From: JStorm, Tumbling-, Sliding- and SessionWindows, SlidingCountWindows (which drops windows if size > 2 * slide:
depart). Slices: S. Krishnamurthy, C. Wu, M. Franklin, "On-the-fly sharing for streamed aggregation", 2006.
"""

from __future__ import annotations

import enum
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from .errors import WindowError
from .window import Window

MAX_MS: Final = 10**18
"""The longest duration: the end of all rows (END_MS) must be after every window, however late it may fire."""


class Time(enum.Enum):
    """The clock: the tuple's timestamp, the clock of the receiving task, or that of the spout task that emitted it."""

    EVENT = "event"
    PROCESSING = "processing"
    INGESTION = "ingestion"


def whole(value: object, what: str, least: int | None = 1) -> int:
    """`value` if it is an int of at least `least`; else WindowError."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise WindowError(f"{what} is {value!r}; give a whole number")
    if least is not None and value < least:
        raise WindowError(f"{what} is {value}; give {least} or more")
    return value


def duration(value: object, what: str, least: int = 1) -> int:
    """Like `whole`, and at most MAX_MS."""
    ms = whole(value, what, least)
    if ms > MAX_MS:
        raise WindowError(f"{what} is {ms}; give {MAX_MS} or less")
    return ms


@dataclass(frozen=True, slots=True)
class Sliding:
    """Windows of `size_ms`, one every `slide_ms`."""

    size_ms: int
    slide_ms: int
    offset_ms: int = 0
    time: Time = Time.EVENT
    rest_ms: int = field(init=False, repr=False, compare=False, default=0)

    def __post_init__(self) -> None:
        duration(self.size_ms, "the size of windows (size_ms)")
        duration(self.slide_ms, "the slide of windows (slide_ms)")
        whole(self.offset_ms, "the offset of windows (offset_ms)", None)
        if self.slide_ms > self.size_ms:
            raise WindowError(
                f"windows of {self.size_ms} ms that slide by {self.slide_ms} ms leave out what is between them; "
                "slide by the size or less"
            )
        object.__setattr__(self, "rest_ms", self.size_ms % self.slide_ms)

    def windows_of(self, timestamp: int) -> list[Window]:
        """The windows of a timestamp, in order."""
        last = timestamp - (timestamp - self.offset_ms) % self.slide_ms
        count = (last + self.size_ms - timestamp - 1) // self.slide_ms + 1
        starts = range(last - (count - 1) * self.slide_ms, last + 1, self.slide_ms)
        return [Window(start, start + self.size_ms) for start in starts]

    def slice_of(self, timestamp: int) -> Window:
        """The slice of a timestamp."""
        past = (timestamp - self.offset_ms) % self.slide_ms
        start = timestamp - past
        if past < self.rest_ms:
            return Window(start, start + self.rest_ms)
        return Window(start + self.rest_ms, start + self.slide_ms)

    def numbers_of(self, timestamps: Sequence[int]) -> list[int]:
        """The number of the slice of each timestamp."""
        slide_ms, offset_ms, rest_ms = self.slide_ms, self.offset_ms, self.rest_ms
        if not rest_ms:
            return [(timestamp - offset_ms) // slide_ms for timestamp in timestamps]
        return [
            2 * ((timestamp - offset_ms) // slide_ms) + ((timestamp - offset_ms) % slide_ms >= rest_ms)
            for timestamp in timestamps
        ]

    def first_end(self, number: int) -> int:
        """The end of the first window that contains the slice of this number."""
        windows = self.size_ms // self.slide_ms + (self.rest_ms > 0 and number % 2 == 0)
        return self.last_end(number) - (windows - 1) * self.slide_ms

    def last_end(self, number: int) -> int:
        """The end of the last window that contains the slice of this number."""
        slide = number // 2 if self.rest_ms else number
        return slide * self.slide_ms + self.offset_ms + self.size_ms

    def starts_over(self, slice_: Window) -> range:
        """The starts of all windows that contain a slice, in the order in which the windows fire."""
        last = slice_.start - (slice_.start - self.offset_ms) % self.slide_ms
        first = last - (last + self.size_ms - slice_.end) // self.slide_ms * self.slide_ms
        return range(first, last + 1, self.slide_ms)


class Tumbling(Sliding):
    """Windows of `size_ms`, one after another."""

    __slots__ = ()

    def __init__(self, size_ms: int, offset_ms: int = 0, time: Time = Time.EVENT) -> None:
        super().__init__(size_ms, size_ms, offset_ms, time)


@dataclass(frozen=True, slots=True)
class Session:
    """Windows that end when no row has arrived for `gap_ms`. Each key has its own sessions."""

    gap_ms: int
    time: Time = Time.EVENT

    def __post_init__(self) -> None:
        duration(self.gap_ms, "the gap of sessions (gap_ms)")

    def windows_of(self, timestamp: int) -> list[Window]:
        """The session of a tuple without neighbours."""
        return [Window(timestamp, timestamp + self.gap_ms)]


@dataclass(frozen=True, slots=True)
class Counts:
    """Windows of `size` rows of a key, one every `slide` rows (every `size` rows if None)."""

    size: int
    slide: int = 0

    def __init__(self, size: int, slide: int | None = None) -> None:
        whole(size, "the size of count windows")
        slide = size if slide is None else whole(slide, "the slide of count windows")
        if slide > size:
            raise WindowError(
                f"count windows of {size} rows that slide by {slide} leave out rows; slide by the size or less"
            )
        object.__setattr__(self, "size", size)
        object.__setattr__(self, "slide", slide)

    def windows_of(self, number: int) -> list[Window]:
        """The windows of a row; rows are counted from 0."""
        first = max(0, -(-(number - self.size + 1) // self.slide) * self.slide)
        return [Window(start, start + self.size) for start in range(first, number + 1, self.slide)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Mixed:
    """Windows of the last `size` rows, one every `slide_ms`; or of the last `size_ms`, one every `slide` rows.

    Only for a BufferedWindowBolt, since rows are kept. Slides of `slide_ms` are aligned to 1970 plus `offset_ms`.
    """

    size: int | None = None
    slide_ms: int | None = None
    size_ms: int | None = None
    slide: int | None = None
    offset_ms: int = 0
    time: Time = Time.EVENT

    def __post_init__(self) -> None:
        names = ("size", "slide_ms", "size_ms", "slide")
        given = [name for name in names if getattr(self, name) is not None]
        if given == ["size", "slide_ms"]:
            whole(self.size, "the size of mixed windows (size)")
            duration(self.slide_ms, "the slide of mixed windows (slide_ms)")
        elif given == ["size_ms", "slide"]:
            duration(self.size_ms, "the size of mixed windows (size_ms)")
            whole(self.slide, "the slide of mixed windows (slide)")
        else:
            raise WindowError(
                f"mixed windows with {', '.join(given) or 'nothing'}; give size and slide_ms (the last so many rows, "
                "each so many milliseconds), or size_ms and slide (the last so many milliseconds, each so many rows)"
            )
        whole(self.offset_ms, "the offset of windows (offset_ms)", None)

    def end_after(self, timestamp: int) -> int:
        """The first time after `timestamp` at which windows of rows fire."""
        slide_ms = self.slide_ms or 1
        return ((timestamp - self.offset_ms) // slide_ms + 1) * slide_ms + self.offset_ms

    def windows_of(self, timestamp: int) -> list[Window]:
        """The first window of a row, if there are no other rows."""
        if self.size_ms is None:
            return [Window(timestamp, self.end_after(timestamp))]
        return [Window(timestamp + 1 - self.size_ms, timestamp + 1)]
