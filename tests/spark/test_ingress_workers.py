"""Spout tasks in workers of their own: executors find each, and the next process after a kill."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path

import pytest

from aiostorm import LocalCluster

from .data_jobs import written
from .lines import batch, into, until, write

pytestmark = [
    pytest.mark.slow,
    pytest.mark.sockets,
    pytest.mark.skipif(sys.platform == "win32", reason="a worker of ours listens at a unix socket"),
]


def test_a_worker_that_is_killed_is_found_again_and_nothing_is_lost(tmp_path: Path) -> None:
    (tmp_path / "written").mkdir()
    asyncio.run(killed(tmp_path))


async def killed(path: Path) -> None:
    arguments = (str(path / "written"), str(path / "in"))
    async with LocalCluster(workers=2) as cluster:
        running = await cluster.submit("data", "tests.spark.data_jobs:into_files", arguments=arguments)
        async with asyncio.TaskGroup() as group:
            for partition in range(2):
                batches = [batch(1000 * partition + at, 5) for at in range(0, 1000, 5)]
                group.create_task(asyncio.to_thread(write, into(path / "in"), batches, partition))
            await until(lambda: len(written(path / "written")) > 200, 40)
            victim = running.workers()[1]
            os.kill(victim.pid, signal.SIGKILL)
        assert set(written(path / "written")) == set(range(2000))
        assert running.workers()[1].restarts == 1
