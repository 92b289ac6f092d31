"""SpoutWakeup: one waiter, woken by `wake`, or after a while."""

from __future__ import annotations

import asyncio

from .interval_timer import IntervalTimer


class SpoutWakeup:
    """A `wake` without a waiter has no effect: the waiter checks everything before it waits."""

    __slots__ = ("_waiter", "_woken", "loop")

    def __init__(self) -> None:
        self.loop = asyncio.get_running_loop()
        self._waiter: asyncio.Future[None] | None = None
        self._woken = False

    def wake(self) -> None:
        """Wake the waiter, if there is one."""
        waiter = self._waiter
        if waiter is not None:
            self._woken = True  # also if its timer has fired, and the waiter has not run yet
            if not waiter.done():
                waiter.set_result(None)

    async def wait(self, at_most_s: float | None = None) -> bool:
        """Wait for `wake`, or for at most this time. Was it woken?"""
        waiter = self._waiter = self.loop.create_future()
        self._woken = False
        timer = self.loop.call_later(at_most_s, _over, waiter) if at_most_s is not None else None
        try:
            await waiter
        finally:
            self._waiter = None
            if timer is not None:
                timer.cancel()
        return self._woken

    async def wait_for(self, interval_timer: IntervalTimer) -> bool:
        """Wait for `wake`, or for an interval timer. Was it woken?"""
        waiter = self._waiter = self.loop.create_future()
        self._woken = False
        interval_timer.add(waiter)
        try:
            await waiter
        finally:
            self._waiter = None
            interval_timer.remove(waiter)
        return self._woken


def _over(waiter: asyncio.Future[None]) -> None:
    if not waiter.done():
        waiter.set_result(None)
