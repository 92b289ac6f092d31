"""What tests of streams share: files that a stream reads, bolts that keep what came, topologies around them."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from aiostorm import BasicBolt, Bolt, LocalCluster, RunningTopology, TopologyBuilder
from aiostorm.spark import SparkStreamSpout

ROWS = 30
"""Rows of a file, which is a batch."""

LIMIT_S = 60.0


class StreamFolder:
    """A folder with files that a stream reads, one a batch, and a checkpoint."""

    def __init__(self, folder: Path, *, made: bool = False) -> None:
        self.folder = folder
        self.input = folder / "in"
        if not made:
            self.input.mkdir(parents=True)
        self.checkpoint = folder / "checkpoint"
        self.files = 0

    def add(self, files: int = 1) -> None:
        """More files; the next one goes on counting."""
        for _ in range(files):
            lines = [json.dumps({"n": self.files * ROWS + i, "text": "x"}) for i in range(ROWS)]
            part = self.folder / ".part"
            part.write_text("\n".join(lines))
            os.utime(part, (1_700_000_000 + self.files,) * 2)  # Spark takes the oldest first
            part.rename(self.input / f"{self.files:05}.json")
            self.files += 1

    def read(self, spark: Any) -> Any:
        """The stream."""
        reader = spark.readStream.schema("n long, text string").option("maxFilesPerTrigger", 1)
        return reader.json(str(self.input))

    def commits(self) -> list[int]:
        """The batches that Spark has committed."""
        folder = self.checkpoint / "commits"
        return sorted(int(path.name) for path in folder.iterdir() if path.name.isdigit()) if folder.exists() else []

    def spout(self, spark: Any, **options: Any) -> SparkStreamSpout:
        """A spout that reads it in the session of the tests."""
        return SparkStreamSpout(
            **{"source": self.read, "checkpoint": str(self.checkpoint), "fields": ["n", "text"], "session": spark}
            | options
        )


class Results:
    """What came to the bolts of one test."""

    def __init__(self) -> None:
        self.chunks: list[tuple[str, list[int]]] = []
        self.open: list[tuple[Any, Any]] = []
        self.changed = asyncio.Event()

    @property
    def numbers(self) -> list[int]:
        """All rows, in order."""
        return sorted(n for _, numbers in self.chunks for n in numbers)

    @property
    def ids(self) -> list[str]:
        """The chunks, as they came."""
        return [chunk for chunk, _ in self.chunks]

    async def until(self, condition: Callable[[], bool]) -> None:
        """Wait until something that came makes it true."""
        async with asyncio.timeout(LIMIT_S):
            while not condition():
                self.changed.clear()
                await self.changed.wait()

    def add(self, chunk: str, numbers: list[int]) -> None:
        """A chunk has come."""
        self.chunks.append((chunk, numbers))
        self.changed.set()


class Keep(BasicBolt):
    """Keeps what comes. `fails`: which chunks, how often."""

    def __init__(self, kept: Results, fails: dict[str, int] | None = None) -> None:
        self.kept = kept
        self.fails = fails if fails is not None else {}

    def __deepcopy__(self, memo: Any) -> Keep:
        return self

    def execute_arrow(self, batch: Any, collector: Any) -> None:
        chunk = batch.schema.metadata[b"aiostorm.chunk"].decode()
        assert batch.schema.metadata[b"aiostorm.batch"].decode() == chunk.split("/")[1].removeprefix("b")
        if self.fails.get(chunk, 0) > 0:
            self.fails[chunk] -= 1
            raise ValueError("not this one")
        self.kept.add(chunk, batch.column("n").to_pylist())


class Hold(Bolt):
    """Acks when the test says so."""

    def __init__(self, kept: Results) -> None:
        self.kept = kept

    def __deepcopy__(self, memo: Any) -> Hold:
        return self

    def prepare(self, context: Any, collector: Any) -> None:
        self.collector = collector

    def execute(self, tup: Any) -> None:
        self.kept.open.append((self.collector, tup))
        self.kept.changed.set()

    def ack_all(self) -> None:
        held, self.kept.open = self.kept.open, []
        for collector, tup in held:
            collector.ack(tup)


@asynccontextmanager
async def running(spout: Any, bolt: Any, name: str = "job", **config: Any) -> AsyncIterator[RunningTopology]:
    """A topology of a spout `clicks` and a bolt."""
    builder = TopologyBuilder()
    builder.set_spout("clicks", spout)
    builder.set_bolt("sink", bolt).shuffle_grouping("clicks")
    async with LocalCluster() as cluster:
        yield await cluster.submit(name, builder.create_topology(), config)


async def run_all(place: StreamFolder, spark: Any, kept: Results, **options: Any) -> dict[str, Any]:
    """All that is there, in one go; what the spout says at its end."""
    spout = place.spout(spark, trigger={"availableNow": True}, **options)
    async with running(spout, Keep(kept)) as job:
        await job.wait_finished(LIMIT_S)
        results = await job.results()
    [result] = results["clicks"]
    return dict(result)


__all__ = ["LIMIT_S", "ROWS", "Hold", "Keep", "Results", "StreamFolder", "run_all", "running"]
