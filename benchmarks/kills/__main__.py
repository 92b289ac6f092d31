"""`python -m benchmarks.kills`: kill -9 of random workers under load; a verifier in a process of its own.

Exit code 1 if anything was lost. The figures say how long what the dead worker did stood still. A worker that has died
before within 30 s is started again after a while (0.2, 1, 5 s): what is killed for the first time in that time is
marked.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from aiostorm import Config, LocalCluster
from aiostorm.runtime import loop_factory

RECENT_S = 30.0
"""So long a death makes the next start of its worker wait (cluster/parent/worker_lifecycle.py)."""


async def run(folder: Path, kills: int, workers: int, rate: float, gap_s: tuple[float, float], seed: int) -> int:
    """Run the topology and kill its workers. How many numbers it was given."""
    chance = random.Random(seed)
    count = int(rate * (kills * sum(gap_s) / 2 * 1.15 + 12))
    target = f'benchmarks.kills.topology:topology("{folder}", "{count}", "{rate}")'
    done: list[dict[str, Any]] = []
    async with LocalCluster(workers=workers) as cluster:
        running = await cluster.submit("kills", target, Config(max_spout_pending=2000))
        pids: dict[int, str] = {}

        async def pause(seconds: float) -> None:
            until_s = time.monotonic() + seconds
            while time.monotonic() < until_s:
                pids.update((worker.pid, worker.name) for worker in running.workers())
                await asyncio.sleep(0.05)

        await pause(2.0)
        for number in range(kills):
            victim = chance.choice([worker for worker in running.workers() if worker.phase == "RUNNING"])
            now_s = time.monotonic()
            recent = sum(kill["worker"] == victim.name and now_s - kill["at_s"] < RECENT_S for kill in done)
            done.append({"at_s": now_s, "worker": victim.name, "pid": victim.pid, "recent": recent})
            os.kill(victim.pid, signal.SIGKILL)
            print(f"kill {number + 1}/{kills}: {victim.name} (pid {victim.pid})", file=sys.stderr, flush=True)
            await pause(chance.uniform(*gap_s))
        await pause(6.0)
        (folder / "kills.json").write_text(json.dumps({"kills": done, "pids": pids}))
        await running.wait_finished(timeout_s=120)
    return count


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.kills", description=__doc__)
    parser.add_argument("--kills", type=int, default=30)
    parser.add_argument("--workers", type=int, default=3)
    parser.add_argument("--rate", type=float, default=3000.0, help="numbers a second")
    parser.add_argument("--gap", type=float, nargs=2, default=(1.5, 4.0), metavar=("LEAST", "MOST"), help="seconds")
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    with (
        tempfile.TemporaryDirectory(prefix="aiostorm-kills-") as name,
        asyncio.Runner(loop_factory=loop_factory()) as loop,
    ):
        folder = Path(name)
        count = loop.run(run(folder, given.kills, given.workers, given.rate, tuple(given.gap), given.seed))
        said = subprocess.run(
            [sys.executable, "-m", "benchmarks.kills.verify", name, str(count)],
            capture_output=True,
            text=True,
            check=True,
        )
    found = json.loads(said.stdout)
    kills = found.pop("kills")
    print(json.dumps(found, indent=1))
    for name, some in (("all", kills), ("started again at once", [kill for kill in kills if not kill["recent"]])):
        for what in ("resumed_s", "silence_s"):
            print(f"{what}, {name}: {_figures(what, some)}")
    return 1 if found["lost"] or found["never_acked"] or found["acked_and_lost"] or found["wrong_lines"] else 0


def _figures(what: str, kills: list[dict[str, Any]]) -> str:
    values = sorted(kill[what] for kill in kills if kill[what] is not None)
    if not values:
        return "none"
    p99 = values[min(len(values) - 1, int(len(values) * 0.99))]
    first, last = (f"{kill[what]:.3f}" if kill[what] is not None else "never" for kill in (kills[0], kills[-1]))
    of = f"{len(values)} of {len(kills)} kills"
    return f"p50 {statistics.median(values):.3f}, p99 {p99:.3f}, first {first}, last {last} ({of})"


if __name__ == "__main__":
    sys.exit(main())
