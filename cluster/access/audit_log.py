"""Audit log: the file with the lines of `audit`, in two parts of a bounded size.

1. It belongs to this user and has the mode 0600. When it has MAX_BYTES it becomes NAME.1, and replaces the one before.
2. `ordered` is around a change: where no line can be written, nothing is changed. A line that cannot be written after
   that is in the log of the process.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import platform
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Final

from ...runtime import OPEN_FLAGS, AiostormError, make_folders, sync_folder
from .audit import Change, line_of
from .errors import DeniedError, RequestError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable
    from pathlib import Path

log = logging.getLogger("aiostorm.access")

MAX_BYTES: Final = 16 * 1024 * 1024
"""Of each of the two parts."""

_FLAGS: Final = os.O_WRONLY | os.O_CREAT | os.O_APPEND | OPEN_FLAGS


class AuditError(AiostormError):
    """No line can be written: nothing is changed."""


class AuditLog:
    """The file at this path."""

    def __init__(self, path: Path, *, max_bytes: int = MAX_BYTES) -> None:
        self.path = path
        self._max_bytes = max_bytes
        self._one = asyncio.Lock()

    @asynccontextmanager
    async def ordered(self, change_of: Callable[[str], Change]) -> AsyncIterator[None]:
        """A change is made inside. `change_of`: of how it has ended. AuditError if no line can be written."""
        await self.check()
        result = "failed: it was cancelled"
        try:
            yield
            result = "done"
        except (DeniedError, RequestError) as error:
            result = f"refused: {error}"
            raise
        except Exception as error:
            result = f"failed: {error}"
            raise
        finally:
            await self.add(change_of(result))

    async def check(self) -> None:
        """AuditError if no line can be written. The folder is made if it is not there."""
        async with self._one:
            await asyncio.to_thread(self._check)

    async def add(self, change: Change) -> None:
        """Write a line. It is not lost if that fails: the log of this process has it."""
        line = line_of(change)
        async with self._one:
            try:
                await asyncio.to_thread(self._append, line)
            except OSError as error:
                log.error("%s: %s; the line: %s", self.path, error.strerror or error, line.decode().rstrip())

    def _check(self) -> None:
        try:
            make_folders(str(self.path.parent), mode=0o700)
            os.close(os.open(self.path, _FLAGS, 0o600))
        except OSError as error:
            raise AuditError(
                f"the audit log cannot be written ({error.strerror or error}), and without it nothing is changed: "
                f"see to {self.path} on {platform.node()}"
            ) from error

    def _append(self, line: bytes) -> None:
        descriptor = os.open(self.path, _FLAGS, 0o600)
        try:
            if os.fstat(descriptor).st_size + len(line) > self._max_bytes:
                os.close(descriptor)
                descriptor = -1
                with contextlib.suppress(FileNotFoundError):  # another nimbus has just renamed it
                    os.replace(self.path, f"{self.path}.1")
                sync_folder(str(self.path.parent))
                descriptor = os.open(self.path, _FLAGS, 0o600)
            os.write(descriptor, line)
        finally:
            if descriptor >= 0:
                os.close(descriptor)
