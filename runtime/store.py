"""Store: the only way to storage that survives a crash: named blobs of bytes. A seam: a directory, or simulated.

    write(name, data)  ──►  visible to later reads  ──►  sync()  ──►  still there after a crash
    append(name, data)

1. Written data is visible at once to all users of this store object. Until `sync` has returned, a crash may undo it.
2. After a crash, a blob that was written is either the old or the new one, complete. A blob that was appended to has
   kept everything that was synced; of later data there is a prefix, whose end may be damaged: give each appended record
   its length and a checksum. Of several blobs, each may be old or new.
3. When `sync` returns, all earlier writes, appends and removals are durable. When it raises, it is unknown which are;
   the store then refuses every further call: a second try could report data as safe that the system has already
   discarded.
4. Calls may run concurrently; they take effect one after another, in the order in which they were made. A cancelled
   call may or may not have taken effect.
5. A name is 1 to 128 characters of A-Z a-z 0-9 _ . - and never a path, so it cannot lead out of the store. Any other
   name is a ValueError. A blob has at most `max_bytes`.

From: Flink's and Storm's local state (VersionedStore, LocalState) for the use; ALICE (OSDI 2014) and "Can Applications
Recover from fsync Failures?" (ATC 2020) for the guarantees that can be relied on.
"""

from __future__ import annotations

import re
from typing import Final, Protocol

MAX_BLOB_BYTES: Final = 64 * 1024 * 1024
"""The default size limit of a blob."""

_NAME: Final = re.compile(r"[A-Za-z0-9_.-]{1,128}")


class Store(Protocol):
    """Named blobs that survive a crash. Every method raises StoreError if the medium fails; see the module."""

    @property
    def max_bytes(self) -> int:
        """The size limit of a blob."""
        ...

    async def read(self, name: str) -> bytes | None:
        """The content of the blob; None if there is no such blob."""
        ...

    async def write(self, name: str, data: bytes) -> None:
        """Replace the whole blob, or create it. StoreError above `max_bytes`."""
        ...

    async def append(self, name: str, data: bytes) -> None:
        """Append to the blob, or create it. StoreError if it would exceed `max_bytes`: it is unchanged then."""
        ...

    async def remove(self, name: str) -> None:
        """Remove the blob, if there is one."""
        ...

    async def names(self, prefix: str = "") -> list[str]:
        """The sorted names that start with `prefix`."""
        ...

    async def sync(self) -> None:
        """Return when all earlier calls are durable."""
        ...


def check_blob_name(name: str) -> str:
    """The name if it is valid; else ValueError. Every store calls this first."""
    if not _NAME.fullmatch(name):
        raise ValueError(
            f"a blob's name must be 1 to 128 of A-Z a-z 0-9 _ . - (no slash, no space), not {name[:140]!r}"
        )
    return name
