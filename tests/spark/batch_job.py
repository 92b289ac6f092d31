"""A batch job as a process that tests kill: `python -m tests.spark.batch_job FOLDER [SECONDS]`.

It brings 64 partitions of 1,000 rows in, in chunks of 100, and appends each chunk that it acks to FOLDER/chunks. With
KILL_JVM=n in the environment it kills its JVM at the nth chunk, and at the end tries a DataFrame of an ended session.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path
from typing import Any

from aiostorm import BasicBolt, BasicCollector, LocalCluster, TopologyBuilder, TopologyFailedError
from aiostorm.spark import SparkBatchSpout
from aiostorm.spark.sessions import sessions, stop_session
from tests.spark.conftest import LIGHT
from tests.spark.stale_threads import threads_left

PARTITIONS, ROWS, CHUNK = 64, 1_000, 100
SETTINGS = {**LIGHT, "spark.master": "local[2]"}


class Append(BasicBolt):
    """One line for each chunk: its name, rows, and the sum of its ids."""

    def __init__(self, folder: Path, pause_s: float) -> None:
        self.folder, self.pause_s = folder, pause_s
        self.kill_in = int(os.environ.get("KILL_JVM", "0"))

    def prepare(self, context: Any) -> None:
        """Append to what is there."""
        self.file = (self.folder / "chunks").open("ab", buffering=0)

    async def execute_arrow(self, batch: Any, collector: BasicCollector) -> None:
        """A chunk."""
        await asyncio.sleep(self.pause_s)
        name = batch.schema.metadata[b"aiostorm.chunk"].decode()
        self.file.write(f"{name} {batch.num_rows} {sum(batch.column(0).to_pylist())}\n".encode())
        self.kill_in -= 1
        if not self.kill_in:
            os.kill(sessions._shared.session._sc._gateway.proc.pid, signal.SIGKILL)

    def cleanup(self) -> None:
        """The end."""
        self.file.close()


def frame(session: Any) -> Any:
    """What is read; `BREAK` in the environment makes it come out different."""
    shift = int(os.environ.get("BREAK", "0"))
    return session.range(0, PARTITIONS * ROWS, 1, PARTITIONS).selectExpr(f"id + {shift} as id", "id * 2 as double")


async def main(folder: Path, pause_s: float) -> None:
    """Run it to its end."""
    lease = sessions.lease(SETTINGS)
    await asyncio.to_thread(lease.get)  # for the DataFrame at the end, too
    builder = TopologyBuilder()
    spout = SparkBatchSpout(
        frame,
        fields=("id", "double"),
        session=SETTINGS,
        chunk_rows=CHUNK,
        progress=str(folder / "progress"),
    )
    builder.set_spout("numbers", spout, int(os.environ.get("TASKS", "1")))
    builder.set_bolt("append", Append(folder, pause_s)).shuffle_grouping("numbers")
    async with LocalCluster() as cluster:
        running = await cluster.submit("job", builder.create_topology())
        await running.wait_finished()
        print("progress", running.metrics()["numbers"].progress, "errors", running.metrics()["numbers"].errors)
    if "KILL_JVM" in os.environ:
        await stopped_session(await asyncio.to_thread(lease.get))
    await asyncio.to_thread(lease.release)
    print("threads", await threads_left())


async def stopped_session(session: Any) -> None:
    """A DataFrame cannot be made anew: the topology fails, and says what to give instead."""
    builder = TopologyBuilder()
    builder.set_spout("frame", SparkBatchSpout(await asyncio.to_thread(lambda: session.range(100))))
    await asyncio.to_thread(stop_session, session)
    try:
        async with LocalCluster() as cluster:
            running = await cluster.submit("frame", builder.create_topology())
            await running.wait_ended()
    except TopologyFailedError as error:
        print("failed", error)


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), float(sys.argv[2]) if len(sys.argv) > 2 else 0.0))
