"""Topologies that run on real workers: imported there by name. What they have done stands in files."""

from __future__ import annotations

import asyncio
import logging
import os
import time
from operator import itemgetter
from pathlib import Path
from typing import Any

from aiostorm import BasicBolt, BasicCollector, Config, Spout, Topology, TopologyBuilder, Tuple
from aiostorm.windows import Count, Tumbling, WindowedBolt

HELD_S = 7.0

log = logging.getLogger("aiostorm.tests.jobs")


class Numbers(Spout):
    """0 to count - 1, each until it is acked; begun anew when its worker was."""

    outputs = "n"

    def __init__(self, count: int, pause_s: float) -> None:
        self.count = count
        self.pause_s = pause_s

    def open(self, context: Any, collector: Any) -> None:
        self.collector = collector
        self.left = list(range(self.count))[::-1]
        self.acked: set[int] = set()

    def next_tuple(self) -> None:
        if self.left:
            n = self.left.pop()
            self.collector.emit((n,), n)
            if self.pause_s and n % 10 == 0:
                time.sleep(self.pause_s)
        elif len(self.acked) == self.count:
            self.collector.finish()

    def ack(self, message_id: int) -> None:
        self.acked.add(message_id)

    def fail(self, message_id: int, failure: Any) -> None:
        self.left.append(message_id)

    def result(self) -> int:
        return len(self.acked)


class Double(BasicBolt):
    outputs = "n"

    def execute(self, tup: Tuple, collector: BasicCollector) -> None:
        log.debug("doubles %d", tup["n"])
        collector.emit((tup["n"],))


class Write(BasicBolt):
    """Appends each number to a file of its task's."""

    def __init__(self, folder: str) -> None:
        self.folder = folder

    def prepare(self, context: Any) -> None:
        self.file = (Path(self.folder) / f"{context.task_id}.{os.getpid()}").open("a", buffering=1)
        self.count = 0
        print(f"writes in {os.getpid()}")

    def execute(self, tup: Tuple, collector: BasicCollector) -> None:
        self.file.write(f"{tup['n']}\n")
        self.count += 1

    def cleanup(self) -> None:
        self.file.close()

    def result(self) -> int:
        return self.count


def numbers(folder: str, count: str = "1000", pause_s: str = "0") -> Topology:
    builder = TopologyBuilder()
    builder.set_spout("numbers", Numbers(int(count), float(pause_s)))
    builder.set_bolt("double", Double, 2).shuffle_grouping("numbers")
    builder.set_bolt("write", Write(folder), 2).fields_grouping("double", "n")
    return builder.create_topology("numbers", config=Config(max_spout_pending=500, message_timeout_s=60))


class LastingNumbers(Numbers):
    """Ends when it is let: when there is a file of this path."""

    def __init__(self, count: int, pause_s: float, path: str) -> None:
        super().__init__(count, pause_s)
        self.path = path

    def next_tuple(self) -> None:
        if self.left or Path(self.path).exists():
            super().next_tuple()


def lasting(folder: str, count: str, pause_s: str) -> Topology:
    """As `numbers`, until there is a file of the folder's name and `.ends`."""
    builder = TopologyBuilder()
    builder.set_spout("numbers", LastingNumbers(int(count), float(pause_s), f"{folder}.ends"))
    builder.set_bolt("double", Double, 2).shuffle_grouping("numbers")
    builder.set_bolt("write", Write(folder), 2).fields_grouping("double", "n")
    return builder.create_topology("numbers", config=Config(max_spout_pending=500, message_timeout_s=60))


class Holds(Write):
    """Holds its event loop for longer than a remote worker's lease, when it is prepared and in the middle."""

    def prepare(self, context: Any) -> None:
        super().prepare(context)
        time.sleep(HELD_S)

    def execute(self, tup: Tuple, collector: BasicCollector) -> None:
        super().execute(tup, collector)
        if tup["n"] == 20:
            time.sleep(HELD_S)


def held(folder: str, count: str) -> Topology:
    builder = TopologyBuilder()
    builder.set_spout("numbers", Numbers(int(count), 0))
    builder.set_bolt("holds", Holds(folder), 2).shuffle_grouping("numbers")
    return builder.create_topology("held", config=Config(max_spout_pending=100, message_timeout_s=60))


def written(folder: Path) -> list[int]:
    """All numbers in the files."""
    return [int(line) for file in folder.iterdir() for line in file.read_text().splitlines() if line]


class Clicks(Spout):
    """`count` clicks of seven users, ten milliseconds apart."""

    outputs = ("user", "at")

    def __init__(self, count: int) -> None:
        self.count = count

    def open(self, context: Any, collector: Any) -> None:
        self.collector, self.n = collector, 0

    async def next_tuple(self) -> None:
        for _ in range(min(50, self.count - self.n)):
            self.collector.emit((f"user {self.n % 7}", self.n * 10), self.n)
            self.n += 1
        if self.n == self.count:
            self.collector.finish()
        await asyncio.sleep(0.01)


class Total(BasicBolt):
    """The sum of what windows have counted."""

    def prepare(self, context: Any) -> None:
        self.total = 0

    def execute(self, tup: Tuple, collector: BasicCollector) -> None:
        self.total += tup["result"]

    def result(self) -> int:
        return self.total


def windows() -> Topology:
    """Clicks of two spouts, counted by user and second."""
    builder = TopologyBuilder()
    builder.set_spout("clicks", Clicks(2_000), parallelism=2)
    counted = WindowedBolt(Tumbling(1_000), Count(), key="user", timestamp="at", lag_ms=60_000, interval_ms=20)
    builder.set_bolt("counted", counted, parallelism=3).fields_grouping("clicks", "user")
    builder.set_bolt("total", Total).global_grouping("counted")
    return builder.create_topology(summary=lambda results: {"clicks": results["total"]})


class Ticking(Spout):
    """A number each five milliseconds, until there is a file `stop`; each again until it is acked."""

    outputs = "n"

    def __init__(self, folder: str) -> None:
        self.stop = os.path.join(folder, "stop")

    def open(self, context: Any, collector: Any) -> None:
        self.collector, self.next = collector, 0
        self.left: list[int] = []
        self.acked: set[int] = set()

    async def next_tuple(self) -> None:
        await asyncio.sleep(0.005)
        if os.path.exists(self.stop):  # noqa: ASYNC240 - of a local file
            if not self.left and len(self.acked) == self.next:
                self.collector.finish()
            if not self.left:
                return
        if not self.left:
            self.left.append(self.next)
            self.next += 1
        n = self.left.pop()
        self.collector.emit((n,), n)

    def ack(self, message_id: int) -> None:
        self.acked.add(message_id)

    def fail(self, message_id: int, failure: Any) -> None:
        self.left.append(message_id)

    def result(self) -> int:
        return len(self.acked)


class Stamps(BasicBolt):
    """Appends each number and when it has arrived (of the machine's monotonic clock) to a file of its task's."""

    def __init__(self, folder: str) -> None:
        self.folder = folder

    def prepare(self, context: Any) -> None:
        self.file = (Path(self.folder) / f"{context.task_id}.stamps").open("a", buffering=1)

    def execute(self, tup: Tuple, collector: BasicCollector) -> None:
        self.file.write(f"{tup['n']} {time.monotonic()}\n")

    def cleanup(self) -> None:
        self.file.close()


def ticking(folder: str) -> Topology:
    builder = TopologyBuilder()
    builder.set_spout("ticking", Ticking(folder))
    builder.set_bolt("double", Double, 2).shuffle_grouping("ticking")
    builder.set_bolt("stamps", Stamps(folder), 2).shuffle_grouping("double")
    return builder.create_topology(config=Config(message_timeout_s=600))


def stamps(folder: Path) -> list[tuple[int, float]]:
    """(number, when it has arrived) of all that has, in this order."""
    lines = [line.split() for file in folder.glob("*.stamps") for line in file.read_text().splitlines()]
    return sorted(((int(n), float(at_s)) for n, at_s in (line for line in lines if len(line) == 2)), key=itemgetter(1))
