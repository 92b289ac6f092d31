"""The time of a virtual loop, and the bounds that keep a test from polling forever. Seconds.

1. Time only grows.
2. A bound that is used up is reported once and then starts anew: the test's clean-up may use it again.
"""

from __future__ import annotations

import math
from typing import Final

START_S: Final = 1_000.0
"""The time at which every virtual loop starts."""

WALL_START_S: Final = 1_700_000_000.0
"""The wall clock at that time: seconds since 1970."""

_RESOLUTION_S: Final = 1e-9  # as asyncio's: a timer within it is due now


class VirtualTime:
    """The time of a virtual loop and its bounds (pure). Seconds."""

    __slots__ = ("_jumps", "_limit_s", "_max_jumps", "_max_steps", "_steps", "_until_s", "now_s")

    def __init__(self, start_s: float, limit_s: float | None, max_jumps: int, max_steps: int) -> None:
        self.now_s = start_s
        self._limit_s = limit_s
        self._max_jumps = max_jumps
        self._max_steps = max_steps
        self._until_s = start_s + limit_s if limit_s is not None else None
        self._jumps = 0
        self._steps = 0

    def step(self) -> str | None:
        """The loop makes an iteration without time moving. Returns the problem if a bound is used up."""
        self._steps += 1
        if self._steps <= self._max_steps:
            return None
        self._steps = 0
        return (
            f"the loop has made {self._max_steps:,} iterations without time moving: something polls with "
            "`await asyncio.sleep(0)` (give it a delay, or wait for an event), or the test is that large (max_steps)"
        )

    def move(self, delay_s: float) -> str | None:
        """Time moves on. Returns the problem if a bound is used up."""
        self.now_s += delay_s
        if self.now_s + _RESOLUTION_S == self.now_s:
            # After some 100 days a float is coarser than asyncio's resolution: a timer that is due exactly now would
            # never be found due.
            self.now_s = math.nextafter(self.now_s, math.inf)
        self._steps = 0
        self._jumps += 1
        if self._jumps > self._max_jumps:
            self._jumps = 0
            return (
                f"virtual time has moved {self._max_jumps:,} times, to {self.now_s:,.3f} s: something polls and what "
                "it polls for does not come, or the test is that long (max_jumps)"
            )
        if self._until_s is not None and self._limit_s is not None and self.now_s > self._until_s:
            self._until_s = self.now_s + self._limit_s
            return f"the test may take {self._limit_s:,g} virtual seconds and they are over (limit_s)"
        return None
