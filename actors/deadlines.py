"""Deadlines: one timer for many waits of the same length.

Nearly every question is answered long before its time is up, and a timer for each costs a fifth of an ask. Deadlines of
one length come due in the order in which they were set: only the oldest needs a timer, and only if it is still there
when the last timer goes off.

    add ─► {wait: due} ─► discard          timer: when the oldest is due ─► it is late, or: who is the oldest now?

1. A wait that is over is forgotten at once; the timer that is left goes off once, to find nothing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

_EARLY_S = 1e-6  # a loop may call a little before the time it was given: what is due so soon is due


class Deadlines:
    """Time limits of `timeout_s`; `late(wait, about, timeout_s)` is called for each wait that takes longer."""

    __slots__ = ("_late", "_loop", "_timer", "_waits", "timeout_s")

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        timeout_s: float,
        late: Callable[[asyncio.Future[Any], Any, float], None],
    ) -> None:
        self.timeout_s = timeout_s
        self._loop = loop
        self._late = late
        self._waits: dict[asyncio.Future[Any], tuple[float, Any]] = {}
        self._timer: asyncio.TimerHandle | None = None

    def __len__(self) -> int:
        return len(self._waits)

    def add(self, wait: asyncio.Future[Any], about: Any) -> None:
        """`late` is called for it in `timeout_s` seconds, unless it is discarded."""
        due_s = self._loop.time() + self.timeout_s
        self._waits[wait] = (due_s, about)
        if self._timer is None:
            self._timer = self._loop.call_at(due_s, self._due)

    def discard(self, wait: asyncio.Future[Any]) -> None:
        """The wait is over."""
        self._waits.pop(wait, None)

    def close(self) -> None:
        """Leave no timer behind, unless somebody still waits: then it is the one to end that."""
        if self._timer is not None and not self._waits:
            self._timer.cancel()
            self._timer = None

    def _due(self) -> None:
        now_s = self._loop.time() + _EARLY_S
        self._timer = None
        late: list[tuple[asyncio.Future[Any], Any]] = []
        for wait, (due_s, about) in self._waits.items():
            if due_s > now_s:
                self._timer = self._loop.call_at(due_s, self._due)
                break
            late.append((wait, about))
        for wait, about in late:
            del self._waits[wait]
            self._late(wait, about, self.timeout_s)
