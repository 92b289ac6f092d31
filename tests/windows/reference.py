"""The reference: what windows must say of a stream, plainly and slowly, from the whole stream each time.

It shares nothing with the machines but the words: no slices, no timers, no states, no stacks.
Rows are (key, ms, value).
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field

Row = tuple[object, int, object]
Span = tuple[int, int]
Result = tuple[Span, object, list[object]]
"""Window, key, values (sorted: in which order they are joined is not promised)."""


def spans(at: int, size: int, slide: int, offset: int) -> list[Span]:
    """All windows that a time is in: every one that could be is looked at."""
    near = (at - offset) // slide * slide + offset
    starts = range(near - (size // slide + 2) * slide, near + 2 * slide, slide)
    return [(start, start + size) for start in starts if start <= at < start + size]


@dataclass
class Aligned:
    """Tumbling and sliding windows by time."""

    size: int
    slide: int
    offset: int = 0
    lateness: int = 0
    watermark: float = -math.inf
    late: list[Row] = field(default_factory=list)
    members: dict[tuple[Span, object], list[object]] = field(default_factory=dict)

    def has_passed(self, end: int) -> bool:
        return end + self.lateness <= self.watermark

    def add(self, rows: Iterable[Row]) -> None:
        for key, at, value in rows:
            still_open = [
                span for span in spans(at, self.size, self.slide, self.offset) if not self.has_passed(span[1])
            ]
            if not still_open:
                self.late.append((key, at, value))
            for span in still_open:
                self.members.setdefault((span, key), []).append(value)

    def advance(self, watermark: int) -> list[Result]:
        self.watermark = max(self.watermark, watermark)
        due = [(span, key) for span, key in self.members if self.has_passed(span[1])]
        due.sort(key=lambda window: (window[0][1], window[1]))
        return [(span, key, sorted(self.members.pop((span, key)))) for span, key in due]


@dataclass
class Sessions:
    """Sessions: all open rows of a key are put together anew at each question. What touches is one."""

    gap: int
    lateness: int = 0
    watermark: float = -math.inf
    late: list[Row] = field(default_factory=list)
    rows: list[Row] = field(default_factory=list)

    def together(self, key: object) -> list[list[Row]]:
        groups: list[list[Row]] = []
        for row in sorted((row for row in self.rows if row[0] == key), key=lambda row: row[1]):
            if groups and row[1] <= groups[-1][-1][1] + self.gap:
                groups[-1].append(row)
            else:
                groups.append([row])
        return groups

    def has_passed(self, group: list[Row]) -> bool:
        return group[-1][1] + self.gap + self.lateness < self.watermark  # at its end it still takes rows

    def add(self, rows: Iterable[Row]) -> None:
        for row in rows:
            self.rows.append(row)
            if any(self.has_passed(group) for group in self.together(row[0])):  # what was there had not
                self.rows.pop()
                self.late.append(row)

    def advance(self, watermark: int) -> list[Result]:
        self.watermark = max(self.watermark, watermark)
        fired: list[Result] = []
        for key in {row[0] for row in self.rows}:
            for group in self.together(key):
                if self.has_passed(group):
                    fired.append(((group[0][1], group[-1][1] + self.gap), key, sorted(row[2] for row in group)))
                    self.rows = [row for row in self.rows if row not in group]
        return sorted(fired, key=lambda result: (result[0][1], result[1]))


@dataclass
class KeptSessions:
    """Sessions whose rows are kept, each with the number of its coming. Values must differ from one another."""

    gap: int
    lateness: int = 0
    came: dict[object, int] = field(default_factory=dict)
    released: set[object] = field(default_factory=set)
    sessions: Sessions = field(init=False)

    def __post_init__(self) -> None:
        self.sessions = Sessions(self.gap, self.lateness)

    @property
    def late(self) -> list[Row]:
        return self.sessions.late

    def add(self, rows: Iterable[Row]) -> None:
        for row in rows:
            self.came[row[2]] = len(self.came)
            self.sessions.add([row])

    def advance(
        self, watermark: int
    ) -> tuple[list[tuple[Span, object, list[object], list[object], list[object]]], set]:
        """(window, key, all, new, expired) of each session; what is released."""
        fired = []
        for span, key, values in self.sessions.advance(watermark):
            values = sorted(values, key=self.came.__getitem__)
            self.released.update(values)
            fired.append((span, key, values, values, []))
        return fired, self.released


Shown = tuple[Span, object, list[object], list[object], list[object]]
"""Window, key, all, new, expired."""


@dataclass
class RowsEach:
    """The last `size` rows, each `slide` ms, from all rows that were on time."""

    size: int
    slide: int
    offset: int = 0
    lateness: int = 0
    watermark: float = -math.inf
    late: list[Row] = field(default_factory=list)
    rows: dict[object, list[tuple[int, object]]] = field(default_factory=dict)
    shown: dict[object, list[object]] = field(default_factory=dict)
    waiting: dict[object, dict[object, int]] = field(default_factory=dict)
    seen: set[object] = field(default_factory=set)
    released: set[object] = field(default_factory=set)

    def end_after(self, at: float) -> int:
        return (int(at) - self.offset) // self.slide * self.slide + self.offset + self.slide

    def add(self, rows: Iterable[Row]) -> None:
        for key, at, value in rows:
            end, mine = self.end_after(at), self.rows.setdefault(key, [])
            if end + self.lateness <= self.watermark:
                end = self.end_after(self.watermark - self.lateness)
                # After the end of all rows no window is still to come.
                if self.watermark >= END or sum(at < other < end for other, _ in mine) >= self.size:
                    self.late.append((key, at, value))
                    continue
            mine.append((at, value))
            mine.sort(key=lambda row: row[0])
            self.waiting.setdefault(key, {})[value] = end

    def advance(self, watermark: int) -> tuple[list[Shown], set]:
        """What fires; what is released."""
        self.watermark = max(self.watermark, watermark)
        fired: list[Shown] = []
        for key, waiting in self.waiting.items():
            for end in sorted({end for end in waiting.values() if end + self.lateness <= self.watermark}):
                there = [row for row in self.rows[key] if row[0] < end]
                inside = there[-self.size :]
                self.released.update(value for _, value in there[: -self.size])
                values = [value for _, value in inside]
                new = [value for value in values if value not in self.seen]
                if new:
                    expired = [value for value in self.shown.get(key, []) if value not in values]
                    fired.append(((inside[0][0], end), key, values, new, expired))
                    self.shown[key] = values
                    self.seen.update(new)
            self.waiting[key] = {value: end for value, end in waiting.items() if end + self.lateness > self.watermark}
        if self.watermark >= END:
            self.released.update(value for rows in self.rows.values() for _, value in rows)
        fired.sort(key=lambda one: (one[0][1], str(one[1])))
        return fired, self.released


@dataclass
class SpanEach:
    """The last `size` ms, each `slide` rows: millisecond by millisecond."""

    size: int
    slide: int
    lateness: int = 0
    watermark: float = -math.inf
    late: list[Row] = field(default_factory=list)
    rows: dict[object, list[tuple[int, object]]] = field(default_factory=dict)
    times: dict[object, list[float]] = field(default_factory=dict)
    shown: dict[object, list[tuple[int, object]]] = field(default_factory=dict)
    seen: set[object] = field(default_factory=set)

    def add(self, rows: Iterable[Row]) -> None:
        past = self.watermark - self.lateness
        for key, at, value in rows:
            if at + self.size <= past:
                self.late.append((key, at, value))
                continue
            mine = self.rows.setdefault(key, [])
            mine.append((at, value))
            mine.sort(key=lambda row: row[0])
            self.times[key] = sorted([*self.times.get(key, []), max(at, past)])

    def advance(self, watermark: int) -> tuple[list[Shown], set]:
        """What fires; what is released."""
        self.watermark = max(self.watermark, watermark)
        past, fired = self.watermark - self.lateness, []
        for key, times in self.times.items():
            while len(times) >= self.slide and times[self.slide - 1] + 1 <= past:
                end = int(times[self.slide - 1]) + 1
                count = sum(time < end for time in times)
                del times[: count - count % self.slide]
                inside = [row for row in self.rows[key] if end - self.size <= row[0] < end]
                values = [value for _, value in inside]
                new = [value for value in values if value not in self.seen]
                expired = [
                    row[1] for row in self.shown.get(key, []) if row not in inside and row[0] + 2 * self.size > end - 1
                ]
                self.shown[key] = inside
                self.seen.update(new)
                fired.append(((end - self.size, end), key, values, new, expired))
        fired.sort(key=lambda one: (one[0][1], str(one[1])))
        released = {value for rows in self.rows.values() for at, value in rows if at + self.size <= past}
        return fired, released


END = 2**62


def counted(rows: Iterable[tuple[object, object]], size: int, slide: int) -> list[Result]:
    """All windows by count, as they fire."""
    of_key: dict[object, list[object]] = {}
    fired: list[Result] = []
    for key, value in rows:
        values = of_key.setdefault(key, [])
        values.append(value)
        start = len(values) - size
        if start >= 0 and start % slide == 0:
            fired.append(((start, start + size), key, values[start:]))
    return fired


@dataclass
class Buffered:
    """Rows kept, in Storm's way. Values must differ from one another."""

    size: int
    slide: int
    offset: int = 0
    lateness: int = 0
    watermark: float = -math.inf
    late: list[Row] = field(default_factory=list)
    rows: list[Row] = field(default_factory=list)
    seen: set[object] = field(default_factory=set)
    open: set[tuple[Span, object]] = field(default_factory=set)

    def add(self, rows: Iterable[Row]) -> None:
        for row in rows:
            ends = [end for _, end in spans(row[1], self.size, self.slide, self.offset)]
            on_time = max(ends) + self.lateness > self.watermark
            (self.rows if on_time else self.late).append(row)
            self.open |= {
                (span, row[0])
                for span in spans(row[1], self.size, self.slide, self.offset)
                if span[1] + self.lateness > self.watermark
            }

    def advance(
        self, watermark: int
    ) -> tuple[list[tuple[Span, object, list[object], list[object], list[object]]], set]:
        """(window, key, all, new, expired) of each window; what is released."""
        self.watermark = max(self.watermark, watermark)
        due = {(span, key) for span, key in self.open if span[1] + self.lateness <= self.watermark}
        self.open -= due
        fired = []
        for (start, end), key in sorted(due, key=lambda window: (window[0][1], window[1])):
            mine = [(at, value) for row_key, at, value in self.rows if row_key == key]
            inside = [value for at, value in mine if start <= at < end]
            new = [value for value in inside if value not in self.seen]
            expired = [value for at, value in mine if start - self.slide <= at < start]
            self.seen.update(inside)
            fired.append(((start, end), key, inside, new, expired))
        released = {
            value
            for _, at, value in self.rows
            if spans(at, self.size, self.slide, self.offset)[-1][1] + self.lateness <= self.watermark
        }
        return fired, released


@dataclass
class InputWatermarks:
    """The watermark of all input tasks, from all that was ever said."""

    inputs: int
    policy: str
    ratio: float = 0.9
    idle_timeout: int | None = None
    said: dict[int, list[int]] = field(default_factory=dict)
    last_active: dict[int, int] = field(default_factory=dict)
    silent: set[int] = field(default_factory=set)
    watermark: float = -math.inf

    def event(self, now: int, speaker: int | None = None, watermark: int | None = None) -> float:
        """Something happens at `now`. The watermark."""
        if speaker is not None:
            self.last_active[speaker] = now
            self.silent.discard(speaker)
            self.decide()
        for name in range(self.inputs):
            if self.idle_timeout is not None and now - self.last_active.get(name, 0) >= self.idle_timeout:
                self.silent.add(name)
        self.decide()
        if speaker is not None and watermark is not None:
            self.said.setdefault(speaker, []).append(watermark)
            self.decide()
        return self.watermark

    def decide(self) -> None:
        far = {name: max(self.said.get(name, [-math.inf])) for name in range(self.inputs)}
        active = [far[name] for name in far if name not in self.silent]
        if not active:
            found = max(far.values())
        elif self.policy == "max":
            found = max(active)
        elif self.policy == "min":
            found = min(active)
        else:
            passed = [
                watermark
                for watermark in active
                if sum(far >= watermark for far in active) / len(active) >= self.ratio - 1e-12
            ]
            found = max(passed)
        self.watermark = max(self.watermark, found)
