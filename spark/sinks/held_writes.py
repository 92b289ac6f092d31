"""Held writes: the writes that a sink keeps while its store cannot be written, and when it retries. Pure.

    written ─► done                                 hold ─► held, in order, after those that are held already
    failed  ─► 0.1 s, doubling to 30 s, jitter ─► due ─► retried, the oldest first

1. Held rows are not acked: a source that bounds its pending messages stops, which also bounds the held rows. (With
   exactly-once spouts wait at `sink_held_max_rows`.)
2. The sink restarts the timeouts of held rows at each tick: they fail for no other reason than their own.
3. Order is kept: while anything is held, later writes are held after it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Generic, TypeVar

FIRST_S: Final = 0.1
MOST_S: Final = 30.0

Item = TypeVar("Item")


class HeldWrites(Generic[Item]):
    """The held writes of one task. `random`: returns a number from 0 to 1."""

    def __init__(self, random: Callable[[], float]) -> None:
        self._random = random
        self._items: list[Item] = []
        self._wait_s = 0.0
        self._left_s = 0.0

    @property
    def items(self) -> tuple[Item, ...]:
        return tuple(self._items)

    def hold(self, item: Item) -> None:
        """Keep a write that cannot be done now."""
        self._items.append(item)

    def failed(self) -> float:
        """An attempt failed. Returns the seconds until the next."""
        self._wait_s = min(MOST_S, 2 * self._wait_s) if self._wait_s else FIRST_S
        self._left_s = self._wait_s * (0.5 + self._random() / 2)
        return self._left_s

    def passed(self, seconds: float) -> bool:
        """This many seconds have passed. Whether a retry is due."""
        self._left_s -= seconds
        return bool(self._items) and self._left_s <= 0

    def written(self) -> None:
        del self._items[0]
        self._left_s = 0.0
        if not self._items:
            self._wait_s = 0.0

    def drop(self) -> list[Item]:
        """Give up and return all held writes."""
        items, self._items = self._items, []
        self._wait_s = self._left_s = 0.0
        return items
