"""Start and stop workers many times, and look at what is left: `python -m tests.cluster --starts 200`.

Prints the seconds of a start and a stop, and the open descriptors, threads and child processes at the beginning and at
the end. Exit code 1 if anything is left.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import os
import shutil
import statistics
import sys
import tempfile
import threading
import time
from pathlib import Path

from aiostorm import LocalCluster


def left() -> dict[str, int]:
    """What this process has."""
    gc.collect()
    children = [
        stat
        for stat in Path("/proc").glob("[0-9]*/stat")
        if (fields := _fields(stat)) is not None and fields[1] == str(os.getpid())
    ]
    return {
        "descriptors": len(os.listdir("/proc/self/fd")),
        "threads": threading.active_count(),
        "children": len(children),
        "temporary": len(os.listdir(tempfile.gettempdir())),
    }


def _fields(stat: Path) -> list[str] | None:
    try:
        return stat.read_text().rpartition(")")[2].split()
    except OSError:  # it has ended
        return None


async def main(starts: int, workers: int) -> int:
    """Do it."""
    with tempfile.TemporaryDirectory(prefix="s") as place:
        tempfile.tempdir = place
        begun_s, ended_s = [], []
        before: dict[str, int] = {}
        for number in range(starts):
            folder = Path(tempfile.mkdtemp(dir=Path(place).parent))
            at_s = time.perf_counter()
            async with LocalCluster(workers=workers) as cluster:
                target = "tests.cluster.spread_jobs:numbers"
                running = await cluster.submit("numbers", target, arguments=(str(folder), "100"))
                begun_s.append(time.perf_counter() - at_s)
                await running.wait_finished(60)
                at_s = time.perf_counter()
            ended_s.append(time.perf_counter() - at_s)
            shutil.rmtree(folder)
            if number == 0:
                before = left()
        after = left()
    print(f"{starts} starts of {workers} workers: median {statistics.median(begun_s):.2f} s, most {max(begun_s):.2f} s")
    print(f"stops: median {statistics.median(ended_s):.2f} s, most {max(ended_s):.2f} s")
    print(f"after the first: {before}\nafter the last:  {after}")
    return int(after != before)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--starts", type=int, default=200)
    parser.add_argument("--workers", type=int, default=2)
    given = parser.parse_args()
    sys.exit(asyncio.run(main(given.starts, given.workers)))
