"""Stale files: files that killed processes of this machine leave behind, found by the process ids in their names.

1. A name is PREFIX SPACE-PID-REST. SPACE is the namespace of the process ids: containers that share a directory of
   temporary files cannot see each other's processes, and leave each other's files alone.
2. Files of other users, and names of another form, are left alone.
3. If a new process has the id of a dead one, the dead one's files are kept until the new one has ended, too.
"""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

from ..runtime import process_exists, process_space


def own_name(prefix: str) -> str:
    """The prefix of names of this process, with a `-` at the end."""
    return f"{prefix}{process_space()}-{os.getpid()}-"


def names_in(place: Path, prefix: str) -> Iterator[tuple[Path, int, str]]:
    """Path, process id and rest of the name, for files in a folder of processes in our namespace."""
    begins = f"{prefix}{process_space()}-"
    for path in sorted(place.glob(f"{begins}*-*")):
        pid, _, rest = path.name.removeprefix(begins).partition("-")
        if pid.isascii() and pid.isdecimal():
            yield path, int(pid), rest


def remove(path: Path) -> None:
    """Remove a file, or a folder of files, as far as possible."""
    with contextlib.suppress(OSError):
        if path.is_dir() and not path.is_symlink():
            for inside in path.iterdir():
                inside.unlink(missing_ok=True)
            path.rmdir()
        else:
            path.unlink(missing_ok=True)


def remove_tree(path: Path) -> None:
    """Remove a folder with all that is in it, as far as possible. No link is followed."""
    with contextlib.suppress(OSError):
        shutil.rmtree(path)


def sweep(place: Path, prefix: str, remove: Callable[[Path], None] = remove) -> None:
    """Remove the files, and folders, of processes that have ended."""
    for path, pid, _ in names_in(place, prefix):
        with contextlib.suppress(OSError):
            if path.lstat().st_uid == os.geteuid() and not process_exists(pid):
                remove(path)
