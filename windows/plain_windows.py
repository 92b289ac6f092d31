"""Plain windows: each window has its own states, and a row is counted in each of its windows.

1. Tumbling windows: one window for each row. Sliding windows: size / slide windows, for states that do not merge.
2. Rows of a window are counted in the order of arrival, however they are divided into batches.

From: JStorm, WindowedBoltExecutor.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from heapq import heappop, heappush
from itertools import groupby
from typing import TYPE_CHECKING

from .dumps import check, whole_number
from .errors import WindowError
from .time_windows import MAX_STATES, Rows, TimeWindows
from .timestamps import to_ms
from .window import AddResult, Fired, Window, in_steps

if TYPE_CHECKING:
    from .aggregate_runner import Columns
    from .aggregates import Aggregate
    from .assigners import Sliding
    from .changes import TableName
    from .frozen import Columns as DumpColumns
    from .frozen import Table
    from .values import RowKey, State


class PlainWindows(TimeWindows):
    """Windows that share no states."""

    def __init__(
        self, assigner: Sliding, aggregate: Aggregate, *, allowed_lateness_ms: int = 0, max_states: int = MAX_STATES
    ) -> None:
        super().__init__(assigner, aggregate, allowed_lateness_ms=allowed_lateness_ms, max_states=max_states)
        refuse_too_many(assigner.size_ms, assigner.slide_ms, aggregate, max_states)
        self._overlap = assigner.slide_ms < assigner.size_ms
        self._open: dict[int, Columns] = {}
        self._starts: list[int] = []  # a heap

    @property
    def next_fire_ms(self) -> int | None:
        """The watermark at which the next window fires; None: no window is open."""
        return self._starts[0] + self._assigner.size_ms + self._lateness_ms if self._starts else None

    def open_of(self, key: RowKey, timestamp: object = None) -> Iterator[tuple[Window, list[State]]]:
        """The open windows of a key with its states; with a `timestamp`, only the windows that contain it."""
        size_ms, at_ms = self._assigner.size_ms, None if timestamp is None else to_ms(timestamp)
        for start, columns in self._open.items():
            if (
                key in columns[0]
                and (at_ms is None or start <= at_ms < start + size_ms)
                and not self._had_fired(start + size_ms, key)
            ):
                yield Window(start, start + size_ms), [states[key] for states in columns]

    def _targets(self, slice_: Window) -> list[tuple[Window, Columns]]:
        if not self._overlap:  # the slice is the window, and has not passed
            return [(slice_, self._columns(slice_.start))]
        size_ms = self._assigner.size_ms
        return [
            (Window(start, start + size_ms), self._columns(start))
            for start in self._assigner.starts_over(slice_)
            if not self._has_passed(start + size_ms) and (self.least_start is None or start >= self.least_start)
        ]

    def _columns(self, start: int) -> Columns:
        columns = self._open.get(start)
        return self._runner.new_columns() if columns is None else columns

    def _keep(self, slice_: Window, targets: list[tuple[Window, Columns]]) -> None:
        for window, columns in targets:
            if columns[0] and window.start not in self._open:
                self._open[window.start] = columns
                heappush(self._starts, window.start)

    def _close_first(self) -> Iterator[list[Fired]] | None:
        if not self._starts or not self._has_passed(self._starts[0] + self._assigner.size_ms):
            return None
        start = heappop(self._starts)
        columns = self._open.pop(start)
        if self._changes is not None:
            self._changes.drop(start)
        self.states -= len(columns[0])
        return self._results(Window(start, start + self._assigner.size_ms), columns)

    def _tables(self) -> Iterable[TableName]:
        return self._open

    def _table(self, name: TableName) -> Table:
        return self._runner.codec().table(self._open[whole_number(name, "a window")])

    def _load_table(self, name: TableName, columns: DumpColumns) -> None:
        start = whole_number(name, "the start of a window")
        check(not (start - self._assigner.offset_ms) % self._assigner.slide_ms, f"no window starts at {start}")
        states = self._open[start] = self._runner.codec().unpack_columns(columns)
        heappush(self._starts, start)
        self.states += len(states[0])

    def _by_slice(
        self, timestamps: Sequence[int], rows: Rows, least_ms: int, greatest_ms: int, added: AddResult
    ) -> Iterator[tuple[int, int, Rows]]:
        if not self._overlap:
            yield from super()._by_slice(timestamps, rows, least_ms, greatest_ms, added)
            return
        numbers = self._assigner.numbers_of(timestamps)
        for number, run in groupby(range(len(numbers)), numbers.__getitem__):
            ats = list(run)
            some = rows.at(ats)
            if self._has_passed(self._assigner.last_end(number)):
                added.late.extend(some.places)
            else:
                yield number, timestamps[ats[0]], some

    def _results(self, window: Window, columns: Columns) -> Iterator[list[Fired]]:
        for keys in in_steps(list(columns[0])):
            if self._changes is not None:
                self._changes.leaving(window.start, keys)
            yield self._runner.fired(window, self._not_fired(keys, window), columns)


def refuse_too_many(size: int, slide: int, aggregate: Aggregate, max_states: int) -> None:
    """Raise WindowError if a single row needs more states than `max_states`."""
    if size > max_states * slide:
        raise WindowError(
            f"each row is in {-(-size // slide)} windows, with a state of {aggregate.title} in each, and "
            f"max_states is {max_states}; slide further, or give the aggregate a merge(first, second)"
        )
