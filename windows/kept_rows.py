"""Kept rows: what all windows by time share that keep their rows until these have fired.

    add ─► kept ─► a window fires with its rows ─► released, when no later window will contain them

1. There are never more than `max_rows` rows. One more row fails.
2. Windows of many keys fire a few keys at a time.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Protocol

from .assigners import whole
from .errors import WindowLimitError
from .firing import Firing
from .timestamps import to_ms
from .window import AddResult, Window, in_steps

if TYPE_CHECKING:
    from .values import Row, RowKey

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

    def add(self, keys: Sequence[RowKey], timestamps: Sequence[object], values: Sequence[Row]) -> AddResult:
        """Add rows: key, time (milliseconds since 1970) and the row itself. Returns which were late or failed."""
        return self._add_each(keys, timestamps, values, self._put)

    def windows_of(self, timestamp: object) -> list[Window]:
        """The windows of a single row with this time, whether they have fired or not."""
        return self._windows_of(to_ms(timestamp))

    def released(self) -> list[Row]:
        """Rows that were in their last window since the last call."""
        released, self._released = self._released, []
        return released

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


def row_limit_error(max_rows: int) -> WindowLimitError:
    """The error for a row beyond the limit."""
    return WindowLimitError(
        f"windows hold {max_rows} rows and may hold no more; use incremental windows, more tasks or shorter windows, "
        "or raise max_rows (of a bolt: max_states)"
    )
