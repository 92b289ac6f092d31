"""Cgroups: which limits a process of a topology gets in a cgroup v2 of its own, and what the system says of it. Pure.

    ROOT                                    delegated to this supervisor: cgroup.subtree_control has +cpu +memory +pids
    ├── aiostorm-supervisor                 the supervisor itself, and processes that wait for a task
    └── aiostorm-ab12….words-hash.worker-1.4711     memory.max, memory.high, cpu.max, cpu.weight, pids.max

1. A cgroup with controllers for its children has no processes of its own (cgroup v2's rule): so the supervisor has one
   below the root, too.
2. A name is made of what a slot file has: the next supervisor finds the cgroup of each process that it adopts.
3. Only a subtree that was delegated is used: the root of a container, one that systemd has marked (Delegate=), or one
   that was named. Else the reason is said, and limits are those of rlimit.

From: Linux' cgroup-v2 document, systemd's on delegation; Storm's CgroupManager (storm.resource.isolation.plugin).
"""

from __future__ import annotations

import hashlib
import posixpath
import re
from collections.abc import Collection
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from .slots import Key

SUPERVISOR_GROUP: Final = "aiostorm-supervisor"

WANTED: Final = ("cpu", "memory", "pids")
"""Controllers. Without memory a cgroup is not used."""

PIDS: Final = 4_096
"""The most processes and threads of a process of a topology."""

PERIOD_US: Final = 100_000
LEAST_QUOTA_US: Final = 1_000
"""Of cpu.max, in each period: the kernel takes no less."""

MAX_WEIGHT: Final = 10_000
HIGH: Final = 15 / 16
"""memory.high, of memory.max: from there on the system takes back what it can, and slows the process down."""

_ESCAPE: Final = re.compile(r"\\([0-7]{3})")


@dataclass(frozen=True, slots=True)
class Limits:
    """Of a process. `memory_bytes`, `cores`: as declared; 0: that is not declared, and not limited."""

    memory_bytes: int = 0
    cores: float = 0.0


@dataclass(frozen=True, slots=True)
class Mount:
    """Where cgroup v2 is mounted. `root`: the cgroup that is seen at `point`."""

    root: str
    point: str
    read_only: bool


def settings_of(limits: Limits, controllers: Collection[str]) -> list[tuple[str, str]]:
    """File and text, in the order in which they are written."""
    found: list[tuple[str, str]] = []
    if "memory" in controllers and limits.memory_bytes > 0:
        high = int(limits.memory_bytes * HIGH)
        found += [("memory.high", str(high)), ("memory.max", str(limits.memory_bytes))]
    if "cpu" in controllers and limits.cores > 0:
        quota = max(LEAST_QUOTA_US, round(limits.cores * PERIOD_US))
        weight = min(MAX_WEIGHT, max(1, round(limits.cores * 100)))
        found += [("cpu.weight", str(weight)), ("cpu.max", f"{quota} {PERIOD_US}")]
    if "pids" in controllers:
        found.append(("pids.max", str(PIDS)))
    return found


OPTIONAL: Final = (("memory.swap.max", "0"), ("memory.oom.group", "1"))
"""Where memory is limited, and the system has them: no swap in its place; all processes of the cgroup end at once."""


def prefix_of(place: str, supervisor: str) -> str:
    """How the cgroups of this supervisor begin: there may be another one below the same root."""
    which = f"{place}\n{supervisor}".encode()
    return f"aiostorm-{hashlib.sha256(which).hexdigest()[:12]}."


def group_name(prefix: str, key: Key, pid: int) -> str:
    """The cgroup of a process."""
    return f"{prefix}{hashlib.sha256(key.topology.encode()).hexdigest()[:16]}.{key.process}.{pid}"


def counts_of(text: str) -> dict[str, int]:
    """What a file as memory.events says; lines that are none are left out."""
    pairs = (line.split() for line in text.splitlines())
    return {pair[0]: int(pair[1]) for pair in pairs if len(pair) == 2 and pair[1].isdecimal()}


def why_ended(memory_events: str, memory_max: str) -> str:
    """Why the system ended processes of a cgroup; empty: it did not."""
    counts = counts_of(memory_events)
    if not counts.get("oom_kill") and not counts.get("oom_group_kill"):
        return ""
    limit = memory_max.strip()
    if not limit.isdecimal():
        return "the system ended it: memory was short, and not for a limit of its own"
    return f"the system ended it: memory.max of {int(limit) / 1024**2:,.0f} MiB was reached"


def own_cgroup(text: str) -> str | None:
    """The cgroup v2 of this process, of /proc/self/cgroup; None: there is none."""
    return next((line[3:] for line in text.splitlines() if line.startswith("0::/")), None)


def mount_in(text: str) -> Mount | None:
    """The first mount of cgroup v2, of /proc/self/mountinfo; None: there is none."""
    for line in text.splitlines():
        before, separator, after = line.partition(" - ")
        fields, kind = before.split(), after.split()
        if separator and len(fields) >= 6 and kind[:1] == ["cgroup2"]:
            options = {*fields[5].split(","), *(kind[2].split(",") if len(kind) > 2 else ())}
            return Mount(_unescaped(fields[3]), _unescaped(fields[4]), "ro" in options)
    return None


def folder_of(mount: Mount, cgroup: str) -> str | None:
    """The folder of a cgroup, or of the one above for a supervisor that is below it already; None: it is not seen."""
    if posixpath.basename(cgroup) == SUPERVISOR_GROUP:
        cgroup = posixpath.dirname(cgroup)
    below = posixpath.relpath(cgroup, mount.root)
    return None if below.startswith("..") else posixpath.normpath(posixpath.join(mount.point, below))


def _unescaped(text: str) -> str:
    return _ESCAPE.sub(lambda found: chr(int(found[1], 8)), text)
