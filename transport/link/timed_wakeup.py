"""TimedWakeup: wait for a `set`, or until a time.

The writer of a link is woken for each frame, and each time it wants to wake a little later than before if there is no
`set`. A new timer for each of these waits would cost more than the frame. So an earlier timer is left as it is: the
waiter wakes once without a reason, and waits again.

1. No `set` is lost, if the waiter checks for work and waits without giving up the event loop in between. `clear` marks
   the moment of the check.
2. There is one waiter at a time.
"""

from __future__ import annotations

import asyncio
import math

_LEAST_S = 0.001
"""A timer may fire slightly early. Without a least wait, the waiter could loop without time moving."""


class TimedWakeup:
    """`set`, `clear` and `wait` as those of an asyncio.Event, for one waiter."""

    __slots__ = ("_due_s", "_is_set", "_timer", "_waiter")

    def __init__(self) -> None:
        self._is_set = False
        self._waiter: asyncio.Future[None] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._due_s = math.inf

    def set(self) -> None:
        """Wake the waiter."""
        self._is_set = True
        waiter = self._waiter
        if waiter is not None and not waiter.done():
            waiter.set_result(None)

    def clear(self) -> None:
        """Forget earlier calls of `set`."""
        self._is_set = False

    async def wait(self) -> None:
        """Wait for a `set`; return at once if there was one since `clear`."""
        if self._is_set:
            return
        self._waiter = asyncio.get_running_loop().create_future()
        try:
            await self._waiter
        finally:
            self._waiter = None

    async def wait_until(self, due_s: float, now_s: float) -> None:
        """As `wait`, until `due_s` at the latest (seconds, as `now_s`). It may return earlier without a reason."""
        if due_s < self._due_s:
            self.cancel()
            self._due_s = due_s
            self._timer = asyncio.get_running_loop().call_later(max(due_s - now_s, _LEAST_S), self._on_timer)
        await self.wait()

    def cancel(self) -> None:
        """Cancel the timer."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._due_s = math.inf

    def _on_timer(self) -> None:
        self._timer = None
        self._due_s = math.inf
        self.set()
