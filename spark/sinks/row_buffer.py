"""Buffer: rows that belong to no chunk wait here until they become a file.

    add ─▶ rows, bytes ─▶ full? ─▶ take ─▶ one file ─▶ all of it acked
                      tick ─▶ has it waited a whole interval? ─▶ take

1. Nothing is lost or doubled: each row that was added is taken once, in order.
2. It is full at `max_rows` or `max_bytes`; one addition may exceed them, and is taken with it.
3. Rows are taken after two ticks at the latest: a tick takes rows that were there at the tick before.
"""

from __future__ import annotations

from typing import Generic, TypeVar

Item = TypeVar("Item")


class RowBuffer(Generic[Item]):
    """The buffer of one task of a sink."""

    def __init__(self, max_rows: int, max_bytes: int) -> None:
        self._max_rows = max_rows
        self._max_bytes = max_bytes
        self._items: list[Item] = []
        self.rows = 0
        self.size_bytes = 0
        self._was_filled = False

    def add(self, item: Item, rows: int, size_bytes: int) -> bool:
        """Add an item. Whether the buffer is full."""
        self._items.append(item)
        self.rows += rows
        self.size_bytes += size_bytes
        return self.rows >= self._max_rows or self.size_bytes >= self._max_bytes

    def tick(self) -> bool:
        """An interval has passed. Whether the contents should be taken."""
        due, self._was_filled = self._was_filled, bool(self._items)
        return due and self._was_filled

    def take(self) -> list[Item]:
        items, self._items = self._items, []
        self.rows = self.size_bytes = 0
        self._was_filled = False
        return items
