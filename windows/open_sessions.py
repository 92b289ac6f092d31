"""Open sessions: which rows of a key are together, and which session is over next. What they hold is the caller's.

    a ├────────┤                 a row at t is [t, t + gap]
    b               ├────────┤
    c       ├───────┤            touches both: all three are one session
      ├──────────────────────┤

1. Sessions of a key are more than the gap apart: what overlaps or touches has been merged, at once, whatever order rows
   came in. So a session is over only when time is *beyond* its end: a row at the end itself would still touch it.
2. Each session has one timer. One that has grown when it rings is set anew; those of sessions that are no more are
   cleared away before they are more than those that are.

From: JStorm, EventTimeSessionWindows and WindowedBoltExecutor.execute, which merges a session with one other at most
and never takes the old one away (depart); Flink, MergingWindowSet. Both fire a session before a row at its end has had
to come, so that there the order of rows decides whether it is in it (depart).
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from heapq import heapify, heappop, heappush
from operator import attrgetter
from typing import Any, Final, Generic, TypeVar

from .window import Window

S = TypeVar("S")

FEW_TIMERS: Final = 1_000
"""So many are never too many."""


class OpenSession(Generic[S]):
    """One of them, and what it holds."""

    __slots__ = ("closed", "contents", "end", "key", "start")

    def __init__(self, key: Any, window: Window, contents: S) -> None:
        self.key = key
        self.start = window.start
        self.end = window.end
        self.contents = contents
        self.closed = False

    @property
    def window(self) -> Window:
        """As far as it reaches now."""
        return Window(self.start, self.end)


class SessionMerge(Generic[S]):
    """Where a row belongs: the sessions that it touches, and the one that they become with it."""

    __slots__ = ("at", "of_key", "touched", "window")

    def __init__(self, of_key: list[OpenSession[S]], at: int, touched: list[OpenSession[S]], window: Window) -> None:
        self.of_key = of_key
        self.at = at
        self.touched = touched
        self.window = window


class OpenSessions(Generic[S]):
    """Of one task. `count`: how many are open."""

    def __init__(self, gap_ms: int) -> None:
        self.count = 0
        self._gap_ms = gap_ms
        self._of_key: dict[Any, list[OpenSession[S]]] = {}  # by start, which is also by end
        self._closed: dict[Any, int] = {}  # so many of a key's first ones are gone: lists are not shifted for each
        self._timers: list[tuple[int, int, OpenSession[S]]] = []
        self._timers_set = 0

    def next_end(self) -> int | None:
        """The end of the one that ends next; None: there is none."""
        while self._timers and (self._timers[0][2].closed or self._timers[0][2].end != self._timers[0][0]):
            self._reset_timer()
        return self._timers[0][0] if self._timers else None

    def merge_of(self, key: Any, at_ms: int) -> SessionMerge[S]:
        """Of a row. Nothing changes."""
        start, end = at_ms, at_ms + self._gap_ms
        of_key = self._of_key.get(key)
        if of_key is None:
            return SessionMerge([], 0, [], Window(start, end))
        low = bisect_left(of_key, start, self._closed.get(key, 0), key=_by_end)
        high = bisect_right(of_key, end, low, key=_by_start)
        touched = of_key[low:high]
        if touched:
            start, end = min(start, touched[0].start), max(end, touched[-1].end)
        return SessionMerge(of_key, low, touched, Window(start, end))

    def of(self, key: Any) -> list[OpenSession[S]]:
        """All of a key."""
        return self._of_key.get(key, [])[self._closed.get(key, 0) :]

    def put(self, key: Any, merge: SessionMerge[S], contents: S) -> None:
        """A row has been put there; what it touched is one session now, which holds that."""
        if not merge.touched:
            session = OpenSession(key, merge.window, contents)
            merge.of_key.insert(merge.at, session)
            self._of_key[key] = merge.of_key
            self.count += 1
            self._set_timer(session)
            return
        first, *others = merge.touched
        first.start, first.end, first.contents = merge.window.start, merge.window.end, contents
        for other in others:
            other.closed = True
        if others:
            del merge.of_key[merge.at + 1 : merge.at + 1 + len(others)]
            self.count -= len(others)

    def close(self, end: int) -> OpenSession[S] | None:
        """One of those that end there, if they are the next. No row gets into it any more."""
        if self.next_end() != end:
            return None
        session = heappop(self._timers)[2]
        self._remove(session)
        return session

    def _set_timer(self, session: OpenSession[S]) -> None:
        self._timers_set += 1
        heappush(self._timers, (session.end, self._timers_set, session))
        if len(self._timers) > 2 * self.count + FEW_TIMERS:  # of sessions that have become one
            self._timers = [timer for timer in self._timers if not timer[2].closed]
            heapify(self._timers)

    def _reset_timer(self) -> None:
        """The first timer, which is not at the end of a session."""
        session = heappop(self._timers)[2]
        if not session.closed:
            self._set_timer(session)

    def _remove(self, session: OpenSession[S]) -> None:
        """The first that is open of its key."""
        session.closed = True
        self.count -= 1
        of_key, closed = self._of_key[session.key], self._closed.pop(session.key, 0) + 1
        if closed == len(of_key):
            del self._of_key[session.key]
        elif closed * 2 > len(of_key):
            del of_key[:closed]
        else:
            self._closed[session.key] = closed


_by_start: Final = attrgetter("start")
_by_end: Final = attrgetter("end")
