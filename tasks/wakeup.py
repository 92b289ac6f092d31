"""SpoutWakeup: one waiter, woken by whoever rings, or after a while."""

from __future__ import annotations

import asyncio

from .interval_timer import IntervalTimer


class SpoutWakeup:
    """Rings that nobody waits for are forgotten: the waiter looks at the world before it waits."""

    __slots__ = ("_rung", "_waiter", "loop")

    def __init__(self) -> None:
        self.loop = asyncio.get_running_loop()
        self._waiter: asyncio.Future[None] | None = None
        self._rung = False

    def wake(self) -> None:
        """Wake the waiter, if there is one."""
        waiter = self._waiter
        if waiter is not None:
            self._rung = True  # also if its time is over, and it has not run yet
            if not waiter.done():
                waiter.set_result(None)

    async def wait(self, at_most_s: float | None = None) -> bool:
        """Wait for the next ring, or at most so long. Has it rung?"""
        waiter = self._waiter = self.loop.create_future()
        self._rung = False
        timer = self.loop.call_later(at_most_s, _over, waiter) if at_most_s is not None else None
        try:
            await waiter
        finally:
            self._waiter = None
            if timer is not None:
                timer.cancel()
        return self._rung

    async def wait_for(self, interval_timer: IntervalTimer) -> bool:
        """Wait for the next ring, or an interval timer. Has it rung?"""
        waiter = self._waiter = self.loop.create_future()
        self._rung = False
        interval_timer.add(waiter)
        try:
            await waiter
        finally:
            self._waiter = None
            interval_timer.remove(waiter)
        return self._rung


def _over(waiter: asyncio.Future[None]) -> None:
    if not waiter.done():
        waiter.set_result(None)
