"""Egress exactly once: the log has each row once, whatever is killed, repeated, and read meanwhile."""

from __future__ import annotations

import asyncio
import contextlib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiostorm import Config, LocalCluster, Topology, TopologyBuilder, TopologyError, TopologyFailedError
from aiostorm.spark import SparkEgressBolt
from aiostorm.spark.datasource.egress_store import MemoryChunkStore, StoredLog
from aiostorm.spark.datasource.kept_chunks import KeptChunks, LogLimits
from aiostorm.spark.executors.messages import Trim
from tests.cluster.snapshots.parts import Numbers

from .lines import FIELDS, batch, until
from .test_egress import Reader

COUNT = 60


class Batches(Numbers):
    """Emits batches of ten numbers."""

    outputs = FIELDS  # type: ignore[assignment]

    async def next_tuple(self) -> None:  # type: ignore[override]
        await asyncio.sleep(0.003)
        if self.at >= self.count:
            self.collector.finish()
            return
        self.collector.emit_arrow(batch(self.at * 10))
        self.at += self.step


def kept(folder: Path, *, state: str = "state", tasks: int = 1, **given: Any) -> Topology:
    builder = TopologyBuilder()
    builder.set_spout("in", Batches(COUNT), 2)
    egress = SparkEgressBolt(endpoints=str(folder / "out"), directory=folder / "log", **given)
    builder.set_bolt("out", egress, tasks).shuffle_grouping("in")
    settings: dict[str, Any] = {"state_dir": str(folder / state), "snapshot_interval_ms": 20}
    return builder.create_topology(config=Config(guarantee="exactly-once", **settings))


class Consumer:
    """Reads what is there, and commits it."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.numbers, self.at, self.log = folder, list[int](), -1, ""

    async def read(self) -> None:
        async with Reader(self.folder / "out") as reader:
            state = await reader.query(self.log, self.at)
            self.log = state.log
            self.numbers += await reader.fetch(state.log, state.committed, state.end)
            self.at = state.end
            await reader.query(self.log, self.at, done=True)


@pytest.mark.sockets
async def test_the_log_has_each_row_once_when_the_topology_is_killed(tmp_path: Path) -> None:
    consumer = Consumer(tmp_path)
    for rows in (1, 200, 350):
        async with LocalCluster() as cluster:
            running = await cluster.submit("job", kept(tmp_path))
            while len(consumer.numbers) < rows:
                await consumer.read()
            await running.kill(0)
    async with LocalCluster() as cluster:
        running = await cluster.submit("job", kept(tmp_path))
        while len(consumer.numbers) < COUNT * 10:
            await consumer.read()
        await running.snapshot()
        await consumer.read()
        await running.kill(0)
    assert sorted(consumer.numbers) == list(range(COUNT * 10))
    with pytest.raises(TopologyFailedError, match=r"has the output of snapshot .* begins from the start: rows would"):
        async with LocalCluster() as cluster:
            await (await cluster.submit("job", kept(tmp_path, state="other"))).wait_ended()


@pytest.mark.sockets
async def test_a_log_that_is_full_holds_the_topology_until_spark_has_read(tmp_path: Path) -> None:
    consumer = Consumer(tmp_path)
    async with LocalCluster() as cluster:
        running = await cluster.submit("job", kept(tmp_path, keep_rows=50))
        log = running.metrics
        await until(lambda: log()["out"].executed > 0)
        while len(consumer.numbers) < COUNT * 10:
            await consumer.read()
            await asyncio.sleep(0.01)
        await running.wait_finished(60)
    assert sorted(consumer.numbers) == list(range(COUNT * 10))


def test_a_log_in_memory_is_refused() -> None:
    builder = TopologyBuilder()
    builder.set_spout("in", Batches(1))
    builder.set_bolt("out", SparkEgressBolt(endpoints="x")).shuffle_grouping("in")
    with pytest.raises(TopologyError, match="keeps its output in memory, where it is lost with the task: give it dir"):
        builder.create_topology(config=Config(guarantee="exactly-once"))


class Disk(MemoryChunkStore):
    """Survives, and can fail at any call."""

    def __init__(self) -> None:
        super().__init__()
        self.log, self.sizes, self.mark, self.committed = "l", list[Any](), (0, 0), dict[str, int]()
        self.fails_in = -1

    def _call(self) -> None:
        self.fails_in -= 1
        if self.fails_in == 0:
            raise OSError("killed")

    async def open(self) -> StoredLog:
        return StoredLog(self.log, self._first, list(self.sizes), dict(self.committed), self.mark)

    async def add(self, at: int, size: Any, data: bytes) -> None:
        self._call()
        await super().add(at, size, data)
        self.sizes.append(size)
        self._call()

    async def trim(self, first: int, committed: dict[str, int]) -> None:
        self.sizes = self.sizes[first - self._first :]
        await super().trim(first, committed)
        self.committed = committed

    async def set_mark(self, mark: tuple[int, int], first: int, committed: dict[str, int]) -> None:
        self._call()
        self.mark = mark
        self._call()


@given(
    st.lists(st.tuples(st.lists(st.integers(0, 9), max_size=4), st.lists(st.integers(1, 9), max_size=3)), max_size=5)
)
def test_a_commit_that_is_interrupted_anywhere_is_completed(snapshots: list[tuple[list[int], list[int]]]) -> None:
    """(rows of a snapshot's chunks, calls at which an attempt is interrupted); Spark reads in between."""

    async def run() -> None:
        disk, limits = Disk(), LogLimits(("spark",), 10**9, 10**9, forgets=False)
        seen: list[bytes] = []
        for number, (rows, failures) in enumerate(snapshots, 1):
            chunks = [(count, f"{number}/{at}".encode()) for at, count in enumerate(rows)]
            for fails_in in (*failures, 0, 0):
                log = KeptChunks(disk, limits)
                await log.open()
                disk.fails_in = fails_in
                with contextlib.suppress(OSError):
                    await log.add_snapshot(number, chunks)
                disk.fails_in = -1
                fresh = KeptChunks(disk, limits)
                await fresh.open()
                end = disk._first + len(disk.sizes)
                seen += [await fresh.read(at) for at in range(disk._first, end)]
                await fresh.commit(Trim("spark", "l", end))
        assert seen == [f"{n}/{at}".encode() for n, (rows, _) in enumerate(snapshots, 1) for at in range(len(rows))]

    asyncio.run(run())
