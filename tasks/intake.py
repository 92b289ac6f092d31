"""Intake: how much a bolt task lets in: into its mailbox, and into its hand in one turn.

    a turn: rows, work ─────┐                                          ┌─► the limit of its mailbox (senders see it)
    it was held up before ──┴─► holding (seconds a row), portions ─────┴─► the rows of the next turn

1. What is in a task's hand waits as what is in its mailbox does: so a turn takes as many rows as belong to its time.
   Who takes batches takes as large ones as there are.
2. It is measured once a turn; of a task that is fast, once in LOOK_S of its work. Between two looks the task adds
   up what its turns do, and nothing is called here.
"""

from __future__ import annotations

from typing import Final

from ..actors import Mailbox
from ..backpressure import Holding, Settings
from ..topology import Config
from .emit.portions import Portions

LOOK_S: Final = 0.01
"""Of work: so long a task that has its whole mailbox need not be looked at."""


class Intake:
    """Of one task.

    `whole`: the next turn may be of so many rows, and nothing has to be worked out for it; else 0, and `rows` says how
    many. `executed` and `work_s` are what the turns since the last look have done; the look is due at `due_s` of work.
    """

    __slots__ = (
        "_batches",
        "_box",
        "_held_s",
        "_holding",
        "_most",
        "_portions",
        "_target_s",
        "_turn_s",
        "due_s",
        "executed",
        "whole",
        "work_s",
    )

    def __init__(self, box: Mailbox, portions: Portions, config: Config, target_s: float) -> None:
        self._portions = portions
        self._target_s = target_s
        self._box = box
        self._holding = Holding(box.capacity, target_s)
        self._turn_s = config.turn_max_ms / 1000
        self._most = config.turn_max_tuples
        self._held_s = 0.0  # in turns that were not looked at
        self._batches = False
        self.whole = self.executed = 0
        self.work_s = self.due_s = 0.0
        self._hold(self._holding.limit)

    def update(self, settings: Settings) -> None:
        """Other settings."""
        self._target_s = settings.target_s
        self._portions.aim(settings.target_s)
        self._hold(self._holding.aim(settings.target_s))

    def begins(self, *, batches: bool) -> None:
        """Another instance of the component: does it take batches?"""
        self.whole = 0
        self._batches = batches
        self._holding.batch = self._most if batches else 0

    def rows(self) -> int:
        """As many are to be taken for the next turn."""
        rows, held_s = self._portions.next()
        if held_s:
            self._held_s += held_s
            self._is_due()
        if self._batches or not self._target_s:
            rows = self._most
        elif self._box.row_s * rows > self._turn_s:
            rows = max(1, int(self._turn_s / self._box.row_s))
        self.whole = rows if self._portions.whole else 0
        return rows

    def measure(self) -> None:
        """Look at what the turns since the last look have done."""
        if not self.executed:
            return
        holding = self._holding
        limit = holding.measured(self.executed, self.work_s, self._held_s)
        self._held_s = self.work_s = 0.0
        self.executed = 0
        self._box.row_s = holding.row_s
        self._hold(limit)

    def sent(self, rows: int) -> None:
        """What a turn made is on its way; it is a task's so many rows."""
        self.whole = 0
        if self._portions.sent(rows):
            self._hold(self._holding.blocks())

    def freed(self) -> None:
        """There is room again for what waited."""
        self._portions.freed()

    def look(self) -> None:
        """A look each check interval: who waits for room for so long, and knows of no end, takes in no more."""
        if self._target_s and self._portions.held_s > self._target_s:
            self._hold(self._holding.stuck())

    def _hold(self, limit: int) -> None:
        self.whole = 0
        if limit != self._box.limit:
            self._box.hold(limit)
        self._is_due()

    def _is_due(self) -> None:
        """A look at each turn; of a task that is fast and has its whole mailbox, at LOOK_S of its work."""
        box = self._box
        self.due_s = LOOK_S if self._held_s < LOOK_S and box.limit == box.capacity else 0.0
