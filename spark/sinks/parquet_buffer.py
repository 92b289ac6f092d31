"""Buffer: rows that belong to no chunk wait here until they are a file. When is that?

    add ─▶ rows, bytes ─▶ full? ─▶ take ─▶ one file ─▶ all of it acked
                      tick ─▶ has it waited a whole interval? ─▶ take

1. Nothing is lost or doubled: what was added is taken once, in order.
2. It is full at `max_rows` or `max_bytes`; one addition may exceed them, and is taken with it.
3. What was added has been taken after two ticks: a tick takes what was there at the tick before.
"""

from __future__ import annotations

from typing import Generic, TypeVar

Item = TypeVar("Item")


class RowBuffer(Generic[Item]):
    """Of one task of a sink."""

    def __init__(self, max_rows: int, max_bytes: int) -> None:
        self._max_rows = max_rows
        self._max_bytes = max_bytes
        self._items: list[Item] = []
        self.rows = 0
        self.size_bytes = 0
        self._was_filled = False

    def add(self, item: Item, rows: int, size_bytes: int) -> bool:
        """Keep it. Is the buffer full?"""
        self._items.append(item)
        self.rows += rows
        self.size_bytes += size_bytes
        return self.rows >= self._max_rows or self.size_bytes >= self._max_bytes

    def tick(self) -> bool:
        """An interval has passed: is it time to take what there is?"""
        due, self._was_filled = self._was_filled, bool(self._items)
        return due and self._was_filled

    def take(self) -> list[Item]:
        """All there is; it is empty then."""
        items, self._items = self._items, []
        self.rows = self.size_bytes = 0
        self._was_filled = False
        return items
