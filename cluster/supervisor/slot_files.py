"""Slot files: which processes a supervisor has started, for one that is started after it.

    HOME/supervisors/ID/slots/HASH.worker-1.json     topology, process, generation, identity, boot
    HOME/supervisors/ID/lock                         held while the supervisor runs

1. A file is written before its process has a task, and removed after its end: no process with a task is unknown. That
   of a parent which has ended in order says so, and is kept while it is assigned.
2. It replaces the one before as a whole. It need not survive a crash of the machine: no process does.
3. A file that cannot be read is reported and removed: never fatal. Its process, if it runs, is not known then; a worker
   ends with its parent's lease.
4. One supervisor at a time has the folder.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import logging
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

from pydantic import TypeAdapter

from ...runtime import AiostormError, ProcessIdentity, boot_id, make_folders, write_file
from ..names import check_name
from .slots import Key
from .wanted import Rest

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

log = logging.getLogger("aiostorm.supervisor")

MAX_BYTES: Final = 4 * 1024
MAX_FILES: Final = 10_000
_SUFFIX: Final = ".json"


class DuplicateSupervisorError(AiostormError):
    """Another supervisor with this name runs: who, and what to do."""


@dataclass(frozen=True, slots=True)
class SlotNote:
    """A process that was started. `rest`: it is a parent that has ended in order: what it has run."""

    key: Key
    generation: int
    identity: ProcessIdentity
    rest: Rest | None = None


@dataclass(frozen=True, slots=True)
class _Content:
    """Of a slot file. `boot`: the start of the machine in which the process was started.

    `rest_of`: if it has ended in order, when its topology was submitted (Unix time).
    """

    topology: str
    process: str
    generation: int
    identity: str
    boot: str
    rest_of: float | None = None


class SlotFiles:
    """The slot files of one supervisor. `folder`: for them. `boot`: which start of the machine this is; None: this."""

    def __init__(self, folder: Path, boot: str | None = None) -> None:
        self._folder = folder
        self._boot = boot_id() if boot is None else boot

    @asynccontextmanager
    async def owned(self) -> AsyncIterator[None]:
        """Have the folder, which is made. DuplicateSupervisorError if another process has it; OSError."""
        fd = await asyncio.to_thread(self._lock)
        try:
            yield
        finally:
            os.close(fd)

    async def read(self) -> list[SlotNote]:
        """The processes that were started since the machine was. What cannot be read is removed. OSError."""
        return await asyncio.to_thread(self._read_all)

    async def write(self, note: SlotNote) -> None:
        """Keep it, in the place of the one before. OSError."""
        await asyncio.to_thread(self._write, note)

    async def remove(self, key: Key) -> None:
        """The process has ended."""
        await asyncio.to_thread(self._remove, self._path(key))

    # -- in a thread ---------------------------------------------------------------------------------------------------

    def _lock(self) -> int:
        make_folders(str(self._folder), mode=0o700)
        fd = os.open(self._folder.parent / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            if fcntl is not None:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            os.close(fd)
            raise DuplicateSupervisorError(
                f"another supervisor has the folder {self._folder.parent}: end it, or give this one another name (--id)"
            ) from error
        except BaseException:
            os.close(fd)
            raise
        return fd

    def _path(self, key: Key) -> Path:
        # A name of a topology may be longer than that of a file.
        return self._folder / f"{hashlib.sha256(key.topology.encode()).hexdigest()[:32]}.{key.process}{_SUFFIX}"

    def _write(self, note: SlotNote) -> None:
        key, rest_of = note.key, None if note.rest is None else note.rest.submitted_s
        content = _Content(key.topology, key.process, note.generation, str(note.identity), self._boot, rest_of)
        write_file(self._path(note.key), _adapter().dump_json(content))

    def _read_all(self) -> list[SlotNote]:
        notes: list[SlotNote] = []
        with os.scandir(self._folder) as entries:
            names = sorted(entry.name for _, entry in zip(range(MAX_FILES), entries, strict=False))
        for name in names:
            path = self._folder / name
            try:
                note, boot = _parse(_content(path))
                if path != self._path(note.key):
                    raise ValueError("it has the name of another process")
            except (ValueError, OSError) as error:
                log.warning("%s is no slot file, and is removed: %s", path, error)
                self._remove(path)
                continue
            if boot == self._boot or note.rest is not None:
                notes.append(note)
            else:
                self._remove(path)
        return notes

    def _remove(self, path: Path) -> None:
        try:
            with contextlib.suppress(FileNotFoundError):
                path.unlink()
        except OSError as error:
            log.warning("%s cannot be removed: %s", path, error.strerror or error)


def _content(path: Path) -> bytes:
    with open(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK), "rb") as file:
        data = file.read(MAX_BYTES + 1)
    if len(data) > MAX_BYTES:
        raise ValueError(f"it has more than {MAX_BYTES:,} bytes")
    return data


def _parse(data: bytes) -> tuple[SlotNote, str]:
    """The process, and the start of the machine in which it was started. ValueError."""
    found = _adapter().validate_json(data)
    check_name(found.topology)
    check_name(found.process)
    key = Key(found.topology, found.process)
    rest = None if found.rest_of is None else Rest(found.generation, found.rest_of)
    return SlotNote(key, found.generation, ProcessIdentity.parse(found.identity), rest), found.boot


@cache
def _adapter() -> TypeAdapter[_Content]:
    return TypeAdapter(_Content)
