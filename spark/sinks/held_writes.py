"""Held writes: what a sink keeps while its store cannot be written, and when it tries again. Pure.

    written ─► done                                 hold ─► held, in order, behind those that are held already
    failed  ─► 0.1 s, doubling to 30 s, jitter ─► due ─► tried again, the oldest first

1. What is held is acked by nobody: a source that bounds what it has pending stops, and what is held is bounded by that.
2. Of what is held the timeouts are restarted (by the sink, at each tick): it fails for no other reason than its own.
3. Order is kept: while anything is held, what comes later is held behind it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Generic, TypeVar

FIRST_S: Final = 0.1
MOST_S: Final = 30.0

Item = TypeVar("Item")


class HeldWrites(Generic[Item]):
    """Of one task. `random`: a number from 0 to 1."""

    def __init__(self, random: Callable[[], float]) -> None:
        self._random = random
        self._items: list[Item] = []
        self._wait_s = 0.0
        self._left_s = 0.0

    @property
    def items(self) -> tuple[Item, ...]:
        """What is held, the oldest first."""
        return tuple(self._items)

    def hold(self, item: Item) -> None:
        """It cannot be written now."""
        self._items.append(item)

    def failed(self) -> float:
        """An attempt failed: how long to wait before the next."""
        self._wait_s = min(MOST_S, 2 * self._wait_s) if self._wait_s else FIRST_S
        self._left_s = self._wait_s * (0.5 + self._random() / 2)
        return self._left_s

    def passed(self, seconds: float) -> bool:
        """So much time has passed: is it time to try again?"""
        self._left_s -= seconds
        return bool(self._items) and self._left_s <= 0

    def written(self) -> None:
        """The oldest one is written."""
        del self._items[0]
        self._left_s = 0.0
        if not self._items:
            self._wait_s = 0.0

    def drop(self) -> list[Item]:
        """All of it is given up."""
        items, self._items = self._items, []
        self._wait_s = self._left_s = 0.0
        return items
