"""Kill what carries the workers on executors, and see how long it takes until there is output again.

    python -m tests.spark.worker_kills --kills executor,slot,worker --each 5     (and: driver)

worker: `aiostorm worker`; slot: Spark's Python worker; executor: its JVM; driver: our process, and what is left of it.
Prints one JSON document: seconds of each kill, and whether all numbers were written.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import logging
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from aiostorm import LocalCluster
from aiostorm.spark import SparkWorkers

from ..cluster.spread_jobs import written
from .conftest import LIGHT
from .standalone import standalone

ROOT = Path(__file__).parents[2]
START_S = 240.0
"""For a session and its first workers, on a machine that has much else to do."""

STEPS_UP = {"worker": 0, "slot": 1, "executor": 3}
"""From `aiostorm worker` up: the slot, Spark's daemon, the executor's JVM."""

SETTINGS = {
    **LIGHT,
    "spark.driver.memory": "512m",
    "spark.executor.memory": "512m",
    "spark.executor.extraJavaOptions": LIGHT["spark.driver.extraJavaOptions"],
    "spark.ui.enabled": "false",
}


def parent_of(pid: int, steps: int = 1) -> int:
    for _ in range(steps):
        pid = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    return pid


def alive(pid: int) -> bool:
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    return False


async def until(ready: Callable[[], Any], within_s: float = 90.0) -> float:
    """How long it took."""
    began_s = time.monotonic()
    while not ready():
        assert time.monotonic() - began_s < within_s, f"not within {within_s:g} s"
        await asyncio.sleep(0.02)
    return time.monotonic() - began_s


async def drive(master: str, folder: Path, kills: list[str], count: int, pause_s: str) -> dict[str, Any]:
    """Run the job; kill something in worker-2's place for each of `kills`."""
    report: dict[str, Any] = {"kills": []}
    began_s = time.monotonic()
    # One slot on each executor: what carries the other one lives.
    settings = {**SETTINGS, "spark.master": master, "spark.executor.cores": "1", "spark.cores.max": "2"}
    async with LocalCluster(backend=SparkWorkers(settings, slots=2)) as cluster:
        report["session_s"] = time.monotonic() - began_s
        began_s = time.monotonic()
        job = "tests.spark.worker_jobs:from_driver"
        running = await cluster.submit("numbers", job, arguments=(str(folder), str(count), pause_s))
        report["start_s"] = time.monotonic() - began_s
        await until(lambda: len(written(folder)) > 100)
        print(json.dumps({"pids": [w.pid for w in running.workers()]}), file=sys.stderr, flush=True)
        first = running.workers()[0]
        for kind in kills:
            await until(lambda: running.workers()[1].phase == "RUNNING")
            await asyncio.sleep(0.5)  # it works
            victim = running.workers()[1]
            os.kill(parent_of(victim.pid, STEPS_UP[kind]), signal.SIGKILL)

            def has_written(pid: int = victim.pid) -> bool:
                now = running.workers()[1].pid
                return now not in (0, pid) and any(p.stat().st_size for p in folder.glob(f"*.{now}"))

            took_s = await until(has_written)
            report["kills"].append({"kind": kind, "seconds": round(took_s, 2), "old ended": not alive(victim.pid)})
        await running.wait_finished(200)
        report["missing"] = count - len(set(written(folder)))
        report["twice"] = len(written(folder)) - len(set(written(folder)))
        report["results"] = (await running.results())["numbers"]
        statuses = running.workers()
        report["first untouched"] = (statuses[0].pid, statuses[0].restarts) == (first.pid, 0)
        report["workers"] = {w.name: w.restarts for w in statuses}
        report["driver pid is ours"] = statuses[-1].pid == os.getpid()
        began_s = time.monotonic()
        await running.kill()
        report["stop_s"] = time.monotonic() - began_s
    pids = [w.pid for w in statuses[:-1]]
    report["left"] = [pid for pid in pids if alive(pid)]
    return report


def descendants(pid: int) -> set[int]:
    """All descendant processes."""
    children: dict[int, list[int]] = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError, ValueError):
            children.setdefault(int(path.read_text().rpartition(")")[2].split()[1]), []).append(int(path.parent.name))
    found: set[int] = set()
    todo = [pid]
    while todo:
        below = children.get(todo.pop(), [])
        found.update(below)
        todo += below
    return found


def pids_in(log: Path) -> list[int]:
    lines = log.read_text().splitlines()
    pid_lines = [line for line in lines if line.startswith('{"pids"')]
    assert pid_lines, "\n".join(lines[-30:])
    found: list[int] = json.loads(pid_lines[0])["pids"]
    return found


def kill_driver(master: str, folder: Path) -> dict[str, Any]:
    """Run it in a process, kill that: how long are workers left?"""
    words = ["--drive", master, "--folder", str(folder), "--count", "100000", "--pause", "0.05"]
    command = [sys.executable, "-m", __spec__.name if __spec__ else "tests.spark.worker_kills", *words]
    with (folder.parent / "driver.log").open("w+") as log:
        process = subprocess.Popen(command, cwd=ROOT, stdout=log, stderr=log)
        path = Path(log.name)

        async def worker_pids() -> list[int]:
            await until(lambda: '{"pids"' in path.read_text() or process.poll() is not None, START_S)
            return [pid for pid in pids_in(path) if pid != process.pid]

        async def tell() -> dict[str, Any]:
            workers = await worker_pids()
            slots = [parent_of(pid) for pid in workers]
            executors = [parent_of(pid, 3) for pid in workers]
            below = descendants(process.pid)
            process.kill()
            process.wait()
            workers_s = await until(lambda: not any(map(alive, [*workers, *slots])))
            all_s = workers_s + await until(lambda: not any(map(alive, {*executors, *below})))
            return {"kind": "driver", "workers ended": round(workers_s, 2), "all ended": round(all_s, 2)}

        try:
            return asyncio.run(tell())
        finally:
            process.kill()
            process.wait()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", default="executor,slot,worker,driver")
    parser.add_argument("--each", type=int, default=1)
    parser.add_argument("--master", default="", help="default: a standalone Spark of two workers with two cores")
    parser.add_argument("--count", default="3000")
    parser.add_argument("--pause", default="0.05", help="seconds, for each ten numbers")
    parser.add_argument("--drive", default="")
    parser.add_argument("--folder", default="")
    asked = parser.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(asctime)s.%(msecs)03d %(name)s %(message)s")
    logging.getLogger("py4j").setLevel(logging.WARNING)
    kinds = [kind for kind in asked.kills.split(",") if kind]
    if asked.drive:
        asyncio.run(drive(asked.drive, Path(asked.folder), [], int(asked.count), asked.pause))
        return
    with contextlib.ExitStack() as stack:
        master = asked.master or stack.enter_context(standalone())
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="kills-"))) / "written"
        folder.mkdir()
        inside = [kind for kind in kinds if kind != "driver" for _ in range(asked.each)]
        report: dict[str, Any] = {}
        if inside:
            report = asyncio.run(drive(master, folder, inside, int(asked.count), asked.pause))
        if "driver" in kinds:
            report["drivers"] = []
            for i in range(asked.each):
                again = folder.parent / f"written-{i}"
                again.mkdir()
                report["drivers"].append(kill_driver(master, again))
        print(json.dumps(report))


if __name__ == "__main__":
    main()
