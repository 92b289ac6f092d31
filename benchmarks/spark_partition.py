"""One large partition of Spark's into a topology: how much memory does its JVM take?

    python -m benchmarks.spark_partition [--rows 8000000 20000000] [--kind known unknown stream]

    one partition of `rows` rows ─► SparkBatchSpout (SparkStreamSpout) ─► counted by a bolt of columns

`known`: Spark can say before it runs how large the partition is (a range). `unknown`: it cannot (an explode of few
rows). `stream`: a micro-batch of one partition. Each runs in a process and a JVM of its own, with the default heap of
1 GB on `local[2]`; the memory of the JVM is what the system and the JVM say when all rows have come: the most that was
resident (VmHWM), and the most that the heap's pools held, added up. Exit code 1 if rows are missing or doubled.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import logging
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, Final

from aiostorm import BasicBolt, LocalCluster, TopologyBuilder
from aiostorm.runtime import loop_factory
from aiostorm.spark import SparkBatchSpout, SparkStreamSpout, make_session

from .resident import MB, peak_rss_mb

KINDS: Final = ("known", "unknown", "stream")
COLUMNS: Final = ("id", "double", "seventh", "text")
SELECTED: Final = ("id", "id * 2 as double", "id % 7 as seventh", "cast(id as string) as text")
LIMIT_S: Final = 450.0
_EACH: Final = 10_000


class Counted(BasicBolt):
    """Counts rows and adds up ids; `sleep_s` a batch, to be slower than Spark."""

    def __init__(self, sleep_s: float) -> None:
        self.sleep_s = sleep_s
        self.rows = self.sum = 0

    def __deepcopy__(self, memo: Any) -> Counted:
        return self

    async def execute_arrow(self, batch: Any, collector: Any) -> None:
        import pyarrow.compute as compute

        self.rows += batch.num_rows
        self.sum += compute.sum(batch.column("id")).as_py()
        if self.sleep_s:
            await asyncio.sleep(self.sleep_s)


def frame(spark: Any, kind: str, rows: int) -> Any:
    """One partition of so many rows."""
    if kind == "known":
        return spark.range(0, rows, 1, 1).selectExpr(*SELECTED)
    if kind == "unknown":
        ids = spark.range(0, rows // _EACH, 1, 1).selectExpr(
            f"explode(sequence(id * {_EACH}, id * {_EACH} + {_EACH - 1})) as id"
        )
        return ids.selectExpr(*SELECTED)
    stream = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", rows).option("numPartitions", 1)
    return stream.load().selectExpr("value as id").selectExpr(*SELECTED)


async def measured(kind: str, rows: int, way: Any, sleep_s: float) -> dict[str, Any]:
    """Bring it in, in this process."""
    make_session(master="local[2]")
    bolt = Counted(sleep_s)
    with tempfile.TemporaryDirectory() as folder:
        if kind == "stream":
            spout: Any = SparkStreamSpout(lambda spark: frame(spark, kind, rows), f"{folder}/c", fields=COLUMNS)
        else:
            spout = SparkBatchSpout(lambda spark: frame(spark, kind, rows), fields=COLUMNS, way=way)
        builder = TopologyBuilder()
        builder.set_spout("rows", spout)
        builder.set_bolt("counted", bolt).shuffle_grouping("rows")
        begun_s = time.perf_counter()
        async with LocalCluster() as cluster:
            running = await cluster.submit("partition", builder.create_topology())
            await (_batch_done(running) if kind == "stream" else running.wait_finished(LIMIT_S))
            took_s = time.perf_counter() - begun_s
            jvm = await asyncio.to_thread(_of_jvm)
            errors = [str(report.error) for report in running.errors()]
            if kind == "stream":
                await running.kill(0)
        await asyncio.to_thread(make_session().stop)
    right = kind == "stream" or (bolt.rows == rows and bolt.sum == rows * (rows - 1) // 2)
    return {"kind": kind, "rows": bolt.rows, "right": right and bolt.rows >= rows, "seconds": round(took_s, 1)} | {
        **jvm,
        "python_peak_mb": round(peak_rss_mb()),
        "errors": errors,
    }


async def _batch_done(running: Any) -> None:
    """One batch is acked; the next one begins at once."""
    async with asyncio.timeout(LIMIT_S):
        while not (progress := running.metrics()["rows"].progress) or progress.done < 1:  # noqa: ASYNC110 - a measure
            await asyncio.sleep(0.2)


def _of_jvm() -> dict[str, Any]:
    jvm = make_session()._jvm  # this process' one: the first may have died
    pid = int(jvm.java.lang.ProcessHandle.current().pid())
    pools = jvm.java.lang.management.ManagementFactory.getMemoryPoolMXBeans()
    heap = [pool for pool in pools if str(pool.getType()) == "Heap memory"]
    status = Path(f"/proc/{pid}/status").read_text(encoding="ascii")
    [peak] = [int(line.split()[1]) * 1024 / MB for line in status.splitlines() if line.startswith("VmHWM:")]
    return {
        "jvm_peak_rss_mb": round(peak),
        "heap_peak_mb": round(sum(pool.getPeakUsage().getUsed() for pool in heap) / MB),
        "heap_max_mb": round(jvm.java.lang.Runtime.getRuntime().maxMemory() / MB),
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, nargs="+", default=[8_000_000, 20_000_000], metavar="N")
    parser.add_argument("--kind", choices=KINDS, nargs="+", default=list(KINDS))
    parser.add_argument("--way", choices=("auto", "fetch", "push"), default="auto", help="of the batch spout")
    parser.add_argument("--sleep", type=float, default=0.0, metavar="S", help="of the bolt, a batch")
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.child:
        logging.basicConfig(level=logging.WARNING, stream=sys.stderr)
        logging.getLogger("aiostorm").setLevel(logging.INFO)
        with asyncio.Runner(loop_factory=loop_factory()) as runner:
            found = runner.run(measured(given.kind[0], given.rows[0], given.way, given.sleep))
        print(json.dumps(found))
        return 0 if found["right"] else 1
    worst = 0
    for kind in given.kind:
        for rows in given.rows:
            command = [sys.executable, "-m", "benchmarks.spark_partition", "--child", "--kind", kind]
            command += ["--rows", str(rows), "--way", given.way, "--sleep", str(given.sleep)]
            worst = max(worst, subprocess.run(command, check=False).returncode)
    return 1 if worst else 0


if __name__ == "__main__":
    sys.exit(main())
