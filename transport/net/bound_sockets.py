"""Bound sockets: the sockets that a network listens on, and the files of unix sockets, for this user only.

1. They are made here, not by the event loop, so that connections are counted before anything is allocated for them.
2. A unix socket's file has mode 0600, in a directory that belongs to this user and has mode 0700: on some systems only
   the directory's mode counts. A missing directory is created; an existing one that is open to others is an error that
   says what to do.
3. A process that was killed leaves its socket file behind: such a file is replaced. If another process listens on it,
   the address is taken.
4. The file is removed when the socket is closed, if it is still the same file.
"""

from __future__ import annotations

import asyncio
import os
import socket
import stat
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from ..errors import NetworkError

if TYPE_CHECKING:
    from .addresses import TcpAddress

BACKLOG: Final = 256
"""Connections that the kernel keeps until they are accepted."""

MAX_PATH_BYTES: Final = 107
"""The kernel's limit, without the final zero byte. Some systems allow three bytes less and raise an error."""


class BoundSocket:
    """A listening socket, and its file if it has one."""

    def __init__(self, listening: socket.socket, path: str | None = None) -> None:
        self.socket = listening
        self._path = path
        self._identity = None if path is None else _identity(path)
        listening.listen(BACKLOG)
        listening.setblocking(False)

    def close(self) -> None:
        """Stop listening. A second call does nothing."""
        self.socket.close()
        if self._path is not None and self._identity is not None and _identity(self._path) == self._identity:
            os.unlink(self._path)
        self._identity = None


def bound_tcp(ips: Sequence[str], port: int) -> list[BoundSocket]:
    """A listening socket for each address. NetworkError if one of them cannot be bound."""
    bound: list[BoundSocket] = []
    try:
        for ip in ips:
            made = socket.socket(socket.AF_INET6 if ":" in ip else socket.AF_INET, socket.SOCK_STREAM)
            try:
                if os.name == "posix":
                    made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                if made.family == socket.AF_INET6:
                    made.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
                made.bind((ip, port))
                bound.append(BoundSocket(made))
            except BaseException:
                made.close()
                raise
    except OSError as error:
        for one in bound:
            one.close()
        raise NetworkError(f"cannot listen at {', '.join(ips)} port {port}: {error.strerror or error}") from error
    return bound


async def resolved(address: TcpAddress) -> list[str]:
    """The IP addresses of a host; of port 0 only the first. NetworkError if there is none."""
    if address.ip is not None:
        return [address.host]
    try:
        found = await asyncio.get_running_loop().getaddrinfo(address.host, address.port, type=1)
    except OSError as error:
        raise NetworkError(f"{address}: {error.strerror or error}") from error
    ips = list(dict.fromkeys(str(one[4][0]) for one in found))
    return ips[:1] if address.port == 0 else ips  # port 0: the system chooses a port for one address only


async def bound_unix(path: str) -> BoundSocket:
    """A listening socket with that file. NetworkError if it cannot be bound, or another process listens there."""
    if not hasattr(socket, "AF_UNIX"):
        raise NetworkError(f"unix:{path}: this system's Python has no unix sockets: use 127.0.0.1:0")
    if len(os.fsencode(path)) > MAX_PATH_BYTES:
        raise NetworkError(f"unix:{path}: a socket's path has at most {MAX_PATH_BYTES} bytes: choose a shorter one")
    try:
        _check_directory(os.path.dirname(path))
        if await _is_stale(path):
            os.unlink(path)
        return BoundSocket(_bound_file(path), path)
    except OSError as error:
        raise NetworkError(f"cannot listen at unix:{path}: {error.strerror or error}") from error


def _check_directory(directory: str) -> None:
    try:
        os.mkdir(directory, 0o700)
    except FileExistsError:
        found = os.stat(directory)
        if found.st_uid != os.geteuid() or found.st_mode & 0o077:
            raise NetworkError(
                f"others may access {directory}: give the socket a directory that belongs to you and is closed to "
                f"others: mkdir -m 700 {directory}/sockets"
            ) from None


async def _is_stale(path: str) -> bool:
    """Is the file a socket that no process listens on? NetworkError if it is another file, or a process listens."""
    try:
        found = os.lstat(path)
    except FileNotFoundError:
        return False
    if not stat.S_ISSOCK(found.st_mode):
        raise NetworkError(f"{path} exists and is no socket: choose another path")
    try:
        transport, _ = await asyncio.get_running_loop().create_unix_connection(asyncio.Protocol, path)
    except ConnectionRefusedError:
        return True
    except FileNotFoundError:
        return False
    transport.abort()
    raise NetworkError(f"another process listens at unix:{path} already")


def _bound_file(path: str) -> socket.socket:
    made = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    before = os.umask(0o177)
    try:
        made.bind(path)
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
