"""Buffered sessions: the rows of a session, kept until it has fired.

1. A session is as in session_windows.py: when it fires, which sessions become one, which rows are late.
2. A row is in one session only: all rows of a session that fires are new, none has expired, and all are *released*
   with it (that is when their tuples are acked).
3. Rows are in the order in which they came, from whichever sessions they were brought together.
4. There are never more than `max_rows` rows. One more fails.

From: Storm, whose windows keep their rows, and which has no sessions.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from .assigners import Session, whole
from .buffered import MAX_ROWS, Came, WindowRows, in_order_of_coming, no_room
from .firing import Firing
from .open_sessions import OpenSession, OpenSessions
from .timestamps import to_ms
from .window import STEP, Taken, Window, in_steps, new_key


class BufferedSessions(Firing[WindowRows]):
    """The sessions of one task. Keys are any values that can be hashed; per task, all are None."""

    def __init__(self, assigner: Session, *, allowed_lateness_ms: int = 0, max_rows: int = MAX_ROWS) -> None:
        super().__init__(allowed_lateness_ms)
        self.rows = 0
        self._assigner = assigner
        self._max_rows = whole(max_rows, "max_rows")
        self._came = 0
        self._sessions: OpenSessions[list[Came]] = OpenSessions(assigner.gap_ms)
        self._released: list[Any] = []

    @property
    def next_fire_ms(self) -> int | None:
        """A watermark before which nothing fires; None: there is none open."""
        end = self._sessions.next_end()
        return None if end is None else end + 1 + self._lateness_ms

    def add(self, keys: Sequence[Any], timestamps: Sequence[Any], rows: Sequence[Any]) -> Taken:
        """Rows: key, time (milliseconds since 1970) and the row itself. What was late, and what failed."""
        return self._add_each(keys, timestamps, rows, self._put)

    def windows_of(self, timestamp: Any) -> list[Window]:
        """The session of a row that is alone."""
        return self._assigner.windows_of(to_ms(timestamp))

    def released(self) -> list[Any]:
        """Rows whose session has been taken from an iterator since this was asked last."""
        released, self._released = self._released, []
        return released

    def _close_next(self) -> Iterator[list[WindowRows]] | None:
        end = self._sessions.next_end()
        return None if end is None or not self._has_passed(end + 1) else self._results(end)

    def _results(self, end: int) -> Iterator[list[WindowRows]]:
        """A session with all its rows at a time."""
        closed: dict[Any, OpenSession[list[Came]]] = {}
        while session := self._sessions.close(end):
            closed[session.key] = session
            if not len(closed) % STEP:
                yield []
        for keys in in_steps(list(closed)):
            for key in keys:
                session = closed[key]
                rows = in_order_of_coming([session.holds])
                self.rows -= len(rows)
                self._released += rows
                yield [WindowRows(session.window, key, rows, rows, ())]
            yield []

    def _put(self, key: Any, at_ms: int, row: Any) -> bool:
        """False: it is late."""
        place = self._sessions.place_of(key, at_ms)
        if self._has_passed(place.window.end + 1):
            return False
        if self.rows >= self._max_rows:
            raise no_room(self._max_rows)
        if not place.touched:
            new_key(key)
        held = max((session.holds for session in place.touched), key=len, default=[])  # no row moves often
        for session in place.touched:
            if session.holds is not held:
                held += session.holds
        self._came += 1
        held.append((self._came, row))
        self.rows += 1
        self._sessions.put(key, place, held)
        return True
