"""ThreadedStore: a store whose blocking operations are done in one thread of its own.

    await store.write(…) ─► the thread: check of the size ─► BlobFiles.write

1. The event loop never waits for the medium, and calls take effect in the order in which they were made, even if a
   caller is cancelled.
2. `close` comes after all earlier calls; every later call is a StoreError.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import ParamSpec, Protocol, TypeVar

from .errors import StoreError
from .store import check_blob_name
from .threads import in_thread

P = ParamSpec("P")
T = TypeVar("T")


class BlobFiles(Protocol):
    """The operations of a store: blocking, one call at a time. All raise StoreError."""

    def read(self, name: str) -> bytes | None:
        """The content of the blob; None if there is no such blob."""
        ...

    def write(self, name: str, data: bytes) -> None:
        """Replace the whole blob, or create it."""
        ...

    def append(self, name: str, data: bytes) -> None:
        """Append to the blob, or create it."""
        ...

    def remove(self, name: str) -> None:
        """Remove the blob, if there is one."""
        ...

    def names(self, prefix: str) -> list[str]:
        """The sorted names that start with `prefix`."""
        ...

    def sync(self) -> None:
        """Make all earlier calls durable."""
        ...

    def close(self) -> None:
        """Release what was opened."""
        ...


class ThreadedStore:
    """Blobs in `files`, at most `max_bytes` each. `where`: its place, for errors. `close` ends the thread."""

    def __init__(self, files: BlobFiles, where: str, max_bytes: int) -> None:
        if max_bytes < 1:
            raise ValueError(f"a blob needs at least 1 byte: max_bytes={max_bytes}")
        self.max_bytes = max_bytes
        self.where = where
        self._files = files
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="aiostorm-store")
        self._closed = False

    async def read(self, name: str) -> bytes | None:
        """The content of the blob; None if there is no such blob."""
        return await self._do(self._files.read, check_blob_name(name))

    async def write(self, name: str, data: bytes) -> None:
        """Replace the whole blob, or create it. StoreError above `max_bytes`."""
        await self._do(self._files.write, check_blob_name(name), bytes(data))

    async def append(self, name: str, data: bytes) -> None:
        """Append to the blob, or create it. StoreError if it would exceed `max_bytes`: it is unchanged then."""
        await self._do(self._files.append, check_blob_name(name), bytes(data))

    async def remove(self, name: str) -> None:
        """Remove the blob, if there is one."""
        await self._do(self._files.remove, check_blob_name(name))

    async def names(self, prefix: str = "") -> list[str]:
        """The sorted names that start with `prefix`."""
        return await self._do(self._files.names, prefix and check_blob_name(prefix))

    async def sync(self) -> None:
        """Return when all earlier calls are durable."""
        await self._do(self._files.sync)

    async def close(self) -> None:
        """Release the place after the earlier calls; it does not sync. A second call has no effect."""
        if not self._closed:
            self._closed = True
            closing = asyncio.get_running_loop().run_in_executor(self._thread, self._files.close)
            self._thread.shutdown(wait=False)
            await asyncio.shield(closing)

    async def _do(self, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        if self._closed:
            raise StoreError(f"the store in {self.where} is closed: open another one")
        return await in_thread(lambda: work(*args, **kwargs), self._thread)


def check_size(where: str, name: str, size_bytes: int, max_bytes: int) -> None:
    """StoreError if a blob of this size is too large for the store."""
    if size_bytes > max_bytes:
        raise StoreError(
            f"{where}: the blob {name} would have more than {max_bytes:,} bytes: split it into several blobs, or open "
            "the store with a larger max_bytes"
        )
