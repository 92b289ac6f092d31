"""Uploads: code that clients send, in files of this process, until it is submitted.

1. A file is named by this process and a number; nothing of the client's is in its path. It is private, bounded by the
   size that was announced, and removed with its connection.
2. Its SHA-256 must be the announced one.
3. Files of processes that were killed are removed by the next one.
"""

from __future__ import annotations

import asyncio
import hashlib
import itertools
from pathlib import Path
from typing import Final, Self

from ...runtime import NewFile, make_folders
from ..access import PIECE_BYTES, RequestError
from ..code import MAX_BYTES, ArchiveError, check_digest
from ..stale_files import own_name, remove, sweep

MAX_UPLOADS: Final = 8
"""At a time: each may have MAX_BYTES on the disk."""


class Uploads:
    """The folder with the files."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._numbers = itertools.count()
        self._open = 0
        self._ready = False

    async def begin(self, size_bytes: int, sha256: str) -> UploadedFile:
        """A file for code of this size and SHA-256. RequestError, ArchiveError, BlobError; OSError."""
        check_digest(sha256)
        if not 0 < size_bytes <= MAX_BYTES:
            raise ArchiveError(f"code has 1 to {MAX_BYTES:,} bytes, not {size_bytes:,}")
        if self._open >= MAX_UPLOADS:
            raise RequestError(f"{MAX_UPLOADS} clients send code now: try again")
        self._open += 1
        try:
            if not self._ready:
                await asyncio.to_thread(self._make)
            path = self._folder / f"{own_name('code-')}{next(self._numbers)}"
            return UploadedFile(self, path, size_bytes, sha256)
        except BaseException:
            self._open -= 1
            raise

    def ended(self) -> None:
        """One of them is closed."""
        self._open -= 1

    def _make(self) -> None:
        make_folders(str(self._folder), mode=0o700)
        sweep(self._folder, "code-")
        self._ready = True


class UploadedFile:
    """Code that arrives. `path`: complete once `whole`."""

    def __init__(self, uploads: Uploads, path: Path, size_bytes: int, sha256: str) -> None:
        self.path = path
        self.whole = False
        self._uploads: Uploads | None = uploads
        self._left = size_bytes
        self._sha256 = sha256
        self._hash = hashlib.sha256()
        self._file = NewFile(f"{path}.part")

    async def add(self, piece: bytes) -> bool:
        """The next piece. Is it whole now? ArchiveError if it is not what was announced; OSError."""
        if not 0 < len(piece) <= min(PIECE_BYTES, self._left):
            raise ArchiveError(f"a piece of {len(piece):,} bytes of code, of which {self._left:,} bytes are missing")
        self._left -= len(piece)
        await asyncio.to_thread(self._write, piece)
        if self._left:
            return False
        if self._hash.hexdigest() != self._sha256:
            raise ArchiveError("the code that has arrived has another SHA-256 than was announced: send it again")
        await asyncio.to_thread(self._file.replace, self.path)
        self.whole = True
        return True

    async def close(self) -> None:
        """Remove it. A second call does nothing."""
        uploads, self._uploads = self._uploads, None
        if uploads is not None:
            uploads.ended()
            await asyncio.to_thread(self._remove)

    def _write(self, piece: bytes) -> None:
        self._file.write(piece)
        self._hash.update(piece)

    def _remove(self) -> None:
        with self._file:
            pass  # an incomplete one is removed by that
        remove(self.path)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *ended: object) -> None:
        await self.close()
