"""Store: the one way to what survives a crash: named blobs of bytes. A seam: a directory really, or simulated.

    write(name, data)  ──►  what is read from now on  ──►  sync()  ──►  what is read after a crash, too
    append(name, data)

1. What was written is read at once, by whoever holds this store. Until `sync` has returned, a crash may undo it.
2. A blob that was written is, after a crash, the old one or the new one, whole. A blob that was appended to has lost
   nothing of what was synced; of what came later there is a part from its beginning, whose end may be damaged: whoever
   appends records gives each its length and a checksum. Of several blobs, any may be old and any new.
3. When `sync` returns, all that was written, appended and removed before it was called is durable. When it raises, it
   is not known what is; the store then refuses every further call: to try again could report as safe what the system
   has already thrown away.
4. Calls may run at once; they take effect one after another, in the order in which they were made. One that is
   cancelled may or may not have taken effect.
5. A name is 1 to 128 of A-Z a-z 0-9 _ . - and never a path, so no name leads out of the store. Anything else is a
   ValueError. A blob has at most `max_bytes`.

From: Flink's and Storm's local state (VersionedStore, LocalState) for the use; ALICE (OSDI 2014) and "Can Applications
Recover from fsync Failures?" (ATC 2020) for what may be relied on.
"""

from __future__ import annotations

import re
from typing import Final, Protocol

MAX_BLOB_BYTES: Final = 64 * 1024 * 1024
"""How large a blob may be unless the store is told otherwise."""

_NAME: Final = re.compile(r"[A-Za-z0-9_.-]{1,128}")


class Store(Protocol):
    """Named blobs that survive a crash. Every method raises StoreError when the medium fails; see the module."""

    @property
    def max_bytes(self) -> int:
        """The size that no blob exceeds."""
        ...

    async def read(self, name: str) -> bytes | None:
        """The blob; None if there is none."""
        ...

    async def write(self, name: str, data: bytes) -> None:
        """Put `data` in the place of the whole blob, or make it. StoreError above `max_bytes`."""
        ...

    async def append(self, name: str, data: bytes) -> None:
        """Put `data` at the end of the blob, or make it. StoreError if it exceeds `max_bytes` then: nothing is done."""
        ...

    async def remove(self, name: str) -> None:
        """There is no such blob any more. It need not have been there."""
        ...

    async def names(self, prefix: str = "") -> list[str]:
        """The names that begin so, sorted."""
        ...

    async def sync(self) -> None:
        """Return when all that was done before is durable."""
        ...


def check_blob_name(name: str) -> str:
    """The name, if a store may have it; ValueError if not. Every store calls it first."""
    if not _NAME.fullmatch(name):
        raise ValueError(f"a blob's name is 1 to 128 of A-Z a-z 0-9 _ . - (no slash, no space), not {name[:140]!r}")
    return name
