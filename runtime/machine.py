"""This machine: its time since the start, which start it was, and which folders it shares with others."""

from __future__ import annotations

import contextlib
import time
from pathlib import Path
from typing import Final

_SHARED: Final = frozenset({"nfs", "nfs4", "cifs", "smb3", "smbfs", "9p", "fuse.sshfs", "glusterfs", "ceph", "lustre"})
"""File systems on which several machines write."""


def since_boot_s() -> float:
    """Seconds since the machine was started (also while it slept, where the system counts that): for all processes."""
    clock = getattr(time, "CLOCK_BOOTTIME", None)
    return time.monotonic() if clock is None else time.clock_gettime(clock)


def boot_id() -> str:
    """Which start of the machine this is; where the system does not say, when it was, to about ten minutes."""
    with contextlib.suppress(OSError):
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    return f"{(time.time() - since_boot_s()) / 600:.0f}"


def shared_file_system(folder: Path, mounts: Path = Path("/proc/mounts")) -> str:
    """The kind of file system of a folder if several machines share it; empty if they do not, or it is not known."""
    place = folder.absolute()
    nearest, kind_there = -1, ""
    with contextlib.suppress(OSError):
        for line in mounts.read_text(encoding="utf-8", errors="replace").splitlines():
            _, at, kind, *_ = line.split(" ")
            at = at.encode("latin-1", "replace").decode("unicode_escape")  # a space is \040
            if place.is_relative_to(at) and len(at) >= nearest:  # a later mount hides an earlier one
                nearest, kind_there = len(at), kind
    return kind_there if kind_there in _SHARED else ""
