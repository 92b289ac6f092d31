"""Spreading: groupings that leave a choice, so that what a full target cannot take may go to another one."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from .base import Grouping
from .shares import Share

if TYPE_CHECKING:
    from ..columns import ColumnChoices, ColumnRows

ColumnDeal = tuple[list[tuple[int, Any]], "ColumnChoices | None"]
"""A RecordBatch for each target that gets rows, and the rows that wait."""

Room = Callable[[int], int]
"""How many rows a target takes now."""

ENDLESS: Final = 1 << 60
"""Room for any number of rows."""


class Rest(NamedTuple):
    """Rows that no target has room for now. `choices`: the targets that may take each of them; None: any target."""

    rows: Sequence[Any]
    marks: Sequence[Any] | None
    choices: Sequence[tuple[int, ...]] | None = None


class Spreading(Grouping):
    """A grouping that leaves a choice: what a full target cannot take may go to another one.

    1. `deal` gives a target no more rows than it has room for, and what no target takes is the rest: with `choices`
       rows here and there, without them the last ones. So each target gets its rows in the order in which they came.
    2. The emitter keeps the rest (see `tasks.waiting`); whichever target of the choice has room first takes of it.
    """

    @abstractmethod
    def deal(self, rows: Sequence[Any], marks: Sequence[Any] | None, room: Room) -> tuple[list[Share], Rest | None]:
        """One share for each target that gets rows, and the rest. `room(target)`: how many rows it takes now."""

    def deal_values(
        self, values: Sequence[Any], marks: Sequence[Any] | None, room: Room
    ) -> tuple[list[Share], Rest | None]:
        """The same for a stream of one field, whose tuples travel as bare values."""
        return self.deal(values, marks, room)  # most of them look into no row

    def place(self, room: Room) -> int | None:
        """The target of a batch of columns, which is not split; None: there is no room."""
        shares, _ = self.deal([()], None, room)
        return shares[0][0] if shares else None

    def split_columns(self, batch: Any) -> list[tuple[int, Any]]:
        """The whole batch for one target: it counts as one row."""
        ((target, _, _),) = self.split([()], None)
        return [(target, batch)]

    def deal_columns(self, rows: ColumnRows, room: Room) -> ColumnDeal | None:
        """Shares of a batch of columns for targets that have room, and the rest.

        None: the batch is not split, so that it goes to one target (`place`).
        """
        return None

    def took(self, target: int, count: int) -> None:
        """A target has taken rows of the rest."""

    def split(self, rows: Sequence[Any], marks: Sequence[Any] | None) -> list[Share]:
        """Shares for an edge on which nothing waits: to those below their high mark if there are any, else to all."""
        shares, rest = self.deal(rows, marks, self._below_mark)
        return shares if rest is None else self.deal(rows, marks, _endless)[0]

    def split_values(self, rows: Sequence[Any], marks: Sequence[Any] | None) -> list[Share]:
        """The same for a stream of one field."""
        shares, rest = self.deal_values(rows, marks, self._below_mark)
        return shares if rest is None else self.deal_values(rows, marks, _endless)[0]

    def _below_mark(self, target: int) -> int:
        return 0 if self.context.is_high(target) else ENDLESS


def _endless(target: int) -> int:
    return ENDLESS
