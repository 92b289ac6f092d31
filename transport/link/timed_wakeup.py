"""TimedWakeup: one waits until others ring, or until a time.

A writer of a link is woken for each frame, and each time it wants to be woken a little later than the time before, if
nobody rings. A timer for each of these waits would cost more than the frame. So a timer that goes off too early is left
as it is: who waits is woken once in vain, and says again when.

1. A ring is not lost: who waits looks, and waits, without giving up the loop in between; `clear` says that it looks.
2. One waits at a time.
"""

from __future__ import annotations

import asyncio
import math

_LEAST_S = 0.001
"""A timer may fire a trifle early: without a least wait, nothing would be due and time would not move."""


class TimedWakeup:
    """`set`, `clear` and `wait` as an asyncio.Event has them, for one that waits."""

    __slots__ = ("_due_s", "_rung", "_timer", "_waiter")

    def __init__(self) -> None:
        self._rung = False
        self._waiter: asyncio.Future[None] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._due_s = math.inf

    def set(self) -> None:
        """Ring."""
        self._rung = True
        waiter = self._waiter
        if waiter is not None and not waiter.done():
            waiter.set_result(None)

    def clear(self) -> None:
        """What was rung for so far is known."""
        self._rung = False

    async def wait(self) -> None:
        """Wait until somebody rings, or has since `clear`."""
        if self._rung:
            return
        self._waiter = asyncio.get_running_loop().create_future()
        try:
            await self._waiter
        finally:
            self._waiter = None

    async def wait_until(self, due_s: float, now_s: float) -> None:
        """The same, until `due_s` at the latest (seconds, as `now_s`); it may return earlier for nothing."""
        if due_s < self._due_s:
            self.cancel()
            self._due_s = due_s
            self._timer = asyncio.get_running_loop().call_later(max(due_s - now_s, _LEAST_S), self._went_off)
        await self.wait()

    def cancel(self) -> None:
        """Leave no timer behind."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._due_s = math.inf

    def _went_off(self) -> None:
        self._timer = None
        self._due_s = math.inf
        self.set()
