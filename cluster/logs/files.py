"""Log files: which ones a topology has here, and their lines, in bounded memory. Blocking: for a thread.

    LogFile: seek to the last lines ─► read in pieces ─► lines ─► … ─► again, to follow it

1. Memory is bounded, however large a file or a line is: a file is read in blocks, a long line is shown in pieces.
2. A file that is rotated (another one has its name) is read to its end, then the new one; one that was cut begins anew.
3. The part before, NAME.log.1, has the lines that are missing in the file.
4. What is a link or no file is not read: the code of a topology can put it there, and who may read logs is not one who
   may read the files of this user.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, Final

BLOCK_BYTES: Final = 65_536
MAX_LINE_BYTES: Final = 65_536
MAX_SENT_BYTES: Final = 4 * 1024 * 1024
SUFFIX: Final = ".log"
BEFORE: Final = ".1"

_FLAGS: Final = os.O_RDONLY | sum(
    getattr(os, name, 0) for name in ("O_NOFOLLOW", "O_NONBLOCK", "O_BINARY", "O_CLOEXEC")
)


def log_files(folder: Path) -> dict[str, Path]:
    """Process → its log, the parent first."""
    try:
        names = [name.removesuffix(SUFFIX) for name in os.listdir(folder) if name.endswith(SUFFIX)]
    except OSError:
        return {}
    return {name: folder / f"{name}{SUFFIX}" for name in sorted(names, key=lambda name: (len(name), name))}


def last_lines(folder: Path, process: str, lines: int) -> dict[str, list[str]]:
    """Process (empty: all) → its last lines, at most MAX_SENT_BYTES of them together. A process is never a path."""
    found = log_files(folder)
    if process:
        found = {name: path for name, path in found.items() if name == process}
    left, read = MAX_SENT_BYTES, dict[str, list[str]]()
    for name, path in found.items():
        file = LogFile(path, lines)
        try:
            kept = read[name] = list[str]()
            for line in file.read(at_end=True):
                left -= len(line)
                if left < 0:
                    return read
                kept.append(line)
        finally:
            file.close()
    return read


class LogFile:
    """A log that is read. It begins with its last `lines`; None: with its first."""

    def __init__(self, path: Path, lines: int | None) -> None:
        self._path = path
        self._rest = b""
        self._file = opened(path)
        self._before: BinaryIO | None = None
        if self._file is not None and lines is not None:
            start, missing = start_of(self._file, lines)
            self._file.seek(start)
            self._before = _opened_before(path, missing)

    def read(self, *, at_end: bool = False) -> Iterator[str]:
        """The lines that have come, without their ends. `at_end`: also one that is not complete."""
        if self._before is not None:
            with self._before as before:
                self._before = None
                yield from self._lines(before)
        if self._file is None:
            self._file = opened(self._path)
        while self._file is not None:
            yield from self._lines(self._file)
            if not self._changed(self._file):
                break
        if at_end and self._rest:
            yield text_of(self._rest)
            self._rest = b""

    def close(self) -> None:
        """Read no longer."""
        for file in (self._before, self._file):
            if file is not None:
                file.close()

    def _lines(self, file: BinaryIO) -> Iterator[str]:
        if os.fstat(file.fileno()).st_size < file.tell():  # it was cut
            file.seek(0)
            self._rest = b""
        while block := file.read(BLOCK_BYTES):
            *lines, rest = (self._rest + block).split(b"\n")
            for line in lines:
                yield text_of(line)
            while len(rest) > MAX_LINE_BYTES:
                yield text_of(rest[:MAX_LINE_BYTES])
                rest = rest[MAX_LINE_BYTES:]
            self._rest = rest

    def _changed(self, file: BinaryIO) -> bool:
        """Has another file its name? Then that one is open now."""
        own = os.fstat(file.fileno())
        try:
            found = os.stat(self._path)
        except FileNotFoundError:
            return False
        if (found.st_dev, found.st_ino) == (own.st_dev, own.st_ino):
            return False
        other = opened(self._path)
        if other is None:
            return False
        file.close()
        self._file, self._rest = other, b""
        return True


def start_of(file: BinaryIO, lines: int) -> tuple[int, int]:
    """Where the last `lines` of a file begin, and how many of them it does not have."""
    at = end = file.seek(0, os.SEEK_END)
    if not lines:
        return end, 0
    missing = lines
    while at > 0:
        size_bytes = min(BLOCK_BYTES, at)
        at = file.seek(at - size_bytes)
        block = file.read(size_bytes)
        place = len(block)
        if at + place == end and block.endswith(b"\n"):  # the end of the last line begins none
            place -= 1
        while (place := block.rfind(b"\n", 0, place)) >= 0:
            missing -= 1
            if not missing:
                return at + place + 1, 0
    return 0, missing - (1 if end else 0)


def _opened_before(path: Path, lines: int) -> BinaryIO | None:
    """The part before of a log, at its last `lines`; None: there is none, or nothing of it is missing."""
    file = opened(Path(f"{path}{BEFORE}")) if lines else None
    if file is not None:
        file.seek(start_of(file, lines)[0])
    return file


def opened(path: Path) -> BinaryIO | None:
    """None: it is not there, perhaps just between two files; or it is a link or no file, and not read."""
    with contextlib.suppress(FileNotFoundError):
        # Without O_NOFOLLOW (Windows) lstat refuses a link; both, because the file may be replaced in between.
        if not stat.S_ISREG(os.lstat(path).st_mode):
            return None
        try:
            file = open(os.open(path, _FLAGS), "rb")  # noqa: SIM115 - who asks for it closes it
        except OSError as error:
            if error.errno == errno.ELOOP:
                return None
            raise
        if stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            return file
        file.close()
    return None


def text_of(line: bytes) -> str:
    """A line, which may be no UTF-8."""
    return line.removesuffix(b"\r").decode(errors="backslashreplace")
