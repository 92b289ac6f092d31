"""IntervalTimer: one timer of an event loop for all that wait equally long, again and again.

    wait ─► at the next interval timer: woken, all in one step of the loop ─► wait …        a timer only while
    something waits

1. Nothing waits longer than the interval; what begins to wait between two interval timers waits less. One that waits
   alone waits the interval.
2. A hundred timers of a loop go off at a hundred times, and each wakes a process that has nothing else to do: that is
   most of what an idle spout costs.
"""

from __future__ import annotations

import asyncio
from weakref import WeakKeyDictionary


class IntervalTimer:
    """Of one interval in one loop (which it does not hold)."""

    __slots__ = ("_interval_s", "_timer", "_waiting")

    def __init__(self, interval_s: float) -> None:
        self._interval_s = interval_s
        self._waiting: dict[asyncio.Future[None], None] = {}
        self._timer: asyncio.TimerHandle | None = None

    def join(self, waiter: asyncio.Future[None]) -> None:
        """At the next interval timer it is done."""
        self._waiting[waiter] = None
        if self._timer is None:
            self._timer = waiter.get_loop().call_later(self._interval_s, self._strike)

    def leave(self, waiter: asyncio.Future[None]) -> None:
        """It waits no more. Without effect if its interval timer has come."""
        if self._waiting.pop(waiter, self) is None and not self._waiting and self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _strike(self) -> None:
        waiting, self._waiting = self._waiting, {}
        self._timer = None
        for waiter in waiting:
            if not waiter.done():
                waiter.set_result(None)


_interval_timers: WeakKeyDictionary[asyncio.AbstractEventLoop, dict[float, IntervalTimer]] = WeakKeyDictionary()


def interval_timer_of(loop: asyncio.AbstractEventLoop, interval_s: float) -> IntervalTimer:
    """The interval timer of a loop for an interval: one for all who ask."""
    interval_timers = _interval_timers.setdefault(loop, {})
    interval_timer = interval_timers.get(interval_s)
    if interval_timer is None:
        interval_timer = interval_timers[interval_s] = IntervalTimer(interval_s)
    return interval_timer
