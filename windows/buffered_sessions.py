"""Buffered sessions: the rows of a session, kept until the session has fired.

1. Sessions are as in session_windows.py: when they fire, which sessions become one, which rows are late.
2. A row is in one session only: all rows of a session that fires are new, none has expired, and all are *released*
   with it (their tuples are acked then).
3. Rows are in the order of arrival, whichever sessions they were merged from.
4. There are never more than `max_rows` rows. One more row fails.

From: Storm, whose windows keep their rows, and which has no sessions.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from operator import itemgetter
from typing import TYPE_CHECKING

from .buffered import in_arrival_order
from .dumps import check
from .kept_rows import MAX_ROWS, KeptRows, NumberedRow, WindowRows
from .open_sessions import SESSIONS, OpenSession, OpenSessions
from .window import STEP, new_key

if TYPE_CHECKING:
    from .assigners import Session
    from .changes import TableName
    from .frozen import Columns, Table
    from .values import Row, RowKey


class BufferedSessions(KeptRows):
    """The sessions of one task. Keys are hashable; without a key they are None."""

    def __init__(self, assigner: Session, *, allowed_lateness_ms: int = 0, max_rows: int = MAX_ROWS) -> None:
        super().__init__(assigner, allowed_lateness_ms, max_rows)
        self._sessions: OpenSessions[list[NumberedRow]] = OpenSessions(assigner.gap_ms)

    @property
    def next_fire_ms(self) -> int | None:
        """The watermark before which nothing fires; None: no session is open."""
        end = self._sessions.next_end()
        return None if end is None else end + 1 + self._lateness_ms

    def _close_next(self) -> Iterator[list[WindowRows]] | None:
        end = self._sessions.next_end()
        return None if end is None or not self._has_passed(end + 1) else self._results(end)

    def _results(self, end: int) -> Iterator[list[WindowRows]]:
        """The sessions that end at `end`, one at a time with all its rows."""
        closed: dict[RowKey, OpenSession[list[NumberedRow]]] = {}
        while session := self._sessions.next_of(end):
            if self._changes is not None:
                self._changes.changed(SESSIONS, session.key)
            closed[session.key] = self._sessions.close()
            if not len(closed) % STEP:
                yield []
        yield from self._of_each(list(closed), lambda key: self._fired(key, closed[key]))

    def _fired(self, key: RowKey, session: OpenSession[list[NumberedRow]]) -> WindowRows:
        rows = in_arrival_order([session.contents])
        self.rows -= len(rows)
        self._release(sorted(session.contents, key=_arrival))
        return WindowRows(session.window, key, rows, rows, ())

    def _tables(self) -> Iterable[TableName]:
        return (SESSIONS,)

    def _table(self, name: TableName) -> Table:
        return self._sessions.table(self._pack_numbered)

    def _load_table(self, name: TableName, columns: Columns) -> None:
        check(name == SESSIONS and len(columns) == 1, f"a table {name!r:.100} of sessions")
        self._sessions.load(columns[0], self._unpack_numbered)

    def _put(self, key: RowKey, at_ms: int, row: Row) -> bool:
        """Returns False if the row is late."""
        merge = self._sessions.merge_of(key, at_ms)
        if self._has_passed_for(merge.window.end + 1, key, row):
            return False
        self._check_limit()
        if not merge.touched:
            new_key(key)
        if self._changes is not None:
            self._changes.changed(SESSIONS, key)
        held: list[NumberedRow] = []
        if merge.touched:
            held = max((session.contents for session in merge.touched), key=len)  # the largest: few moves
        for session in merge.touched:
            if session.contents is not held:
                held += session.contents
        self._arrivals += 1
        held.append((self._arrivals, row))
        self.rows += 1
        self._sessions.put(key, merge, held)
        return True


_arrival = itemgetter(0)
