"""LongCallWatch: when a task spends long in one call, the rows behind it leave their trees, so no other message waits.

    a turn begins that may wait ─► LONG_CALL_S later: still in the same slice? ─► its rows leave (detaching.py)
                                    (if a row is known to take SLOW_S: HELD_S later) ─► mailbox: `in_long_call`

1. A task whose user code never waits has no timer; a task that waits has one at a time, for all its turns.
2. A slow task would delay the trees of its rows by LONG_CALL_S each time. If a task is known to be slow, its rows leave
   as soon as held rows do.
3. Rows that arrive during the call leave at the next check. Checks become rarer while the call goes on, down to one
   each LONG_CALL_S; when nothing has come for STILL_S, only the backpressure monitor checks (a deadlock has no timer).
4. A shuffle passes over a task in a long call, as long as others have capacity (emit/spreading.py); other workers do so
   once they have received it (with the credit, see transport/exchange/credit.py). So the task's share of
   `max_spout_pending` is what it had when the call began. A slow task is passed over until it has run out of work. With
   a fields grouping, rows have no other target and go on to wait in its mailbox.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from .detaching import HELD_S

if TYPE_CHECKING:
    from ..actors import Mailbox

LONG_CALL_S: Final = 1.0
"""In one slice. To leave a tree costs about what a tuple costs in Storm: negligible at this rate."""

SLOW_S: Final = 0.25
"""Seconds for a row. For such a task, the cost of leaving the tree at once does not matter."""


MEMORY_S: Final = 60.0
"""After a long call, a task counts as slow for ten times as long as the call took, but no longer than this: if most of
its rows were fast, the average shows the slow ones only after several more."""

STILL_S: Final = 300.0

TICK_S: Final = 0.001
"""More than a loop's timers may be early by."""


class LongCallWatch:
    """The watch of one bolt task. `box`: its mailbox.

    `spent_s()`: how long the current slice has been executing; 0.0: none is, or a thread executes it. `detach()`:
    detach what is in hand and what waits; True if there was anything.
    """

    def __init__(
        self, spent_s: Callable[[], float], detach: Callable[[], bool], box: Mailbox, monotonic: Callable[[], float]
    ) -> None:
        self._spent_s = spent_s
        self._detach = detach
        self._box = box
        self._monotonic = monotonic
        self._timer: asyncio.TimerHandle | None = None
        self._due_s = 0.0
        self._is_long = False  # in the call that goes on
        self._slow_until_s = 0.0
        self._left_s = 0.0  # when rows left last, in seconds after the start of the call

    def turn_began(self) -> None:
        """A turn begins that may wait, or has started to wait."""
        if self._timer is None:
            self._arm(self._after_s)
        elif self._is_slow and self._due_s > self._monotonic() + HELD_S:
            self.stop()
            self._arm(HELD_S)

    def check(self) -> None:
        """Called by the backpressure monitor, see 3."""
        if self._box.reader.in_long_call:
            self.turn_began()

    def turn_ended(self, *, idle: bool) -> None:
        """The turn has ended. `idle`: the task has nothing to do."""
        if idle or not (self._is_long or self._box.reader.row_s >= SLOW_S):
            self._box.reader.set_in_long_call(False)
        self._is_long = False

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    @property
    def _is_slow(self) -> bool:
        return self._box.reader.row_s >= SLOW_S or self._monotonic() < self._slow_until_s

    @property
    def _after_s(self) -> float:
        return HELD_S if self._is_slow else LONG_CALL_S

    def _on_timer(self) -> None:
        self._timer = None
        spent_s, after_s = self._spent_s(), self._after_s
        if not spent_s:
            return  # the next turn starts the timer again
        if spent_s < after_s - TICK_S:
            self._arm(after_s - spent_s)
            return
        if self._detach() or not self._is_long:
            self._left_s = spent_s
        if spent_s >= SLOW_S:
            self._slow_until_s = self._monotonic() + min(10 * spent_s, MEMORY_S)
        self._is_long = True
        self._box.reader.set_in_long_call(True)
        if spent_s - self._left_s < STILL_S:
            self._arm(min(max(HELD_S, spent_s - after_s), LONG_CALL_S))

    def _arm(self, delay_s: float) -> None:
        self._due_s = self._monotonic() + delay_s
        self._timer = asyncio.get_running_loop().call_later(delay_s, self._on_timer)
