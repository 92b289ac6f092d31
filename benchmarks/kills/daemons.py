"""A cluster on this machine for a benchmark: its daemons, a client of its store, and what is there."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import os
import random
import signal
import subprocess
import sys
import time
from bisect import bisect_left, bisect_right
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from aiostorm.cluster.coordination import Coordination, leader, open_coordination
from aiostorm.cluster.home import Home
from aiostorm.cluster.nimbus import PARENTS, ParentRecord, path_of, unpack
from aiostorm.runtime import LoopClock

NAME = "kills"
WITHIN_S = 3.0
"""After a kill, the longest silence of the output is looked for within this time."""


class Bench:
    """A cluster on this machine: its daemons, and a client of its store."""

    def __init__(self, folder: Path, store: Coordination, seed: int) -> None:
        self.folder = folder
        self.out = folder / "out"
        self.home = Home(folder / "home")
        self.store = store
        self.place = ("--home", str(self.home.path), "--store", store.where)
        self.chance = random.Random(seed)
        self.daemons: dict[str, subprocess.Popen[bytes]] = {}
        self.problems: list[str] = []
        self.figures: dict[str, Any] = {}

    # -- processes -----------------------------------------------------------------------------------------------------

    def aiostorm(self, *words: str) -> list[str]:
        return [sys.executable, "-m", "aiostorm", *words]

    def start(self, name: str) -> None:
        """Start a daemon: "nimbus-1", "supervisor"."""
        words = ["nimbus"] if name.startswith("nimbus") else ["supervisor", "--id", "here", "--slots", "6"]
        self.daemon(name, *words, *self.place)

    def daemon(self, name: str, *words: str) -> None:
        """Start a daemon with these words of the command line."""
        with (self.folder / f"{name}.log").open("ab") as log:
            self.daemons[name] = subprocess.Popen(
                self.aiostorm(*words), stdout=log, stderr=log, stdin=subprocess.DEVNULL
            )

    def kill(self, name: str) -> None:
        """kill -9 of a daemon."""
        process = self.daemons.pop(name)
        process.kill()
        process.wait()

    async def command(self, *words: str, check: bool = True) -> str:
        process = await asyncio.create_subprocess_exec(
            *self.aiostorm(*words, *self.place), stdout=asyncio.subprocess.PIPE
        )
        out, _ = await process.communicate()
        if check and process.returncode:
            raise RuntimeError(f"aiostorm {' '.join(words)}: exit code {process.returncode}")
        return out.decode()

    async def submit(self, name: str, count: int, rate: float, workers: int = 3) -> None:
        self.out.mkdir(exist_ok=True)
        target = "benchmarks.kills.topology:topology"
        arguments = (str(self.out), str(count), str(rate))
        settings = ("-c", "topology.max.spout.pending=2000")
        await self.command(
            "submit", target, *arguments, "--name", name, "--workers", str(workers), *settings, "--wait", "60"
        )

    # -- what is there -------------------------------------------------------------------------------------------------

    async def parent(self, name: str = NAME) -> ParentRecord | None:
        path = path_of(PARENTS, name)
        node = await self.store.get(path)
        return None if node is None else unpack(ParentRecord, path, node.value)

    async def leading(self) -> int:
        """The pid of the leading nimbus; 0: none leads."""
        value = await leader(self.store)
        return int(json.loads(value)["pid"]) if value else 0

    def lines(self) -> list[tuple[float, int, int]]:
        """All that was written: seconds, number, process."""
        found = []
        for path in self.out.glob("written-*.log"):
            for line in path.read_text().splitlines():
                parts = line.split()
                if len(parts) == 4:
                    found.append((float(parts[3]), int(parts[0]), int(parts[2])))
        return sorted(found)

    def worker_pids(self, since_s: float) -> set[int]:
        return {pid for at_s, _, pid in self.lines() if at_s >= since_s}

    def slots(self, topology: str) -> dict[str, int]:
        """The processes of a topology, as its supervisor has noted them: name → pid."""
        found = {}
        for path in self.home.slots("here").glob("*.json"):
            with contextlib.suppress(OSError, ValueError):
                note = json.loads(path.read_text())
                if note["topology"] == topology:
                    found[note["process"]] = int(note["identity"].split("-")[1])
        return found

    def silences(self, kills_s: list[float], took_s: list[float] | None = None) -> list[float]:
        """The longest silence after each kill, within WITHIN_S after it, or after it was got over."""
        now_s = time.monotonic()
        times = [at_s for at_s, _, _ in self.lines()]
        ends = [at_s + more_s + WITHIN_S for at_s, more_s in zip(kills_s, took_s or [0.0] * len(kills_s), strict=True)]
        return [silence(times, at_s, min(end_s, now_s)) for at_s, end_s in zip(kills_s, ends, strict=True)]

    async def until(self, what: str, condition: Callable[[], Awaitable[bool]], within_s: float = 30.0) -> float:
        """Wait for it. How long it took; it is a problem if it does not come."""
        began_s = time.monotonic()
        while time.monotonic() - began_s < within_s:
            if await condition():
                return time.monotonic() - began_s
            await asyncio.sleep(0.02)
        self.problems.append(f"{what} did not come within {within_s:g} s")
        return within_s

    async def ready(self, not_pid: int = 0) -> bool:
        """Is the topology ACTIVE, with another parent than that?"""
        record = await self.parent()
        return record is not None and record.state == "ACTIVE" and record.pid != not_pid

    def processes(self) -> list[int]:
        """The processes of topologies: those that have a log of this cluster open."""
        homes = [path.parent for path in self.folder.glob("*/logs")]
        return sorted({pid for home in homes for pid in processes_of(home)})


def silence(times_s: list[float], from_s: float, to_s: float) -> float:
    """The longest time without one of these moments, which are in order, from one moment to another one."""
    within = times_s[bisect_left(times_s, from_s) : bisect_right(times_s, to_s)]
    return max(later - sooner for sooner, later in itertools.pairwise([from_s, *within, to_s]))


def processes_of(home: Path) -> list[int]:
    """The processes of topologies that have a log in this home folder open."""
    logs = f"{home / 'logs'}/"
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            with contextlib.suppress(OSError):
                if any(os.readlink(link).startswith(logs) for link in (entry / "fd").iterdir()):
                    found.append(int(entry.name))
    return found


def kill_process(pid: int) -> None:
    """kill -9, if it is there."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)


@asynccontextmanager
async def cluster(folder: Path, seed: int, store_url: str = "") -> AsyncIterator[Bench]:
    """A cluster in a folder of its own; nothing of it is left. `store_url`: if the store is not in its folder."""
    home = Home(folder / "home")
    home.make()
    async with open_coordination(store_url or home.store_url, LoopClock()) as store:
        bench = Bench(folder, store, seed)
        try:
            yield bench
        finally:
            for process in bench.daemons.values():
                process.kill()
                process.wait()
            for pid in bench.processes():
                if pid != os.getpid():
                    kill_process(pid)
