"""Stale files: what processes of this machine leave behind that were killed, by their process ids in its names.

1. A name is PREFIX SPACE-PID-REST. SPACE is whose process ids these are: containers that share a folder of temporary
   files cannot see who lives in the other, and leave each other's alone.
2. What another user owns is left alone, and so is a name that is of no such form.
3. A process that has the id of one that is gone keeps what that one left, until it is gone itself.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path


def own_name(prefix: str) -> str:
    """How names of this process begin, with a `-` at the end."""
    return f"{prefix}{_space()}-{os.getpid()}-"


def names_in(place: Path, prefix: str) -> Iterator[tuple[Path, int, str]]:
    """Path, process id and the rest of the name, of what processes that we can see have in that folder."""
    begins = f"{prefix}{_space()}-"
    for path in sorted(place.glob(f"{begins}*-*")):
        pid, _, rest = path.name.removeprefix(begins).partition("-")
        if pid.isascii() and pid.isdecimal():
            yield path, int(pid), rest


def sweep(place: Path, prefix: str) -> None:
    """Remove what those have left that are no more: files, and folders of files."""
    for path, pid, _ in names_in(place, prefix):
        with contextlib.suppress(OSError):
            if path.lstat().st_uid == os.geteuid() and not lives(pid):
                remove(path)


def remove(path: Path) -> None:
    """Remove a file, or a folder of files. What cannot be removed stays."""
    with contextlib.suppress(OSError):
        if path.is_dir() and not path.is_symlink():
            for inside in path.iterdir():
                inside.unlink(missing_ok=True)
            path.rmdir()
        else:
            path.unlink(missing_ok=True)


def lives(pid: int) -> bool:
    """Is there a process of that id? One of somebody else's counts."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except (OSError, OverflowError):
        return True
    return True


def _space() -> int:
    with contextlib.suppress(OSError):
        return os.stat("/proc/self/ns/pid").st_ino
    return 0
