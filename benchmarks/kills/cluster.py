"""`python -m benchmarks.kills.cluster SCENARIO…`: kill -9 of the daemons of a cluster on this machine, under load.

start        three commands from nothing to a topology that runs: how long
leaders      the leading nimbus is killed: when does another lead, how long is the output silent
parents      the parent of the topology is killed: when is its successor ready, how long is the output silent
supervisors  the supervisor is killed and started again: does it find its processes
roles        any process is killed at random, workers, too: is anything lost
stopped      the leader is stopped (SIGSTOP) for 20 s: does it write anything afterwards
exact        any process is killed at random while money is moved, exactly once (benchmarks.bank): is the sum right
cycles       topologies are submitted and killed: is anything left
rolling      each process in turn is asked to end (SIGTERM) and started again: is anything lost

The topology is that of `benchmarks.kills`: what it has written is read by the verifier, from files. With --zookeeper
the store is a server that is started here. Exit code 1 if anything is not as it is promised.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import signal
import sqlite3
import statistics
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from aiostorm.cluster.nimbus import ASSIGNMENTS, TOPOLOGIES, path_of
from aiostorm.runtime import loop_factory

from ..bank.verify import main as verify_bank
from .daemons import NAME, WITHIN_S, Bench, cluster, kill_process
from .zookeeper import LEADER_LIMIT_S, zookeeper

OLD_S = 61.0
"""After so long a supervisor has done all that it does."""


class Scenarios:
    """What is done to a cluster."""

    def __init__(self, bench: Bench) -> None:
        self.bench = bench

    # -- scenarios -----------------------------------------------------------------------------------------------------

    async def leaders(self, kills: int) -> None:
        """Kill the leader again and again."""
        self.bench.start("nimbus-2")
        await asyncio.sleep(3)
        pids, began_s = self.bench.worker_pids(time.monotonic() - 2), time.monotonic()
        took, at = [], []
        for _ in range(kills):
            pid = await self.bench.leading()
            name = next(name for name, process in self.bench.daemons.items() if process.pid == pid)
            at.append(time.monotonic())
            self.bench.kill(name)

            async def another(pid: int = pid) -> bool:
                return (await self.bench.leading()) not in (0, pid)

            took.append(await self.bench.until("another leader", another))
            self.bench.start(name)
            await asyncio.sleep(WITHIN_S)
        self._same(pids, began_s, "leaders")
        silences = self.bench.silences(at, took)
        self._keep("leaders", kills, new_leader_s=took, silence_s=silences)
        self._limit("leaders: new leader", took, LEADER_LIMIT_S if self.bench.store.where.startswith("zk:") else 2.0)
        self._limit("leaders: silence", silences, 0.1)

    async def parents(self, kills: int) -> None:
        """Kill the parent of the topology again and again."""
        pids, began_s = self.bench.worker_pids(time.monotonic() - 2), time.monotonic()
        took, at = [], []
        for _ in range(kills):
            record = await self.bench.parent()
            assert record is not None
            at.append(time.monotonic())
            os.kill(record.pid, signal.SIGKILL)

            async def adopted(pid: int = record.pid) -> bool:
                return await self.bench.ready(pid)

            took.append(await self.bench.until("another parent", adopted))
            await asyncio.sleep(32)  # else its supervisor waits before it starts the next one
        self._same(pids, began_s, "parents")
        self._keep("parents", kills, adopted_s=took, silence_s=self.bench.silences(at))

    async def supervisors(self, kills: int) -> None:
        """Kill the supervisor again and again."""
        pids, began_s = self.bench.worker_pids(time.monotonic() - 2), time.monotonic()
        record = await self.bench.parent()
        at = []
        for _ in range(kills):
            at.append(time.monotonic())
            self.bench.kill("supervisor")
            await asyncio.sleep(1)
            self.bench.start("supervisor")
            await asyncio.sleep(WITHIN_S + 1)
        self._same(pids, began_s, "supervisors")
        after = await self.bench.parent()
        if record is None or after is None or after.pid != record.pid:
            self.bench.problems.append("supervisors: the parent is another process")
        self._keep("supervisors", kills, silence_s=self.bench.silences(at))

    async def roles(self, kills: int) -> None:
        """Kill whatever it is, at random times."""
        if "nimbus-2" not in self.bench.daemons:
            self.bench.start("nimbus-2")
        await asyncio.sleep(2)
        at: list[tuple[float, str]] = []
        for _ in range(kills):
            role = self.bench.chance.choice(["nimbus-1", "nimbus-2", "supervisor", "parent", "worker", "worker"])
            at.append((time.monotonic(), role))
            if role in self.bench.daemons:
                self.bench.kill(role)
                await asyncio.sleep(self.bench.chance.uniform(0.1, 1.0))
                self.bench.start(role)
            elif role == "parent":
                record = await self.bench.parent()
                if record is not None:
                    kill_process(record.pid)
            else:
                recent = sorted(self.bench.worker_pids(time.monotonic() - 3))
                if recent:
                    kill_process(self.bench.chance.choice(recent))
            await asyncio.sleep(self.bench.chance.uniform(0.5, 4.0))
        for role in ("nimbus", "supervisor", "parent", "worker"):
            some = [at_s for at_s, killed in at if killed.startswith(role)]
            if some:
                self._keep(f"roles: {role}", len(some), silence_s=self.bench.silences(some))

    async def exact(self, kills: int) -> None:
        """Kill whatever it is, at random times, while transfers are made exactly once."""
        if "nimbus-2" not in self.bench.daemons:
            self.bench.start("nimbus-2")
        folder = self.bench.folder / "bank"
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
        await self.bench.command("submit", *words, *options)
        killed = await self._kill_some(kills)

        async def finished() -> bool:
            return await self.bench.store.get(path_of(TOPOLOGIES, "bank")) is None

        await self.bench.until("the bank's end", finished, 600)
        said = await asyncio.to_thread(verify_bank, folder, count)
        self.bench.figures["exact"] = {"kills": dict(killed), "transfers": count, **said}
        print("exact", json.dumps(self.bench.figures["exact"]), file=sys.stderr, flush=True)
        for sink, found in said.items():
            if found["lost"] or found["twice"] or found["wrong"] or found["sum"]:
                self.bench.problems.append(f"exact: {sink}: {found}")

    async def _kill_some(self, kills: int) -> Counter[str]:
        killed: Counter[str] = Counter()
        for _ in range(kills):
            await asyncio.sleep(self.bench.chance.uniform(0.5, 5.0))
            role = self.bench.chance.choice(
                ["nimbus-1", "nimbus-2", "supervisor", "parent", "parent", "worker", "worker"]
            )
            pids = self.bench.slots("bank")
            if role in self.bench.daemons:
                self.bench.kill(role)
                await asyncio.sleep(self.bench.chance.uniform(0.1, 1.0))
                self.bench.start(role)
            elif role == "parent" and "parent" in pids:
                kill_process(pids["parent"])
            elif workers := sorted(name for name in pids if name.startswith("worker")):
                kill_process(pids[self.bench.chance.choice(workers)])
            killed[role] += 1
        return killed

    async def stopped(self) -> None:
        """Stop the leader for 20 s."""
        if "nimbus-2" not in self.bench.daemons:
            self.bench.start("nimbus-2")
            await asyncio.sleep(2)
        pid = await self.bench.leading()
        before = await self._assignments()
        os.kill(pid, signal.SIGSTOP)

        async def another() -> bool:
            return (await self.bench.leading()) not in (0, pid)

        took = await self.bench.until("another leader", another)
        await asyncio.sleep(max(0.0, 20 - took))
        os.kill(pid, signal.SIGCONT)
        await asyncio.sleep(5)
        if await self._assignments() != before:
            self.bench.problems.append("stopped: an assignment was changed")
        if await self.bench.leading() == pid:
            self.bench.problems.append("stopped: the former leader leads")
        self._keep("stopped", 1, new_leader_s=[took])

    async def cycles(self, count: int) -> None:
        """Submit and kill topologies; what is there after the third is there after the last."""
        # After a minute a supervisor looks for old code, for the first time, with another client of the store. When it
        # closes that, SQLite keeps the descriptor for the next one: else the process would lose its locks of the file.
        await asyncio.sleep(OLD_S)
        await self._cycle(3)
        before = await self._inventory()
        await self._cycle(count)
        for _ in range(5):  # a process that is just replaced is not left over
            after = await self._inventory()
            if after == before:
                break
        self.bench.figures["cycles"] = {"cycles": count, "before": before, "after": after}
        for name in sorted(before.keys() | after.keys()):
            if before.get(name, 0) != after.get(name, 0):
                self.bench.problems.append(f"cycles: {name}: {before.get(name, 0)} before, {after.get(name, 0)} after")

    async def _cycle(self, count: int) -> None:
        for _ in range(count):
            await self.bench.submit("cycle", 10_000_000, 300, workers=2)
            await self.bench.command("kill", "cycle", "-w", "1")

    async def _inventory(self) -> dict[str, int]:
        await asyncio.sleep(4)
        found = {
            "files": sum(
                1 for path in self.bench.home.path.rglob("*") if "logs" not in path.parts and "-wal" not in path.name
            )
        }
        for name, process in self.bench.daemons.items():
            if name != "nimbus-2":
                for kind, count in _descriptors(process.pid).items():
                    found[f"{name}: {kind}"] = count
                found[f"{name}: threads"] = len(os.listdir(f"/proc/{process.pid}/task"))
        found["nodes"] = 0
        for folder in await self.bench.store.children("/"):
            found["nodes"] += len(await self.bench.store.children(f"/{folder}"))
        found["processes"] = len(self.bench.processes())
        return found

    async def rolling(self, rounds: int) -> None:
        """Ask each process to end, one after the other, and go on when its successor works."""
        if "nimbus-2" not in self.bench.daemons:
            self.bench.start("nimbus-2")
            await asyncio.sleep(2)
        took: dict[str, list[float]] = {"daemon": [], "parent": [], "worker": []}
        at: list[float] = []
        for _ in range(rounds):
            for role in ("nimbus-1", "nimbus-2", "supervisor"):
                process = self.bench.daemons[role]
                began_s = time.monotonic()
                process.terminate()
                code = await asyncio.to_thread(process.wait)
                if code not in (0, -signal.SIGTERM):  # it may not have come so far that it handles signals
                    self.bench.problems.append(f"rolling: {role} ended with {code}")
                self.bench.start(role)
                took["daemon"].append(time.monotonic() - began_s)
                await asyncio.sleep(WITHIN_S)
            for name, pid in sorted(self.bench.slots(NAME).items()):
                at.append(time.monotonic())
                os.kill(pid, signal.SIGTERM)

                async def another(name: str = name, pid: int = pid) -> bool:
                    return self.bench.slots(NAME).get(name, pid) != pid and await self.bench.ready()

                role = "parent" if name == "parent" else "worker"
                took[role].append(await self.bench.until(f"another {name}", another))
                await asyncio.sleep(WITHIN_S)
        self._keep("rolling", rounds, silence_s=self.bench.silences(at), **{f"{r}_s": some for r, some in took.items()})

    async def _assignments(self) -> dict[str, tuple[int, bytes]]:
        found = {}
        for child in await self.bench.store.children(ASSIGNMENTS):
            node = await self.bench.store.get(f"{ASSIGNMENTS}/{child}")
            if node is not None:
                found[child] = node.version, node.value
        return found

    # -- results -------------------------------------------------------------------------------------------------------

    def _same(self, pids: set[int], since_s: float, what: str) -> None:
        after = self.bench.worker_pids(since_s)
        if after != pids:
            self.bench.problems.append(f"{what}: worker processes {sorted(after)}, and before {sorted(pids)}")

    def _limit(self, what: str, values: list[float], limit_s: float) -> None:
        if over := [round(value, 3) for value in values if value > limit_s]:
            self.bench.problems.append(f"{what}: {over} s, and {limit_s:g} s are allowed")

    def _keep(self, what: str, kills: int, **figures: list[float]) -> None:
        figures_of_it = {
            name: {
                "p50": round(statistics.median(values), 3),
                "most": round(max(values), 3),
                "all": [round(value, 3) for value in values],
            }
            for name, values in figures.items()
        }
        self.bench.figures[what] = {"kills": kills, **figures_of_it}
        print(what, json.dumps(self.bench.figures[what]), file=sys.stderr, flush=True)


def _descriptors(pid: int) -> Counter[str]:
    """The open descriptors of a process, by what they are: `socket`, `pipe`, `anon_inode`, or a file."""
    found: Counter[str] = Counter()
    folder = Path(f"/proc/{pid}/fd")
    for name in os.listdir(folder):
        with contextlib.suppress(FileNotFoundError):  # it was closed meanwhile
            target = os.readlink(folder / name)
            found[target if target.startswith("/") else target.partition(":[")[0]] += 1
    return found


async def run(scenarios: list[str], kills: int, rate: float, seed: int, folder: Path, store: str = "") -> int:
    async with cluster(folder, seed, store) as bench:
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
                await Scenarios(bench).stopped()
            elif scenario == "cycles":
                await Scenarios(bench).cycles(kills)
            elif scenario != "start":  # a method of this name, with so many kills
                await getattr(Scenarios(bench), scenario)(kills)
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
        bench.figures["processes_left"] = len(left)
        print(json.dumps(bench.figures, indent=1))
        for problem in bench.problems:
            print(f"problem: {problem}", file=sys.stderr)
        return 1 if bench.problems else 0


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.kills.cluster", description=__doc__)
    names = ("start", "leaders", "parents", "supervisors", "roles", "exact", "stopped", "cycles", "rolling")
    parser.add_argument("scenarios", nargs="+", choices=names)
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--rate", type=float, default=1000.0, help="numbers a second")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--zookeeper", action="store_true", help="the store in a ZooKeeper that is started")
    given = parser.parse_args()

    async def all_of_it(folder: Path) -> int:
        every = (given.scenarios, given.kills, given.rate, given.seed, folder)
        if not given.zookeeper:
            return await run(*every)
        async with zookeeper(folder) as store:
            return await run(*every, store)

    with tempfile.TemporaryDirectory(prefix="cl") as name, asyncio.Runner(loop_factory=loop_factory()) as loop:
        return loop.run(all_of_it(Path(name)))


if __name__ == "__main__":
    sys.exit(main())
