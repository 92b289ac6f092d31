"""Socket files: what a unix socket is reached by, for this user only.

1. The file is 0600, in a directory that is ours and 0700: on some systems the directory's mode alone counts. A
   directory that is not there is made; one that is there, and is open to others, is an error that says what to do.
2. Of a process that ended without removing it, a file stays that nobody listens behind: it is replaced. One that is
   listened behind is taken.
3. It is removed when the listener closes, if it is still the same file.
"""

from __future__ import annotations

import asyncio
import os
import socket
import stat
from typing import Final, Self

from .errors import NetworkError

MAX_PATH_BYTES: Final = 107
"""The kernel's, with an end of text: some have three less, and say so themselves."""


class SocketFile:
    """A socket that is bound to its file."""

    def __init__(self, path: str, bound: socket.socket) -> None:
        self.path = path
        self.socket = bound
        self._identity = _identity(path)

    @classmethod
    async def bind(cls, path: str) -> Self:
        """Make the file. NetworkError if it cannot be, or somebody listens there."""
        if not hasattr(socket, "AF_UNIX"):
            raise NetworkError(f"unix:{path}: this system's Python has no unix sockets: use 127.0.0.1:0")
        if len(os.fsencode(path)) > MAX_PATH_BYTES:
            raise NetworkError(f"unix:{path}: a socket's path has at most {MAX_PATH_BYTES} bytes: choose a shorter one")
        try:
            _check_directory(os.path.dirname(path))
            if await _is_stale(path):
                os.unlink(path)
            return cls(path, _bound(path))
        except OSError as error:
            raise NetworkError(f"cannot listen at unix:{path}: {error.strerror or error}") from error

    def remove(self) -> None:
        """It is not needed any more."""
        if self._identity is not None and _identity(self.path) == self._identity:
            os.unlink(self.path)
        self._identity = None


def _check_directory(directory: str) -> None:
    try:
        os.mkdir(directory, 0o700)
    except FileExistsError:
        found = os.stat(directory)
        if found.st_uid != os.geteuid() or found.st_mode & 0o077:
            raise NetworkError(
                f"others may reach into {directory}: give the socket a directory of its own, that is yours and "
                f"closed to others: mkdir -m 700 {directory}/sockets"
            ) from None


async def _is_stale(path: str) -> bool:
    """Is there a socket's file that nobody listens behind? NetworkError if it is another file, or somebody does."""
    try:
        found = os.lstat(path)
    except FileNotFoundError:
        return False
    if not stat.S_ISSOCK(found.st_mode):
        raise NetworkError(f"{path} is there, and is no socket: choose another path")
    try:
        transport, _ = await asyncio.get_running_loop().create_unix_connection(asyncio.Protocol, path)
    except ConnectionRefusedError:
        return True
    except FileNotFoundError:
        return False
    transport.abort()
    raise NetworkError(f"somebody listens at unix:{path} already")


def _bound(path: str) -> socket.socket:
    made = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    before = os.umask(0o177)
    try:
        made.bind(path)
        made.setblocking(False)
    except BaseException:
        made.close()
        raise
    finally:
        os.umask(before)
    return made


def _identity(path: str) -> tuple[int, int] | None:
    try:
        found = os.lstat(path)
    except FileNotFoundError:
        return None
    return found.st_dev, found.st_ino
