"""Process logs: the output of a topology's processes, as files of the home folder hold it.

1. No path is made of what a client sends: the process is one of those that the folder has, under a name of our own.
2. A piece has at most PIECE_BYTES; the first one is the end of the file. What is a link or no file is not read.
"""

from __future__ import annotations

import os
import re
import stat
from typing import TYPE_CHECKING, Final

from .cluster_model import ProcessLog

if TYPE_CHECKING:
    from pathlib import Path

PIECE_BYTES: Final = 65_536

_NAME: Final = re.compile(r"(parent|worker-[0-9]{1,6})\.log")


def logged_processes(folder: Path) -> dict[str, Path]:
    """Process → its log, the parent first."""
    try:
        found = [match for match in map(_NAME.fullmatch, os.listdir(folder)) if match is not None]
    except OSError:
        return {}
    return {each[1]: folder / each[0] for each in sorted(found, key=lambda each: (len(each[1]), each[1]))}


def read_piece(topology: str, process: str, path: Path, start: int | None) -> ProcessLog:
    """The output from `start` on; None: its end. OSError."""
    # Without O_NOFOLLOW (Windows) lstat refuses a link; both, because the file may be replaced in between.
    if not stat.S_ISREG(path.lstat().st_mode):
        raise FileNotFoundError(f"{path} is no file")
    flags = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0) | getattr(os, "O_CLOEXEC", 0)
    with open(os.open(path, flags), "rb") as file:
        size = os.fstat(file.fileno()).st_size
        again = start is not None and start > size
        begin = 0 if again or start is None else start
        first = max(begin, size - PIECE_BYTES)
        file.seek(first)
        piece = file.read(PIECE_BYTES)
    if first > begin:  # a part of a line is no line
        cut = piece.find(b"\n") + 1
        first, piece = first + cut, piece[cut:]
    piece = piece[: piece.rfind(b"\n") + 1] or piece  # the rest of the last line comes with the next piece
    text = piece.decode("utf-8", "replace")
    return ProcessLog(topology, process, text, first + len(piece), first - begin, again)
