"""Logs: the output of processes, within a quota. Blocking: for a thread.

    NAME.log, up to about MAX_BYTES ─► NAME.log.1, the part before

1. Before a process is started, a log that is too large is renamed. While it runs, it is copied and cut: the process
   goes on writing to the same file, which it has opened to append to. Lines that come in between are lost.
2. There is one part before: a log takes at most about twice the quota, and what comes until the next look.
3. A log that cannot be cut is reported: the process goes on.

From: logrotate's copytruncate.
"""

from __future__ import annotations

import logging
import os
from pathlib import Path
from typing import Final

from ...runtime import NewFile
from ...runtime.processes import open_log

log = logging.getLogger("aiostorm.supervisor")

MAX_BYTES: Final = 8 * 1024 * 1024
LOOK_S: Final = 10.0
"""Between two looks at the logs of running processes."""

_CHUNK_BYTES: Final = 1024 * 1024


def prepare_log(path: Path, max_bytes: int = MAX_BYTES) -> None:
    """Begin another file if this one is too large, and see that it can be written. OSError."""
    if _size_of(path) > max_bytes:
        os.replace(path, _before(path))
    os.close(open_log(path))


def limit_log(path: Path, max_bytes: int = MAX_BYTES) -> None:
    """Cut the log of a running process if it is too large; its last part is kept in another file."""
    size_bytes = _size_of(path)
    if size_bytes <= max_bytes:
        return
    try:
        with open(os.open(path, os.O_RDWR | os.O_NOFOLLOW), "r+b") as file:
            file.seek(size_bytes - max_bytes)
            with NewFile(f"{path}.new") as before:
                left = max_bytes  # and not to its end, which moves
                while left and (chunk := file.read(min(left, _CHUNK_BYTES))):
                    before.write(chunk)
                    left -= len(chunk)
                before.replace(_before(path))
            file.truncate(0)
    except OSError as error:
        log.warning("%s has %d bytes, and cannot be cut: %s", path, size_bytes, error.strerror or error)


def add_line(path: Path, text: str) -> None:
    """Add a line of the supervisor's to a log; if that cannot be done it is reported."""
    try:
        with open(open_log(path), "ab", buffering=0) as file:
            file.write(f"{text}\n".encode())
    except OSError as error:
        log.warning("%s cannot be written: %s", path, error.strerror or error)


def _size_of(path: Path) -> int:
    """Its bytes; 0 if it is not there."""
    try:
        return os.lstat(path).st_size
    except OSError:
        return 0


def _before(path: Path) -> str:
    return f"{path}.1"
