"""Turn limits: how many rows a task takes, executes and sends in a turn, and how many its mailbox accepts.

    a turn: rows, work ─────┐                                          ┌─► the limit of its mailbox (senders see it)
    it was held up before ──┴─► holding (seconds a row), portions ─────┴─► the rows of the next turn

    turn ─► sent ─ blocked ····· unblocked ─► the next turn's rows (backpressure.Portion)

1. Rows in a turn wait as rows in the mailbox do, so a turn takes as many rows as fit into its time. A bolt that takes
   batches gets the largest that there are.
2. A turn that sends a small part of its portion, and is not held up, changes nothing, and nothing is called for it.
3. A slow task is measured once a turn, a fast one once in MEASURE_S of its work. Between two measurements the task adds
   up what its turns do, and nothing is called here.
4. A task whose targets block it sends less in a turn. This holds for spout tasks, too.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from ..backpressure import MailboxLimit, Portion, Settings

if TYPE_CHECKING:
    from ..actors import Mailbox
    from ..topology import Config
    from .emit.outbox import Outbox

MEASURE_S: Final = 0.01
"""Seconds of work between two measurements of a task that may use its whole mailbox."""

PARKED: Final = 0.25
"""The output of a turn may wait for this share of the time that a mailbox's content may take."""


class Portions:
    """The portions of one task. `most` rows in a turn; `target_s`: seconds of work in a mailbox, 0 for no bound.

    `known`: if not 0, no turn is held up and the next may have this many rows. Then nothing has to be computed: a task
    calls `next` only where this is 0, and `sent` only after a turn of at least `notable` rows or when it is held up.
    """

    __slots__ = ("_at_s", "_blocked_s", "_held_s", "_outbox", "_portion", "_rows", "_stopwatch", "known", "notable")

    def __init__(self, outbox: Outbox, stopwatch: Callable[[], float], most: int, target_s: float) -> None:
        self._outbox = outbox
        self._stopwatch = stopwatch
        self._portion = Portion(most, target_s * PARKED)
        self._at_s = -1.0  # since when it is held up; below 0: it is not
        self._held_s = self._blocked_s = 0.0
        self._rows = 0
        self.known = self.notable = 0

    def aim(self, target_s: float) -> None:
        """Set another target."""
        self._portion.aim(target_s * PARKED)
        self.known = self.notable = 0

    @property
    def held_s(self) -> float:
        """For how long it has been held up until now; 0.0 if it is not."""
        return self._stopwatch() - self._at_s if self._at_s >= 0.0 else 0.0

    @property
    def blocked_s(self) -> float:
        """For how long it has been held up at all."""
        return self._blocked_s + self.held_s

    def sent(self, rows: int) -> bool:
        """A turn is over and its output was sent; `rows`: the rows of the turn. Is the task held up?"""
        self.known = self.notable = 0
        self._rows += rows
        if self._outbox.blocked and self._at_s < 0.0:
            self._at_s = self._stopwatch()
            return True
        return False

    def unblocked(self) -> None:
        """The outbox is unblocked; or a target has ended, and other rows may still wait."""
        if self._at_s >= 0.0 and not self._outbox.blocked:
            held_s = self._stopwatch() - self._at_s
            self._held_s += held_s
            self._blocked_s += held_s
            self._at_s = -1.0

    def next(self) -> tuple[int, float]:
        """Rows for the next turn, and for how long the one before was held up."""
        held_s, portion = self._held_s, self._portion
        if self._rows and (held_s or not portion.is_whole):
            portion.sent(self._rows, held_s)
        self._held_s = 0.0
        self._rows = 0
        if not held_s and self._at_s < 0.0:
            self.known, self.notable = portion.rows, portion.grows_from
        return portion.rows, held_s


class InputLimits:
    """The limits of one task.

    `known`: the number of rows for the next turn if nothing has to be computed; else 0, and `rows` computes it.
    `notable`: after a turn of so many rows, or when the task is held up, `turn_sent` must be called.
    `executed` and `work_s` are sums over the turns since the last measurement; the next is due at `due_s` seconds of
    work.
    """

    __slots__ = (
        "_box",
        "_held_s",
        "_limit",
        "_most",
        "_portions",
        "_target_s",
        "_turn_s",
        "due_s",
        "executed",
        "known",
        "notable",
        "work_s",
    )

    def __init__(self, box: Mailbox, portions: Portions, config: Config, target_s: float) -> None:
        self._portions = portions
        self._target_s = target_s
        self._box = box
        self._limit = MailboxLimit(box.gate.capacity, target_s)
        self._turn_s = config.turn_max_ms / 1000
        self._most = config.turn_max_tuples
        self._held_s = 0.0  # in turns that were not measured
        self.known = self.notable = self.executed = 0
        self.work_s = self.due_s = 0.0
        self._set_limit(self._limit.limit)

    def update(self, settings: Settings) -> None:
        """Apply other settings."""
        self._target_s = settings.target_s
        self._portions.aim(settings.target_s)
        self._set_limit(self._limit.aim(settings.target_s))

    def use_batches(self, *, batches: bool) -> None:
        """A new instance of the component: does it take batches?"""
        self.known = self.notable = 0
        self._limit.batch = self._most if batches else 0

    def rows(self) -> int:
        """The number of rows for the next turn."""
        rows, held_s = self._portions.next()
        if held_s:
            self._held_s += held_s
            self._set_due()
        if self._limit.batch or not self._target_s:
            rows = self._most
        elif self._box.reader.row_s * rows > self._turn_s:
            rows = max(1, int(self._turn_s / self._box.reader.row_s))
        if self._portions.known:
            self.known, self.notable = rows, self._portions.notable
        return rows

    def measure(self) -> None:
        """Take in the turns since the last measurement."""
        if not self.executed:
            return
        limits = self._limit
        limit = limits.measured(self.executed, self.work_s, self._held_s)
        self._held_s = self.work_s = 0.0
        self.executed = 0
        self._box.reader.row_s = limits.row_s
        self._set_limit(limit)

    def turn_sent(self, rows: int) -> None:
        """The output of a turn was sent; `rows`: how many rows the task executed for it."""
        self.known = self.notable = 0
        if self._portions.sent(rows):
            self._set_limit(self._limit.blocks())

    def unblocked(self) -> None:
        """The outbox is no longer blocked."""
        self._portions.unblocked()

    def check(self) -> None:
        """At each check interval: a task that has been blocked for longer than the target accepts no more rows."""
        if self._target_s and self._portions.held_s > self._target_s:
            self._set_limit(self._limit.stuck())

    def _set_limit(self, limit: int) -> None:
        self.known = self.notable = 0
        if limit != self._box.gate.limit:
            self._box.set_limit(limit)
        self._set_due()

    def _set_due(self) -> None:
        """Measure at each turn; a fast task with its whole mailbox, after MEASURE_S of its work."""
        gate = self._box.gate
        self.due_s = MEASURE_S if self._held_s < MEASURE_S and gate.limit == gate.capacity else 0.0
