"""A batch job as a process that tests kill: `python -m tests.spark.batch_job FOLDER [SECONDS]`.

It brings 64 partitions of 1,000 rows in, in chunks of 100, and appends each chunk that it acks to FOLDER/chunks.
"""

from __future__ import annotations

import asyncio
import os
import sys
import threading
from pathlib import Path
from typing import Any

from aiostorm import BasicBolt, BasicCollector, LocalCluster, TopologyBuilder
from aiostorm.spark import SparkBatchSpout
from tests.spark.conftest import FAST

PARTITIONS, ROWS, CHUNK = 64, 1_000, 100


class Append(BasicBolt):
    """One line for each chunk: its name, rows, and the sum of its ids."""

    def __init__(self, folder: Path, pause_s: float) -> None:
        self.folder, self.pause_s = folder, pause_s

    def prepare(self, context: Any) -> None:
        """Append to what is there."""
        self.file = (self.folder / "chunks").open("ab", buffering=0)

    async def execute_arrow(self, batch: Any, collector: BasicCollector) -> None:
        """A chunk."""
        await asyncio.sleep(self.pause_s)
        name = batch.schema.metadata[b"aiostorm.chunk"].decode()
        self.file.write(f"{name} {batch.num_rows} {sum(batch.column(0).to_pylist())}\n".encode())

    def cleanup(self) -> None:
        """The end."""
        self.file.close()


def frame(session: Any) -> Any:
    """What is read; `BREAK` in the environment makes it come out different."""
    shift = int(os.environ.get("BREAK", "0"))
    return session.range(0, PARTITIONS * ROWS, 1, PARTITIONS).selectExpr(f"id + {shift} as id", "id * 2 as double")


async def main(folder: Path, pause_s: float) -> None:
    """Run it to its end."""
    builder = TopologyBuilder()
    spout = SparkBatchSpout(
        frame,
        fields=("id", "double"),
        session={**FAST, "spark.master": "local[2]"},
        chunk_rows=CHUNK,
        progress=str(folder / "progress"),
    )
    builder.set_spout("numbers", spout, int(os.environ.get("TASKS", "1")))
    builder.set_bolt("append", Append(folder, pause_s)).shuffle_grouping("numbers")
    async with LocalCluster() as cluster:
        running = await cluster.submit("job", builder.create_topology())
        await running.wait_finished()
        print("progress", running.metrics()["numbers"].progress, "emitted", running.metrics()["numbers"].emitted)
    left = [thread for thread in threading.enumerate() if thread.name.startswith("spark-")]
    for thread in left:
        await asyncio.to_thread(thread.join, 5)
    print("threads", [thread.name for thread in left if thread.is_alive()])


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), float(sys.argv[2]) if len(sys.argv) > 2 else 0.0))
