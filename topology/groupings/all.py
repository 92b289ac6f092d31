"""All: every task gets every row. Storm: AllGrouping."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ..tuples.identity import part_of
from .base import Grouping

if TYPE_CHECKING:
    from ..tuples import Row
    from ..values import Anchor, Item, RecordBatch
    from .shares import Share


class AllGrouping(Grouping):
    """Every row to every task."""

    def choose(self, values: Row) -> Sequence[int]:
        """Every target."""
        return self.targets

    def split(self, rows: Sequence[Item], anchors: Sequence[Anchor] | None) -> list[Share]:
        """The same rows for every target."""
        return [(target, rows, anchors) for target in self.targets] if rows else []

    split_values = split

    def split_columns(self, batch: RecordBatch) -> list[tuple[int, RecordBatch]]:
        """The batch for every task. Each copy is a separate part of its chunk (identity.py)."""
        targets = self.targets
        if len(targets) == 1:
            return [(targets[0], batch)]
        return [(target, part_of(batch, at, len(targets))) for at, target in enumerate(targets)]
