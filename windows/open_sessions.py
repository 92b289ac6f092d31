"""Open sessions: which rows of a key belong together, and which session ends next. The caller owns their contents.

    a ├────────┤                 a row at t is [t, t + gap]
    b               ├────────┤
    c       ├───────┤            touches both: all three are one session
      ├──────────────────────┤

1. Sessions of a key are more than the gap apart: sessions that overlap or touch are merged at once, in whatever order
   their rows arrive. So a session is over only when the watermark is *after* its end: a row at the end still extends
   it.
2. Each session has one timer. If the session has grown, its timer is set again when it is due; timers of closed
   sessions are removed before they outnumber the others.

From: JStorm, EventTimeSessionWindows and WindowedBoltExecutor.execute, which merges a session with at most one other
and never removes the old one (depart); Flink, MergingWindowSet. Both fire a session before a row at its end must have
arrived, so that there the order of rows decides whether the row is in it (depart).
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from heapq import heapify, heappop, heappush
from operator import attrgetter
from typing import TYPE_CHECKING, Final, Generic, TypeVar

from .dumps import check
from .frozen import Table
from .state_codec import window_of
from .window import Window

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from .frozen import Column
    from .values import RowKey, Value

S = TypeVar("S")

FEW_TIMERS: Final = 1_000
"""Up to this many timers are not cleaned up."""


SESSIONS: Final = "sessions"
"""The table of a dump that has them."""


class OpenSession(Generic[S]):
    """An open session and its contents."""

    __slots__ = ("closed", "contents", "end", "key", "start")

    def __init__(self, key: RowKey, window: Window, contents: S) -> None:
        self.key = key
        self.start = window.start
        self.end = window.end
        self.contents = contents
        self.closed = False

    @property
    def window(self) -> Window:
        """Its current bounds."""
        return Window(self.start, self.end)


class SessionMerge(Generic[S]):
    """The sessions that a row touches, and the window of the session that they become with it."""

    __slots__ = ("at", "of_key", "touched", "window")

    def __init__(self, of_key: list[OpenSession[S]], at: int, touched: list[OpenSession[S]], window: Window) -> None:
        self.of_key = of_key
        self.at = at
        self.touched = touched
        self.window = window


class OpenSessions(Generic[S]):
    """The open sessions of one task. `count`: how many there are."""

    def __init__(self, gap_ms: int) -> None:
        self.count = 0
        self._gap_ms = gap_ms
        self._of_key: dict[RowKey, list[OpenSession[S]]] = {}  # by start, which is also by end
        self._closed: dict[RowKey, int] = {}  # key → closed sessions at the front of its list: no shift for each
        self._timers: list[tuple[int, int, OpenSession[S]]] = []
        self._timers_set = 0

    def next_end(self) -> int | None:
        """The end of the session that ends next; None: no session is open."""
        while self._timers and (self._timers[0][2].closed or self._timers[0][2].end != self._timers[0][0]):
            self._reset_timer()
        return self._timers[0][0] if self._timers else None

    def merge_of(self, key: RowKey, at_ms: int) -> SessionMerge[S]:
        """The merge that a row would cause. Nothing changes."""
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

    def of(self, key: RowKey) -> list[OpenSession[S]]:
        """All open sessions of a key."""
        return self._of_key.get(key, [])[self._closed.get(key, 0) :]

    def put(self, key: RowKey, merge: SessionMerge[S], contents: S) -> None:
        """Apply a merge: the sessions that the row touches become one, with these contents."""
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

    def next_of(self, end: int) -> OpenSession[S] | None:
        """The next session that ends at `end`; None if none does."""
        return self._timers[0][2] if self.next_end() == end else None

    def close(self) -> OpenSession[S]:
        """Close and return the session that `next_of` has found. No row is added to it afterwards."""
        session = heappop(self._timers)[2]
        self._remove(session)
        return session

    def table(self, pack: Callable[[S, RowKey], Value]) -> Table:
        """Key → its sessions: start → (end, packed contents)."""

        def read(keys: Iterable[RowKey] | None) -> list[Column]:
            column = {
                key: {session.start: (session.end, pack(session.contents, key)) for session in sessions}
                for key in (self._of_key if keys is None else keys)
                if (sessions := self.of(key))
            }
            return [column]

        return Table(self._of_key.keys(), read)

    def load(self, column: Column, unpack: Callable[[Value, RowKey], S]) -> None:
        """Load such a table; all its sessions are new here."""
        for key, sessions in column.items():
            loaded: list[OpenSession[S]] = []
            for start, (end, packed) in sessions.items():
                window = window_of(start, end)
                check(not loaded or loaded[-1].end < start, f"sessions of key {key!r:.100} overlap")
                loaded.append(OpenSession(key, window, unpack(packed, key)))
                self._set_timer(loaded[-1])
            check(bool(loaded), f"key {key!r:.100} has no session")
            self._of_key[key] = loaded
            self.count += len(loaded)

    def _set_timer(self, session: OpenSession[S]) -> None:
        self._timers_set += 1
        heappush(self._timers, (session.end, self._timers_set, session))
        if len(self._timers) > 2 * self.count + FEW_TIMERS:  # timers of merged sessions
            self._timers = [timer for timer in self._timers if not timer[2].closed]
            heapify(self._timers)

    def _reset_timer(self) -> None:
        """Remove the first timer, and set it again if its session is still open."""
        session = heappop(self._timers)[2]
        if not session.closed:
            self._set_timer(session)

    def _remove(self, session: OpenSession[S]) -> None:
        """Remove the first open session of its key."""
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
