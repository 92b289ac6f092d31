"""Clock: the only place that reads the time.

1. `monotonic()` is the event loop's time: deadlines and measured waits use it, so they all follow a virtual loop.
2. `now()` is wall-clock time, for timestamps that people read. It is never compared with a deadline: wall clocks jump.
3. `stopwatch()` measures how long code ran; in a virtual loop it is the loop's time, so that everything that depends on
   it (the size of a turn) is the same in every run.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Protocol


class Clock(Protocol):
    """The time, as the rest of the system uses it. Everything in seconds."""

    def monotonic(self) -> float:
        """Seconds from an arbitrary start; never goes back."""
        ...

    def now(self) -> float:
        """Seconds since 1970, UTC."""
        ...

    def stopwatch(self) -> float:
        """Seconds from an arbitrary start, with the finest resolution available."""
        ...

    async def sleep(self, delay_s: float) -> None:
        """Wait."""
        ...


class LoopClock:
    """The clock of an asyncio event loop, real or virtual (a loop with a true attribute `virtual`)."""

    def __init__(self, loop: asyncio.AbstractEventLoop | None = None) -> None:
        loop = loop or asyncio.get_running_loop()
        virtual = is_virtual(loop)
        # Attributes, not methods: they are read once a turn, and this saves a call.
        self.monotonic: Callable[[], float] = loop.time
        self.stopwatch: Callable[[], float] = loop.time if virtual else time.perf_counter
        # In virtual time the wall clock starts at a fixed date: two runs of a test read the same timestamps. The start
        # is set by the loop, so that all clocks of that loop agree, however late they were made; and wall clocks may
        # jump.
        self._virtual_loop = loop if virtual else None
        self._offset_s = 1_700_000_000.0 - loop.time()

    def now(self) -> float:
        """Seconds since 1970, UTC."""
        loop = self._virtual_loop
        if loop is None:
            return time.time()
        return loop.time() + getattr(loop, "wall_offset_s", self._offset_s)

    async def sleep(self, delay_s: float) -> None:
        """Wait."""
        await asyncio.sleep(delay_s)


def is_virtual(loop: asyncio.AbstractEventLoop) -> bool:
    """Is this a loop with virtual time (aiostorm.testing)? Then nothing may measure or wait for real time."""
    return bool(getattr(loop, "virtual", False))
