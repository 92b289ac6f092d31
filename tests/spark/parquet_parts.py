"""What the tests of the Parquet sink are made of: a source of chunks that know what they are, and how to read back."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from aiostorm import Config, Fields, LocalCluster, Spout, TopologyBuilder

pa: Any = pytest.importorskip("pyarrow")
ds: Any = pytest.importorskip("pyarrow.dataset")

ROWS = 20


def chunk(number: int, rows: int = ROWS, source: str = "s") -> Any:
    """Chunk `number` of partition 0: its keys are its own, its values repeat."""
    first = number * rows
    return pa.record_batch(
        {"k": list(range(first, first + rows)), "word": [f"w{i % 5}" for i in range(rows)], "one": [1] * rows}
    ).replace_schema_metadata({"aiostorm.chunk": f"{source}/0/{number}"})


class Chunks(Spout):
    """Emits chunks, each again until it is acked, and those of `twice` once more after that."""

    outputs = Fields("k", "word", "one")

    def __init__(self, count: int = 4, *, twice: tuple[int, ...] = (), retries: int = 50) -> None:
        self.waiting = [*range(count), *twice]
        self.retries = retries

    def open(self, context: Any, collector: Any) -> None:
        self.collector = collector
        self.open_ids: set[int] = set()
        self.acked: list[int] = []
        self.failed: list[str] = []

    def batch(self, number: int) -> Any:
        return chunk(number)

    def next_tuple(self) -> None:
        if self.waiting:
            number = self.waiting.pop(0)
            self.collector.emit_arrow(self.batch(number), message_id=(number, len(self.waiting)))
            self.open_ids.add(number)
        elif not self.open_ids:
            self.collector.finish()

    def ack(self, message_id: Any) -> None:
        self.acked.append(message_id[0])
        self.open_ids.discard(message_id[0])

    def fail(self, message_id: Any, failure: Any) -> None:
        self.failed.append(failure.error)
        if len(self.failed) <= self.retries:
            self.waiting.append(message_id[0])
        else:
            self.open_ids.discard(message_id[0])

    def result(self) -> Any:
        return {"acked": sorted(self.acked), "failed": self.failed}


def read(path: Path | str, **options: Any) -> list[dict[str, Any]]:
    """All rows of a dataset, by key."""
    rows: list[dict[str, Any]] = ds.dataset(str(path), partitioning="hive", **options).to_table().to_pylist()
    return sorted(rows, key=lambda row: row["k"])


def rows_of(*numbers: int) -> list[dict[str, Any]]:
    """The rows of these chunks."""
    return [row for number in sorted(numbers) for row in chunk(number).to_pylist()]


def files(path: Path) -> list[str]:
    """Names of files below a folder, without the word that each task leaves when it has ended."""
    found = (file.relative_to(path).as_posix() for file in path.rglob("*") if file.is_file())
    return sorted(name for name in found if not name.startswith(".aiostorm-tmp/whole-"))


async def run(builder: TopologyBuilder, config: Mapping[str, Any] | None = None) -> tuple[dict[str, list[Any]], Any]:
    """Results and errors of a topology that has come to its end."""
    async with LocalCluster() as cluster:
        running = await cluster.submit("parquet", builder.create_topology(), Config(**(config or {})))
        await running.wait_idle(timeout_s=600)
        return await running.results(), running.errors()


async def run_whole(builder: TopologyBuilder, name: str = "parquet") -> list[str]:
    """To its end, and that is waited for; what went wrong after it."""
    async with LocalCluster() as cluster:
        running = await cluster.submit(name, builder.create_topology())
        await running.wait_finished(timeout_s=600)
    return [str(problem) for problem in running.problems]
