"""Portions: how many rows a task sends in a turn, by how long its targets block it. (See backpressure.Portion.)

turn ─► sent ─ blocked ····· unblocked ─► the next turn's rows
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from ...backpressure import Portion
from .outbox import Outbox

PARKED: Final = 0.25
"""The output of a turn may wait for this share of the time that a mailbox's content may take."""


class Portions:
    """The portions of one task. `most` rows in a turn; `target_s`: seconds of work in a mailbox, 0 for no bound.

    `whole`: if not 0, no turn is held up and each may have this many rows. Then nothing has to be computed: a task
    calls `next` only where this is 0, and `sent` only there or when it is held up.
    """

    __slots__ = ("_at_s", "_held_s", "_outbox", "_portion", "_rows", "_stopwatch", "whole")

    def __init__(self, outbox: Outbox, stopwatch: Callable[[], float], most: int, target_s: float) -> None:
        self._outbox = outbox
        self._stopwatch = stopwatch
        self._portion = Portion(most, target_s * PARKED)
        self._at_s = -1.0  # since when it is held up; below 0: it is not
        self._held_s = 0.0
        self._rows = 0
        self.whole = 0

    def aim(self, target_s: float) -> None:
        """Set another target."""
        self._portion.aim(target_s * PARKED)
        self.whole = 0

    @property
    def held_s(self) -> float:
        """For how long it has been held up until now; 0.0 if it is not."""
        return self._stopwatch() - self._at_s if self._at_s >= 0.0 else 0.0

    def sent(self, rows: int) -> bool:
        """A turn is over and its output was sent; `rows`: the rows of the turn. Is the task held up?"""
        self.whole = 0
        self._rows += rows
        if self._outbox.blocked and self._at_s < 0.0:
            self._at_s = self._stopwatch()
            return True
        return False

    def unblocked(self) -> None:
        """The outbox is unblocked; or a target has ended, and other rows may still wait."""
        if self._at_s >= 0.0 and not self._outbox.blocked:
            self._held_s += self._stopwatch() - self._at_s
            self._at_s = -1.0

    def next(self) -> tuple[int, float]:
        """Rows for the next turn, and for how long the one before was held up."""
        held_s, portion = self._held_s, self._portion
        if self._rows and (held_s or not portion.is_whole):
            portion.sent(self._rows, held_s)
        self._held_s = 0.0
        self._rows = 0
        self.whole = portion.rows if portion.is_whole and not held_s and self._at_s < 0.0 else 0
        return portion.rows, held_s
