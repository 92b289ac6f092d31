"""Session windows: a session grows with each tuple that overlaps it, and two that come to overlap become one.

    a ├────────┤                 a tuple at t is [t, t + gap)
    b               ├────────┤
    c       ├──────────┤         overlaps both: all three are one session
      ├──────────────────────┤

1. Sessions of a key never overlap: what overlaps has been merged, at once, whatever order tuples came in.
2. A session fires once: when the watermark is at its end plus `allowed_lateness_ms`, or beyond.
3. A tuple is late if the session that it would be in has passed: a tuple that overlaps an open session is on time.
4. Each session has one timer. One that has grown when it rings is set anew; those of sessions that are no more are
   cleared away before they are more than those that are.
5. A row that fails leaves all as it was.

From: JStorm, EventTimeSessionWindows and WindowedBoltExecutor.execute, which merges a session with one other at most
and never takes the old one away (depart); Flink, MergingWindowSet, where sessions that touch are merged (depart).
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from heapq import heapify, heappop, heappush
from operator import attrgetter
from typing import Any, Final

from .aggregates import Aggregate
from .assigners import Session, whole
from .errors import WindowError
from .firing import Firing
from .parts import Parts, raised
from .time_windows import MAX_STATES, limit_reached
from .timestamps import to_ms
from .window import STEP, Fired, Taken, Window, in_steps, new_key

FEW_TIMERS: Final = 1_000
"""So many are never too many."""


class _Open:
    """An open session."""

    __slots__ = ("end", "gone", "key", "start", "states")

    def __init__(self, key: Any, start: int, end: int, states: list[Any]) -> None:
        self.key = key
        self.start = start
        self.end = end
        self.states = states
        self.gone = False


class SessionWindows(Firing[Fired]):
    """The sessions of one task. Keys are any values that can be hashed; per task, all are None."""

    def __init__(
        self, assigner: Session, aggregate: Aggregate, *, allowed_lateness_ms: int = 0, max_states: int = MAX_STATES
    ) -> None:
        if not aggregate.merges:
            raise WindowError(
                f"sessions come to overlap, and {aggregate.title} cannot make one state of two; give it a "
                "merge(first, second)"
            )
        super().__init__(allowed_lateness_ms)
        self.states = 0
        self._gap_ms = assigner.gap_ms
        self._parts = Parts(aggregate)
        self._max_states = whole(max_states, "max_states")
        self._open: dict[Any, list[_Open]] = {}  # by start, which is also by end
        self._closed: dict[Any, int] = {}  # so many of a key's first ones have closed: lists are not shifted for each
        self._timers: list[tuple[int, int, _Open]] = []
        self._timers_set = 0

    @property
    def next_fire_ms(self) -> int | None:
        """A watermark before which nothing fires; None: there is none open."""
        while self._timers and (self._timers[0][2].gone or self._timers[0][2].end != self._timers[0][0]):
            self._ring()
        return self._timers[0][0] + self._lateness_ms if self._timers else None

    def add(self, keys: Sequence[Any], timestamps: Sequence[Any], values: Sequence[Any]) -> Taken:
        """Rows: key, time (milliseconds since 1970) and value of each. What was late, and what failed."""
        return self._add_each(keys, timestamps, values, self._put)

    def add_one(self, key: Any, timestamp: Any, value: Any) -> Taken:
        """A single row."""
        return self.add((key,), (timestamp,), (value,))

    def windows_of(self, timestamp: Any) -> list[Window]:
        """The session of a tuple that is alone."""
        at_ms = to_ms(timestamp)
        return [Window(at_ms, at_ms + self._gap_ms)]

    def _close_next(self) -> Iterator[list[Fired]] | None:
        if not self._timers or not self._has_passed(self._timers[0][0]):
            return None
        return self._results(self._timers[0][0])

    def _results(self, end: int) -> Iterator[list[Fired]]:
        """Of the sessions that end here. No row gets into them any more."""
        closed: dict[Any, _Open] = {}
        while self._timers and self._timers[0][0] == end:
            session = self._ring()
            if session is not None:
                closed[session.key] = session
                self._take_out(session)
                if not len(closed) % STEP:
                    yield []
        for keys in in_steps(list(closed)):
            sessions = [closed[key] for key in keys]
            yield [self._parts.fired_one(Window(one.start, one.end), one.key, one.states) for one in sessions]

    def _put(self, key: Any, at_ms: int, value: Any) -> bool:
        """False: it is late."""
        sessions, low, over = self._overlapped(key, at_ms)
        start, end = at_ms, at_ms + self._gap_ms
        if over:
            start, end = min(start, over[0].start), max(end, over[-1].end)
        if self._has_passed(end):
            return False
        if not over:
            if self.states >= self._max_states:
                raise limit_reached(self._max_states)
            new_key(key)
        window = Window(start, end)
        states = self._parts.executed(value, [(window, self._merged(over, window))])[0]
        if not over:
            self._begin(key, sessions, low, _Open(key, start, end, states))
            return True
        first = over[0]
        first.start, first.end, first.states = start, end, states
        for other in over[1:]:
            other.gone = True
        if len(over) > 1:
            del sessions[low + 1 : low + len(over)]
            self.states -= len(over) - 1
        return True

    def _overlapped(self, key: Any, at_ms: int) -> tuple[list[_Open], int, list[_Open]]:
        """The sessions of a key, where among them a tuple belongs, and those that it overlaps."""
        sessions = self._open.get(key)
        if sessions is None:
            return [], 0, []
        low = bisect_right(sessions, at_ms, self._closed.get(key, 0), key=_by_end)
        high = bisect_left(sessions, at_ms + self._gap_ms, low, key=_by_start)
        return sessions, low, sessions[low:high]

    def _merged(self, over: list[_Open], window: Window) -> list[Any]:
        """The states before the row."""
        if not over:
            return self._parts.init(window)
        states = over[0].states
        for other in over[1:]:
            merged = zip(self._parts.merges, states, other.states, strict=True)
            states = [raised(merge(*pair)) for merge, *pair in merged]
        return states

    def _begin(self, key: Any, sessions: list[_Open], place: int, session: _Open) -> None:
        sessions.insert(place, session)
        self._open[key] = sessions
        self.states += 1
        self._set_timer(session)

    def _set_timer(self, session: _Open) -> None:
        self._timers_set += 1
        heappush(self._timers, (session.end, self._timers_set, session))
        if len(self._timers) > 2 * self.states + FEW_TIMERS:  # of sessions that have become one
            self._timers = [timer for timer in self._timers if not timer[2].gone]
            heapify(self._timers)

    def _ring(self) -> _Open | None:
        """The session of the first timer, if that is its end."""
        end, _, session = heappop(self._timers)
        if session.gone:
            return None
        if session.end != end:
            self._set_timer(session)
            return None
        return session

    def _take_out(self, session: _Open) -> None:
        """The first that is open of its key."""
        session.gone = True
        self.states -= 1
        sessions, closed = self._open[session.key], self._closed.pop(session.key, 0) + 1
        if closed == len(sessions):
            del self._open[session.key]
        elif closed * 2 > len(sessions):
            del sessions[:closed]
        else:
            self._closed[session.key] = closed


_by_start = attrgetter("start")
_by_end = attrgetter("end")
