"""Portion: how many rows a task handles in a turn, so that what it sends is not delayed for long. Pure.

    16 rows ─► delayed for 0.2 s, where 0.05 are wanted: a quarter of the rows in the next turn
            ─► not delayed, or hardly: twice as many, up to `most`, if the turn had that many rows

1. Rows of a turn for which the targets have no free capacity are parked with the sender: they wait there as they would
   in mailboxes. A portion bounds that wait, whatever the grouping and however many senders there are.
2. It starts small, and grows as it is used: a task that sends little keeps a small portion when its targets become
   slow.
3. At least one row goes in a turn; if it becomes many rows, those wait.

From: TCP's slow start and multiplicative decrease, with the measured delay instead of a loss.
"""

from __future__ import annotations

from typing import Final

FIRST: Final = 16
"""Rows of the first turn."""
NEVER: Final = 1 << 60
"""More rows than any turn has."""


class Portion:
    """The portion of one task. `target_s`: how long its rows may be delayed; 0: any time."""

    __slots__ = ("_most", "_target_s", "rows")

    def __init__(self, most: int, target_s: float) -> None:
        self._most = most
        self._target_s = target_s
        self.rows = min(FIRST, most) if target_s else most
        """Rows of the next turn."""

    @property
    def is_whole(self) -> bool:
        """Is it as large as it can be?"""
        return self.rows == self._most

    @property
    def grows_from(self) -> int:
        """A turn of fewer rows that was not delayed changes nothing."""
        return NEVER if self.rows == self._most else (self.rows + 1) // 2

    def sent(self, rows: int, delayed_s: float) -> None:
        """The output of a turn of `rows` rows was delayed for `delayed_s`."""
        target_s = self._target_s
        if delayed_s > target_s > 0.0:
            self.rows = max(1, min(self.rows, int(rows * target_s / delayed_s)))
        elif self.rows < self._most and 2 * delayed_s <= target_s and 2 * rows >= self.rows:
            self.rows = min(2 * self.rows, self._most)

    def aim(self, target_s: float) -> None:
        """Set another target."""
        self._target_s = target_s
        if not target_s:
            self.rows = self._most
