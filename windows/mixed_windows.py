"""Mixed windows: the last so many rows, at intervals of time; or the last so much time, at intervals of rows. Rows are
kept.

    size 3, slide_ms 10     3 5 7 │ 18 │ 26 │    │    │           at 10: 3 5 7; at 20: 5 7 18; at 30: 7 18 26;
                            ──────┴────┴────┴────┴────┴─►         at 40 and 50 nothing: no row is new

    size_ms 20, slide 3     3 5 7 18 25 26                        with 7: 3 5 7, [-12, 8); with 26: 7 18 25 26, [7, 27)
                            ──────┴────────┴────────────►

1. Rows are in the order of their time; rows of the same time in the order of arrival. So the contents of a window do
   not depend on the order of arrival, as long as rows are on time.
2. *Rows each milliseconds*: at each whole slide, the last `size` rows before it. A window without a new row does not
   fire again. It reaches from its first row to that time. A row is released when newer rows have displaced it. It is
   late if no later window would contain it: its slide has passed, and `size` rows are after it.
3. *Milliseconds each rows*: with each `slide`-th row, the window that ends with it: [its time + 1 - size_ms, its time
   + 1). Rows of the same time are together: if they are several slides, the window fires once. A row is released, or
   late, when no later window reaches back to it. A row behind the watermark is counted at the watermark.
4. `expired` are the rows of the window before that are not in this one; in windows of milliseconds, those that left at
   most `size_ms` ago.
5. After the last row, all rows are released. Windows of rows have then fired for all new rows; rows that do not fill a
   slide fire no window. There are never more than `max_rows` rows.

From: Storm, WindowManager with CountEvictionPolicy and TimeTriggerPolicy, and with TimeEvictionPolicy and
CountTriggerPolicy, and their Watermark variants. There rows are in the order of arrival, a window is (start, end], a
window without a new row fires again at each slide, and expired rows may have been in no window (depart).
"""

from __future__ import annotations

from abc import abstractmethod
from bisect import bisect_left, bisect_right, insort
from collections.abc import Hashable, Iterable, Iterator
from heapq import heappop, heappush
from operator import attrgetter
from typing import TYPE_CHECKING, Final, Generic, TypeVar

from .assigners import Mixed, whole
from .dumps import check, table_of, whole_number
from .kept_rows import MAX_ROWS, KeptRows, WindowRows
from .watermarks import END_MS
from .window import Window, new_key

if TYPE_CHECKING:
    from .changes import TableName
    from .frozen import Columns, Table
    from .values import Row, RowKey, Value

K = TypeVar("K")

ROWS: Final = "rows"
"""The table of a dump that has what is kept for each key. Tables with a number: end → keys to process then."""

IDLE: Final = "idle"
"""The table of a dump that has the keys without rows."""


class _KeptRow:
    """A row that is kept. `number`: of its arrival; `was_fired`: it has been in a window."""

    __slots__ = ("at", "number", "row", "was_fired")

    def __init__(self, at: int, row: Row, number: int) -> None:
        self.at = at
        self.number = number
        self.row = row
        self.was_fired = False


class _Timers:
    """Which keys to process at which time."""

    def __init__(self) -> None:
        self._keys: dict[int, dict[Hashable, None]] = {}
        self._ends: list[int] = []  # a heap

    @property
    def next_end(self) -> int | None:
        return self._ends[0] if self._ends else None

    @property
    def ends(self) -> Iterable[int]:
        return self._keys

    def set(self, key: Hashable, end: int) -> None:
        keys = self._keys.get(end)
        if keys is None:
            keys = self._keys[end] = {}
            heappush(self._ends, end)
        keys[key] = None

    def at(self, end: int) -> dict[Hashable, None]:
        return self._keys[end]

    def pop(self) -> list[Hashable]:
        """Remove and return the keys to process next."""
        return list(self._keys.pop(heappop(self._ends)))


class _MixedWindows(KeptRows, Generic[K]):
    """What both kinds share. K: what is kept for a key."""

    def __init__(self, assigner: Mixed, allowed_lateness_ms: int, max_rows: int) -> None:
        super().__init__(assigner, allowed_lateness_ms, max_rows)
        self._assigner = assigner
        self._of_key: dict[RowKey, K] = {}
        self._timers = _Timers()

    @property
    def next_fire_ms(self) -> int | None:
        """The watermark before which nothing fires and no row is released; None: there are no rows."""
        end = self._timers.next_end
        return None if end is None else end + self._lateness_ms

    @abstractmethod
    def _fire_key(self, key: RowKey, end: int) -> WindowRows | None:
        """Fire the window of a key that ends at `end`, and release rows."""

    def _release_all(self) -> None:
        """Release all rows: the input has ended, and all windows have fired."""

    def _close_next(self) -> Iterator[list[WindowRows]] | None:
        end = self._timers.next_end
        if end is not None and self._has_passed(end):
            if self._changes is not None:
                self._changes.drop(end)
            return self._of_each(self._timers.pop(), lambda key: self._fire_key(key, end))
        if self.watermark is not None and self.watermark >= END_MS:
            self._release_all()
        return None

    def _add_to(self, key: RowKey, kept: K | None, empty: K) -> K:
        """Count one more row of a key, and return what is kept for the key."""
        self._check_limit()
        if kept is None:
            new_key(key)
        if self._changes is not None:
            self._changes.changed(ROWS, key)
        if kept is None:
            kept = self._of_key[key] = empty
        self.rows += 1
        self._arrivals += 1
        return kept

    def _set_timer(self, key: RowKey, end: int) -> None:
        if self._changes is not None:
            self._changes.changed(end, key)
        self._timers.set(key, end)

    def _release_rows(self, rows: list[_KeptRow]) -> None:
        self._release((row.number, row.row) for row in rows)

    @abstractmethod
    def _pack_key(self, kept: K) -> Value:
        """What is kept for a key, for a dump."""

    @abstractmethod
    def _unpack_key(self, packed: Value) -> K:
        """The reverse of _pack_key."""

    def _pack_kept(self, rows: list[_KeptRow]) -> list[Value]:
        return [(row.at, row.number, row.was_fired, self._pack_row(row.row)) for row in rows]

    def _unpack_kept(self, packed: Value) -> list[_KeptRow]:
        rows: list[_KeptRow] = []
        for at, number, was_fired, row in packed:
            kept = _KeptRow(whole_number(at, "a row's time"), self._unpack_row(row), whole_number(number, "its number"))
            kept.was_fired = bool(was_fired)
            check(not rows or rows[-1].at <= at, "its rows are not in the order of time")
            rows.append(kept)
        self.rows += len(rows)
        return rows

    def _tables(self) -> Iterable[TableName]:
        return (ROWS, *self._timers.ends)

    def _table(self, name: TableName) -> Table:
        if isinstance(name, int):
            return table_of(self._timers.at(name))
        return table_of(self._of_key, lambda _, kept: self._pack_key(kept))

    def _load_table(self, name: TableName, columns: Columns) -> None:
        (column,) = columns
        if isinstance(name, int):
            for key in column:
                self._timers.set(key, name)
            return
        check(name == ROWS, f"a table {name!r:.100} of mixed windows")
        for key, packed in column.items():
            self._of_key[key] = self._unpack_key(packed)

    def _reached_ms(self, key: RowKey) -> int | None:
        """The time up to which windows of a key have fired."""
        reached_ms = self._reached_for(key)
        return None if reached_ms is None else reached_ms - self._lateness_ms


class RowsEachMs(_MixedWindows[list[_KeptRow]]):
    """The last `size` rows, every `slide_ms`. For one task; keys are hashable."""

    def __init__(self, assigner: Mixed, *, allowed_lateness_ms: int = 0, max_rows: int = MAX_ROWS) -> None:
        super().__init__(assigner, allowed_lateness_ms, max_rows)
        self._size: Final = whole(assigner.size, "the size of mixed windows")

    def _put(self, key: RowKey, at_ms: int, row: Row) -> bool:
        kept, end = self._of_key.get(key), self._assigner.end_after(at_ms)
        reached_ms = self._reached_ms(key)
        if (
            reached_ms is not None and end <= reached_ms
        ):  # then it is new in the next one, if it is among the last there
            if reached_ms + self._lateness_ms >= END_MS:
                return False
            end = self._assigner.end_after(reached_ms)
            behind = 0
            if kept is not None:
                behind = bisect_left(kept, end, key=_at) - bisect_right(kept, at_ms, key=_at)
            if behind >= self._size:
                return False
        insort(self._add_to(key, kept, []), _KeptRow(at_ms, row, self._arrivals), key=_at)
        self._set_timer(key, end)
        return True

    def _fire_key(self, key: RowKey, end: int) -> WindowRows | None:
        if self._changes is not None:
            self._changes.changed(ROWS, key)
        kept = self._of_key[key]
        until = bisect_left(kept, end, key=_at)
        start = max(0, until - self._size)
        left, inside = kept[:start], kept[start:until]
        del kept[:start]
        self.rows -= start
        self._release_rows(left)
        if until < start + len(kept):
            self._set_timer(key, self._assigner.end_after(kept[until - start].at))
        window = Window(inside[0].at, end) if inside else None
        return None if window is None else _fired(window, key, inside, [row for row in left if row.was_fired])

    def _release_all(self) -> None:
        for kept in self._of_key.values():
            self._release_rows(kept)
        if self._changes is not None:
            self._changes.drop(ROWS)
        self._of_key, self.rows = {}, 0

    def _pack_key(self, kept: list[_KeptRow]) -> Value:
        return self._pack_kept(kept)

    def _unpack_key(self, packed: Value) -> list[_KeptRow]:
        return self._unpack_kept(packed)

    def _load_state(self, state: dict[str, Value]) -> None:
        super()._load_state(state)
        keys = {key for end in self._timers.ends for key in self._timers.at(end)}
        check(keys <= self._of_key.keys(), "its timers do not fit its rows")


class _KeyRows:
    """The rows of a key, the rows that left since its last window, and the times of rows not counted yet."""

    __slots__ = ("left", "rows", "uncounted")

    def __init__(self, uncounted: list[int]) -> None:
        self.rows: list[_KeptRow] = []
        self.left: list[_KeptRow] = []
        self.uncounted = uncounted


class MsEachRows(_MixedWindows[_KeyRows]):
    """The last `size_ms`, every `slide` rows. For one task; keys are hashable."""

    def __init__(self, assigner: Mixed, *, allowed_lateness_ms: int = 0, max_rows: int = MAX_ROWS) -> None:
        super().__init__(assigner, allowed_lateness_ms, max_rows)
        self._size_ms: Final = whole(assigner.size_ms, "the size of mixed windows")
        self._slide: Final = whole(assigner.slide, "the slide of mixed windows")
        self._idle: dict[RowKey, int] = {}  # key without rows → number of its rows not counted yet

    def _put(self, key: RowKey, at_ms: int, row: Row) -> bool:
        if self._has_passed_for(at_ms + self._size_ms, key):
            return False
        counted_at, key_rows = self._counted_at(key, at_ms), self._of_key.get(key)
        if key_rows is None:
            idle = self._idle.get(key, 0)
            key_rows = self._add_to(
                key, None, _KeyRows([self._reached_ms(key) or 0] * idle)
            )  # all of them have been reached
            self._touch_idle(key)
            self._idle.pop(key, None)
        else:
            self._add_to(key, key_rows, key_rows)
        insort(key_rows.rows, _KeptRow(at_ms, row, self._arrivals), key=_at)
        insort(key_rows.uncounted, counted_at)
        self._schedule_next(key, key_rows)
        return True

    def _counted_at(self, key: RowKey, at_ms: int) -> int:
        """The time at which a row is counted: its own, or the watermark if that is later."""
        reached_ms = self._reached_ms(key)
        return at_ms if reached_ms is None else max(at_ms, reached_ms)

    def _fire_key(self, key: RowKey, end: int) -> WindowRows | None:
        key_rows, fired = self._of_key.get(key), None
        if key_rows is None:
            return None
        if self._changes is not None:
            self._changes.changed(ROWS, key)
        counted = bisect_left(key_rows.uncounted, end)
        counted -= counted % self._slide
        if counted:
            del key_rows.uncounted[:counted]
            window = Window(end - self._size_ms, end)
            inside = key_rows.rows[
                bisect_left(key_rows.rows, window.start, key=_at) : bisect_left(key_rows.rows, end, key=_at)
            ]
            fired = _fired(window, key, inside, key_rows.left)
            self.rows -= len(key_rows.left)
            key_rows.left = []
        self._release_before(key_rows, end)
        if key_rows.rows or key_rows.left:
            self._schedule_next(key, key_rows)
        else:
            del self._of_key[key]
            if key_rows.uncounted:
                self._touch_idle(key)
                self._idle[key] = len(key_rows.uncounted)
                if len(self._idle) > self._max_rows:
                    oldest = next(iter(self._idle))
                    self._touch_idle(oldest)
                    del self._idle[oldest]
        return fired

    def _release_before(self, key_rows: _KeyRows, end: int) -> None:
        """Release the rows that are in no window that ends after `end`."""
        count = bisect_right(key_rows.rows, end - self._size_ms, key=_at)
        left = key_rows.rows[:count]
        del key_rows.rows[:count]
        self._release_rows(left)
        before = len(key_rows.left) + count
        key_rows.left = [row for row in (*key_rows.left, *left) if row.was_fired and row.at + 2 * self._size_ms > end]
        self.rows -= before - len(key_rows.left)

    def _schedule_next(self, key: RowKey, key_rows: _KeyRows) -> None:
        """Set timers for the next window of a key and for its next release."""
        if len(key_rows.uncounted) >= self._slide:
            self._set_timer(key, key_rows.uncounted[self._slide - 1] + 1)
        if key_rows.rows:
            self._set_timer(key, key_rows.rows[0].at + self._size_ms)
        if key_rows.left:
            self._set_timer(key, key_rows.left[0].at + 2 * self._size_ms)

    def _touch_idle(self, key: RowKey) -> None:
        if self._changes is not None:
            self._changes.changed(IDLE, key)

    def _tables(self) -> Iterable[TableName]:
        return (*super()._tables(), IDLE)

    def _table(self, name: TableName) -> Table:
        return table_of(self._idle) if name == IDLE else super()._table(name)

    def _load_table(self, name: TableName, columns: Columns) -> None:
        if name != IDLE:
            super()._load_table(name, columns)
            return
        for key, count in columns[0].items():
            self._idle[key] = whole_number(count, "the number of rows of a key")

    def _pack_key(self, kept: _KeyRows) -> Value:
        return self._pack_kept(kept.rows), self._pack_kept(kept.left), list(kept.uncounted)

    def _unpack_key(self, packed: Value) -> _KeyRows:
        rows, left, uncounted = packed
        check(isinstance(uncounted, list), "the times of rows that are not counted yet are no list")
        key_rows = _KeyRows([whole_number(at, "the time of a row") for at in uncounted])
        key_rows.rows, key_rows.left = self._unpack_kept(rows), self._unpack_kept(left)
        return key_rows


def _fired(window: Window, key: RowKey, inside: list[_KeptRow], expired: list[_KeptRow]) -> WindowRows | None:
    """The fired window; None: no row is new."""
    new = [row for row in inside if not row.was_fired]
    if not new:
        return None
    for row in new:
        row.was_fired = True
    return WindowRows(window, key, *(tuple(map(_row, rows)) for rows in (inside, new, expired)))


_at: Final = attrgetter("at")
_row: Final = attrgetter("row")
