"""Spreading: groupings with a choice of targets, so that rows that do not fit into a full one may go to another."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from ..values import Anchor, Item, RecordBatch, Value
from .base import Grouping

if TYPE_CHECKING:
    from ..tuples import ColumnChoices, ColumnRows
    from .shares import Share

ColumnDeal = tuple[list[tuple[int, RecordBatch]], "ColumnChoices | None"]
"""A RecordBatch for each target that gets rows, and the rows that wait."""

FreeCapacity = Callable[[int], int]
"""How many rows a target accepts now."""

UNLIMITED: Final = 1 << 60
"""Capacity for any number of rows."""


class Rest(NamedTuple):
    """Rows that fit nowhere now. `choices`: the possible targets of each of them; None: any target."""

    rows: Sequence[Item]
    anchors: Sequence[Anchor] | None
    choices: Sequence[tuple[int, ...]] | None = None


class Spreading(Grouping):
    """A grouping with a choice of targets: rows that do not fit into a full one may go to another.

    1. `deal` gives a target no more rows than its free capacity; rows that fit nowhere are the rest: with `choices` any
       of the rows, without them the last ones. So each target gets its rows in their order.
    2. The emitter keeps the rest (see tasks/emit/waiting.py); the first possible target with free capacity takes it.
    """

    @abstractmethod
    def deal(
        self, rows: Sequence[Item], anchors: Sequence[Anchor] | None, free: FreeCapacity
    ) -> tuple[list[Share], Rest | None]:
        """One share for each target that gets rows, and the rest. `free(target)`: how many rows it accepts now."""

    def deal_values(
        self, rows: Sequence[Value], anchors: Sequence[Anchor] | None, free: FreeCapacity
    ) -> tuple[list[Share], Rest | None]:
        """The same for a stream of one field, whose tuples are sent as bare values."""
        return self.deal(rows, anchors, free)  # most groupings do not read the rows

    def place(self, free: FreeCapacity) -> int | None:
        """The target of a batch of columns, which is not split; None: all targets are full."""
        shares, _ = self.deal([()], None, free)
        return shares[0][0] if shares else None

    def split_columns(self, batch: RecordBatch) -> list[tuple[int, RecordBatch]]:
        """The whole batch for one target: it counts as one row."""
        ((target, _, _),) = self.split([()], None)
        return [(target, batch)]

    def deal_columns(self, rows: ColumnRows, free: FreeCapacity) -> ColumnDeal | None:
        """Shares of a batch of columns for targets with free capacity, and the rest.

        None: the batch is not split, so that it goes to one target (`place`).
        """
        return None

    def on_taken(self, target: int, count: int) -> None:
        """A target has taken rows of the rest."""

    def split(self, rows: Sequence[Item], anchors: Sequence[Anchor] | None) -> list[Share]:
        """Shares for an edge without waiting: to targets below their high mark if there are any, else to all."""
        shares, rest = self.deal(rows, anchors, self._below_mark)
        return shares if rest is None else self.deal(rows, anchors, _unlimited)[0]

    def split_values(self, rows: Sequence[Item], anchors: Sequence[Anchor] | None) -> list[Share]:
        """The same for a stream of one field."""
        shares, rest = self.deal_values(rows, anchors, self._below_mark)
        return shares if rest is None else self.deal_values(rows, anchors, _unlimited)[0]

    def _below_mark(self, target: int) -> int:
        return 0 if self.context.is_high(target) else UNLIMITED


def _unlimited(target: int) -> int:
    return UNLIMITED
