"""ReopeningStore: a store that is opened again after a failed sync.

A store whose `sync` has failed refuses every further call (see runtime.store): what it wrote before may be lost.
Snapshots do not rely on it: a blob is written once, and counts only after a sync. So the next call opens it again.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from ..runtime import StoreError

if TYPE_CHECKING:
    from ..runtime import Store


class ReopeningStore:
    """The store that `open_store` opens: now, and again after a failed sync."""

    def __init__(self, open_store: Callable[[], Store]) -> None:
        self._open = open_store
        self._store: Store | None = open_store()
        self._closed = False
        self.max_bytes = self._store.max_bytes

    async def read(self, name: str) -> bytes | None:
        return await self._opened().read(name)

    async def write(self, name: str, data: bytes) -> None:
        await self._opened().write(name, data)

    async def append(self, name: str, data: bytes) -> None:
        await self._opened().append(name, data)

    async def remove(self, name: str) -> None:
        await self._opened().remove(name)

    async def names(self, prefix: str = "") -> list[str]:
        return await self._opened().names(prefix)

    async def sync(self) -> None:
        try:
            await self._opened().sync()
        except StoreError:
            await self._drop()
            raise

    async def close(self) -> None:
        """Release the place. Every later call is a StoreError."""
        self._closed = True
        await self._drop()

    async def _drop(self) -> None:
        store, self._store = self._store, None
        close = getattr(store, "close", None)  # a simulated store has none
        if close is not None:
            await close()

    def _opened(self) -> Store:
        if self._closed:
            raise StoreError("the store of snapshots is closed")
        if self._store is None:
            self._store = self._open()
        return self._store
