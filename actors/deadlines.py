"""Deadlines: one timer for many waits with the same timeout.

Nearly every question is answered long before its timeout, and a timer for each one costs a fifth of an ask. Deadlines
with the same timeout expire in the order in which they were set, so only the oldest one needs a timer.

    add ─► {wait: due} ─► discard          timer: is the oldest due? ─► call `late` for it, and look at the next

1. A finished wait is removed at once; the remaining timer fires once more and finds nothing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from .messages import Answer

About = TypeVar("About")
"""What the waits are about: questions to actors."""

_EARLY_S = 1e-6  # an event loop may call a little early: a deadline that is this close counts as due


class Deadlines(Generic[About]):
    """Timeouts of `timeout_s`; `late(wait, about, timeout_s)` is called for each wait that takes longer."""

    __slots__ = ("_late", "_loop", "_timer", "_waits", "timeout_s")

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        timeout_s: float,
        late: Callable[[asyncio.Future[Answer], About, float], None],
    ) -> None:
        self.timeout_s = timeout_s
        self._loop = loop
        self._late = late
        self._waits: dict[asyncio.Future[Answer], tuple[float, About]] = {}
        self._timer: asyncio.TimerHandle | None = None

    def __len__(self) -> int:
        return len(self._waits)

    def add(self, wait: asyncio.Future[Answer], about: About) -> None:
        """Call `late` for this wait in `timeout_s` seconds, unless it is discarded before."""
        due_s = self._loop.time() + self.timeout_s
        self._waits[wait] = (due_s, about)
        if self._timer is None:
            self._timer = self._loop.call_at(due_s, self._due)

    def discard(self, wait: asyncio.Future[Answer]) -> None:
        """The wait has finished."""
        self._waits.pop(wait, None)

    def close(self) -> None:
        """Cancel the timer, unless waits are left: then the timer must still end them."""
        if self._timer is not None and not self._waits:
            self._timer.cancel()
            self._timer = None

    def _due(self) -> None:
        now_s = self._loop.time() + _EARLY_S
        self._timer = None
        late: list[tuple[asyncio.Future[Answer], About]] = []
        for wait, (due_s, about) in self._waits.items():
            if due_s > now_s:
                self._timer = self._loop.call_at(due_s, self._due)
                break
            late.append((wait, about))
        for wait, about in late:
            del self._waits[wait]
            self._late(wait, about, self.timeout_s)
