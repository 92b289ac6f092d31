"""The program that is killed: `python -m benchmarks.bank.program FOLDER COUNT RATE WORKERS`.

It writes the pids of its workers into pids.json.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import sys
from pathlib import Path

from aiostorm import Config, LocalCluster
from aiostorm.runtime import loop_factory


async def run(folder: Path, count: str, rate: str, workers: int) -> None:
    target = f'benchmarks.bank.topology:topology("{folder}", "{count}", "{rate}")'
    config = Config(guarantee="exactly-once", state_dir=str(folder / "state"), snapshot_interval_ms=200)
    async with LocalCluster(workers=workers) as cluster:
        running = await cluster.submit("bank", target, config)
        watching = asyncio.create_task(_watch(folder, running))
        await running.wait_finished()
        watching.cancel()


async def _watch(folder: Path, running: object) -> None:
    while True:
        pids = [worker.pid for worker in running.workers() if worker.phase == "RUNNING"]  # type: ignore[attr-defined]
        new = folder / "pids.new"
        new.write_text(json.dumps(pids))
        os.replace(new, folder / "pids.json")
        await asyncio.sleep(0.05)


if __name__ == "__main__":
    logging.basicConfig(level=logging.WARNING, format="%(relativeCreated)d %(message)s")
    with asyncio.Runner(loop_factory=loop_factory()) as loop:
        loop.run(run(Path(sys.argv[1]), sys.argv[2], sys.argv[3], int(sys.argv[4])))
