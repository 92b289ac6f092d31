"""Portion: how many rows a task handles in a turn, so that what it sends is not held up for long. Pure.

    16 rows ─► held up for 0.2 s, where 0.05 are wanted: a quarter of the rows in the next turn
            ─► not held up, or hardly: twice as many, up to `most`, if it had so many

1. What a turn sends and its targets have no room for, is parked with the sender: rows there wait as those in mailboxes
   do. A portion bounds them by the time that they wait, whatever the grouping and however many senders there are.
2. It begins small, and grows as it is used: who sends little is held to little when its targets become slow.
3. At least one row goes in a turn; one row may become many, and then they wait.

From: TCP's slow start and multiplicative decrease, with the measured delay for the loss.
"""

from __future__ import annotations

from typing import Final

FIRST: Final = 16
"""Rows of the first turn."""


class Portion:
    """Of one task. `target_s`: what it sends may be held up for so long; 0: for any time."""

    __slots__ = ("_most", "_target_s", "rows")

    def __init__(self, most: int, target_s: float) -> None:
        self._most = most
        self._target_s = target_s
        self.rows = min(FIRST, most) if target_s else most
        """For the next turn."""

    @property
    def is_whole(self) -> bool:
        """May as many go as ever may?"""
        return self.rows == self._most

    def sent(self, rows: int, held_s: float) -> None:
        """What a turn of so many rows sent was held up for so long."""
        target_s = self._target_s
        if held_s > target_s > 0.0:
            self.rows = max(1, min(self.rows, int(rows * target_s / held_s)))
        elif self.rows < self._most and 2 * held_s <= target_s and 2 * rows >= self.rows:
            self.rows = min(2 * self.rows, self._most)

    def aim(self, target_s: float) -> None:
        """Another target."""
        self._target_s = target_s
        if not target_s:
            self.rows = self._most
