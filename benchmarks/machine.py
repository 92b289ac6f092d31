"""Machine: where and with what a run was made, for the record."""

from __future__ import annotations

import datetime as dt
import os
import platform
import subprocess
from importlib import metadata
from pathlib import Path
from typing import Any

from .children import ROOT

PACKAGES = ("aiostorm", "uvloop", "msgpack", "pydantic")


def describe() -> dict[str, Any]:
    """Machine, date, Python, versions, commit. No name of a host, user or folder."""
    return {
        "date": dt.datetime.now(dt.UTC).isoformat(timespec="seconds"),
        "system": f"{platform.system()} {platform.machine()}",
        "processor": _processor(),
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "memory_gb": _memory_gb(),
        "python": f"{platform.python_implementation()} {platform.python_version()}",
        "packages": {name: metadata.version(name) for name in PACKAGES},
        "commit": _git("rev-parse", "--short=12", "HEAD"),
        "changed_files": len(_git("status", "--porcelain", "--untracked-files=no").splitlines()),
    }


def _processor() -> str:
    """The model, where the system says so."""
    table = Path("/proc/cpuinfo")
    if table.exists():
        for line in table.read_text(encoding="utf-8").splitlines():
            key, _, value = line.partition(":")
            if key.strip() == "model name":
                return value.strip()
    return platform.processor() or "unknown"


def _memory_gb() -> int | None:
    """What the machine has, to the next whole GB."""
    names = ("SC_PAGE_SIZE", "SC_PHYS_PAGES")
    if not all(name in getattr(os, "sysconf_names", {}) for name in names):
        return None
    page, pages = map(os.sysconf, names)
    return round(page * pages / 2**30)


def _git(*arguments: str) -> str:
    try:
        command = ["git", *arguments]  # the one on the PATH: this is a developer's machine
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return ""  # an unpacked archive
    return done.stdout.strip()
