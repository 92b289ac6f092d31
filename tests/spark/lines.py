"""What the tests of the data source share: topologies that Spark writes into and reads from, without Spark."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa

from aiostorm import BasicBolt, TopologyBuilder
from aiostorm.spark import SparkEgressBolt, SparkIngressSpout
from aiostorm.spark.datasource.chunks import cut, empty_of
from aiostorm.spark.digests import digest_of
from aiostorm.spark.executors import messages
from aiostorm.spark.executors.client import ChunkWriter, ServerClient
from aiostorm.spark.executors.location import ServerLocation

FIELDS = ("n", "s")


def batch(begin: int, rows: int = 10) -> Any:
    numbers = range(begin, begin + rows)
    return pa.record_batch({"n": pa.array(numbers, pa.int64()), "s": [str(n) for n in numbers]})


batch(0)  # pyarrow loads pandas for the first array: now, and not while a loop runs


async def until(ready: Callable[[], bool], within_s: float = 20.0) -> None:
    """Wait for it."""
    async with asyncio.timeout(within_s):
        while not ready():  # noqa: ASYNC110 - what is waited for is in threads, too
            await asyncio.sleep(0.01)


class Table:
    """What a topology has processed: shared by the copies of the bolt, in one process."""

    def __init__(self) -> None:
        self.chunks: Counter[str] = Counter()
        self.numbers: list[int] = []
        self.fails: Counter[str] = Counter()
        self.gate = asyncio.Event()
        self.gate.set()
        self.waiting = 0

    def __deepcopy__(self, memo: Any) -> Table:
        return self


class Sink(BasicBolt):
    """Takes batches; fails those that the table says, and waits at its gate."""

    outputs = FIELDS

    def __init__(self, table: Table) -> None:
        self.table = table

    async def execute_arrow(self, batch: Any, collector: Any) -> None:
        table = self.table
        table.waiting += 1
        await table.gate.wait()
        table.waiting -= 1
        chunk = batch.schema.metadata[b"aiostorm.chunk"].decode()
        if table.fails[chunk]:
            table.fails[chunk] -= 1
            raise ValueError(f"{chunk} is bad")
        table.chunks[chunk] += 1
        table.numbers += batch.column("n").to_pylist()
        collector.emit_arrow(batch)


def topology(table: Table, spout: SparkIngressSpout, *, tasks: int = 1, egress: SparkEgressBolt | None = None) -> Any:
    builder = TopologyBuilder()
    builder.set_spout("in", spout, tasks)
    builder.set_bolt("sink", Sink(table)).shuffle_grouping("in")
    if egress is not None:
        builder.set_bolt("out", egress).shuffle_grouping("sink")
    return builder.create_topology()


def into(folder: Path, **options: Any) -> ServerLocation:
    return ServerLocation(messages.ROLE_INGRESS, str(folder), **options)


def out_of(folder: Path, **options: Any) -> ServerLocation:
    return ServerLocation(messages.ROLE_EGRESS, str(folder), **options)


def offers(
    batches: list[Any], partition: int = 0, *, name: str = "w", stream: str = "", number: int = -1
) -> Iterator[tuple[messages.Offer, bytes]]:
    of = name if number < 0 else f"{name}/b{number}"
    for at, one in enumerate(batches):
        for part, data in cut(one):
            chunk = f"{of}/{partition}/{at}"
            yield messages.Offer(0, stream, number, chunk, part.num_rows, digest_of(part), len(data)), data


def write(where: ServerLocation, batches: list[Any], partition: int = 0, **named: Any) -> int:
    """What a task of Spark's does."""
    with ServerClient(where, partition, empty_of(batches[0].schema) if batches else b"") as client:
        return ChunkWriter(client).write(offers(batches, partition, **named))
