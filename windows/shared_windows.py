"""Shared windows: a row is counted in one slice, and windows are built from slices.

    row ─► slice ─┐
    row ─► slice ─┼─► two stacks ─► window, window, …
    row ─► slice ─┘

1. The cost of a row does not grow with size / slide, nor does the cost of a result: two_stacks.py merges the slices.
   (The cost of a row behind a window that has fired does: all its windows are merged again for its key.)
2. A slice is dropped with its last window.

From: JStorm, WindowedBoltExecutor, which counts each row in each of its windows (depart).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from .dumps import check, time_or_none, whole_number
from .time_windows import MAX_STATES, Rows, TimeWindows, state_limit_error
from .two_stacks import Slices, TwoStacks
from .window import AddResult, Fired, Window, in_steps, new_key

if TYPE_CHECKING:
    from .aggregate_runner import Columns
    from .aggregates import Aggregate
    from .assigners import Sliding
    from .changes import TableName
    from .frozen import Columns as DumpColumns
    from .frozen import Table
    from .values import RowKey, Value


class SharedWindows(TimeWindows):
    """Sliding windows whose states merge."""

    shares = True

    def __init__(
        self, assigner: Sliding, aggregate: Aggregate, *, allowed_lateness_ms: int = 0, max_states: int = MAX_STATES
    ) -> None:
        super().__init__(assigner, aggregate, allowed_lateness_ms=allowed_lateness_ms, max_states=max_states)
        self._slices = Slices()
        self._stacks = TwoStacks(self._slices, self._runner)
        self._fired_until: int | None = None

    @property
    def next_fire_ms(self) -> int | None:
        """The watermark at which the next window fires; None: no window is open."""
        end = self._next_end()
        return None if end is None else end + self._lateness_ms

    def _targets(self, slice_: Window) -> list[tuple[Window, Columns]]:
        columns = self._slices.columns.get(slice_.start)
        return [(slice_, self._runner.new_columns() if columns is None else columns)]

    def _keep(self, slice_: Window, targets: list[tuple[Window, Columns]]) -> None:
        columns = targets[0][1]
        if columns[0]:
            self._slices.keep(slice_, columns)

    def _put(self, slice_: Window, rows: Rows, added: AddResult) -> None:
        if self._stacks.until is None or slice_.start >= self._stacks.until:
            super()._put(slice_, rows, added)
            return
        for place, key, value in zip(rows.places, rows.keys, rows.values, strict=True):
            try:
                self._add_late(slice_, key, value)
                self._counted(value)
            except Exception as error:  # only this row fails; the caller fails its tuple
                added.failed.append((place, error))

    def _add_late(self, slice_: Window, key: RowKey, value: Value) -> None:
        """Add a row to a slice that the stacks already contain."""
        known = self._slices.columns.get(slice_.start)
        if known is None or key not in known[0]:
            if self.states >= self._max_states:
                raise state_limit_error(self._max_states)
            new_key(key)
        states = self._runner.executed(value, [(slice_, self._runner.init(slice_))])[0]
        if self._changes is not None:
            self._changes.changed(slice_.start, key)
        self.states += self._stacks.add_late(slice_, key, states)

    def _next_end(self) -> int | None:
        """The end of the next window to fire."""
        if not self._slices.starts:
            return None
        slice_ = self._slices.windows[self._slices.starts[0]]
        end = self._assigner.starts_over(slice_)[0] + self._assigner.size_ms
        if self.least_start is not None:
            end = max(end, self.least_start + self._assigner.size_ms)
        # Slices whose windows have all fired are dropped: the first slice is in the next window with rows.
        return end if self._fired_until is None else max(end, self._fired_until + self._assigner.slide_ms)

    def _close_first(self) -> Iterator[list[Fired]] | None:
        end = self._next_end()
        if end is not None and self._has_passed(end):
            window = Window(end - self._assigner.size_ms, end)
            self._fired_until = end
            return self._results(window)
        self._fired_until = self._passed_until()
        return None

    def _passed_until(self) -> int | None:
        """The end of the last window that has passed, when none is due: empty windows have passed as well."""
        if self.watermark is None:
            return self._fired_until
        passed, assigner = self.watermark - self._lateness_ms, self._assigner
        return passed - (passed - assigner.offset_ms - assigner.size_ms) % assigner.slide_ms

    def _results(self, window: Window) -> Iterator[list[Fired]]:
        for _ in self._stacks.move_to(window):
            yield []
        self._drop(window.end)
        for keys in in_steps(self._stacks.keys()):
            keys = self._not_fired(keys, window)
            yield self._runner.fired(window, keys, self._stacks.of(keys))

    def _drop(self, end: int) -> None:
        count = 0
        for start in self._slices.starts:
            if self._assigner.starts_over(self._slices.windows[start])[-1] + self._assigner.size_ms > end:
                break
            count += 1
        if self._changes is not None:
            for start in self._slices.starts[:count]:
                self._changes.drop(start)
        self.states -= self._slices.drop(count)

    def _tables(self) -> Iterable[TableName]:
        return self._slices.starts

    def _table(self, name: TableName) -> Table:
        return self._runner.codec().table(self._slices.columns[whole_number(name, "a slice")])

    def _load_table(self, name: TableName, columns: DumpColumns) -> None:
        start = whole_number(name, "the start of a slice")
        slice_ = self._assigner.slice_of(start)
        check(slice_.start == start, f"no slice starts at {start}")
        states = self._runner.codec().unpack_columns(columns)
        self._slices.keep(slice_, states)
        self.states += len(states[0])

    def _state(self) -> dict[str, Value]:
        end = self._next_end()
        is_due = end is not None and self._has_passed(end)
        fired_until = self._fired_until if is_due else self._passed_until()
        return {**super()._state(), "fired_until": fired_until, "stacks": self._stacks.bounds}

    def _load_state(self, state: dict[str, Value]) -> None:
        super()._load_state(state)
        self._fired_until = time_or_none(state["fired_until"], "the end of the last window")
        self._stacks.rebuild(*(time_or_none(bound, "a bound of the stacks") for bound in state["stacks"]))
