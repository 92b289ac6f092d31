"""`python -m benchmarks.kills.nodes SCENARIO…`: all processes of a node are killed at once (kill -9), under load.

node         a node with a worker, and without the parent
parent-node  the node of the topology's parent
exact        the node of the parent, while money is moved, exactly once (benchmarks.bank)

The nodes are supervisors at 127.0.0.1 to 127.0.0.4, each with a home folder and TLS credentials of its own; nimbus is
on none of them. The store is a SQLite file, or with --zookeeper a server that is started here. It is printed when each
step was seen after each kill, how long the output was silent, and how long that of any one task was. At the end the
topology finishes its input, and a process of its own reads what it has written. Exit code 1 if anything is not as it is
promised.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, Final

from aiostorm.cluster.home import Home
from aiostorm.cluster.nimbus import (
    ASSIGNMENTS,
    SUPERVISORS,
    TOPOLOGIES,
    AssignmentRecord,
    ParentRecord,
    SupervisorRecord,
    path_of,
    unpack,
)
from aiostorm.runtime import loop_factory

from .daemons import WITHIN_S, Bench, cluster, kill_process, processes_of, silence
from .timeline import STEPS, Look, Timeline, victim
from .zookeeper import zookeeper

HOSTS: Final = {"a": "127.0.0.1", "b": "127.0.0.2", "c": "127.0.0.3", "d": "127.0.0.4"}
LIMIT_S: Final = 11.0
"""A session, and three seconds."""

SETTLE_S: Final = 5.0
KILL_S: Final = 22
"""About what one kill takes, until the next one."""

GIVE_UP_S: Final = 60.0
BANK_RATE: Final = 300
"""Transfers a second."""


class Nodes:
    """Supervisors at addresses of their own, and what is seen of them."""

    def __init__(self, bench: Bench, credentials: Path) -> None:
        self.bench = bench
        self.credentials = credentials

    def home(self, node: str) -> Home:
        return Home(self.bench.folder / node)

    def start(self, node: str) -> None:
        where = ("--home", str(self.home(node).path), "--store", self.bench.store.where)
        listen = ("--host", HOSTS[node], "--credentials", str(self.credentials / HOSTS[node]))
        self.bench.daemon(node, "supervisor", "--id", node, "--slots", "3", *where, *listen)

    def kill(self, node: str) -> int:
        """Kill all processes of a node. Returns how many."""
        pids = {*descendants(self.bench.daemons[node].pid), *processes_of(self.home(node).path)}
        self.bench.kill(node)
        for pid in pids:
            kill_process(pid)
        return len(pids) + 1

    def noted(self, topology: str) -> dict[str, frozenset[str]]:
        """The processes of a topology that each node has started: of which it has a slot file, and which live."""
        found: dict[str, frozenset[str]] = {}
        for node in HOSTS:
            names = set()
            for path in self.home(node).slots(node).glob("*.json"):
                with contextlib.suppress(OSError, ValueError):
                    note = json.loads(path.read_text())
                    if note["topology"] == topology and Path(f"/proc/{note['identity'].split('-')[1]}").exists():
                        names.add(note["process"])
            found[node] = frozenset(names)
        return found

    async def registered(self) -> int:
        return len(await self.bench.store.children(SUPERVISORS)) if await self.bench.store.get(SUPERVISORS) else 0

    async def assignment(self, name: str) -> AssignmentRecord | None:
        path = path_of(ASSIGNMENTS, name)
        found = await self.bench.store.get(path)
        return None if found is None else unpack(AssignmentRecord, path, found.value)

    async def look(self, name: str, node: str, session: str) -> Look:
        """`session`: the supervisor of the node before it was killed."""
        path = path_of(SUPERVISORS, node)
        record = await self.bench.store.get(path)
        there = record is not None and unpack(SupervisorRecord, path, record.value).process == session
        return Look(there, await self.assignment(name), await self.bench.parent(name), self.noted(name))

    async def lose(self, name: str, *, of_parent: bool) -> tuple[float, Timeline] | None:
        """Kill a node. When, and what then happens until all of the topology runs elsewhere; None: nothing to kill."""
        assignment, parent = await self.assignment(name), await self.bench.parent(name)
        node = None if assignment is None else victim(assignment, parent=of_parent)
        if node is None or parent is None or not await self.runs(name):
            self.bench.problems.append(f"{name}: no node to kill, as the topology does not run")
            return None
        path = path_of(SUPERVISORS, node)
        record = await self.bench.store.get(path)
        session = "" if record is None else unpack(SupervisorRecord, path, record.value).process
        timeline = Timeline(node, parent, lost_parent=of_parent)
        at_s = time.monotonic()
        count = self.kill(node)
        while not timeline.is_over and time.monotonic() < at_s + GIVE_UP_S:
            look = await self.look(name, node, session)
            timeline.see(time.monotonic() - at_s, look)
            await asyncio.sleep(0.02)
        steps = ", ".join(f"{step} {timeline.at_s.get(step, -1):.2f}" for step in STEPS)
        print(f"{node} ({count} processes) killed: {steps}; load {load()}", file=sys.stderr, flush=True)
        await asyncio.sleep(WITHIN_S)
        self.start(node)
        await self.bench.until("the node's supervisor", self._all_there)
        await asyncio.sleep(SETTLE_S)
        return at_s, timeline

    async def runs(self, name: str) -> bool:
        """ACTIVE, with all workers."""
        record: ParentRecord | None = await self.bench.parent(name)
        return record is not None and record.state == "ACTIVE" and not record.degraded

    async def _all_there(self) -> bool:
        return await self.registered() == len(HOSTS)


class Scenarios:
    """What is done, and what it is checked by."""

    def __init__(self, nodes: Nodes, rate: float) -> None:
        self.nodes = nodes
        self.bench = nodes.bench
        self.rate = rate

    async def numbers(self, kills: int, *, of_parent: bool) -> None:
        """The topology of benchmarks.kills, at least once."""
        name = "parent-node" if of_parent else "node"
        bench, count = self.bench, int(self.rate * (15 + KILL_S * kills))
        bench.out = bench.folder / f"out-{name}"
        await bench.submit(name, count, self.rate, workers=len(HOSTS))
        await asyncio.sleep(SETTLE_S)
        losses = await self._lose(name, kills, of_parent=of_parent)
        await self._finished(name)
        (bench.out / "kills.json").write_text('{"kills": [], "pids": {}}')
        said = await verified("benchmarks.kills.verify", bench.out, count)
        kills_s = [at_s for at_s, _ in losses]
        tasks = [silences_after(kills_s, times_s) for times_s in written_by_task(bench.out)]
        parts = [max(of_tasks) for of_tasks in zip(*tasks, strict=True)]
        silences = silences_after(kills_s, [at_s for at_s, _, _ in bench.lines()])
        del said["kills"]
        self._keep(name, losses, said, {"silence": silences, "silence of a task": parts})
        self._limit(f"{name}: silence of a task", parts)
        if any(said[what] for what in ("lost", "never_acked", "acked_and_lost", "wrong_lines")):
            bench.problems.append(f"{name}: {said}")

    async def exact(self, kills: int) -> None:
        """The bank, exactly once."""
        bench = self.bench
        count = BANK_RATE * (15 + KILL_S * kills)
        folder = await submit_bank(bench, "exact", count, workers=4)
        await asyncio.sleep(SETTLE_S)
        commits: list[float] = []
        async with asyncio.TaskGroup() as group:
            watching = group.create_task(watch_commits(folder / "bank.db", commits))
            losses = await self._lose("exact", kills, of_parent=True)
            watching.cancel()
        await self._finished("exact")
        said = await verified("benchmarks.bank.verify", folder, count)
        silences = silences_after([at_s for at_s, _ in losses], commits)
        self._keep("exact", losses, {"transfers": count, **said}, {"silence of the database": silences})
        for sink, found in said.items():
            if found["lost"] or found["twice"] or found["wrong"] or found["sum"]:
                bench.problems.append(f"exact: {sink}: {found}")
        self._limit("exact: silence of the database", silences)

    async def _lose(self, name: str, kills: int, *, of_parent: bool) -> list[tuple[float, Timeline]]:
        losses = [await self.nodes.lose(name, of_parent=of_parent) for _ in range(kills)]
        return [lost for lost in losses if lost is not None]

    async def _finished(self, name: str) -> None:
        async def out() -> bool:
            return await self.bench.store.get(path_of(TOPOLOGIES, name)) is None

        await self.bench.until(f"the end of {name}", out, 300)

    def _keep(
        self, what: str, losses: list[tuple[float, Timeline]], said: dict[str, Any], more: dict[str, list[float]]
    ) -> None:
        steps = {step: [timeline.at_s.get(step, GIVE_UP_S) for _, timeline in losses] for step in STEPS}
        self._limit(f"{what}: running elsewhere", steps[STEPS[-1]])
        figures = {name: summary(values) for name, values in (steps | more).items()}
        self.bench.figures[what] = {"kills": len(losses), **figures, **said, "load": load()}
        print(what, json.dumps(self.bench.figures[what]), file=sys.stderr, flush=True)

    def _limit(self, what: str, values: list[float]) -> None:
        if late := [round(value, 2) for value in values if value > LIMIT_S]:
            self.bench.problems.append(f"{what}: {late} s, and {LIMIT_S:g} s are allowed")


def summary(values: list[float]) -> dict[str, Any]:
    """Median, most and all of them, rounded."""
    if not values:
        return {"all": []}
    rounded = [round(value, 3) for value in values]
    return {"p50": round(statistics.median(values), 3), "most": max(rounded), "all": rounded}


def load() -> str:
    """The load of the machine, of the last minute."""
    return f"{os.getloadavg()[0]:.1f}"


def descendants(pid: int) -> set[int]:
    """The children of a process, and theirs."""
    parents: dict[int, int] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            with contextlib.suppress(OSError):
                parents[int(entry.name)] = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
    return below(pid, parents)


def below(pid: int, parents: dict[int, int]) -> set[int]:
    """All that descend from it. `parents`: process → its parent."""
    found: set[int] = set()
    newest = {pid}
    while newest:
        newest = {child for child, parent in parents.items() if parent in newest} - found
        found |= newest
    return found


def silences_after(kills_s: list[float], times_s: list[float]) -> list[float]:
    """The longest silence between each kill and the next one. `times_s`: of the output, in order."""
    last_s = times_s[-1] if times_s else 0.0
    ends_s = [*kills_s[1:], last_s] if kills_s else []
    return [silence(times_s, at_s, max(at_s, min(end_s, last_s))) for at_s, end_s in zip(kills_s, ends_s, strict=True)]


def written_by_task(out: Path) -> list[list[float]]:
    """When each task has written its lines, in order."""
    found = []
    for path in sorted(out.glob("written-*.log")):
        lines = [line.split() for line in path.read_text().splitlines()]
        found.append(sorted(float(parts[3]) for parts in lines if len(parts) == 4))
    return found


async def submit_bank(bench: Bench, name: str, count: int, *, workers: int) -> Path:
    """Submit the topology of benchmarks.bank, exactly once. The folder of what it writes."""
    folder = bench.folder / "bank"
    (folder / "files").mkdir(parents=True)
    (folder / "parquet").mkdir()
    with contextlib.closing(sqlite3.connect(folder / "bank.db")) as database:
        database.execute("PRAGMA journal_mode = WAL")
        database.execute("CREATE TABLE legs (account, transfer, amount, balance, legs)")
    target = ("benchmarks.bank.topology:topology", str(folder), str(count), str(BANK_RATE))
    options = ("--guarantee", "exactly-once", "--state", f"file://{bench.folder}/state", "--workers", str(workers))
    interval = ("-c", "topology.snapshot.interval.ms=200")
    await bench.command("submit", *target, "--name", name, *options, *interval, "--wait", "60")
    return folder


async def watch_commits(database: Path, commits: list[float]) -> None:
    """When there was more in the database."""
    with contextlib.closing(sqlite3.connect(f"file:{database}?mode=ro", uri=True)) as connection:
        before = None
        while True:
            (now,) = connection.execute("SELECT max(rowid) FROM legs").fetchone()
            if now != before:
                commits.append(time.monotonic())
            before = now
            await asyncio.sleep(0.02)


async def verified(verifier: str, folder: Path, count: int) -> dict[str, Any]:
    """What a process of its own says about the files."""
    command = [sys.executable, "-m", verifier, str(folder), str(count)]
    said = await asyncio.to_thread(subprocess.run, command, capture_output=True, text=True, check=True)
    found: dict[str, Any] = json.loads(said.stdout)
    return found


async def run(scenarios: list[str], kills: int, rate: float, folder: Path, store: str) -> int:
    async with cluster(folder, 1, store) as bench:
        options = [word for host in HOSTS.values() for word in ("--node", host)]
        certificates = bench.aiostorm("certs", "init", str(folder / "certs"), "--cluster", "kills", *options)
        await asyncio.to_thread(subprocess.run, certificates, check=True, stdout=subprocess.DEVNULL)
        nodes = Nodes(bench, folder / "certs" / "nodes")
        bench.start("nimbus-1")
        for node in HOSTS:
            nodes.start(node)

        async def all_there() -> bool:
            return await nodes.registered() == len(HOSTS)

        await bench.until("the supervisors", all_there, 120)
        for scenario in scenarios:
            if scenario == "exact":
                await Scenarios(nodes, rate).exact(kills)
            else:
                await Scenarios(nodes, rate).numbers(kills, of_parent=scenario == "parent-node")
        print(json.dumps(bench.figures, indent=1))
        for problem in bench.problems:
            print(f"problem: {problem}", file=sys.stderr)
        return 1 if bench.problems else 0


async def run_all(scenarios: list[str], kills: int, rate: float, folder: Path, *, with_zookeeper: bool) -> int:
    if not with_zookeeper:
        return await run(scenarios, kills, rate, folder, "")
    async with zookeeper(folder) as store:
        return await run(scenarios, kills, rate, folder, store)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.kills.nodes", description=__doc__)
    parser.add_argument("scenarios", nargs="+", choices=("node", "parent-node", "exact"))
    parser.add_argument("--kills", type=int, default=5)
    parser.add_argument("--rate", type=float, default=1000.0, help="numbers a second")
    parser.add_argument("--zookeeper", action="store_true", help="the store in a ZooKeeper that is started")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="no") as name, asyncio.Runner(loop_factory=loop_factory()) as loop:
        every = (given.scenarios, given.kills, given.rate, Path(name))
        return loop.run(run_all(*every, with_zookeeper=given.zookeeper))


if __name__ == "__main__":
    sys.exit(main())
