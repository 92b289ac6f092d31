"""Old logs: those of topologies that have ended are removed some time. Blocking: for a thread.

    HOME/logs/NAME/    its topology is in the cluster, or runs here ─► stays
                       else: last written `keep_s` ago              ─► removed
                             all logs take more than `quota_bytes`  ─► removed, the oldest first

1. What has not been written for longest goes first. The logs of topologies that are there count, and stay.
2. Only folders of this user are removed, and no link is followed: what another one has put there stays.
3. A folder that cannot be removed is reported, and tried again the next time.

From: Storm's LogCleaner (logviewer.cleanup.age.mins, logviewer.max.sum.worker.logs.size.mb).
"""

from __future__ import annotations

import logging
import os
import shutil
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple
from urllib.parse import unquote

log = logging.getLogger("aiostorm.supervisor")

KEEP_S: Final = 7 * 86_400.0
QUOTA_BYTES: Final = 4 * 1024**3


@dataclass(frozen=True, slots=True)
class LogRetention:
    """How long the logs of ended topologies are kept, in seconds, and how many bytes all logs may take."""

    keep_s: float = KEEP_S
    quota_bytes: int = QUOTA_BYTES


class _Folder(NamedTuple):
    written_s: float
    path: Path
    size_bytes: int


def remove_old_logs(place: Path, used: Collection[str], retention: LogRetention, now_s: float) -> None:
    """Remove folders of logs. `used`: topologies whose logs stay; `now_s`: Unix time. OSError."""
    ended: list[_Folder] = []
    total_bytes = 0
    with os.scandir(place) as entries:
        for entry in entries:
            if not entry.is_dir(follow_symlinks=False) or entry.stat(follow_symlinks=False).st_uid != os.geteuid():
                continue
            folder = _measured(Path(entry.path))
            total_bytes += folder.size_bytes
            if unquote(entry.name) not in used:
                ended.append(folder)
    for folder in sorted(ended):
        old = now_s - folder.written_s >= retention.keep_s
        if not old and total_bytes <= retention.quota_bytes:
            return
        if _remove(folder.path):
            total_bytes -= folder.size_bytes
            why = "old" if old else "more than the quota of logs"
            log.info("the logs in %s are removed: they are %s, and their topology has ended", folder.path, why)


def _measured(path: Path) -> _Folder:
    """When something in it was last written, and its bytes."""
    written_s, size_bytes = 0.0, 0
    try:
        written_s = path.lstat().st_mtime
        with os.scandir(path) as entries:
            for entry in entries:
                found = entry.stat(follow_symlinks=False)
                written_s = max(written_s, found.st_mtime)
                size_bytes += found.st_size
    except OSError as error:
        log.debug("%s cannot be looked at: %s", path, error)
    return _Folder(written_s, path, size_bytes)


def _remove(path: Path) -> bool:
    try:
        shutil.rmtree(path)  # it follows no link, also if one takes the place of the folder now
    except OSError as error:
        log.warning("the old logs in %s cannot be removed: %s", path, error.strerror or error)
        return False
    return True
