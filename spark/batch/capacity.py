"""Capacity: how many more chunks may be read: at most `max_pending` are being read, ready, or emitted and not acked."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .partitions import Partitions


class Capacity:
    """The capacity of one task. Call `changed` after each change of `machine.open`."""

    def __init__(self, machine: Partitions, max_pending: int) -> None:
        self._machine = machine
        self._max_pending = max_pending
        self._in_read = 0
        self._changed = asyncio.Event()

    def changed(self) -> None:
        """Chunks were acked or given up: wake the readers that wait."""
        self._changed.set()

    @asynccontextmanager
    async def reserve(self, most: int) -> AsyncIterator[int]:
        """Wait until chunks may be read. Reserves 1 to `most` of them until the end of the block."""
        while (free := self._max_pending - self._machine.open - self._in_read) <= 0:
            self._changed.clear()
            await self._changed.wait()
        reserved = min(free, most)
        self._in_read += reserved
        try:
            yield reserved
        finally:
            self._in_read -= reserved
            self._changed.set()
