"""Firing: the results that are due at a watermark are given in small steps, however many there are.

    advance ─► due? ─► _close_next: some results, some more, … ─► _ready ─► the iterator that `advance` gave

1. The watermark does not go back. A window is due when the watermark is at its end plus `allowed_lateness_ms`.
2. Results that are not taken from one iterator are first in the next one.
3. There may be much work between two results (a million keys are sorted): `work` does some of it.
4. Windows that are due are closed before a row is added, even if their results were not asked for yet.
"""

from __future__ import annotations

from abc import abstractmethod
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Generic, TypeVar

from .assigners import duration
from .dumps import Dumped, check, time_or_none
from .floors import FLOORS, Floors, load_layers
from .timestamps import to_ms
from .window import AddResult, Window

if TYPE_CHECKING:
    from .rows import ReadRows
    from .values import Row, RowKey, Value

R = TypeVar("R")


class Firing(Dumped, Generic[R]):
    """Base class of windows by time. R is the type of a result."""

    def __init__(self, allowed_lateness_ms: int) -> None:
        self.watermark: int | None = None
        self._lateness_ms = duration(allowed_lateness_ms, "allowed_lateness_ms", 0)
        self._ready: deque[R] = deque()
        self._firing: Iterator[list[R]] = iter(())
        self._floors: Floors | None = None  # after windows were divided among other tasks

    @abstractmethod
    def _close_next(self) -> Iterator[list[R]] | None:
        """Close the next window that is due and give its results in steps (a step may be empty). None: none is due."""

    @abstractmethod
    def _pack_result(self, result: R) -> Value:
        """A result that was not taken yet, for a dump."""

    @abstractmethod
    def _unpack_result(self, packed: Value) -> R:
        """The reverse of _pack_result."""

    def advance(self, watermark_ms: int) -> Iterator[R]:
        """The results that are due at this watermark. Those not taken from the iterator are first in the next one."""
        if self.watermark is None or watermark_ms > self.watermark:
            self.watermark = watermark_ms
        return self.fire()

    @abstractmethod
    def add(self, keys: Sequence[RowKey], timestamps: Sequence[object], values: Sequence[Value]) -> AddResult:
        """Add rows: key, time (milliseconds since 1970) and value of each. Returns which were late or failed."""

    def add_rows(self, rows: ReadRows, emit: Callable[[list[R]], None] | None = None) -> AddResult:
        """Add what a RowReader has read. (`emit` is for early results, see Machine.)"""
        return self.add(rows.keys, rows.timestamps, rows.values)

    def work(self) -> bool:
        """Do about a millisecond of the work before the next result. False: there is no such work.

        Without it results may take long: a million keys are sorted first.
        """
        return not self._ready and self._fire_next() and not self._ready

    def _has_passed(self, end: int) -> bool:
        return self.watermark is not None and end + self._lateness_ms <= self.watermark

    def _reached_for(self, key: RowKey, row: Row = None) -> int | None:
        """The watermark up to which windows of this row have fired: that of all rows, or its floor if that is later."""
        reached_ms = self.watermark
        floor_ms = None if self._floors is None else self._floors.of(key, row)
        if floor_ms is None or (reached_ms is not None and reached_ms >= floor_ms):
            return reached_ms
        return floor_ms

    def _has_passed_for(self, end: int, key: RowKey, row: Row = None) -> bool:
        reached_ms = self._reached_for(key, row)
        return reached_ms is not None and end + self._lateness_ms <= reached_ms

    def _had_fired(self, end: int, key: RowKey, row: Row = None) -> bool:
        """Whether a window that is due had fired for this row in the task that it comes from."""
        floor_ms = None if self._floors is None else self._floors.of(key, row)
        return floor_ms is not None and end + self._lateness_ms <= floor_ms

    def _add_each(
        self,
        keys: Sequence[RowKey],
        timestamps: Sequence[object],
        rows: Sequence[Row],
        put: Callable[[RowKey, int, Value], bool],
    ) -> AddResult:
        """Add row by row. `put` returns False for a late row; a row fails if it raises."""
        while self._fire_next():
            pass
        added = AddResult()
        for place, (key, timestamp, row) in enumerate(zip(keys, timestamps, rows, strict=True)):
            at_ms = readable_row(timestamp, place, added)
            if at_ms is None:
                continue
            try:
                on_time = put(key, at_ms, row)
            except Exception as error:  # only this row fails; the caller fails its tuple
                added.failed.append((place, error))
            else:
                if not on_time:
                    added.late.append(place)
        return added

    def fire(self) -> Iterator[R]:
        """The results that are due and were not taken yet."""
        ready = self._ready
        while ready or self._fire_next():
            if ready:
                yield ready.popleft()

    def _fire_next(self) -> bool:
        """Do the next step of closing windows. False: none is due."""
        while True:
            for some in self._firing:
                self._ready.extend(some)
                return True
            closed = self._close_next()
            if closed is None:
                self._drop_floors()
                return False
            self._firing = closed

    def _settle(self) -> None:
        for some in self._firing:
            self._ready.extend(some)

    def _drop_floors(self) -> None:
        """All windows that are due have fired: the floors that the watermark has reached change nothing any more."""
        if self._floors is not None and self.watermark is not None and self.watermark >= self._floors.until_ms:
            self._floors = None

    def _state(self) -> dict[str, Value]:
        state = {"watermark": self.watermark, "ready": list(map(self._pack_result, self._ready))}
        return state if self._floors is None else {**state, FLOORS: self._floors.dump()}

    def _load_state(self, state: dict[str, Value]) -> None:
        self.watermark = time_or_none(state["watermark"], "the watermark")
        if layers := load_layers(state.get(FLOORS, ())):
            self._floors = Floors(layers)
        check(isinstance(state["ready"], list), "its results are no list")
        self._ready.extend(map(self._unpack_result, state["ready"]))


class FiringWithRows(Dumped, Generic[R]):
    """Base class of windows by count, which fire with their rows: time changes nothing."""

    watermark: None = None
    next_fire_ms: None = None

    @abstractmethod
    def add(self, keys: Sequence[RowKey], values: Sequence[Value]) -> AddResult:
        """Add rows: key and value of each. Returns which rows failed; no row is late."""

    @abstractmethod
    def fire(self) -> Iterator[R]:
        """The windows that have fired."""

    def add_rows(self, rows: ReadRows, emit: Callable[[list[R]], None] | None = None) -> AddResult:
        """Add what a RowReader has read. (`emit` is for early results, see Machine.)"""
        return self.add(rows.keys, rows.values)

    def advance(self, watermark_ms: int) -> Iterator[R]:
        """The windows that have fired."""
        return self.fire()

    def work(self) -> bool:
        """There is no work before the next result."""
        return False

    def windows_of(self, timestamp: object) -> list[Window]:
        """None: the windows of a row depend on the rows before it."""
        return []


def readable_row(timestamp: object, place: int, added: AddResult) -> int | None:
    """The timestamp in milliseconds, or None: the row has failed."""
    try:
        return to_ms(timestamp)
    except Exception as error:  # TimestampError, or an error of a user's type
        added.failed.append((place, error))
        return None
