"""SimClock: moves the clock of a virtual loop.

A virtual loop jumps by itself whenever a test awaits something that comes later. So `advance(60)` is a sleep, with one
difference: it returns when everything that happens at that instant has happened too, whatever the order of the timers.

Storm: Testing.advanceClusterTime, Time.advanceTime.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from ..runtime import AiostormError
from .errors import WaitTimeoutError
from .virtual_loop import VirtualTimeLoop
from .waiting import pending_tasks


class SimClock:
    """The clock of the running virtual loop. Seconds everywhere.

    `now()` and `monotonic()` read what components read (see `aiostorm.runtime.Clock`).
    """

    def __init__(self, loop: asyncio.AbstractEventLoop | None = None) -> None:
        self._given = loop

    def monotonic(self) -> float:
        """The loop's time."""
        return self._loop().time()

    def now(self) -> float:
        """Wall-clock time, seconds since 1970: starts at a fixed date and moves with the loop's time."""
        loop = self._loop()
        return loop.wall_offset_s + loop.time()

    async def settle(self) -> None:
        """Wait until all that can happen at this instant has happened. Time does not move."""
        await self._loop().quiet()

    async def advance(self, delay_s: float) -> None:
        """Let `delay_s` seconds pass, with everything that happens in them."""
        if delay_s < 0:
            raise ValueError(f"time does not go back: advance({delay_s})")
        loop = self._loop()
        reached: asyncio.Future[None] = loop.create_future()
        timer = loop.call_later(delay_s, _reach, reached)
        try:
            await reached
        finally:
            timer.cancel()
        await loop.quiet()

    async def advance_to(self, now_s: float) -> None:
        """Let time pass until `now()` is `now_s` (to the microsecond, the precision of a float of that size)."""
        delay_s = round(now_s - self.now(), 6)
        if delay_s < 0:
            raise ValueError(f"time does not go back: it is {self.now():.6f}, later than {now_s:.6f}")
        await self.advance(delay_s)

    async def run_until(self, ready: Callable[[], object], timeout_s: float = 3600.0) -> None:
        """Let time pass, timer by timer, until `ready()` is true; it is called at each instant, when nothing else is
        ready.

        Raises WaitTimeoutError after `timeout_s` virtual seconds.
        """
        loop = self._loop()
        over: asyncio.Future[None] = loop.create_future()
        # The timer also keeps time from jumping past the end of the wait.
        timer = loop.call_later(timeout_s, _reach, over)
        try:
            await loop.quiet()
            while not ready():
                if over.done():
                    raise WaitTimeoutError(
                        f"{_name(ready)} was still false after {timeout_s:g} virtual seconds. "
                        f"Pending:\n{pending_tasks(loop)}"
                    )
                await loop.moved()
                await loop.quiet()
        finally:
            timer.cancel()

    def _loop(self) -> VirtualTimeLoop:
        loop = self._given or asyncio.get_running_loop()
        if not isinstance(loop, VirtualTimeLoop):
            raise AiostormError(
                f"sim_clock needs a virtual loop and this test runs on {type(loop).__name__}: the test must be run by "
                "pytest-asyncio 1.5 or newer and ask for sim_clock itself (not by request.getfixturevalue), or be "
                "marked with @pytest.mark.virtual_time"
            )
        return loop


def _reach(reached: asyncio.Future[None]) -> None:
    if not reached.done():
        reached.set_result(None)


def _name(ready: Callable[[], object]) -> str:
    code = getattr(ready, "__code__", None)
    name = getattr(ready, "__qualname__", repr(ready))
    return f"{name} ({code.co_filename}:{code.co_firstlineno})" if code is not None else name
