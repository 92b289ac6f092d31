"""A JVM that hangs, while a source is opened or read, is killed and replaced; none is left behind, however it ends."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import pytest

from .worker_kills import alive

pytestmark = [pytest.mark.spark, pytest.mark.sockets, pytest.mark.timeout(150)]

ROOT = Path(__file__).parents[2]

PROGRAM = """
import asyncio, os, signal, sys
from aiostorm import BasicBolt, LocalCluster, TopologyBuilder
from aiostorm.spark import SparkBatchSpout, SparkStreamSpout, jvm_guard, jvm_watch
from aiostorm.spark.sessions import sessions
from tests.spark.conftest import LIGHT

jvm_watch.PING_S, jvm_watch.ANSWER_S, jvm_guard.GUARD_S = 0.5, 4.0, 1
SETTINGS = {**LIGHT, "spark.master": "local[2]"}
way, folder = sys.argv[1:]
stopped = []

def stop():
    from pyspark import SparkContext
    pid = SparkContext._gateway.proc.pid
    os.kill(pid, signal.SIGSTOP)
    stopped.append(pid)
    print("stopped", pid, flush=True)

class Seen(BasicBolt):
    def prepare(self, context):
        self.ids = set()

    def execute_arrow(self, batch, collector):
        self.ids |= set(batch.column(0).to_pylist())
        if way == "batch" and len(self.ids) >= 200 and len(stopped) == 1:
            stop()

    def result(self):
        return len(self.ids)

def rows(spark):
    if not stopped:
        stop()
    return spark.range(0, 3000, 1, 30)

def stream(spark):
    if not stopped:
        stop()
    spark.range(0, 3000, 1, 3).write.mode("overwrite").parquet(folder + "/in")
    return spark.readStream.schema("id bigint").parquet(folder + "/in")

async def main():
    builder = TopologyBuilder()
    if way == "stream":
        spout = SparkStreamSpout(stream, folder + "/c", fields="id", session=SETTINGS, trigger={"availableNow": True})
    else:
        spout = SparkBatchSpout(rows, fields="id", session=SETTINGS, chunk_rows=50, max_pending=2)
    builder.set_spout("in", spout)
    builder.set_bolt("seen", Seen()).shuffle_grouping("in")
    async with LocalCluster() as cluster:
        running = await cluster.submit("t", builder.create_topology())
        await running.wait_finished()
        print("rows", (await running.results())["seen"], flush=True)
        if way == "batch":
            lease = sessions.lease(SETTINGS)
            await asyncio.to_thread(lease.get)
            stop()
            os._exit(7)  # what a second Ctrl-C does

asyncio.run(main())
"""


@pytest.mark.parametrize("way", ["batch", "stream"])
def test_a_jvm_that_hangs_is_replaced_and_none_is_left(java: None, tmp_path: Path, way: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, way, str(tmp_path)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=140,
        check=False,
    )
    assert done.returncode == (7 if way == "batch" else 0), done.stderr[-3000:]
    assert "rows [3000]" in done.stdout
    assert "Spark's JVM has not answered for 4 s: it is killed" in done.stderr
    pids = [int(line.split()[1]) for line in done.stdout.splitlines() if line.startswith("stopped")]
    assert len(pids) == (3 if way == "batch" else 1)
    until_s = time.monotonic() + 20
    while any(map(alive, pids)) and time.monotonic() < until_s:
        time.sleep(0.1)
    assert not any(map(alive, pids))
