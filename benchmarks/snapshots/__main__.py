"""`python -m benchmarks.snapshots [words] [keys] [pause] [size] [recovery] [rescale]`: what exactly once costs.

Ratios are of one run: each repetition measures both sides in turn.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import gc
import json
import os
import random
import resource
import shutil
import signal
import statistics
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Coroutine
from pathlib import Path
from typing import Any

from aiostorm import Config, LocalCluster, RunningTopology, Topology
from aiostorm.runtime import loop_factory

from ..cells import WrongResultError
from ..w1 import corpus
from .topologies import STYLES, ticking, updates, words

Figures = dict[str, Any]


def exactly_once(folder: Path, **settings: Any) -> Config:
    return Config(guarantee="exactly-once", state_dir=str(folder / "state"), **settings)


async def timed(topology: Topology, config: Config, check: Callable[[Any], None]) -> tuple[float, float]:
    """Seconds on the clock, and of the processor, from the submit until nothing moves any more."""
    async with LocalCluster() as cluster:
        gc.collect()
        wall_s, cpu_s = time.perf_counter(), time.process_time()
        running = await cluster.submit("measured", topology, config)
        await running.wait_idle()
        wall_s, cpu_s = time.perf_counter() - wall_s, time.process_time() - cpu_s
        check(running)
        await running.kill(0)
    return wall_s, cpu_s


def states(running: Any, component: str) -> dict[Any, Any]:
    """The content of the state of all tasks of a component."""
    found: dict[Any, Any] = {}
    for task in running._task_set.tasks.bolts:
        if task.task.component == component:
            found |= task.state
    return found


async def measure_words(folder: Path, repetitions: int, size: int) -> Figures:
    """W1: the rate with exactly once, a snapshot each second, of the rate with at most once."""
    data = corpus(size)
    found: Figures = {}
    for style in STYLES:
        ratios, cpu, rates = [], [], []
        for _ in range(repetitions):
            topology = words(data, style)
            seconds = {}
            for config in (Config(guarantee="at-most-once"), exactly_once(folder)):
                shutil.rmtree(folder / "state", ignore_errors=True)
                seconds[config.guarantee] = await timed(
                    topology, config, lambda running: data.check(states(running, "count"))
                )
            once, most = seconds["exactly-once"], seconds["at-most-once"]
            ratios.append(most[0] / once[0])
            cpu.append(most[1] / once[1])
            rates.append(data.words / once[0])
        found[style] = {"ratio": spread(ratios), "ratio of cpu": spread(cpu), "words a second": spread(rates)}
    return found


async def measure_keys(folder: Path, repetitions: int, size: int) -> Figures:
    """A million keys, of which 50,000 change each second, at full speed: the rate after all keys were loaded."""
    keys, rows = 1_000_000, size * 30
    ratios = []

    def check(running: Any) -> None:
        found = states(running, "count")
        if len(found) != keys or sum(found.values()) != keys + rows:
            raise WrongResultError(f"{len(found)} keys, {sum(found.values())} rows")

    for _ in range(repetitions):
        seconds = []
        for config in (Config(guarantee="at-most-once"), exactly_once(folder)):
            shutil.rmtree(folder / "state", ignore_errors=True)
            marks_s: list[float] = []
            await timed(updates(keys, rows, 50_000, lambda at=marks_s: at.append(time.perf_counter())), config, check)
            seconds.append(marks_s[1] - marks_s[0])
        ratios.append(seconds[0] / seconds[1])
        print("keys", [round(rows / s) for s in seconds], file=sys.stderr, flush=True)
    return {"ratio": spread(ratios)}


@contextlib.asynccontextmanager
async def million_keys(folder: Path) -> AsyncIterator[RunningTopology]:
    """A topology that has a million keys, and changes 20,000 a second of them."""
    shutil.rmtree(folder / "state", ignore_errors=True)
    async with LocalCluster() as cluster:
        running = await cluster.submit("measured", ticking(str(folder), "1000000", "20000", "4"), exactly_once(folder))
        while running.metrics()["seen"].executed < 1_050_000:  # noqa: ASYNC110 - metrics have no event
            await asyncio.sleep(0.1)
        yield running
        await running.kill(0)


async def measure_pause(folder: Path, repetitions: int, size: int) -> Figures:
    """The longest time in which the event loop runs nothing else, with snapshots of a million keys."""
    longest_ms = []
    for _ in range(repetitions):
        async with million_keys(folder):
            gc.collect()
            longest_ms.append(1000 * await longest_pause(10.0))
    return {"longest pause, ms": spread(longest_ms)}


async def longest_pause(seconds: float) -> float:
    until_s, longest_s = time.perf_counter() + seconds, 0.0
    while (now_s := time.perf_counter()) < until_s:
        await asyncio.sleep(0)
        longest_s = max(longest_s, time.perf_counter() - now_s)
    return longest_s


async def measure_size(folder: Path, repetitions: int, size: int) -> Figures:
    """A million keys (int) with a count each: bytes of a whole snapshot, and memory of the process: before, with the
    keys, and the most so far, with snapshots each second.
    """
    found: dict[str, list[float]] = {"snapshot, MB": [], "folder, MB": []}
    before = resident_mb()
    memory = []
    for _ in range(repetitions):
        async with million_keys(folder) as running:
            await asyncio.sleep(5.0)  # snapshots
            await running.snapshot()
            taken = running.snapshot_metrics
            assert taken is not None
            memory.append(resident_mb())
            found["snapshot, MB"].append(taken.size_bytes / 1e6)
            found["folder, MB"].append(sum(file.stat().st_size for file in (folder / "state").iterdir()) / 1e6)
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    # Later repetitions use memory that the first one has left.
    sizes = {"memory before, MB": round(before), "with the keys": round(memory[0]), "the most": round(most)}
    return {what: spread(values) for what, values in found.items()} | sizes


def resident_mb() -> float:
    """Memory of this process."""
    gc.collect()
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20


async def measure_recovery(folder: Path, repetitions: int, size: int) -> Figures:
    """kill -9 of one of two workers with a million keys in all: seconds until rows are committed again."""
    chance, found = random.Random(1), []
    target = f'benchmarks.snapshots.topologies:ticking("{folder}", "1000000", "2000", "4")'
    async with LocalCluster(workers=2) as cluster:
        running = await cluster.submit("measured", target, exactly_once(folder, snapshot_interval_ms=500))
        await committed(folder, time.monotonic(), 120)
        for _ in range(repetitions * 4):
            await asyncio.sleep(chance.uniform(32, 34) if repetitions > 3 else 6)
            victim = chance.choice([worker for worker in running.workers() if worker.phase == "RUNNING"])
            killed_s = time.monotonic()
            os.kill(victim.pid, signal.SIGKILL)
            found.append(await committed(folder, killed_s, 60) - killed_s)
        await running.kill(0)
    found.sort()
    return {
        "seconds": [round(s, 2) for s in found],
        "p50": round(statistics.median(found), 2),
        "most": round(found[-1], 2),
    }


async def committed(folder: Path, after_s: float, limit_s: float) -> float:
    """When rows were committed for the first time after this moment."""
    async with asyncio.timeout(limit_s):
        while True:
            path = folder / "times"
            lines = path.read_text().splitlines() if path.exists() else []
            for line in lines:
                if float(line.split()[0]) > after_s + 0.001:
                    return float(line.split()[0])
            await asyncio.sleep(0.005)


async def measure_rescale(folder: Path, repetitions: int, size: int) -> Figures:
    """4 → 6 → 3 tasks with a million keys and 2,000 rows a second: seconds from the order to stop one run, in which it
    takes its last snapshot, to the first committed rows of the next; and the part from the submission of the next run.
    """
    found: dict[str, list[float]] = {}
    for _ in range(repetitions):
        shutil.rmtree(folder / "state", ignore_errors=True)
        (folder / "times").unlink(missing_ok=True)
        before, stopped_s = "", 0.0
        for tasks in ("4", "6", "3"):
            async with LocalCluster() as cluster:
                began_s = time.monotonic()
                topology = ticking(str(folder), "1000000", "2000", tasks)
                running = await cluster.submit("measured", topology, exactly_once(folder))
                rows_s = await committed(folder, began_s, 120)
                if before:
                    found.setdefault(f"{before} to {tasks}", []).append(rows_s - stopped_s)
                    found.setdefault(f"{before} to {tasks}, the next run", []).append(rows_s - began_s)
                await asyncio.sleep(3.0)  # under load
                before, stopped_s = tasks, time.monotonic()
                await running.kill()
    return {what: spread(seconds) for what, seconds in found.items()}


def spread(values: list[float]) -> str:
    values = sorted(values)
    return f"{values[0]:.3g} {statistics.median(values):.3g} {values[-1]:.3g}"


MEASURES: dict[str, Callable[[Path, int, int], Coroutine[None, None, Figures]]] = {
    "words": measure_words,
    "keys": measure_keys,
    "pause": measure_pause,
    "size": measure_size,
    "recovery": measure_recovery,
    "rescale": measure_rescale,
}


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.snapshots", description=__doc__)
    parser.add_argument("what", nargs="*", default=list(MEASURES), choices=[*MEASURES, []])
    parser.add_argument("-n", "--repetitions", type=int, default=5)
    parser.add_argument("--size", type=int, default=300_000, help="sentences of W1, and tenths of updates of keys")
    given = parser.parse_args()
    for what in given.what:
        with (
            tempfile.TemporaryDirectory(prefix="aiostorm-snapshots-") as name,
            asyncio.Runner(loop_factory=loop_factory()) as loop,
        ):
            figures = loop.run(MEASURES[what](Path(name), given.repetitions, given.size))
        print(json.dumps({what: figures}, indent=1), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
