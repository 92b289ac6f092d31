"""Reaper: ends a killed asyncio task within a bound, even if user code swallows CancelledError.

    killed (cancelled) ── timeout_s ──► cancelled again ── timeout_s ──► abandoned: the line where it hangs is reported

1. While a killed task waits for its killed children (`waits`), only their bounds count.
2. A coroutine cannot be ended by force: an abandoned one continues without effect until it accepts a cancellation.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from types import FrameType

from ..runtime import is_ours


class Reaper:
    """Watches one cancelled asyncio task until it has ended."""

    __slots__ = ("_cancel", "_give_up", "_handle", "_loop", "_timeout_s", "_waits", "_warned")

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        timeout_s: float,
        *,
        waits: Callable[[], bool],
        cancel: Callable[[], object],
        give_up: Callable[[], None],
    ) -> None:
        self._loop = loop
        self._timeout_s = timeout_s
        self._waits = waits
        self._cancel = cancel
        self._give_up = give_up
        self._warned = False
        self._handle: asyncio.TimerHandle | None = None

    def begin(self) -> None:
        """The task was cancelled, or has started its next step on the way to its end: the timeout starts now."""
        self.end()
        self._handle = self._loop.call_later(self._timeout_s, self._overdue)

    def end(self) -> None:
        """The task has ended."""
        if self._handle is not None:
            self._handle.cancel()
            self._handle = None

    def _overdue(self) -> None:
        if not self._waits():
            if self._warned:
                self._give_up()
                return
            self._warned = True
            self._cancel()
        self.begin()


def suspended_at(task: asyncio.Task[object]) -> str:
    """The line at which an asyncio task is suspended: in the innermost user code, if there is any."""
    found: FrameType | None = None
    awaited: object = task.get_coro()
    while awaited is not None:
        frame: FrameType | None = getattr(awaited, "cr_frame", None) or getattr(awaited, "gi_frame", None)
        if frame is not None and (found is None or not is_ours(frame.f_code.co_filename)):
            found = frame
        awaited = getattr(awaited, "cr_await", None) or getattr(awaited, "gi_yieldfrom", None)
    if found is None:
        return "an unknown place"
    return f'File "{found.f_code.co_filename}", line {found.f_lineno}, in {found.f_code.co_name}'
