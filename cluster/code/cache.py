"""CodeCache: the unpacked code on one machine, from which parents and workers import.

    path(blob) ─► HOME/code/BLOB is there? ─► yes: that is it
                                           └► no: fetch, check the hash, unpack beside it, rename

1. One blob at a time is fetched and unpacked here: an archive takes up to 256 MiB of memory. Several processes may do
   it at once.
2. What no topology names any more is removed when it was not named for UNUSED_S, as far as this process has seen it: a
   submitter stores the code first, and then names it.
3. Removed code is renamed first: no process finds a part of it.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import shutil
from collections.abc import Collection
from pathlib import Path
from typing import TYPE_CHECKING, Final

from ...runtime import ProcessIdentity, make_folders
from .archive import temporary_of, unpack
from .blobs import check_digest, is_digest

if TYPE_CHECKING:
    from ...runtime import Clock
    from ..home import Home
    from .blobs import Blobs

log = logging.getLogger("aiostorm.cluster")

UNUSED_S: Final = 600.0


class CodeCache:
    """The code of this machine. `blobs`: where it is fetched from."""

    def __init__(self, home: Home, blobs: Blobs, clock: Clock) -> None:
        self._home = home
        self._blobs = blobs
        self._clock = clock
        self._one = asyncio.Lock()
        self._unused_since_s: dict[str, float] = {}

    async def path(self, blob: str) -> str:
        """The folder with the code of this SHA-256. BlobError, ArchiveError, StoreError, OSError."""
        folder = self._home.code(check_digest(blob))
        if not await asyncio.to_thread(folder.is_dir):
            async with self._one:
                if not await asyncio.to_thread(folder.is_dir):
                    data = await self._blobs.fetch(blob)
                    await asyncio.to_thread(_unpack, data, folder, blob)
        return str(folder)

    async def remove_unused(self, used: Collection[str]) -> None:
        """Remove code and blobs that are not in `used` since UNUSED_S. Call it again and again. StoreError, OSError."""
        now_s = self._clock.monotonic()
        folder = self._home.code("0").parent
        unpacked = await asyncio.to_thread(_folders, folder)
        stored = set(await self._blobs.names()) if await self._has_blobs() else set()
        unused = (stored | unpacked) - set(used)
        self._unused_since_s = {blob: self._unused_since_s.get(blob, now_s) for blob in unused}
        for blob in sorted(unused):
            if now_s - self._unused_since_s[blob] < UNUSED_S:
                continue
            await self._blobs.remove(blob)
            async with self._one:
                await asyncio.to_thread(_remove, self._home.code(blob))
            del self._unused_since_s[blob]
            log.info("code %s was removed: no topology uses it", blob)

    async def _has_blobs(self) -> bool:
        """A folder of blobs is made by the first that is stored."""
        return not self._blobs.folder or await asyncio.to_thread(os.path.isdir, self._blobs.folder)


def _unpack(data: bytes, folder: Path, blob: str) -> None:
    make_folders(str(folder.parent), mode=0o700)
    unpack(data, folder, f"the code {blob}")


def _folders(folder: Path) -> set[str]:
    """The unpacked code; what a process has left unfinished is removed."""
    found = set()
    with contextlib.suppress(FileNotFoundError), os.scandir(folder) as entries:
        for entry in entries:
            if is_digest(entry.name):
                found.add(entry.name)
            elif entry.name.startswith(".") and _has_ended(entry.name):
                shutil.rmtree(entry.path, ignore_errors=True)
    return found


def _has_ended(name: str) -> bool:
    """Has the process ended that works, or has worked, on this temporary folder?"""
    try:
        return ProcessIdentity.parse(name.rsplit(".", 2)[1]).has_ended
    except (ValueError, IndexError):  # not ours
        return False


def _remove(folder: Path) -> None:
    temporary = temporary_of(folder)
    with contextlib.suppress(FileNotFoundError):
        os.rename(folder, temporary)
        shutil.rmtree(temporary)
