"""ProcessMetrics: what a process uses, and how late its event loop is.

A watch of one event loop, shared by all who look: it works from the first look until LEASE_S after the last one, so a
process of which no metrics are read has no timer and no callback of the garbage collector.

    look ─► [timer: late by?] every PROBE_S, [garbage collector: how long?] ─── LEASE_S after the last look ─► nothing

1. The lag is that of the timer: how late the loop runs what is due. The longest since the previous look is shown.
2. In virtual time nothing is measured: a run must not depend on the machine. All numbers are 0 or None then, and
   after the end of the loop.
3. What a system does not tell is None: memory and open files are read from /proc, which only Linux has.
"""

from __future__ import annotations

import asyncio
import gc
import os
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from weakref import WeakKeyDictionary, finalize

from .clock import is_virtual

PROBE_S: Final = 0.25
LEASE_S: Final = 5.0

_PROC: Final = Path("/proc/self")
_STATM: Final = _PROC / "statm"


@dataclass(frozen=True, slots=True)
class ProcessMetrics:
    """One process at one moment. `cpu_s`: processor time; `rss_bytes`: memory; `open_files`: open descriptors.

    `loop_lag_s`: the longest delay of its event loop since the previous look (over all who look). Of the garbage
    collector: `gc_collections`, all so far; `gc_pause_s`, how long those took that were seen: while there were looks.
    """

    pid: int = 0
    cpu_s: float = 0.0
    rss_bytes: int | None = None
    open_files: int | None = None
    loop_lag_s: float = 0.0
    gc_collections: int = 0
    gc_pause_s: float = 0.0


class ProcessWatch:
    """Watches one event loop, in whose thread it is used, and the process that it runs in.

    It keeps no reference to the loop: a loop that has ended takes its watch with it.
    """

    def __init__(self) -> None:
        self._watches = False
        self._due_s = self._looked_s = self._lag_s = 0.0
        self._gc_began_s = 0.0
        self._gc_pause_s = 0.0

    def look(self) -> ProcessMetrics:
        """What the process uses now."""
        now_s = self._looked_s = time.monotonic()
        if not self._watches:
            self._watches = True
            gc.callbacks.append(self._on_gc)
            self._due_s = now_s + PROBE_S
            # Metrics are also read in signal handlers, for the words after Ctrl-C. They run between any two bytecodes,
            # also while the loop is sorting its timers: only this call may be made there.
            asyncio.get_running_loop().call_soon_threadsafe(self._probe)
        lag_s, self._lag_s = max(self._lag_s, now_s - self._due_s), 0.0
        return ProcessMetrics(
            os.getpid(),
            time.process_time(),
            _rss_bytes(),
            _open_files(),
            lag_s,
            sum(generation["collections"] for generation in gc.get_stats()),
            self._gc_pause_s,
        )

    def stop(self) -> None:
        """Watch no more; the next look begins again."""
        if self._watches:
            self._watches = False
            gc.callbacks.remove(self._on_gc)

    def _plan_probe(self, now_s: float) -> None:
        self._due_s = now_s + PROBE_S
        asyncio.get_running_loop().call_later(PROBE_S, self._probe)

    def _probe(self) -> None:
        now_s = time.monotonic()
        self._lag_s = max(self._lag_s, now_s - self._due_s)
        if now_s - self._looked_s > LEASE_S:
            self.stop()
        elif self._watches:
            self._plan_probe(now_s)

    def _on_gc(self, phase: str, _: dict[str, Any]) -> None:
        if phase == "start":
            self._gc_began_s = time.perf_counter()
        elif self._gc_began_s:
            self._gc_pause_s += time.perf_counter() - self._gc_began_s


def forget_process() -> None:
    """Watch the running event loop no more, until it is looked at again."""
    watch = _watches.get(asyncio.get_running_loop())
    if watch is not None:
        watch.stop()


_watches: Final[WeakKeyDictionary[asyncio.AbstractEventLoop, ProcessWatch]] = WeakKeyDictionary()


def look_at_process() -> ProcessMetrics:
    """What this process uses now; its running event loop is watched from now on, for a while."""
    try:
        loop = asyncio.get_running_loop()
    except RuntimeError:  # read after the loop has ended
        return ProcessMetrics()
    if is_virtual(loop):
        return ProcessMetrics()
    watch = _watches.get(loop)
    if watch is None:
        watch = _watches[loop] = ProcessWatch()
        finalize(loop, watch.stop).atexit = False
    return watch.look()


def _rss_bytes() -> int | None:
    try:
        return int(_STATM.read_bytes().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, IndexError, AttributeError):  # another system than Linux
        return None


def _open_files() -> int | None:
    try:
        return len(os.listdir(_PROC / "fd")) - 1  # without the one that lists them
    except OSError:
        return None
