"""Changes: wakes the callers of a running topology that wait for any change in its workers."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager


class Changes:
    """Each waiting caller checks its own condition again after each change."""

    def __init__(self) -> None:
        self._waiting: dict[asyncio.Future[None], None] = {}

    def notify(self) -> None:
        """Something has changed: wake all waiting callers."""
        for waiting in self._waiting:
            if not waiting.done():
                waiting.set_result(None)

    async def wait(self, ended: asyncio.Future[None] | None = None, timeout_s: float | None = None) -> None:
        """Wait until something may have changed, `ended` is done, or the time is over."""
        with self.next() as changed:
            waited: set[asyncio.Future[None]] = {changed} if ended is None else {changed, ended}
            await asyncio.wait(waited, timeout=timeout_s, return_when=asyncio.FIRST_COMPLETED)

    @contextmanager
    def next(self) -> Iterator[asyncio.Future[None]]:
        """A future that the next `notify` completes."""
        changed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting[changed] = None
        try:
            yield changed
        finally:
            del self._waiting[changed]
