"""Identity: which process of this machine it is, so that another one with the same id is not taken for it.

    4026531836-4711-98231       the namespace of process ids - the id - when it began (Linux: in ticks since the boot)

1. A process that has ended and was not waited for (a zombie) does not run.
2. Of a process in another namespace (another container) nothing is known from here.
3. Where the system has no /proc the start is 0: then an id that was used again is taken for the same process.
"""

from __future__ import annotations

import contextlib
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Self

_STATE, _START = 0, 19
"""Places in /proc/PID/stat after the name in parentheses, which may contain anything: the state, and the start."""


@dataclass(frozen=True, slots=True)
class ProcessIdentity:
    """One process. `space`: the namespace of its id, 0 where there are none; `started`: 0 if it is not known."""

    space: int
    pid: int
    started: int

    @classmethod
    def own(cls) -> Self:
        """This process."""
        return cls.of(os.getpid())

    @classmethod
    def of(cls, pid: int) -> Self:
        """The process that has this id now, in our namespace."""
        return cls(process_space(), pid, int(_stat(pid)[_START]) if _stat(pid) else 0)

    @classmethod
    def parse(cls, text: str) -> Self:
        """What `str` made. ValueError."""
        parts = text.split("-")
        if len(parts) != 3 or not all(part.isascii() and part.isdecimal() and len(part) < 20 for part in parts):
            raise ValueError(f"a process is SPACE-PID-START, not {text!r:.100}")
        space, pid, started = map(int, parts)
        return cls(space, pid, started)

    def __str__(self) -> str:
        return f"{self.space}-{self.pid}-{self.started}"

    @property
    def has_ended(self) -> bool:
        """Is it certain that it does not run any more?"""
        if self.space != process_space():
            return False
        stat = _stat(self.pid)
        if stat:
            return stat[_STATE] in "ZX" or (self.started != 0 and int(stat[_START]) != self.started)
        return not process_exists(self.pid)

    @property
    def memory_bytes(self) -> int | None:
        """Its own memory, also what is swapped out; without files that it has mapped. None: not known, or ended."""
        if self.has_ended:
            return None
        try:
            lines = Path(f"/proc/{self.pid}/status").read_text(errors="replace").splitlines()
        except OSError:
            return None
        found = dict(line.split(":", 1) for line in lines if ":" in line)
        try:  # "   1234 kB"
            return sum(int(found[name].split()[0]) for name in ("RssAnon", "VmSwap")) * 1024
        except (LookupError, ValueError):  # it ends just now; an old kernel
            return None


def process_space() -> int:
    """The namespace of our process ids: containers cannot see each other's processes. 0: the system has none."""
    with contextlib.suppress(OSError):
        return os.stat("/proc/self/ns/pid").st_ino
    return 0


def process_exists(pid: int) -> bool:
    """Is there a process with this id, of any user? Also true for one that has ended and was not waited for."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except (OSError, OverflowError):
        return True
    return True


def _stat(pid: int) -> list[str]:
    """What /proc says of a process, after its name; empty if there is no such file."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(errors="replace")
    except (OSError, ValueError):
        return []
    return text.rpartition(")")[2].split()
