"""`python -m benchmarks.kills.cluster SCENARIO…`: kill -9 of the daemons of a cluster on this machine, under load.

start        three commands from nothing to a topology that runs: how long
leaders      the leading nimbus is killed: when does another lead, how long is the output silent
parents      the parent of the topology is killed: when is its successor ready, how long is the output silent
supervisors  the supervisor is killed and started again: does it find its processes
roles        any process is killed at random, workers, too: is anything lost
stopped      the leader is stopped (SIGSTOP) for 20 s: does it write anything afterwards
exact        any process is killed at random while money is moved, exactly once (benchmarks.bank): is the sum right
cycles       topologies are submitted and killed: is anything left

The topology is that of `benchmarks.kills`: what it has written is read by the verifier, from files. Exit code 1 if
anything is not as it is promised.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import itertools
import json
import os
import random
import signal
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from aiostorm.cluster.coordination import Coordination, leader, open_coordination
from aiostorm.cluster.home import Home
from aiostorm.cluster.nimbus import ASSIGNMENTS, PARENTS, TOPOLOGIES, ParentRecord, path_of, unpack
from aiostorm.runtime import LoopClock, loop_factory

from ..bank.verify import main as verify_bank

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
        log = (self.folder / f"{name}.log").open("ab")
        self.daemons[name] = subprocess.Popen(
            self.aiostorm(*words, "--home", str(self.home.path)), stdout=log, stderr=log, stdin=subprocess.DEVNULL
        )

    def kill(self, name: str) -> None:
        """kill -9 of a daemon."""
        process = self.daemons.pop(name)
        process.kill()
        process.wait()

    async def command(self, *words: str, check: bool = True) -> str:
        process = await asyncio.create_subprocess_exec(
            *self.aiostorm(*words, "--home", str(self.home.path)), stdout=asyncio.subprocess.PIPE
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

    def silences(self, kills_s: list[float]) -> list[float]:
        times = [at_s for at_s, _, _ in self.lines()]
        found = []
        for at_s in kills_s:
            within = times[bisect_left(times, at_s) : bisect_right(times, at_s + WITHIN_S)]
            stops = [at_s, *within]
            found.append(max((b - a for a, b in itertools.pairwise(stops)), default=WITHIN_S))
        return found

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

    # -- scenarios -----------------------------------------------------------------------------------------------------

    async def leaders(self, kills: int) -> None:
        """Kill the leader again and again."""
        self.start("nimbus-2")
        await asyncio.sleep(3)
        pids, began_s = self.worker_pids(time.monotonic() - 2), time.monotonic()
        took, at = [], []
        for _ in range(kills):
            pid = await self.leading()
            name = next(name for name, process in self.daemons.items() if process.pid == pid)
            at.append(time.monotonic())
            self.kill(name)

            async def another(pid: int = pid) -> bool:
                return (await self.leading()) not in (0, pid)

            took.append(await self.until("another leader", another))
            self.start(name)
            await asyncio.sleep(WITHIN_S)
        self._same(pids, began_s, "leaders")
        self._keep("leaders", kills, new_leader_s=took, silence_s=self.silences(at))

    async def parents(self, kills: int) -> None:
        """Kill the parent of the topology again and again."""
        pids, began_s = self.worker_pids(time.monotonic() - 2), time.monotonic()
        took, at = [], []
        for _ in range(kills):
            record = await self.parent()
            assert record is not None
            at.append(time.monotonic())
            os.kill(record.pid, signal.SIGKILL)

            async def adopted(pid: int = record.pid) -> bool:
                return await self.ready(pid)

            took.append(await self.until("another parent", adopted))
            await asyncio.sleep(32)  # else its supervisor waits before it starts the next one
        self._same(pids, began_s, "parents")
        self._keep("parents", kills, adopted_s=took, silence_s=self.silences(at))

    async def supervisors(self, kills: int) -> None:
        """Kill the supervisor again and again."""
        pids, began_s = self.worker_pids(time.monotonic() - 2), time.monotonic()
        record = await self.parent()
        at = []
        for _ in range(kills):
            at.append(time.monotonic())
            self.kill("supervisor")
            await asyncio.sleep(1)
            self.start("supervisor")
            await asyncio.sleep(WITHIN_S + 1)
        self._same(pids, began_s, "supervisors")
        after = await self.parent()
        if record is None or after is None or after.pid != record.pid:
            self.problems.append("supervisors: the parent is another process")
        self._keep("supervisors", kills, silence_s=self.silences(at))

    async def roles(self, kills: int) -> None:
        """Kill whatever it is, at random times."""
        if "nimbus-2" not in self.daemons:
            self.start("nimbus-2")
        await asyncio.sleep(2)
        at: list[tuple[float, str]] = []
        for _ in range(kills):
            role = self.chance.choice(["nimbus-1", "nimbus-2", "supervisor", "parent", "worker", "worker"])
            at.append((time.monotonic(), role))
            if role in self.daemons:
                self.kill(role)
                await asyncio.sleep(self.chance.uniform(0.1, 1.0))
                self.start(role)
            elif role == "parent":
                record = await self.parent()
                if record is not None:
                    _kill(record.pid)
            else:
                recent = sorted(self.worker_pids(time.monotonic() - 3))
                if recent:
                    _kill(self.chance.choice(recent))
            await asyncio.sleep(self.chance.uniform(0.5, 4.0))
        for role in ("nimbus", "supervisor", "parent", "worker"):
            some = [at_s for at_s, killed in at if killed.startswith(role)]
            if some:
                self._keep(f"roles: {role}", len(some), silence_s=self.silences(some))

    async def exact(self, kills: int) -> None:
        """Kill whatever it is, at random times, while transfers are made exactly once."""
        if "nimbus-2" not in self.daemons:
            self.start("nimbus-2")
        folder = self.folder / "bank"
        (folder / "files").mkdir(parents=True)
        (folder / "parquet").mkdir()
        with sqlite3.connect(folder / "bank.db") as database:
            database.execute("PRAGMA journal_mode = WAL")
            database.execute("CREATE TABLE legs (account, transfer, amount, balance, legs)")
        count = 300 * (20 + 4 * kills)
        words = (
            "benchmarks.bank.topology:topology",
            str(folder),
            str(count),
            "300",
            "--name",
            "bank",
            "--workers",
            "2",
        )
        options = ("--guarantee", "exactly-once", "-c", "topology.snapshot.interval.ms=200", "--wait", "60")
        await self.command("submit", *words, *options)
        killed: Counter[str] = Counter()
        for _ in range(kills):
            await asyncio.sleep(self.chance.uniform(0.5, 5.0))
            role = self.chance.choice(["nimbus-1", "nimbus-2", "supervisor", "parent", "parent", "worker", "worker"])
            pids = self.slots("bank")
            if role in self.daemons:
                self.kill(role)
                await asyncio.sleep(self.chance.uniform(0.1, 1.0))
                self.start(role)
            elif role == "parent" and "parent" in pids:
                _kill(pids["parent"])
            elif workers := sorted(name for name in pids if name.startswith("worker")):
                _kill(pids[self.chance.choice(workers)])
            killed[role] += 1

        async def finished() -> bool:
            return await self.store.get(path_of(TOPOLOGIES, "bank")) is None

        await self.until("the bank's end", finished, 600)
        said = await asyncio.to_thread(verify_bank, folder, count)
        self.figures["exact"] = {"kills": dict(killed), "transfers": count, **said}
        print("exact", json.dumps(self.figures["exact"]), file=sys.stderr, flush=True)
        for sink, found in said.items():
            if found["lost"] or found["twice"] or found["wrong"] or found["sum"]:
                self.problems.append(f"exact: {sink}: {found}")

    async def stopped(self) -> None:
        """Stop the leader for 20 s."""
        if "nimbus-2" not in self.daemons:
            self.start("nimbus-2")
            await asyncio.sleep(2)
        pid = await self.leading()
        before = await self._assignments()
        os.kill(pid, signal.SIGSTOP)

        async def another() -> bool:
            return (await self.leading()) not in (0, pid)

        took = await self.until("another leader", another)
        await asyncio.sleep(max(0.0, 20 - took))
        os.kill(pid, signal.SIGCONT)
        await asyncio.sleep(5)
        if await self._assignments() != before:
            self.problems.append("stopped: an assignment was changed")
        if await self.leading() == pid:
            self.problems.append("stopped: the former leader leads")
        self._keep("stopped", 1, new_leader_s=[took])

    async def cycles(self, count: int) -> None:
        """Submit and kill topologies; what is there after the third is there after the last."""
        await self._cycle(3)
        before = await self._inventory()
        await self._cycle(count)
        after = await self._inventory()
        self.figures["cycles"] = {"cycles": count, "before": before, "after": after}
        if before != after:
            self.problems.append(f"cycles: {before} before, {after} after")

    async def _cycle(self, count: int) -> None:
        for _ in range(count):
            await self.submit("cycle", 10_000_000, 300, workers=2)
            await self.command("kill", "cycle", "-w", "1")

    async def _inventory(self) -> dict[str, int]:
        await asyncio.sleep(4)
        found = {
            "files": sum(
                1 for path in self.home.path.rglob("*") if "logs" not in path.parts and "-wal" not in path.name
            )
        }
        for name, process in self.daemons.items():
            if name != "nimbus-2":
                found[f"{name}: descriptors"] = len(os.listdir(f"/proc/{process.pid}/fd"))
                found[f"{name}: threads"] = len(os.listdir(f"/proc/{process.pid}/task"))
        found["nodes"] = 0
        for folder in await self.store.children("/"):
            found["nodes"] += len(await self.store.children(f"/{folder}"))
        found["processes"] = len(self.processes())
        return found

    def processes(self) -> list[int]:
        """All processes of this home."""
        found = []
        for entry in Path("/proc").iterdir():
            if entry.name.isdecimal():
                with contextlib.suppress(OSError):
                    words = (entry / "cmdline").read_bytes()
                    if str(self.home.path).encode() in words:
                        found.append(int(entry.name))
        return found

    async def _assignments(self) -> dict[str, tuple[int, bytes]]:
        found = {}
        for child in await self.store.children(ASSIGNMENTS):
            node = await self.store.get(f"{ASSIGNMENTS}/{child}")
            if node is not None:
                found[child] = node.version, node.value
        return found

    # -- results -------------------------------------------------------------------------------------------------------

    def _same(self, pids: set[int], since_s: float, what: str) -> None:
        after = self.worker_pids(since_s)
        if after != pids:
            self.problems.append(f"{what}: worker processes {sorted(after)}, and before {sorted(pids)}")

    def _keep(self, what: str, kills: int, **figures: list[float]) -> None:
        figures_of_it = {
            name: {
                "p50": round(statistics.median(values), 3),
                "most": round(max(values), 3),
                "all": [round(value, 3) for value in values],
            }
            for name, values in figures.items()
        }
        self.figures[what] = {"kills": kills, **figures_of_it}
        print(what, json.dumps(self.figures[what]), file=sys.stderr, flush=True)


def _kill(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)


@asynccontextmanager
async def cluster(folder: Path, seed: int) -> AsyncIterator[Bench]:
    """A cluster in a folder of its own; nothing of it is left."""
    home = Home(folder / "home")
    home.make()
    async with open_coordination(home.store_url, LoopClock()) as store:
        bench = Bench(folder, store, seed)
        try:
            yield bench
        finally:
            for process in bench.daemons.values():
                process.kill()
                process.wait()
            for pid in bench.processes():
                if pid != os.getpid():
                    _kill(pid)


async def run(scenarios: list[str], kills: int, rate: float, seed: int, folder: Path) -> int:
    async with cluster(folder, seed) as bench:
        began_s = time.monotonic()
        bench.start("nimbus-1")
        bench.start("supervisor")
        count = int(rate * 20 * (60 + kills * 12))
        await bench.submit(NAME, count, rate)
        bench.figures["start_s"] = round(time.monotonic() - began_s, 2)
        print("start", bench.figures["start_s"], file=sys.stderr, flush=True)
        await asyncio.sleep(3)
        for scenario in scenarios:
            if scenario == "stopped":
                await bench.stopped()
            elif scenario == "cycles":
                await bench.cycles(kills)
            elif scenario != "start":  # a method of this name, with so many kills
                await getattr(bench, scenario)(kills)
        await bench.until("the topology", bench.ready)
        await asyncio.sleep(5)
        await bench.command("kill", NAME, "-w", "30")
        acked: set[int] = set()
        for path in bench.out.glob("acked-*.log"):
            acked |= set(map(int, path.read_text().split()))
        written = {number for _, number, _ in bench.lines()}
        bench.figures["rows"] = {"acked": len(acked), "acked_and_lost": len(acked - written), "written": len(written)}
        if acked - written:
            bench.problems.append(f"{len(acked - written)} rows were acked, and are lost")
        await asyncio.sleep(5)
        left = [pid for pid in bench.processes() if pid not in {p.pid for p in bench.daemons.values()}]
        bench.figures["processes_left"] = len(left) - 1  # the spare of the supervisor
        print(json.dumps(bench.figures, indent=1))
        for problem in bench.problems:
            print(f"problem: {problem}", file=sys.stderr)
        return 1 if bench.problems else 0


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.kills.cluster", description=__doc__)
    names = ("start", "leaders", "parents", "supervisors", "roles", "exact", "stopped", "cycles")
    parser.add_argument("scenarios", nargs="+", choices=names)
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--rate", type=float, default=1000.0, help="numbers a second")
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="cl") as name, asyncio.Runner(loop_factory=loop_factory()) as loop:
        return loop.run(run(given.scenarios, given.kills, given.rate, given.seed, Path(name)))


if __name__ == "__main__":
    sys.exit(main())
