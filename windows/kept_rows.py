"""Kept rows: what all windows by time share that keep their rows until these have fired.

    add ─► kept ─► a window fires with its rows ─► released, when no later window will contain them

1. There are never more than `max_rows` rows. One more row fails.
2. Windows of many keys fire a few keys at a time.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Protocol

from .assigners import whole
from .dumps import check, whole_number
from .errors import WindowLimitError
from .firing import Firing
from .state_codec import window_of
from .timestamps import to_ms
from .window import AddResult, Window, in_steps

if TYPE_CHECKING:
    from .values import Row, RowKey, Value

MAX_ROWS: Final = 1_000_000
"""The default limit of rows of an instance."""


@dataclass(frozen=True, slots=True)
class WindowRows:
    """A window that has fired, for one key."""

    window: Window
    key: RowKey
    rows: tuple[Row, ...]
    new: tuple[Row, ...]
    expired: tuple[Row, ...]

    def get(self) -> tuple[Row, ...]:
        """All rows of the window."""
        return self.rows

    def get_new(self) -> tuple[Row, ...]:
        """Rows that were in no window that fired before."""
        return self.new

    def get_expired(self) -> tuple[Row, ...]:
        """Rows of the window one slide before that are not in this one."""
        return self.expired


NumberedRow = tuple[int, "Row"]
"""The sequence number of a row's arrival, and the row."""


class Assigner(Protocol):
    """Assigns windows to rows."""

    def windows_of(self, at_ms: int, /) -> list[Window]:
        """The windows of a row with this time."""
        ...


class KeptRows(Firing[WindowRows]):
    """The rows of one task. Keys are hashable; without a key they are None."""

    def __init__(self, assigner: Assigner, allowed_lateness_ms: int, max_rows: int) -> None:
        super().__init__(allowed_lateness_ms)
        self.rows: int = 0
        self._windows_of = assigner.windows_of
        self._max_rows = whole(max_rows, "max_rows")
        self._released: list[Row] = []
        self._description = repr(assigner)
        self._arrivals: int = 0
        self._loaded_until = 0  # rows that arrived up to this one were loaded
        self._pack_row: Callable[[Row], Value] = unchanged
        self._unpack_row: Callable[[Value], Row] = unchanged

    def add(self, keys: Sequence[RowKey], timestamps: Sequence[object], values: Sequence[Row]) -> AddResult:
        """Add rows: key, time (milliseconds since 1970) and the row itself. Returns which were late or failed."""
        return self._add_each(keys, timestamps, values, self._put)

    def windows_of(self, timestamp: object) -> list[Window]:
        """The windows of a single row with this time, whether they have fired or not."""
        return self._windows_of(to_ms(timestamp))

    def released(self) -> list[Row]:
        """Rows that were in their last window since the last call, without rows that were loaded: they are done."""
        released, self._released = self._released, []
        return released

    def convert_rows(self, pack: Callable[[Row], Value], unpack: Callable[[Value], Row]) -> None:
        """Rows are dumped as what `pack` makes of them, and loaded by `unpack`. Without it: as they are."""
        self._pack_row, self._unpack_row = pack, unpack

    @property
    def _settings(self) -> dict[str, Value]:
        return {"windows": self._description, "allowed_lateness_ms": self._lateness_ms}

    def _state(self) -> dict[str, Value]:
        return {**super()._state(), "arrivals": self._arrivals}

    def _load_state(self, state: dict[str, Value]) -> None:
        super()._load_state(state)
        self._arrivals = self._loaded_until = whole_number(state["arrivals"], "the number of rows")

    def _pack_result(self, result: WindowRows) -> Value:
        return pack_window(result, self._pack_row)

    def _unpack_result(self, packed: Value) -> WindowRows:
        return unpack_window(packed, self._unpack_row)

    def _pack_numbered(self, rows: Sequence[NumberedRow], _: RowKey = None) -> list[Value]:
        pack = self._pack_row
        return [(number, pack(row)) for number, row in rows]

    def _unpack_numbered(self, packed: Sequence[Value], key: RowKey) -> list[NumberedRow]:
        rows = [(whole_number(number, "a row's number"), self._unpack_row(row)) for number, row in packed]
        check(bool(rows), f"key {key!r:.100} has a window without rows")
        self.rows += len(rows)
        return rows

    def _release(self, rows: Iterable[NumberedRow]) -> None:
        """Report rows that were in their last window."""
        until = self._loaded_until
        self._released += [row for number, row in rows if number > until]

    @abstractmethod
    def _put(self, key: RowKey, at_ms: int, row: Row) -> bool:
        """Returns False if the row is late."""

    def _check_limit(self) -> None:
        """Raise WindowLimitError if the limit of rows is reached."""
        if self.rows >= self._max_rows:
            raise row_limit_error(self._max_rows)

    def _of_each(self, keys: list[RowKey], of: Callable[[RowKey], WindowRows | None]) -> Iterator[list[WindowRows]]:
        """Fire the windows of these keys, one at a time."""
        for some in in_steps(keys):
            for key in some:
                fired = of(key)
                if fired is not None:
                    yield [fired]
            yield []


def unchanged(row: Row) -> Row:
    """The row itself: how rows are dumped and loaded if they are not converted."""
    return row


def pack_window(result: WindowRows, pack: Callable[[Row], Value]) -> Value:
    """A window that has fired and was not taken yet, for a dump."""
    rows = [list(map(pack, rows)) for rows in (result.rows, result.new, result.expired)]
    return result.window.start, result.window.end, result.key, *rows


def unpack_window(packed: Value, unpack: Callable[[Value], Row]) -> WindowRows:
    """The reverse of pack_window."""
    start, end, key, *rows = packed
    all_rows, new, expired = (tuple(map(unpack, some)) for some in rows)
    return WindowRows(window_of(start, end), key, all_rows, new, expired)


def row_limit_error(max_rows: int) -> WindowLimitError:
    """The error for a row beyond the limit."""
    return WindowLimitError(
        f"windows hold {max_rows} rows and may hold no more; use incremental windows, more tasks or shorter windows, "
        "or raise max_rows (of a bolt: max_states)"
    )
