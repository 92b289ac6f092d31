"""Files: whole files that replace others, durable folders. Blocking: for a thread, or where no event loop runs.

    with NewFile(temporary) as new:
        new.write(data)
        new.sync()                  # if it must survive a crash of the machine
        new.replace(path)           # or new.link(path): an existing file stays

1. A reader finds the old file or the new one, never a part. Without `replace` or `link`, and after an error, the
   temporary file is removed.
2. A new file is private from its beginning (mode 0600, whatever the umask) unless another mode is given. A file or a
   link that is left under the temporary name is removed, and never written through.
3. A rename survives a crash once its folder is synced: `sync_folder`.

From: "Files are hard" (what fsync and rename promise).
"""

from __future__ import annotations

import contextlib
import os
from types import TracebackType
from typing import Final, Self

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

OPEN_FLAGS: Final = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)
"""Symbolic links are not followed, and child processes do not get the file."""


class NewFile:
    """A file under a temporary name, in the folder of the file that it will be. OSError if it cannot be made."""

    def __init__(self, temporary: str | os.PathLike[str], *, mode: int = 0o600) -> None:
        self._path = os.fspath(temporary)
        self._fd: int | None
        self._placed = False
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | OPEN_FLAGS
        try:
            self._fd = os.open(self._path, flags, mode)
        except FileExistsError:  # of a process that was killed
            os.unlink(self._path)
            self._fd = os.open(self._path, flags, mode)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        try:
            self._close()
        finally:
            if not self._placed:
                with contextlib.suppress(OSError):
                    os.unlink(self._path)

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Append bytes, or what has a buffer of them."""
        write_all(self._open(), data)

    def sync(self) -> None:
        """Return when the content is durable."""
        sync_file(self._open())

    def replace(self, path: str | os.PathLike[str]) -> None:
        """Give the file this name, in the place of a file that has it."""
        self._close()  # Windows cannot rename an open file
        os.replace(self._path, path)
        self._placed = True

    def link(self, path: str | os.PathLike[str]) -> bool:
        """Give the file this name, unless a file has it: returns False then."""
        self._close()
        try:
            os.link(self._path, path)
        except FileExistsError:
            return False
        return True

    def _open(self) -> int:
        if self._fd is None:
            raise ValueError("the file is closed")
        return self._fd

    def _close(self) -> None:
        fd, self._fd = self._fd, None
        if fd is not None:
            os.close(fd)


def write_file(
    path: str | os.PathLike[str], data: bytes, *, mode: int = 0o600, temporary: str | os.PathLike[str] | None = None
) -> None:
    """Write a whole file, in the place of one that is there. `temporary`: its name until then; `path.new` if None."""
    with NewFile(f"{os.fspath(path)}.new" if temporary is None else temporary, mode=mode) as new:
        new.write(data)
        new.replace(path)


def why_unwritable(path: str | os.PathLike[str]) -> str:
    """Why `write_file` would fail here, as far as that can be known before; empty if it would not."""
    folder = os.path.dirname(os.path.abspath(path))
    if os.path.isdir(path):
        return f"{os.fspath(path)} is a folder"
    if not os.path.isdir(folder):
        return f"there is no folder {folder}"
    return "" if os.access(folder, os.W_OK) else f"nothing can be written in {folder}"


def write_all(fd: int, data: bytes | bytearray | memoryview) -> None:
    """Write all bytes to a file descriptor."""
    rest = memoryview(data).cast("B")
    while rest:
        rest = rest[os.write(fd, rest) :]


def sync_file(fd: int) -> None:
    """Return when what was written to the file descriptor is durable."""
    # On macOS, fsync leaves the data in the drive's cache; F_FULLFSYNC does not.
    full = getattr(fcntl, "F_FULLFSYNC", None)
    if full is None or fcntl is None:
        os.fsync(fd)
    else:
        fcntl.fcntl(fd, full)


def sync_folder(path: str) -> None:
    """Return when names that were given or removed in the folder are durable."""
    if os.name == "nt":
        return  # Windows cannot open a folder; a rename is in its journal
    fd = os.open(path, os.O_RDONLY | getattr(os, "O_DIRECTORY", 0) | getattr(os, "O_CLOEXEC", 0))
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def make_folders(path: str, *, mode: int = 0o777) -> None:
    """Make the folder and its missing parents, durably. The mode is that of the folder itself."""
    missing = []
    while not os.path.isdir(path) and path != os.path.dirname(path):
        missing.append(path)
        path = os.path.dirname(path)
    for number, folder in enumerate(reversed(missing), start=1):
        os.makedirs(folder, mode=mode if number == len(missing) else 0o777, exist_ok=True)
        sync_folder(os.path.dirname(folder))
