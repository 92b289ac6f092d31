"""Resident: how much memory this process has, from the system.

On Linux the peak is VmHWM, that of this program. `ru_maxrss` starts with the peak of the process that started this one
(it is kept across exec), so a small child of a large parent would show the parent's.
"""

from __future__ import annotations

import os
import resource
import sys
from pathlib import Path

MB = 1_000_000
_STATM = Path("/proc/self/statm")
_STATUS = Path("/proc/self/status")


def rss_mb() -> float:
    """Resident now; where the system does not say, the peak."""
    if not _STATM.exists():
        return ru_maxrss_mb()
    return int(_STATM.read_text(encoding="ascii").split()[1]) * os.sysconf("SC_PAGE_SIZE") / MB


def peak_rss_mb() -> float:
    """The most that was resident since this program began."""
    if _STATUS.exists():
        for line in _STATUS.read_text(encoding="ascii").splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024 / MB
    return ru_maxrss_mb()


def ru_maxrss_mb() -> float:
    """What `getrusage` says: in KiB, on macOS in bytes."""
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / MB
