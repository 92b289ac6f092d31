"""Global: everything goes to one task. Storm: GlobalGrouping."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from .base import Grouping, GroupingContext

if TYPE_CHECKING:
    from ..streams import StreamId
    from ..tuples import Row
    from ..values import Anchor, Item, RecordBatch
    from .shares import Share


class GlobalGrouping(Grouping):
    """Every row to the task with the lowest id."""

    def prepare(self, context: GroupingContext, stream: StreamId, targets: Sequence[int]) -> None:
        """Find the lowest id."""
        super().prepare(context, stream, targets)
        self._lowest = self.targets[0]

    def choose(self, values: Row) -> Sequence[int]:
        """The lowest task id."""
        return (self._lowest,)

    def split(self, rows: Sequence[Item], anchors: Sequence[Anchor] | None) -> list[Share]:
        """All rows, unchanged, to the lowest task id."""
        return [(self._lowest, rows, anchors)] if rows else []

    split_values = split

    def split_columns(self, batch: RecordBatch) -> list[tuple[int, RecordBatch]]:
        """The whole batch."""
        return [(self._lowest, batch)]
