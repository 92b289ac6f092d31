"""Changes: wakes the callers that wait for any change in the workers of a running topology, or in one worker.

A change is not remembered: while no caller waits, `notify` has no effect. So a caller checks its condition and begins
to wait without an `await` in between.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

LEAST_WAIT_S: Final = 0.001


class Changes:
    """Each waiting caller checks its own condition again after each change."""

    def __init__(self) -> None:
        self._waiting: dict[asyncio.Future[None], None] = {}

    def notify(self) -> None:
        """Something has changed: wake all waiting callers."""
        for waiting in self._waiting:
            if not waiting.done():
                waiting.set_result(None)

    async def wait(self, *others: asyncio.Future[Any], timeout_s: float | None = None) -> None:
        """Wait until something may have changed, one of the others is done, or the time is over."""
        with self.next() as changed:
            await asyncio.wait((changed, *others), timeout=timeout_s, return_when=asyncio.FIRST_COMPLETED)

    @contextmanager
    def next(self) -> Iterator[asyncio.Future[None]]:
        """A future that the next `notify` completes."""
        changed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting[changed] = None
        try:
            yield changed
        finally:
            del self._waiting[changed]


def left_until(due_s: float, now_s: float) -> float:
    """How long to wait for a deadline: a moment at least, unless it is over.

    A rest that is too small for a float to move the time would be waited for again and again, without end in virtual
    time.
    """
    left_s = due_s - now_s
    return max(left_s, LEAST_WAIT_S) if left_s > 0 else 0.0
