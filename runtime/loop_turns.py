"""LoopTurns: long pieces of work of several tasks of one event loop.

    a round of the loop:  piece, other callbacks, piece ── SHARE_S is over ─► no further piece begins
    the next round:       piece …

Each piece is short enough. But a loop calls all that is ready before it looks at its sockets and timers again, and four
pieces of 4 ms in one round are a pause of 16 ms.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from .clock import Clock

SHARE_S: Final = 0.003
"""Seconds of a round, from the beginning of its first piece, in which others may begin."""


class LoopTurns:
    """The pieces of one event loop, in the order of their requests. In virtual time code takes no time: none waits."""

    __slots__ = ("_began_s", "_line", "clock")

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self._line: deque[object] = deque()
        self._began_s: float | None = None  # the first piece of this round

    async def next(self) -> None:
        """Wait until a piece may begin: after all other code that is ready now. Begin it without another wait."""
        place = object()
        self._line.append(place)
        try:
            await self.clock.sleep(0)
            while self._line[0] is not place or self._is_over():
                await self.clock.sleep(0)
        finally:
            self._line.remove(place)
        if self._began_s is None:
            self._began_s = self.clock.stopwatch()
            asyncio.get_running_loop().call_soon(self._end_round)

    def _is_over(self) -> bool:
        return self._began_s is not None and self.clock.stopwatch() - self._began_s > SHARE_S

    def _end_round(self) -> None:
        self._began_s = None
