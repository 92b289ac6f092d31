"""LongCallWatch: a task is in one call for long: what waits behind it leaves its trees, so that no other message waits.

    a turn begins that may wait ─► STANDS_S later: is it still in the same slice? ─► its rows leave (detaching.py)
                                    (SLOW_S a row, and it is known: HELD_S later) ─► its mailbox says so: `stands`

1. A task whose user code never waits has no timer; one that waits has one at a time, whatever its turns.
2. A slow task would hold up the trees of its rows for STANDS_S each time: of one that is known to be slow, rows leave
   as soon as rows that are held do.
3. What comes meanwhile leaves at the next look. Looks become rarer while the same call goes on, down to one each
   STANDS_S; when nothing has come for STILL_S, the backpressure monitor looks (a deadlock has no timer).
4. A shuffle passes over a task that stands, as long as others have room (emit/spreading.py), in other workers as soon
   as they have heard of it (with the credit, see transport/exchange/credit.py): so what it holds of
   `max_spout_pending` is what it had when it came to stand. A slow one is passed over until it has run out of work. By
   fields, rows have nowhere else to go: they go on to wait in its mailbox.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

from ..actors import Mailbox
from .detaching import HELD_S

STANDS_S: Final = 1.0
"""In one slice. To leave a tree costs about what a tuple costs in Storm: so seldom, it is nothing."""

SLOW_S: Final = 0.25
"""A row. Who needs so long for one has time for what it costs to let it leave its tree at once."""


MEMORY_S: Final = 60.0
"""A task that stood is taken for a slow one for ten times as long, and no longer than that: what a row takes it, of
which most were fast, is not known before some more were slow."""

STILL_S: Final = 300.0

TICK_S: Final = 0.001
"""What a loop's timers are early by is less."""


class LongCallWatch:
    """Of one bolt task. `box`: its mailbox.

    `spent_s()`: for how long what it executes now has been executed; 0.0: nothing is, or in its thread. `leave()`: what
    is in hand and what waits leave their trees; was there anything?
    """

    def __init__(
        self, spent_s: Callable[[], float], leave: Callable[[], bool], box: Mailbox, monotonic: Callable[[], float]
    ) -> None:
        self._spent_s = spent_s
        self._leave = leave
        self._box = box
        self._monotonic = monotonic
        self._timer: asyncio.TimerHandle | None = None
        self._rings_s = 0.0
        self._stood = False  # in the call that goes on
        self._slow_until_s = 0.0
        self._left_s = 0.0  # when rows left last, after the beginning of the call

    def begins(self) -> None:
        """A turn begins that may wait, or has come to wait."""
        if self._timer is None:
            self._arm(self._after_s)
        elif self._is_slow and self._rings_s > self._monotonic() + HELD_S:
            self.stop()
            self._arm(HELD_S)

    def look(self) -> None:
        """The backpressure monitor looks: see 3."""
        if self._box.stands:
            self.begins()

    def ended(self, *, idle: bool) -> None:
        """The turn has ended after all. `idle`: there is nothing to do."""
        if idle or not (self._stood or self._box.row_s >= SLOW_S):
            self._box.stand(stands=False)
        self._stood = False

    def stop(self) -> None:
        """The task ends."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    @property
    def _is_slow(self) -> bool:
        return self._box.row_s >= SLOW_S or self._monotonic() < self._slow_until_s

    @property
    def _after_s(self) -> float:
        return HELD_S if self._is_slow else STANDS_S

    def _ring(self) -> None:
        self._timer = None
        spent_s, after_s = self._spent_s(), self._after_s
        if not spent_s:
            return  # the next turn begins anew
        if spent_s < after_s - TICK_S:
            self._arm(after_s - spent_s)
            return
        if self._leave() or not self._stood:
            self._left_s = spent_s
        if spent_s >= SLOW_S:
            self._slow_until_s = self._monotonic() + min(10 * spent_s, MEMORY_S)
        self._stood = True
        self._box.stand(stands=True)
        if spent_s - self._left_s < STILL_S:
            self._arm(min(max(HELD_S, spent_s - after_s), STANDS_S))

    def _arm(self, delay_s: float) -> None:
        self._rings_s = self._monotonic() + delay_s
        self._timer = asyncio.get_running_loop().call_later(delay_s, self._ring)
