"""Bell: one waiter, woken by whoever rings, or after a while."""

from __future__ import annotations

import asyncio


class Bell:
    """Rings that nobody waits for are forgotten: the waiter looks at the world before it waits."""

    __slots__ = ("_loop", "_waiter")

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._waiter: asyncio.Future[None] | None = None

    def ring(self) -> None:
        """Wake the waiter, if there is one."""
        waiter = self._waiter
        if waiter is not None and not waiter.done():
            waiter.set_result(None)

    async def wait(self, at_most_s: float | None = None) -> None:
        """Wait for the next ring, or at most so long."""
        waiter = self._waiter = self._loop.create_future()
        timer = self._loop.call_later(at_most_s, self.ring) if at_most_s is not None else None
        try:
            await waiter
        finally:
            self._waiter = None
            if timer is not None:
                timer.cancel()
