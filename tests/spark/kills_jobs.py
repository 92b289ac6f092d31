"""The jobs that tests/spark/kills.py runs and kills: Spark → a bolt of columns → Parquet. Imported there by name."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from aiostorm import BasicBolt, Config, Fields, Topology, TopologyBuilder
from aiostorm.spark import ParquetSinkBolt, SparkStreamSpout

from .conftest import LIGHT

COLUMNS = ("id", "bucket", "word", "amount")
CHUNK_ROWS = 1000
SETTINGS = {
    **LIGHT,
    "spark.master": "local[2]",
    "spark.sql.files.openCostInBytes": str(1 << 27),  # a partition for each file
}

EXECUTORS = {
    **{key: value for key, value in SETTINGS.items() if key != "spark.master"},
    "spark.executor.extraJavaOptions": LIGHT["spark.driver.extraJavaOptions"],
    "spark.executor.memory": "512m",
}
"""Of the session that `aiostorm run --spark` makes, whose executors have the workers."""


class Twice(BasicBolt):
    """Adds a column, and takes its time."""

    outputs = Fields(*COLUMNS, "twice")

    def __init__(self, pause_s: float) -> None:
        self.pause_s = pause_s

    async def execute_arrow(self, batch: Any, collector: Any) -> None:
        import pyarrow.compute

        compute: Any = pyarrow.compute
        await asyncio.sleep(self.pause_s)
        collector.emit_arrow(batch.append_column("twice", compute.multiply(batch.column("amount"), 2)))


def job(kind: str, folder: str, pause_s: str = "0.05", session: str = "own") -> Topology:
    """`kind`: batch or stream. Under `folder`: input, out, and what the source keeps. `session`: own, or that given."""
    where = Path(folder)
    builder = TopologyBuilder()
    builder.set_spout("source", source(kind, where, SETTINGS if session == "own" else None))
    builder.set_bolt("twice", Twice(float(pause_s)), parallelism=2).shuffle_grouping("source")
    sink = ParquetSinkBolt(str(where / "out"), partition_by="bucket")
    builder.set_bolt("sink", sink, parallelism=2).fields_grouping("twice", "word")
    return builder.create_topology(config=Config(message_timeout_s=20))


def source(kind: str, where: Path, session: Any) -> Any:
    if kind == "stream":
        return SparkStreamSpout(
            lambda spark: (
                spark.readStream.schema("id long, bucket string, word string, amount double")
                .option("maxFilesPerTrigger", 2)
                .parquet(str(where / "input"))
            ),
            str(where / "checkpoint"),
            fields=COLUMNS,
            session=session,
            trigger={"availableNow": True},
            chunk_rows=CHUNK_ROWS,
        )
    from aiostorm.spark import SparkBatchSpout

    return SparkBatchSpout(
        path=str(where / "input"),
        fields=COLUMNS,
        session=session,
        progress=str(where / "progress"),
        chunk_rows=CHUNK_ROWS,
    )
