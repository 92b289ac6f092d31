"""Spark → windows → Parquet, exactly once, killed anywhere: the answer of Spark SQL, row for row."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from aiostorm import LocalCluster
from tests.cluster.snapshots.parts import chances
from tests.spark.exact_job import Slow, answer, job, write_input, written
from tests.spark.test_batch_spout import eventually

pytestmark = [pytest.mark.spark, pytest.mark.sockets, pytest.mark.slow, pytest.mark.timeout(300)]

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize("kind", ["batch", "stream"])
async def test_a_topology_that_is_killed_gives_the_answer_of_spark(spark: Any, tmp_path: Path, kind: str) -> None:
    write_input(tmp_path)
    wanted = await asyncio.to_thread(answer, spark, tmp_path)
    rng, before = chances(19), 0
    Slow.failing = {3_000, 9_590}
    for kill in range(6):
        async with LocalCluster() as cluster:
            running = await cluster.submit("job", job(kind, str(tmp_path), session=lambda: spark))
            if kill == 5:
                await running.wait_finished(120)
                assert not running.problems
                continue
            at = before + rng.randrange(0, len(wanted) // 6)
            await eventually(lambda at=at: len(written(tmp_path)) >= at)  # type: ignore[misc]
            await asyncio.sleep(rng.uniform(0, 0.3))
            await running.kill(0)
        found = written(tmp_path)
        assert set(found) <= set(wanted)
        assert len(found) == len(set(found))
        before = len(found)
    assert 0 < before < len(wanted)
    assert not Slow.failing
    assert written(tmp_path) == wanted


@pytest.mark.parametrize("kind", ["batch", "stream"])
def test_a_process_that_is_killed_gives_the_answer_of_spark(spark: Any, tmp_path: Path, kind: str) -> None:
    write_input(tmp_path)
    wanted = answer(spark, tmp_path)
    counts = []
    for share in (0.1, 0.5, None):
        process = started(kind, tmp_path)
        if share is not None:
            wait_for(lambda share=share: len(written(tmp_path)) >= share * len(wanted), process)  # type: ignore[misc]
            process.kill()
            process.communicate()
            counts.append(len(written(tmp_path)))
            continue
        out, err = process.communicate(timeout=200)
        assert "problems []" in out, err[-3000:]
    assert 0 < counts[0] <= counts[1] < len(wanted)
    assert written(tmp_path) == wanted


@pytest.mark.blocks_loop  # what the topology imports, at its submission
async def test_workers_that_are_killed_give_the_answer_of_spark(spark: Any, tmp_path: Path) -> None:
    write_input(tmp_path)
    wanted = await asyncio.to_thread(answer, spark, tmp_path)
    async with LocalCluster(workers=2) as cluster:
        running = await cluster.submit("job", "tests.spark.exact_job:job", arguments=("batch", str(tmp_path)))
        for share, victim in ((0.1, 0), (0.3, 1), (0.5, 0)):  # the session of Spark is in the first
            await eventually(lambda share=share: len(written(tmp_path)) >= share * len(wanted))  # type: ignore[misc]
            worker = running.workers()[victim]
            os.kill(worker.pid, signal.SIGKILL)
            await eventually(lambda victim=victim, was=worker: running.workers()[victim].restarts > was.restarts)  # type: ignore[misc]
            assert len(written(tmp_path)) < len(wanted)
        await running.wait_finished(200)
        assert not running.problems
    assert written(tmp_path) == wanted


def started(kind: str, folder: Path) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "tests.spark.exact_job", kind, str(folder)]
    return subprocess.Popen(
        command, cwd=ROOT, env=dict(os.environ), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def wait_for(ready: Any, process: subprocess.Popen[str]) -> None:
    until = time.monotonic() + 120
    while not ready():
        if process.poll() is not None or time.monotonic() > until:
            process.kill()
            raise AssertionError(f"it has ended with {process.returncode}: {process.communicate()[1][-3000:]}")
        time.sleep(0.02)
