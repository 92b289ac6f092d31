"""Pieces: the next lines of each process of a topology on this machine, after a cursor. Blocking: for a thread.

    asked: process → cursor ─► NAME.log.1, then NAME.log ─► lines, and the cursor after them

1. Who asks keeps the cursors: nothing of a reader is kept here between two requests, however slow it is.
2. A piece has at most MAX_PIECE_BYTES of all processes together, each with its share; a long line comes in parts.
3. A cursor names a file by its inode, so a log that was renamed is read to its end before the next one. One that was
   cut while its process runs begins anew: `missed` says that lines may be missing.
4. No path is made of what is asked: a process is one of those that the folder has. A cursor is three numbers.
"""

from __future__ import annotations

import contextlib
import os
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO, ClassVar, Final, NamedTuple, Self

from pydantic import ConfigDict

from .files import BEFORE, log_files, opened, start_of, text_of

MAX_PIECE_BYTES: Final = 128 * 1024
"""Written as JSON, it fits into a frame even if each byte is none of UTF-8."""

MAX_PROCESSES: Final = 1_000
MIN_SHARE_BYTES: Final = 128

_NAME: Final = re.compile(r"parent|worker-[0-9]{1,6}")
_CURSOR: Final = re.compile(r"([0-9]{1,20})\.([0-9]{1,20})\.([0-9]{1,20})")


@dataclass(frozen=True, slots=True)
class LogsAsked:
    """Of which topology. `process`: empty: all. `cursors`: process → up to where its lines are known.

    `lines`: how many of the last lines of a process without a cursor; None: all of its present file. `at_end`: also a
    last line that is not complete.
    """

    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(extra="forbid", strict=True)

    name: str
    process: str = ""
    cursors: dict[str, str] = field(default_factory=dict)
    lines: int | None = 100
    at_end: bool = False


@dataclass(frozen=True, slots=True)
class ProcessLines:
    """The next lines of a process. `cursor`: for the next request. `more`: there are more lines now.

    `missed`: its log was cut, or replaced, since the cursor: lines before these may be missing.
    """

    process: str
    lines: tuple[str, ...]
    cursor: str
    more: bool = False
    missed: bool = False


class _Cursor(NamedTuple):
    """`file`: an inode. `before`: which file NAME.log.1 was then; 0: none, or it is that one. `at`: bytes."""

    file: int
    before: int
    at: int

    @classmethod
    def read(cls, text: str) -> Self:
        """ValueError for a text that is none."""
        found = _CURSOR.fullmatch(text)
        if found is None:
            raise ValueError(f"{text!r:.80} is no cursor of a log")
        return cls(*map(int, found.groups()))

    def __str__(self) -> str:
        return f"{self.file}.{self.before}.{self.at}"


def read_pieces(folder: Path, asked: LogsAsked) -> list[ProcessLines]:
    """The next lines of the processes whose logs are in this folder, the parent first. ValueError; OSError."""
    cursors = {process: _Cursor.read(text) for process, text in asked.cursors.items()}
    if asked.lines is not None and asked.lines < 0:
        raise ValueError(f"the last lines are 0 or more, not {asked.lines}")
    found = {name: path for name, path in log_files(folder).items() if _NAME.fullmatch(name)}
    names = [name for name in found if asked.process in ("", name)][:MAX_PROCESSES]
    share = max(MIN_SHARE_BYTES, MAX_PIECE_BYTES // max(1, len(names)))
    return [_next(found[name], name, cursors.get(name), asked, share) for name in names]


def _next(path: Path, process: str, cursor: _Cursor | None, asked: LogsAsked, left: int) -> ProcessLines:
    with contextlib.ExitStack() as stack:
        current, before = opened(path), opened(Path(f"{path}{BEFORE}"))
        for file in (current, before):
            if file is not None:
                stack.callback(file.close)
        if current is None:  # just between two files, or no file
            return ProcessLines(process, (), "" if cursor is None else str(cursor))
        place = _Files(current, before)
        if cursor is None:
            at, missed = place.start(asked.lines), False
        else:
            at, missed = place.after(cursor)
        lines: list[str] = []
        more = False
        if at.file is before:
            data = _read(at.file, at.at, left)
            more = len(data) == left
            taken = _whole(data, full=more, at_end=not more)
            lines += _split(data[:taken])
            left -= taken
            at = _At(at.file, at.at + taken) if more else _At(current, 0)
        if at.file is current and left > 0:
            data = _read(current, at.at, left)
            more = len(data) == left
            taken = _whole(data, full=more, at_end=asked.at_end)
            lines += _split(data[:taken])
            at = _At(current, at.at + taken)
        return ProcessLines(process, tuple(lines), str(place.cursor(at)), more, missed)


class _At(NamedTuple):
    """A place in one of the two files of a log."""

    file: BinaryIO
    at: int


class _Files:
    """The two files of a log: the present one, and the part before."""

    def __init__(self, current: BinaryIO, before: BinaryIO | None) -> None:
        self._current = current
        self._before = before
        found = os.fstat(current.fileno())
        self._inode, self._size = found.st_ino, found.st_size
        self._before_inode = self._before_mark = 0
        if before is not None:
            part = os.fstat(before.fileno())
            self._before_inode, self._before_mark = part.st_ino, part.st_ino + part.st_mtime_ns

    def start(self, lines: int | None) -> _At:
        """Where the last lines begin; None: at the first of the present file."""
        if lines is None:
            return _At(self._current, 0)
        at, missing = start_of(self._current, lines)
        if missing and self._before is not None:
            return _At(self._before, start_of(self._before, missing)[0])
        return _At(self._current, at)

    def after(self, cursor: _Cursor) -> tuple[_At, bool]:
        """Where a cursor is now, and whether lines may be missing before it."""
        if cursor.file == self._inode:
            cut = cursor.at > self._size or cursor.before != self._before_mark
            return _At(self._current, 0 if cut else cursor.at), cut
        if self._before is not None and cursor.file == self._before_inode:
            return _At(self._before, cursor.at), False
        return _At(self._before or self._current, 0), True

    def cursor(self, at: _At) -> _Cursor:
        """The cursor for a place."""
        if at.file is self._current:
            return _Cursor(self._inode, self._before_mark, at.at)
        return _Cursor(self._before_inode, 0, at.at)


def _read(file: BinaryIO, at: int, size: int) -> bytes:
    file.seek(at)
    return file.read(size)


def _whole(data: bytes, *, full: bool, at_end: bool) -> int:
    """How many bytes of it are lines. `full`: there may be more. `at_end`: the rest is a line, too."""
    if at_end and not full:
        return len(data)
    return data.rfind(b"\n") + 1 or (len(data) if full else 0)


def _split(data: bytes) -> list[str]:
    *lines, rest = data.split(b"\n")
    return [text_of(line) for line in (*lines, *((rest,) if rest else ()))]
