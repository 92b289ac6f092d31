"""Disk: is enough of it free for one more process? Blocking: for a thread.

A process that begins on a full disk fails when it writes its log, its code or its state. So none is begun: that counts
as a start that failed, and nimbus starts it on another node. What runs goes on.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Final

from ...runtime import AiostormError

KEEP_FREE_BYTES: Final = 64 * 1024**2
"""Less than the logs of four processes may take."""


class DiskFullError(AiostormError):
    """The disk of the home folder is nearly full: no process is begun."""


def check_free(home: Path, keep_free_bytes: int) -> None:
    """DiskFullError if less than that is free; 0: it is not looked. OSError."""
    if keep_free_bytes <= 0:
        return
    free_bytes = shutil.disk_usage(home).free
    if free_bytes < keep_free_bytes:
        raise DiskFullError(
            f"the disk of {home} has {free_bytes / 1024**2:,.0f} MiB free, and no process is begun with less than "
            f"{keep_free_bytes / 1024**2:,.0f} MiB: remove files there (aiostorm supervisor --keep-free)"
        )
