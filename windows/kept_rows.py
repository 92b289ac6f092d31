"""Kept rows: what all windows by time share that keep their rows until those have fired.

    add ─► kept ─► a window fires with its rows ─► released, when no window will have them any more

1. There are never more than `max_rows` rows. One more fails.
2. What fires of many keys is given a few keys at a time.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol

from .assigners import whole
from .errors import WindowLimitError
from .firing import Firing
from .timestamps import to_ms
from .window import AddResult, Window, in_steps

MAX_ROWS: Final = 1_000_000
"""So many rows an instance holds unless told otherwise."""


@dataclass(frozen=True, slots=True)
class WindowRows:
    """A window that has fired, for one key."""

    window: Window
    key: Any
    rows: tuple[Any, ...]
    new: tuple[Any, ...]
    expired: tuple[Any, ...]

    def get(self) -> tuple[Any, ...]:
        """All rows of the window."""
        return self.rows

    def get_new(self) -> tuple[Any, ...]:
        """Those that were in no window that fired before."""
        return self.new

    def get_expired(self) -> tuple[Any, ...]:
        """Those of the window one slide before that are not in this one."""
        return self.expired


class Assigner(Protocol):
    """Which windows a row is in."""

    def windows_of(self, at_ms: int, /) -> list[Window]:
        """The windows of a row of that time."""
        ...


class KeptRows(Firing[WindowRows]):
    """Of one task. Keys are any values that can be hashed; per task, all are None."""

    def __init__(self, assigner: Assigner, allowed_lateness_ms: int, max_rows: int) -> None:
        super().__init__(allowed_lateness_ms)
        self.rows = 0
        self._windows_of = assigner.windows_of
        self._max_rows = whole(max_rows, "max_rows")
        self._released: list[Any] = []

    def add(self, keys: Sequence[Any], timestamps: Sequence[Any], rows: Sequence[Any]) -> AddResult:
        """Rows: key, time (milliseconds since 1970) and the row itself. What was late, and what failed."""
        return self._add_each(keys, timestamps, rows, self._put)

    def windows_of(self, timestamp: Any) -> list[Window]:
        """The windows that a row would be (or would have been) in, had it been alone, fired or not."""
        return self._windows_of(to_ms(timestamp))

    def released(self) -> list[Any]:
        """Rows that no window will have any more, since this was asked last."""
        released, self._released = self._released, []
        return released

    @abstractmethod
    def _put(self, key: Any, at_ms: int, row: Any) -> bool:
        """False: it is late."""

    def _check_limit(self) -> None:
        """WindowLimitError if there is no room for a row more."""
        if self.rows >= self._max_rows:
            raise row_limit_error(self._max_rows)

    def _of_each(self, keys: list[Any], of: Callable[[Any], WindowRows | None]) -> Iterator[list[WindowRows]]:
        """What fires of these keys: a window with all its rows at a time."""
        for some in in_steps(keys):
            for key in some:
                fired = of(key)
                if fired is not None:
                    yield [fired]
            yield []


def row_limit_error(max_rows: int) -> WindowLimitError:
    """The error of a row that there is no room for."""
    return WindowLimitError(
        f"windows hold {max_rows} rows and may hold no more; use incremental windows, more tasks or shorter windows, "
        "or raise max_rows (of a bolt: max_states)"
    )
