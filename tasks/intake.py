"""Intake: how much a bolt task lets in: into its mailbox, and into its hand in one turn.

    a turn: rows, work ─────┐                                          ┌─► the limit of its mailbox (senders see it)
    it was held up before ──┴─► holding (seconds a row), portions ─────┴─► the rows of the next turn

1. What is in a task's hand waits as what is in its mailbox does: so a turn takes as many rows as belong to its time.
   Who takes batches takes as large ones as there are.
2. It is measured once a turn; of a task that is fast, once in LOOK_S of its work.
"""

from __future__ import annotations

from typing import Final

from ..actors import Mailbox
from ..backpressure import Holding, Settings
from ..topology import Config
from .portions import Portions

LOOK_S: Final = 0.002
"""Of work: so long a task that has its whole mailbox need not be looked at."""


class Intake:
    """Of one task."""

    __slots__ = (
        "_batches",
        "_box",
        "_held_s",
        "_holding",
        "_most",
        "_portions",
        "_rows",
        "_target_s",
        "_turn_s",
        "_work_s",
        "freed",
    )

    def __init__(self, box: Mailbox, portions: Portions, config: Config, target_s: float) -> None:
        self.freed = portions.freed
        self._portions = portions
        self._target_s = target_s
        self._box = box
        self._holding = Holding(box.capacity, target_s)
        self._turn_s = config.turn_max_ms / 1000
        self._most = config.turn_max_tuples
        self._held_s = self._work_s = 0.0  # of turns that were not looked at
        self._rows = 0
        self._batches = False
        box.hold(self._holding.limit)

    def update(self, settings: Settings) -> None:
        """Other settings."""
        self._target_s = settings.target_s
        self._portions.aim(settings.target_s)
        self._box.hold(self._holding.aim(settings.target_s))

    def begins(self, *, batches: bool) -> None:
        """Another instance of the component: does it take batches?"""
        self._batches = batches
        self._holding.batch = self._most if batches else 0

    def rows(self) -> int:
        """As many are to be taken for the next turn."""
        rows, held_s = self._portions.next()
        self._held_s += held_s
        if self._batches or not self._target_s:
            return self._most
        row_s = self._box.row_s
        return rows if row_s * rows <= self._turn_s else max(1, int(self._turn_s / row_s))

    def done(self, rows: int, work_s: float) -> None:
        """A turn has executed so many, in so many seconds."""
        self._rows += rows
        self._work_s += work_s
        box = self._box
        if not self._rows or (self._work_s < LOOK_S and self._held_s < LOOK_S and box.limit == box.capacity):
            return
        holding = self._holding
        limit = holding.measured(self._rows, self._work_s, self._held_s)
        self._held_s = self._work_s = 0.0
        self._rows = 0
        box.row_s = holding.row_s
        if limit != box.limit:
            box.hold(limit)

    def sent(self, so_far: int) -> None:
        """What a turn made is on its way; it is a task's so many rows."""
        if self._portions.sent(so_far) and (limit := self._holding.blocks()) != self._box.limit:
            self._box.hold(limit)

    def look(self) -> None:
        """A look each check interval: who waits for room for so long, and knows of no end, takes in no more."""
        if self._target_s and self._portions.held_s > self._target_s:
            limit = self._holding.stuck()
            if limit != self._box.limit:
                self._box.hold(limit)
