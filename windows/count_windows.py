"""Count windows: the rows of a key are numbered from 0, and its windows are ranges of these numbers.

1. A window fires with its last row, at that row's place in the batch. Only full windows fire: the first after `size`
   rows.
2. A row that fails gets no number.
3. A key is known until `forget`: an incomplete window waits for more rows. Its states count towards `max_states`.
4. Of a key without an open window only the row number is kept. There are at most `max_states` such keys; the oldest is
   dropped, and starts again at 0.

A row is counted in each of its windows. If those are many and their states merge, the machine for time windows is used:
the row's number is its time, and the next number is the watermark.

From: JStorm, SlidingCountWindows and CountTrigger.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Final

from .aggregate_runner import AggregateRunner
from .assigners import Counts, Sliding, whole
from .dumps import check, table_of, whole_number
from .firing import FiringWithRows
from .plain_windows import refuse_too_many
from .shared_windows import SharedWindows
from .state_codec import window_of
from .time_windows import MAX_STATES, state_limit_error
from .values import RowKey, State, Value
from .window import AddResult, Fired, Window, new_key

if TYPE_CHECKING:
    from .aggregates import Aggregate
    from .changes import TableName
    from .frozen import Columns, Table

MANY: Final = 8
"""More overlapping windows than this share slices. Below it, counting a row in each window is cheaper."""

OPEN: Final = "open"
"""The table of a dump that has the keys with open windows: (number of rows, start → states)."""

IDLE: Final = "idle"
"""The table of a dump that has the other keys: number of rows. The key that has rested longest is the first."""

SHARING: Final = "sharing"
"""The table of a dump that has the keys whose windows share slices: (number of rows, the dump of their windows)."""

_Open = list[tuple[Window, list[State]]]
"""The open windows of a key with their states, the oldest first."""


class CountWindows(FiringWithRows[Fired]):
    """The count windows of one task. Keys are hashable; without a key they are None."""

    early = None

    def __init__(self, assigner: Counts, aggregate: Aggregate, *, max_states: int = MAX_STATES) -> None:
        self.states: int = 0
        self._size = assigner.size
        self._slide = assigner.slide
        self._aggregate = aggregate
        self._runner = AggregateRunner(aggregate)
        self._max_states = whole(max_states, "max_states")
        self._shares = aggregate.merges and assigner.size > min(MANY, self._max_states) * assigner.slide
        if not self._shares:
            refuse_too_many(assigner.size, assigner.slide, aggregate, max_states)
        self._open: dict[RowKey, tuple[int, _Open]] = {}
        self._idle: dict[RowKey, int] = {}  # the oldest first
        self._sharing: dict[RowKey, tuple[int, SharedWindows]] = {}
        self._ready: deque[Fired] = deque()

    def add(self, keys: Sequence[RowKey], values: Sequence[Value]) -> AddResult:
        """Add rows: key and value of each. Returns which rows failed; no row is late."""
        added = AddResult()
        put = self._put_shared if self._shares else self._put
        for place, (key, value) in enumerate(zip(keys, values, strict=True)):
            try:
                put(key, value)
            except Exception as error:  # only this row fails; the caller fails its tuple
                added.failed.append((place, error))
        return added

    def fire(self) -> Iterator[Fired]:
        """The windows that have fired."""
        while self._ready:
            yield self._ready.popleft()

    def forget(self, key: RowKey) -> None:
        """Forget a key that has no more rows: its windows do not fire."""
        if self._changes is not None:
            for table in (OPEN, IDLE, SHARING):
                self._changes.changed(table, key)
        self._idle.pop(key, None)
        if key in self._open:
            self.states -= len(self._open.pop(key)[1])
        elif key in self._sharing:
            self.states -= self._sharing.pop(key)[1].states

    def _put(self, key: RowKey, value: Value) -> None:
        number, windows = self._open.get(key) or (self._idle.get(key, 0), [])
        if not number % self._slide:
            if self.states >= self._max_states:
                raise state_limit_error(self._max_states)
            if not number:
                new_key(key)
            window = Window(number, number + self._size)
            windows = [*windows, (window, self._runner.init(window))]
        if self._changes is not None:
            self._changes.changed(OPEN, key)
            self._changes.changed(IDLE, key)
        states = self._runner.executed(value, windows)
        number += 1
        following = [(window, after) for (window, _), after in zip(windows, states, strict=True)]
        self.states += (number - 1) % self._slide == 0
        if following[0][0].end == number:
            window, after = following.pop(0)
            self._ready.append(self._runner.fired_one(window, key, after))
            self.states -= 1
        if following:
            self._open[key] = number, following
            self._idle.pop(key, None)
        else:
            self._rest(key, number)

    def _rest(self, key: RowKey, number: int) -> None:
        self._open.pop(key, None)
        self._idle.pop(key, None)
        self._idle[key] = number
        if len(self._idle) > self._max_states:
            oldest = next(iter(self._idle))
            if self._changes is not None:
                self._changes.changed(IDLE, oldest)
            del self._idle[oldest]

    def _put_shared(self, key: RowKey, value: Value) -> None:
        number, windows = self._sharing.get(key) or (0, self._new_shared())
        if self._changes is not None:
            self._changes.changed(SHARING, key)
        before = windows.states
        windows.limit(before + self._max_states - self.states)
        failed = windows.add_one(key, number, value).failed
        if failed:
            raise failed[0][1]
        self._ready.extend(windows.advance(number + 1))
        self.states += windows.states - before
        self._sharing[key] = number + 1, windows

    @property
    def _settings(self) -> dict[str, Value]:
        return {
            "windows": f"Counts(size={self._size}, slide={self._slide})",
            "aggregates": self._runner.codec().titles,
        }

    def _state(self) -> dict[str, Value]:
        return {"ready": list(map(self._runner.codec().pack_fired, self._ready))}

    def _load_state(self, state: dict[str, Value]) -> None:
        check(isinstance(state["ready"], list), "its results are no list")
        self._ready.extend(map(self._runner.codec().unpack_fired, state["ready"]))

    def _tables(self) -> Iterable[TableName]:
        return (OPEN, IDLE, SHARING)

    def _table(self, name: TableName) -> Table:
        if name == IDLE:
            return table_of(self._idle)
        if name == SHARING:
            return table_of(self._sharing, lambda _, kept: (kept[0], kept[1].dump()))
        codec = self._runner.codec()

        def packed(key: RowKey, kept: tuple[int, _Open]) -> Value:
            return kept[0], {window.start: codec.pack(states, key) for window, states in kept[1]}

        return table_of(self._open, packed)

    def _load_table(self, name: TableName, columns: Columns) -> None:
        (column,) = columns
        check(name in (OPEN, IDLE, SHARING), f"a table {name!r:.100} of count windows")
        if name == IDLE:
            for key, number in column.items():
                self._idle[key] = whole_number(number, "the number of rows of a key")
            return
        for key, (number, kept) in column.items():
            count = whole_number(number, "the number of rows of a key")
            if name == SHARING:
                windows = self._new_shared()
                windows.load(kept)
                self._sharing[key] = count, windows
                self.states += windows.states
            else:
                self._open[key] = count, self._unpacked(kept, key)
                self.states += len(kept)

    def _unpacked(self, kept: Value, key: RowKey) -> _Open:
        codec = self._runner.codec()
        check(bool(kept), f"key {key!r:.100} has no window")
        return [(window_of(start, start + self._size), codec.unpack(states, key)) for start, states in kept.items()]

    def _new_shared(self) -> SharedWindows:
        windows = SharedWindows(Sliding(self._size, self._slide), self._aggregate)
        windows.least_start = 0
        return windows
