"""Batches whose process or JVM dies, whose partitions differ, whose progress is another's."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from aiostorm import LocalCluster, TopologyFailedError
from aiostorm.spark import SparkBatchSpout, SparkSourceError
from aiostorm.spark.batch.progress import BatchProgress
from aiostorm.spark.calls import SparkCalls
from tests.spark.batch_job import CHUNK, PARTITIONS, ROWS
from tests.spark.test_batch_spout import Chunks, counting, eventually, finished, ids, off_loop

pytestmark = [pytest.mark.spark, pytest.mark.sockets]

ROOT = Path(__file__).resolve().parents[2]


def started(folder: Path, pause_s: float = 0.0, **environment: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "tests.spark.batch_job", str(folder), str(pause_s)],
        cwd=ROOT,
        env={**os.environ, **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def delivered(folder: Path) -> Counter[str]:
    file = folder / "chunks"
    return Counter(line.split()[0] for line in file.read_text().splitlines()) if file.exists() else Counter()


@pytest.mark.slow
def test_a_killed_process_is_resumed_and_then_its_jvm_is_killed(java: None, tmp_path: Path) -> None:
    job = started(tmp_path, 0.004)
    wait_until(lambda: sum(delivered(tmp_path).values()) >= 250, job)
    kept_ns = saved_ns(tmp_path)
    wait_until(lambda: saved_ns(tmp_path) > kept_ns, job)
    job.kill()
    job.communicate()
    before = sum(delivered(tmp_path).values())
    out, err = started(tmp_path, TASKS="2", KILL_JVM="50").communicate(timeout=200)
    assert f"progress {PARTITIONS} of {PARTITIONS} partitions, {PARTITIONS * ROWS:,} rows errors " in out, err[-3000:]
    assert " errors 0" not in out  # the JVM was lost, and said so
    assert "the session of this DataFrame has been stopped: give a function" in out
    assert "threads []" in out
    chunks = delivered(tmp_path)
    assert set(chunks) == {f"numbers/{p}/{n}" for p in range(PARTITIONS) for n in range(ROWS // CHUNK)}
    again = sum(chunks.values()) - len(chunks)
    assert again < before / 2  # what was finished was not run again


def saved_ns(folder: Path) -> int:
    """When the job has last kept what was acked."""
    file = folder / "progress" / "task-0" / "progress.blob"
    return file.stat().st_mtime_ns if file.exists() else 0


def wait_until(ready: Callable[[], bool], job: subprocess.Popen[str]) -> None:
    until = time.monotonic() + 100
    while not ready():
        if job.poll() is not None:
            raise AssertionError(f"the job has ended with {job.returncode} before: {job.communicate()[1][-3000:]}")
        if time.monotonic() > until:
            job.kill()
            raise AssertionError(f"nothing came within 100 s: {job.communicate()[1][-3000:]}")
        time.sleep(0.02)


async def test_saved_progress_is_resumed_and_compared(spark: Any, tmp_path: Path) -> None:
    """A run that ends in the middle; then the same source, others, and a second run at once."""
    folder = str(tmp_path / "progress")
    hold = asyncio.Event()

    async def source(shift: int = 0) -> Any:
        frame = await ids(spark, 4_000, 8)
        return await off_loop(lambda: frame.selectExpr(f"id + {shift} as id", "text", "double"))

    class Some(Chunks):
        async def execute_arrow(self, batch: Any, collector: Any) -> None:
            if len(self.ids) >= 1_300:
                await hold.wait()
            await super().execute_arrow(batch, collector)

    first = Some()
    spout = SparkBatchSpout(await source(), chunk_rows=100, progress=folder, name="n", max_pending=4)
    async with LocalCluster() as cluster:
        running = await cluster.submit("t", counting(spout, first))
        await eventually(lambda: len(first.ids) == 1_300)
        other = SparkBatchSpout(await source(), chunk_rows=100, progress=folder, name="n")
        with pytest.raises(TopologyFailedError, match="in use by another run"):
            await finished(counting(other, Chunks()))
        await running.kill(wait_s=0)
    assert {path.stat().st_mode & 0o777 for path in Path(folder).rglob("*.blob")} == {0o600}  # noqa: ASYNC240
    for shift, rows, says in (
        (1, 100, "of another source, or of other data: its plan was"),
        (0, 50, "chunk_rows was 100, and is 50 now"),
    ):
        wrong = SparkBatchSpout(await source(shift), chunk_rows=rows, progress=folder, name="n")
        with pytest.raises(TopologyFailedError, match=says):
            await finished(counting(wrong, Chunks()))
    second = Chunks()
    again = SparkBatchSpout(await source(), chunk_rows=100, progress=folder, name="n")
    metrics = await finished(counting(again, second, 3))
    assert set(first.ids) | set(second.ids) == set(range(4_000))
    assert len(second.ids) <= 4_000 - 1_300 + 400
    progress = metrics["numbers"].progress
    assert (progress.done, progress.total, progress.rows) == (8, 8, 4_000)
    third = Chunks()
    metrics = await finished(
        counting(SparkBatchSpout(await source(), chunk_rows=100, progress=folder, name="n"), third)
    )
    assert third.ids == []
    assert metrics["numbers"].progress.rows == 4_000


async def test_progress_that_cannot_be_read_is_refused(tmp_path: Path) -> None:
    calls = SparkCalls(1)
    (tmp_path / "task-0").mkdir()
    (tmp_path / "task-0" / "progress.blob").write_text("{")
    progress = BatchProgress(str(tmp_path), 0, {}, calls)
    with pytest.raises(SparkSourceError, match="cannot be read"):
        await progress.open()
    await progress.close()
    within_a_file = BatchProgress(str(tmp_path / "task-0" / "progress.blob" / "x"), 0, {}, calls)
    with pytest.raises(SparkSourceError, match="cannot be used"):
        await within_a_file.open()
    await within_a_file.close()
    calls.close()
    assert await asyncio.to_thread(calls.join)
