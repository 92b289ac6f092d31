"""A bolt that is a hundred times too slow, on the other worker: does memory stay, do the others go on?

    python -m benchmarks.slow_bolt [--seconds 60]

    flood ×2 (as fast as it may, no limit on what is pending) ─shuffle─► slow ×2 (10 ms a tuple)
    steady ×2 (500 tuples/s)                                  ─shuffle─► quick ×2 (how old is each tuple?)

Two workers, a task of each component on either: half of all tuples go over the one link. It runs twice: without the
flood, and with it. Exit code 1 if a worker grew by more than 64 MiB, or if what is not concerned got less than nine
tenths of its rate.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import sys
import time
from pathlib import Path
from typing import Any, Final

from aiostorm import BasicBolt, BasicCollector, Config, Fields, LocalCluster, Spout, Topology, TopologyBuilder, Tuple
from aiostorm.runtime import loop_factory

from .clocking import quantiles

SLOW_S: Final = 0.01
STEADY_PER_S: Final = 500.0
MAX_GROWTH_MIB: Final = 64.0
_PAGE_MIB: Final = os.sysconf("SC_PAGE_SIZE") / 2**20


class Flood(Spout):
    outputs = Fields("n", "text")

    def __init__(self, on: bool) -> None:
        self.on = on

    def open(self, context: Any, collector: Any) -> None:
        self.collector, self.number = collector, 0

    def next_tuple(self) -> None:
        if self.on:
            self.number += 1
            self.collector.emit((self.number, "a text of some length, as rows have them"), message_id=self.number)


class Slow(BasicBolt):
    async def execute(self, tup: Tuple, collector: BasicCollector) -> None:
        await asyncio.sleep(SLOW_S)


class Steady(Spout):
    outputs = Fields("emitted_s")

    def open(self, context: Any, collector: Any) -> None:
        self.collector, self.number, self.began_s = collector, 0, time.monotonic()

    def next_tuple(self) -> None:
        now_s = time.monotonic()
        if self.number < (now_s - self.began_s) * STEADY_PER_S:
            self.number += 1
            self.collector.emit((now_s,), message_id=self.number)


class Quick(BasicBolt):
    def prepare(self, context: Any) -> None:
        self.ages_s: list[float] = []

    def execute(self, tup: Tuple, collector: BasicCollector) -> None:
        self.ages_s.append(time.monotonic() - tup["emitted_s"])

    def result(self) -> list[float]:
        return self.ages_s


def topology(flood: str) -> Topology:
    """`flood`: "on" or "off"."""
    builder = TopologyBuilder()
    builder.set_spout("flood", Flood(flood == "on"), 2)
    builder.set_bolt("slow", Slow, 2).shuffle_grouping("flood")
    builder.set_spout("steady", Steady, 2)
    builder.set_bolt("quick", Quick, 2).shuffle_grouping("steady")
    return builder.create_topology()


def resident_mib(pid: int) -> float:
    """What a process has in memory."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * _PAGE_MIB


async def measure(flood: str, seconds: float, warm_s: float = 5.0) -> dict[str, Any]:
    """One run."""
    async with LocalCluster(workers=2) as cluster:
        config = Config(message_timeout_s=3600.0)
        running = await cluster.submit("slow-bolt", f'benchmarks.slow_bolt:topology("{flood}")', config)
        await asyncio.sleep(warm_s)
        pids = {worker.name: worker.pid for worker in running.workers()}
        before = {name: resident_mib(pid) for name, pid in pids.items()}
        most = dict(before)
        ends_s = time.monotonic() + seconds
        while time.monotonic() < ends_s:
            await asyncio.sleep(0.5)
            most = {name: max(most[name], resident_mib(pid)) for name, pid in pids.items()}
        await running.deactivate()
        await asyncio.sleep(0.5)
        ages_s = [age for ages in (await running.results())["quick"] for age in ages]
        slow = running.metrics()["slow"]
        restarts = sum(worker.restarts for worker in running.workers())
        await running.kill(0)
    return {
        "flood": flood,
        "seconds": seconds,
        "resident_mib": {name: round(value, 1) for name, value in before.items()},
        "growth_mib": {name: round(most[name] - before[name], 1) for name in most},
        "slow_executed": slow.executed,
        "steady_per_s": round(len(ages_s) / (seconds + warm_s), 1),
        "steady_age_ms": {name: round(value * 1e3, 3) for name, value in quantiles(ages_s).items()},
        "restarts": restarts,
    }


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.slow_bolt", description=__doc__)
    parser.add_argument("--seconds", type=float, default=60.0)
    given = parser.parse_args()
    with asyncio.Runner(loop_factory=loop_factory()) as runner:
        without = runner.run(measure("off", min(10.0, given.seconds)))
        print(json.dumps(without), flush=True)
        with_flood = runner.run(measure("on", given.seconds))
    print(json.dumps(with_flood))
    harmed = with_flood["steady_per_s"] < 0.9 * without["steady_per_s"]
    grown = max(with_flood["growth_mib"].values()) > MAX_GROWTH_MIB
    return 1 if harmed or grown or with_flood["restarts"] else 0


if __name__ == "__main__":
    sys.exit(main())
