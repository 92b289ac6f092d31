"""Spark → windows → Parquet, exactly once: what tests kill. `python -m tests.spark.exact_job batch|stream FOLDER`."""

from __future__ import annotations

import asyncio
import os
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, ClassVar

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq

from aiostorm import BasicBolt, Config, LocalCluster, Sum, Topology, TopologyBuilder, Tumbling, WindowedBolt
from aiostorm.spark import ParquetSinkBolt, SparkBatchSpout, SparkStreamSpout

from .conftest import LIGHT

FILES, ROWS = 16, 900
MINUTES = 2
START = datetime(2026, 1, 1, tzinfo=UTC)
FIELDS = ("at", "word", "amount")
SETTINGS = {**LIGHT, "spark.master": "local[2]", "spark.sql.files.openCostInBytes": str(1 << 27)}


def write_input(folder: Path) -> None:
    """Rows in the order of their time, a file after the other: each is smaller, since Spark reads the largest first."""
    (folder / "input").mkdir(parents=True)
    begin = 0
    for file in range(FILES):
        numbers = range(begin, begin + ROWS - 40 * file)
        begin = numbers.stop
        columns = {
            "at": pa.array([START + timedelta(seconds=n) for n in numbers], pa.timestamp("us", "UTC")),
            "word": [f"w{n * 7919 % 11}" for n in numbers],
            "amount": pa.array([n * 31 % 1_000 for n in numbers], pa.int64()),
        }
        path = folder / "input" / f"part-{file:03}.parquet"
        pq.write_table(pa.table(columns), path, compression="none")
        os.utime(path, (1_700_000_000 + file,) * 2)  # a stream reads the oldest first


class Slow(BasicBolt):
    """Passes rows on, and takes its time. Fails once at each of these seconds from the start."""

    outputs = ("ms", "word", "amount")
    failing: ClassVar[set[int]] = set()

    def __init__(self, pause_s: float) -> None:
        self.pause_s = pause_s
        self.rows = 0

    async def execute(self, tup: Any, collector: Any) -> None:
        self.rows += 1
        second = int((tup["at"].replace(tzinfo=UTC) - START).total_seconds())
        if second in self.failing:
            self.failing.discard(second)
            raise ValueError(f"second {second} cannot be processed this time")
        if self.rows % 20 == 0:
            await asyncio.sleep(self.pause_s)
        collector.emit((int(START.timestamp() + second) * 1000, tup["word"], tup["amount"]))


def job(kind: str, folder: str, pause_s: str = "0.004", session: Any = None) -> Topology:
    where = Path(folder)
    builder = TopologyBuilder()
    builder.set_spout("source", source(kind, where, SETTINGS if session is None else session))
    builder.set_bolt("slow", Slow(float(pause_s))).shuffle_grouping("source")
    sums = WindowedBolt(Tumbling(MINUTES * 60_000), Sum("amount"), key="word", timestamp="ms", lag_ms=1_000)
    sums.outputs = ("word", "total", "begin", "end")  # type: ignore[misc]
    builder.set_bolt("sums", sums, 2).fields_grouping("slow", "word")
    builder.set_bolt("files", ParquetSinkBolt(str(where / "out")), 2).shuffle_grouping("sums")
    config = Config(guarantee="exactly-once", state_dir=str(where / "state"), snapshot_interval_ms=100)
    return builder.create_topology(config=config)


def source(kind: str, where: Path, session: Any) -> Any:
    if kind == "batch":
        return SparkBatchSpout(
            path=str(where / "input"), fields=FIELDS, session=session, chunk_rows=100, in_order=True, max_pending=4
        )
    return SparkStreamSpout(
        lambda spark: (
            spark.readStream.schema("at timestamp, word string, amount long")
            .option("maxFilesPerTrigger", 2)
            .parquet(str(where / "input"))
        ),
        str(where / "checkpoint"),
        fields=FIELDS,
        session=session,
        trigger={"availableNow": True},
        chunk_rows=100,
    )


def written(folder: Path) -> list[tuple[str, int, int]]:
    """The rows of the results so far."""
    names = [str(file) for file in (folder / "out").glob("*.parquet")]
    rows = ds.dataset(names).to_table().to_pylist() if names else []
    return sorted((row["word"], row["begin"], row["total"]) for row in rows)


def answer(session: Any, folder: Path) -> list[tuple[str, int, int]]:
    """The same from Spark SQL. Blocks."""
    session.read.parquet(str(folder / "input")).createOrReplaceTempView("exact_input")
    rows = session.sql(
        "select word, unix_millis(window(at, :length).start) as begin, sum(amount) as total from exact_input "
        "group by word, window(at, :length)",
        {"length": f"{MINUTES} minutes"},
    ).collect()
    return sorted((row["word"], row["begin"], row["total"]) for row in rows)


async def main(kind: str, folder: str) -> None:
    async with LocalCluster() as cluster:
        running = await cluster.submit("job", job(kind, folder))
        await running.wait_finished()
    print("problems", running.problems)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2]))
