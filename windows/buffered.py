"""Buffered windows: the rows themselves are kept, as in Storm, for users that need all rows of a window.

    boundary ends ──┬── slide ──┬── slide ──┬──►     get():         all rows of the window
                    │           │           │        get_new():     rows that were in no window that fired before
    window      ├───────────────┤           │        get_expired(): rows of the window one slide before
                            ├───────────────┤

1. Rows are in the order of arrival. They are kept by slice: a window that fires reads only its own rows.
2. A row is *released* with its last window (its tuple is acked then). The row itself is kept one slide longer, as an
   expired row.
3. A window without rows does not fire. Rows that expire then are not reported (as in Storm): all rows of the next
   window are new.
4. There are never more than `max_rows` rows. One more row fails.
5. By count, a window fires every `slide` rows with the last `size` of them: the first windows are not full (as in
   Storm), nor is the last one when no more rows arrive.

From: Storm, WindowManager and its eviction and trigger policies. There a window is (start, end]; here, as everywhere,
[start, end) (depart).
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from heapq import heappop, heappush
from itertools import chain, islice
from operator import itemgetter
from typing import TYPE_CHECKING, Final

from .assigners import Counts, Sliding, whole
from .dumps import check, table_of, whole_number
from .firing import FiringWithRows
from .kept_rows import (
    MAX_ROWS,
    KeptRows,
    NumberedRow,
    WindowRows,
    pack_window,
    row_limit_error,
    unchanged,
    unpack_window,
)
from .watermarks import END_MS
from .window import AddResult, Window, in_order, new_key

if TYPE_CHECKING:
    from .changes import TableName
    from .frozen import Columns, Table
    from .values import Row, RowKey, Value

SLICES: Final = "slices"
"""The table of a dump that has them: (number of the slice, key) → rows. The others: end → keys to process then."""

ROWS: Final = "rows"
"""The table of a dump of windows by count that has the rows: key → (how many have arrived, those that are kept)."""

REMEMBERED: Final = "remembered"
"""The table of a dump of windows by count: key → how many rows are kept only as expired; the oldest window first."""


class _Slice:
    """Rows of a key in one slice, each with its arrival number. The first `fired` have been in a window."""

    __slots__ = ("fired", "rows")

    def __init__(self) -> None:
        self.rows: list[NumberedRow] = []
        self.fired = 0


class _Buffer:
    """The slices of a key, by their numbers."""

    __slots__ = ("numbers", "slices")

    def __init__(self) -> None:
        self.numbers: list[int] = []
        self.slices: dict[int, _Slice] = {}

    def add(self, number: int, row: NumberedRow) -> bool:
        """Whether the slice is new."""
        known = self.slices.get(number)
        is_new = known is None
        if known is None:
            known = self.slices[number] = _Slice()
            insort(self.numbers, number)
        known.rows.append(row)
        return is_new

    def pop_before(self, number: int) -> dict[int, _Slice]:
        """Remove and return the slices before that one."""
        count = bisect_left(self.numbers, number)
        popped = {old: self.slices.pop(old) for old in self.numbers[:count]}
        del self.numbers[:count]
        return popped

    def up_to(self, number: int) -> list[int]:
        return self.numbers[: bisect_right(self.numbers, number)]


class BufferedWindows(KeptRows):
    """The rows of one task, by time. Keys are hashable; without a key they are None."""

    def __init__(self, assigner: Sliding, *, allowed_lateness_ms: int = 0, max_rows: int = MAX_ROWS) -> None:
        super().__init__(assigner, allowed_lateness_ms, max_rows)
        self._assigner = assigner
        self._of_key: dict[RowKey, _Buffer] = {}
        self._slices: dict[tuple[int, RowKey], _Slice] = {}  # those of all keys
        self._timers: dict[int, dict[RowKey, None]] = {}
        self._ends: list[int] = []  # a heap

    @property
    def next_fire_ms(self) -> int | None:
        """The watermark before which nothing fires or expires; None: there are no rows."""
        return self._ends[0] + self._lateness_ms if self._ends else None

    def _close_next(self) -> Iterator[list[WindowRows]] | None:
        if not self._ends or not self._has_passed(self._ends[0]):
            return None
        end = heappop(self._ends)
        if self._changes is not None:
            self._changes.drop(end)
        window = Window(end - self._assigner.size_ms, end)
        return self._of_each(list(self._timers.pop(end)), lambda key: self._fire_key(key, window))

    def _put(self, key: RowKey, at_ms: int, row: Row) -> bool:
        """Returns False if the row is late."""
        number = self._assigner.numbers_of((at_ms,))[0]
        reached_ms = self._reached_for(key, row)
        if reached_ms is not None and self._assigner.last_end(number) + self._lateness_ms <= reached_ms:
            return False
        buffer = self._of_key.get(key)
        self._check_limit()
        if buffer is None:
            new_key(key)
            buffer = self._of_key[key] = _Buffer()
        if self._changes is not None:
            self._changes.changed(SLICES, (number, key))
        self._arrivals += 1
        self._add(buffer, number, key, (self._arrivals, row))
        self.rows += 1
        end = self._assigner.first_end(number)
        if reached_ms is not None and end + self._lateness_ms <= reached_ms:  # its first window is the next to fire
            slide_ms = self._assigner.slide_ms
            end += ((reached_ms - self._lateness_ms - end) // slide_ms + 1) * slide_ms
        self._set_timer(key, end)
        return True

    def _add(self, buffer: _Buffer, number: int, key: RowKey, row: NumberedRow) -> None:
        if buffer.add(number, row):
            self._slices[number, key] = buffer.slices[number]

    def _set_timer(self, key: RowKey, end: int) -> None:
        keys = self._timers.get(end)
        if keys is None:
            keys = self._timers[end] = {}
            heappush(self._ends, end)
        if self._changes is not None:
            self._changes.changed(end, key)
        keys[key] = None

    def _fire_key(self, key: RowKey, window: Window) -> WindowRows | None:
        """The rows of a key in a window that fires; None: there are none."""
        assigner, buffer = self._assigner, self._of_key.get(key)
        if buffer is None:  # rows of several tasks came together, each with its timer: an earlier one released the last
            return None
        first, last = assigner.numbers_of((window.start, window.end - 1))
        if self._changes is not None:
            for number in buffer.up_to(last):
                if number < first or buffer.slices[number].fired < len(buffer.slices[number].rows):
                    self._changes.changed(SLICES, (number, key))
        expired_slices = buffer.pop_before(first)
        for number in expired_slices:
            del self._slices[number, key]
        inside = [(number, buffer.slices[number]) for number in buffer.up_to(last)]
        fired = None
        expired = in_arrival_order(slice_.rows for slice_ in expired_slices.values())
        self.rows -= len(expired)
        if inside:
            rows = in_arrival_order(slice_.rows for _, slice_ in inside)
            new = in_arrival_order(slice_.rows[slice_.fired :] for _, slice_ in inside)
            if self._floors is not None:
                rows, new = self._not_fired(rows, key, window), self._not_fired(new, key, window)
            fired = WindowRows(window, key, rows, new, expired) if rows else None
            last_slices = (slice_.rows for number, slice_ in inside if assigner.last_end(number) == window.end)
            self._release(sorted(chain.from_iterable(last_slices), key=_arrival))
        for _, slice_ in inside:
            slice_.fired = len(slice_.rows)
        self._schedule_next(key, buffer, window.end + assigner.slide_ms)
        return fired

    def _not_fired(self, rows: tuple[Row, ...], key: RowKey, window: Window) -> tuple[Row, ...]:
        """The rows for which this window had not fired in the tasks that they come from."""
        return tuple([row for row in rows if not self._had_fired(window.end, key, row)])

    def _schedule_next(self, key: RowKey, buffer: _Buffer, next_end: int) -> None:
        if buffer.numbers:
            self._set_timer(key, max(next_end, self._assigner.first_end(buffer.numbers[0])))
        else:
            del self._of_key[key]

    def _tables(self) -> Iterable[TableName]:
        return (SLICES, *self._timers)

    def _table(self, name: TableName) -> Table:
        if isinstance(name, int):
            return table_of(self._timers[name])
        return table_of(self._slices, lambda _, slice_: (slice_.fired, self._pack_numbered(slice_.rows)))

    def _load_table(self, name: TableName, columns: Columns) -> None:
        (column,) = columns
        if isinstance(name, int):
            for key in column:
                self._set_timer(key, name)
            return
        check(name == SLICES, f"a table {name!r:.100} of buffered windows")
        for (number, key), (fired, rows) in column.items():
            buffer = self._of_key.setdefault(key, _Buffer())
            for row in self._unpack_numbered(rows, key):
                self._add(buffer, whole_number(number, "the number of a slice"), key, row)
            slice_ = buffer.slices[number]
            slice_.fired = whole_number(fired, "the number of rows that have fired")
            check(0 <= fired <= len(slice_.rows), f"{fired} of {len(slice_.rows)} rows have fired")

    def _load_state(self, state: dict[str, Value]) -> None:
        super()._load_state(state)
        keys = set(chain.from_iterable(self._timers.values()))
        check(keys == self._of_key.keys(), "its timers do not fit its rows")


class BufferedCounts(FiringWithRows[WindowRows]):
    """The rows of one task, by count.

    Rows that a window has released are kept until the key's next window, as its expired rows. When the limit is reached
    they are dropped for new rows, beginning with the key that fired longest ago; a key without rows is forgotten.
    """

    def __init__(self, assigner: Counts, *, max_rows: int = MAX_ROWS) -> None:
        self.rows = 0
        self._size = assigner.size
        self._slide = assigner.slide
        self._max_rows = whole(max_rows, "max_rows")
        self._of_key: dict[RowKey, tuple[int, deque[Row]]] = {}
        self._remembered: dict[RowKey, int] = {}  # key → number of rows kept only as expired; the oldest window first
        self._ready: deque[WindowRows] = deque()
        self._released: list[Row] = []
        self._loaded: dict[RowKey, int] = {}  # key → how many of its rows were loaded: they are not released
        self._pack_row: Callable[[Row], Value] = unchanged
        self._unpack_row: Callable[[Value], Row] = unchanged

    def add(self, keys: Sequence[RowKey], values: Sequence[Row]) -> AddResult:
        """Add rows with their keys. Returns which rows failed; no row is late."""
        added = AddResult()
        for place, (key, row) in enumerate(zip(keys, values, strict=True)):
            try:
                self._put(key, row)
            except Exception as error:  # no hash, or the limit: only the row fails
                added.failed.append((place, error))
        return added

    def end(self) -> None:
        """No more rows will arrive: the last, incomplete window of each key fires, and all rows are released."""
        for key in in_order(self._of_key):
            if self._changes is not None:
                self._changes.changed(ROWS, key)
            count, buffer = self._of_key[key]
            missing = -count % self._slide
            if missing:
                self._fire(key, count, buffer, count + missing)
            kept = min(len(buffer), self._size - (missing or self._slide))
            self._release(key, islice(buffer, len(buffer) - kept, None), count - kept)
        if self._changes is not None:
            self._changes.drop(ROWS)
            self._changes.drop(REMEMBERED)
        self._loaded.clear()
        self._of_key, self._remembered, self.rows = {}, {}, 0

    def advance(self, watermark_ms: int) -> Iterator[WindowRows]:
        """The windows that have fired; at the end of time, also the last one of each key (see `end`)."""
        if watermark_ms >= END_MS:
            self.end()
        return self.fire()

    def fire(self) -> Iterator[WindowRows]:
        """The windows that have fired."""
        return _drain(self._ready)

    def released(self) -> list[Row]:
        """Rows whose last window has fired since the last call, without rows that were loaded: they are done."""
        released, self._released = self._released, []
        return released

    def convert_rows(self, pack: Callable[[Row], Value], unpack: Callable[[Value], Row]) -> None:
        """Rows are dumped as what `pack` makes of them, and loaded by `unpack`. Without it: as they are."""
        self._pack_row, self._unpack_row = pack, unpack

    def _put(self, key: RowKey, row: Row) -> None:
        if self.rows >= self._max_rows:
            self._drop_remembered()
        count, buffer = self._of_key.get(key) or (0, deque())
        if not count:
            new_key(key)
        if self._changes is not None:
            self._changes.changed(ROWS, key)
        buffer.append(row)
        self.rows += 1
        self._of_key[key] = count + 1, buffer
        if (count + 1) % self._slide == 0:
            self._fire(key, count + 1, buffer, count + 1)
            remembered = max(0, len(buffer) + self._slide - self._size)
            self._release(key, islice(buffer, remembered), count + 1 - len(buffer))
            if self._changes is not None:
                self._changes.changed(REMEMBERED, key)
            self._remembered.pop(key, None)
            if remembered:
                self._remembered[key] = remembered

    def _drop_remembered(self) -> None:
        """Drop expired rows of one key. WindowLimitError if all rows belong to windows that have not fired."""
        key = next(iter(self._remembered), None)
        if key is None:
            raise row_limit_error(self._max_rows)
        if self._changes is not None:
            self._changes.changed(REMEMBERED, key)
            self._changes.changed(ROWS, key)
        buffer, remembered = self._of_key[key][1], self._remembered.pop(key)
        for _ in range(remembered):
            buffer.popleft()
        self.rows -= remembered
        if not buffer:
            del self._of_key[key]
            self._loaded.pop(key, None)

    def _release(self, key: RowKey, rows: Iterable[Row], first: int) -> None:
        """Report rows that were in their last window. `first`: the number of the first of them."""
        self._released.extend(islice(rows, max(0, self._loaded.get(key, 0) - first), None))

    @property
    def _settings(self) -> dict[str, Value]:
        return {"windows": f"Counts(size={self._size}, slide={self._slide})"}

    def _state(self) -> dict[str, Value]:
        return {"ready": [pack_window(result, self._pack_row) for result in self._ready]}

    def _load_state(self, state: dict[str, Value]) -> None:
        check(isinstance(state["ready"], list), "its results are no list")
        self._ready.extend(unpack_window(result, self._unpack_row) for result in state["ready"])
        check(self._remembered.keys() <= self._of_key.keys(), "keys without rows have expired rows")

    def _tables(self) -> Iterable[TableName]:
        return (ROWS, REMEMBERED)

    def _table(self, name: TableName) -> Table:
        if name == REMEMBERED:
            return table_of(self._remembered)
        return table_of(self._of_key, lambda _, kept: (kept[0], list(map(self._pack_row, kept[1]))))

    def _load_table(self, name: TableName, columns: Columns) -> None:
        (column,) = columns
        check(name in (ROWS, REMEMBERED), f"a table {name!r:.100} of buffered windows by count")
        if name == REMEMBERED:
            for key, count in column.items():
                self._remembered[key] = whole_number(count, "the number of expired rows")
            return
        for key, (count, packed) in column.items():
            rows = deque(map(self._unpack_row, packed))
            check(0 < len(rows) <= whole_number(count, "the number of rows"), f"the rows of key {key!r:.100}")
            self._of_key[key] = count, rows
            self._loaded[key] = count
            self.rows += len(rows)

    def _fire(self, key: RowKey, count: int, buffer: deque[Row], end: int) -> None:
        """Fire the window that ends at `end`. `count`: how many rows have arrived."""
        start = max(0, end - self._size)
        expired = tuple(buffer.popleft() for _ in range(start - (count - len(buffer))))
        rows, new = tuple(buffer), count - (end - self._slide)
        self._ready.append(WindowRows(Window(start, end), key, rows, rows[-new:], expired))
        self.rows -= len(expired)


def _drain(ready: deque[WindowRows]) -> Iterator[WindowRows]:
    while ready:
        yield ready.popleft()


def in_arrival_order(slices: Iterable[list[NumberedRow]]) -> tuple[Row, ...]:
    """The rows of the slices in order of arrival."""
    return tuple(map(_row, sorted(chain.from_iterable(slices), key=_arrival)))


_arrival = itemgetter(0)
_row = itemgetter(1)
