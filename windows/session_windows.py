"""Session windows: a state for each session. When sessions touch they become one, and their states are merged.

1. A session fires once: when the watermark is after its end plus `allowed_lateness_ms`. At the end itself it does not
   fire yet: the watermark still allows rows of that time, and they would extend it (open_sessions.py).
2. A row is late if its session has passed: a row that touches an open session is on time.
3. A row that fails changes nothing.

From: JStorm, WindowStateMerger. How sessions grow, and where that departs, is in open_sessions.py.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from .aggregate_runner import AggregateRunner, check_state
from .assigners import Session, whole
from .dumps import check
from .errors import WindowError
from .firing import Firing
from .open_sessions import SESSIONS, OpenSession, OpenSessions
from .time_windows import MAX_STATES, state_limit_error
from .timestamps import to_ms
from .values import RowKey, State, Value
from .window import STEP, AddResult, Fired, Window, in_steps, new_key

if TYPE_CHECKING:
    from .aggregates import Aggregate
    from .changes import TableName
    from .frozen import Columns, Table

States = list[State]
"""One state of each aggregate."""


class SessionWindows(Firing[Fired]):
    """The sessions of one task. Keys are hashable; without a key they are None."""

    early = None

    def __init__(
        self, assigner: Session, aggregate: Aggregate, *, allowed_lateness_ms: int = 0, max_states: int = MAX_STATES
    ) -> None:
        if not aggregate.merges:
            raise WindowError(
                f"sessions may overlap, and {aggregate.title} cannot merge two states; give it a merge(first, second)"
            )
        super().__init__(allowed_lateness_ms)
        self._assigner = assigner
        self._runner = AggregateRunner(aggregate)
        self._max_states = whole(max_states, "max_states")
        self._sessions: OpenSessions[States] = OpenSessions(assigner.gap_ms)

    @property
    def states(self) -> int:
        """The number of states: one for each open session."""
        return self._sessions.count

    @property
    def next_fire_ms(self) -> int | None:
        """The watermark before which nothing fires; None: no session is open."""
        end = self._sessions.next_end()
        return None if end is None else end + 1 + self._lateness_ms

    def add(self, keys: Sequence[RowKey], timestamps: Sequence[object], values: Sequence[Value]) -> AddResult:
        """Add rows: key, time (milliseconds since 1970) and value of each. Returns which were late or failed."""
        return self._add_each(keys, timestamps, values, self._put)

    def add_one(self, key: RowKey, timestamp: object, value: Value) -> AddResult:
        """Add a single row."""
        return self.add((key,), (timestamp,), (value,))

    def windows_of(self, timestamp: object) -> list[Window]:
        """The session of a single row."""
        return self._assigner.windows_of(to_ms(timestamp))

    def open_of(self, key: RowKey, timestamp: object = None) -> Iterator[tuple[Window, list[State]]]:
        """The open sessions of a key with their states; with a `timestamp`, only those that a row would touch."""
        sessions = self._sessions
        found = sessions.of(key) if timestamp is None else sessions.merge_of(key, to_ms(timestamp)).touched
        return ((session.window, session.contents) for session in found)

    def _close_next(self) -> Iterator[list[Fired]] | None:
        end = self._sessions.next_end()
        return None if end is None or not self._is_over(end) else self._results(end)

    def _results(self, end: int) -> Iterator[list[Fired]]:
        """The results of the sessions that end at `end`."""
        closed: dict[RowKey, OpenSession[States]] = {}
        while session := self._sessions.next_of(end):
            if self._changes is not None:
                self._changes.changed(SESSIONS, session.key)
            closed[session.key] = self._sessions.close()
            if not len(closed) % STEP:
                yield []
        for keys in in_steps(list(closed)):
            sessions = [closed[key] for key in keys]
            yield [self._runner.fired_one(one.window, one.key, one.contents) for one in sessions]

    def _is_over(self, end: int) -> bool:
        return self._has_passed(end + 1)

    def _put(self, key: RowKey, at_ms: int, value: Value) -> bool:
        """Returns False if the row is late."""
        merge = self._sessions.merge_of(key, at_ms)
        if self._has_passed_for(merge.window.end + 1, key):
            return False
        if not merge.touched:
            if self.states >= self._max_states:
                raise state_limit_error(self._max_states)
            new_key(key)
        if self._changes is not None:
            self._changes.changed(SESSIONS, key)
        states = self._merged(merge.touched, merge.window)
        self._sessions.put(key, merge, self._runner.executed(value, [(merge.window, states)])[0])
        return True

    @property
    def _settings(self) -> dict[str, Value]:
        return {
            "windows": repr(self._assigner),
            "allowed_lateness_ms": self._lateness_ms,
            "aggregates": self._runner.codec().titles,
        }

    def _tables(self) -> Iterable[TableName]:
        return (SESSIONS,)

    def _table(self, name: TableName) -> Table:
        return self._sessions.table(self._runner.codec().pack)

    def _load_table(self, name: TableName, columns: Columns) -> None:
        check(name == SESSIONS and len(columns) == 1, f"a table {name!r:.100} of sessions")
        self._sessions.load(columns[0], self._runner.codec().unpack)

    def _pack_result(self, result: Fired) -> Value:
        return self._runner.codec().pack_fired(result)

    def _unpack_result(self, packed: Value) -> Fired:
        return self._runner.codec().unpack_fired(packed)

    def _merged(self, touched: list[OpenSession[States]], window: Window) -> States:
        """The merged states before the row."""
        if not touched:
            return self._runner.init(window)
        states = touched[0].contents
        for other in touched[1:]:
            merged = zip(self._runner.merges, states, other.contents, strict=True)
            states = [check_state(merge(*pair)) for merge, *pair in merged]
        return states
