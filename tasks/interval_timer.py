"""IntervalTimer: one timer of an event loop for everything that waits for the same interval, again and again.

    wait ─► at the next interval timer: woken, all in one step of the loop ─► wait …        a timer only while
    something waits

1. Nothing waits longer than the interval; a wait that begins between two firings is shorter. A single waiter waits for
   the whole interval.
2. Without it, a hundred timers of a loop fire at a hundred times, and each wakes a process that has nothing else to do:
   that is most of what an idle spout costs.
"""

from __future__ import annotations

import asyncio
from weakref import WeakKeyDictionary


class IntervalTimer:
    """The timer of one interval in one loop (it keeps no reference to the loop)."""

    __slots__ = ("_interval_s", "_timer", "_waiting")

    def __init__(self, interval_s: float) -> None:
        self._interval_s = interval_s
        self._waiting: dict[asyncio.Future[None], None] = {}
        self._timer: asyncio.TimerHandle | None = None

    def add(self, waiter: asyncio.Future[None]) -> None:
        """The waiter is done when the timer fires next."""
        self._waiting[waiter] = None
        if self._timer is None:
            self._timer = waiter.get_loop().call_later(self._interval_s, self._fire)

    def remove(self, waiter: asyncio.Future[None]) -> None:
        """The waiter waits no more. Without effect if the timer has fired."""
        if self._waiting.pop(waiter, self) is None and not self._waiting and self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _fire(self) -> None:
        waiting, self._waiting = self._waiting, {}
        self._timer = None
        for waiter in waiting:
            if not waiter.done():
                waiter.set_result(None)


_interval_timers: WeakKeyDictionary[asyncio.AbstractEventLoop, dict[float, IntervalTimer]] = WeakKeyDictionary()


def interval_timer_of(loop: asyncio.AbstractEventLoop, interval_s: float) -> IntervalTimer:
    """The shared timer of a loop for an interval."""
    interval_timers = _interval_timers.setdefault(loop, {})
    interval_timer = interval_timers.get(interval_s)
    if interval_timer is None:
        interval_timer = interval_timers[interval_s] = IntervalTimer(interval_s)
    return interval_timer
