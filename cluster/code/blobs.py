"""Blobs: archives of code in a store, by their SHA-256: a folder of this machine, or a URL of fsspec.

1. What is stored under a hash has that hash: it is checked when it is stored, and again whenever it is fetched.
2. What is stored is never changed: storing the same again does nothing. What was damaged is replaced.
3. Several processes of several machines may use one place at the same time.
"""

from __future__ import annotations

import asyncio
import re
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Final, Self

from ...runtime import make_folders
from ...state import open_store
from .archive import MAX_BYTES, archive_of, digest
from .errors import BlobError

if TYPE_CHECKING:
    from ...runtime import ThreadedStore

_DIGEST: Final = re.compile(r"[0-9a-f]{64}")


class Blobs:
    """The blobs in a place. All methods raise StoreError if it cannot be used. `folder`: if it is one; else empty."""

    def __init__(self, where: str) -> None:
        self.where = where
        scheme, separator, path = where.partition("://")
        self.folder = where if not separator else path if scheme in ("file", "local") else ""
        self._store: ThreadedStore = open_store(where, shared=True, max_bytes=MAX_BYTES)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.close()

    async def put(self, code: Path | bytes) -> str:
        """Store an archive; a folder is packed. Returns the SHA-256. ArchiveError."""
        data = code if isinstance(code, bytes) else await asyncio.to_thread(archive_of, code)
        sha256 = await asyncio.to_thread(digest, data)
        if self.folder:
            await asyncio.to_thread(make_folders, self.folder, mode=0o700)
        stored = await self._store.read(sha256)
        if stored is None or stored != data:
            await self._store.write(sha256, data)
            await self._store.sync()
        return sha256

    async def fetch(self, sha256: str) -> bytes:
        """The archive with this hash. BlobError if there is none, or it is damaged."""
        data = await self._store.read(check_digest(sha256))
        if data is None:
            raise BlobError(f"{self.where} has no code with the SHA-256 {sha256}: submit the topology again")
        found = await asyncio.to_thread(digest, data)
        if found != sha256:
            raise BlobError(
                f"{self.where}: the code with the SHA-256 {sha256} is damaged (it has {found}): submit the same code "
                "again, which replaces it"
            )
        return data

    async def has(self, sha256: str) -> bool:
        """Is it stored?"""
        return check_digest(sha256) in await self._store.names(sha256)

    async def names(self) -> list[str]:
        """The hashes of all that are stored."""
        return [name for name in await self._store.names() if is_digest(name)]

    async def remove(self, sha256: str) -> None:
        """Remove one, if it is there."""
        await self._store.remove(check_digest(sha256))

    async def close(self) -> None:
        """Release the place."""
        await self._store.close()


def is_digest(text: str) -> bool:
    """Is it a SHA-256, in hexadecimal?"""
    return _DIGEST.fullmatch(text) is not None


def check_digest(sha256: str) -> str:
    """The SHA-256, in hexadecimal, if it is one: it becomes part of a path. BlobError."""
    if not is_digest(sha256):
        raise BlobError(f"a blob is named by its SHA-256, 64 digits of 0-9 a-f: not {sha256!r:.100}")
    return sha256
