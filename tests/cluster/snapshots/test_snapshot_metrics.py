"""What a running topology tells of its snapshots."""

from __future__ import annotations

import asyncio
import errno
import json
import os
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import ClassVar

from aiostorm import LocalCluster, TopologyBuilder, spout
from aiostorm.state import FileSink
from aiostorm.state.sinks.file_sink import LocalFolder

from .parts import Database, Failing, Numbers, SlowNumbers, counting, exactly_once


async def test_the_status_of_snapshots(tmp_path: Path) -> None:
    topology = counting(Database(), spout=SlowNumbers(1000, each=5), failing=Failing([300]))
    async with LocalCluster() as cluster:
        running = await cluster.submit("job", topology, exactly_once(tmp_path))
        assert running.snapshot_metrics is not None
        assert running.snapshot_metrics.number is None
        await running.wait_finished(600)
        await running.kill()
        status = running.snapshot_metrics
        await asyncio.sleep(5)
        assert running.snapshot_metrics.age_s >= 5
    assert status.taken == status.number or status.rolled_back, "numbers are left out after a rollback only"
    assert status.taken > 1
    assert status.size_bytes > 0
    assert 0 <= status.duration_s < 1
    assert (status.rolled_back, status.failing) == (1, 0)
    assert "300" in status.reason
    async with LocalCluster() as cluster:
        again = await cluster.submit("job", topology, exactly_once(tmp_path))
        assert again.snapshot_metrics is not None
        assert again.snapshot_metrics.number is not None
        assert status.number is not None
        assert again.snapshot_metrics.number >= status.number


async def test_other_guarantees_have_none() -> None:
    @spout(outputs="n")
    async def numbers() -> AsyncIterator[int]:
        yield 1

    builder = TopologyBuilder()
    builder.set_spout("numbers", numbers)
    async with LocalCluster() as cluster:
        running = await cluster.submit("job", builder.create_topology())
        assert running.snapshot_metrics is None


class FullFolder(LocalFolder):
    """Cannot be written for a while."""

    full: ClassVar[bool] = True

    def write(self, name: str, data: Sequence[bytes]) -> None:
        if self.full:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        super().write(name, data)


class FullSink(FileSink):
    def open_folder(self) -> LocalFolder:
        return FullFolder(self._path)


async def test_a_sink_whose_disk_is_full_keeps_its_rows_and_snapshots_wait(tmp_path: Path) -> None:
    FullFolder.full = True
    builder = TopologyBuilder()
    builder.set_spout("numbers", Numbers(500, each=5))
    builder.set_bolt("files", FullSink(tmp_path / "out"), 2).shuffle_grouping("numbers")
    async with LocalCluster() as cluster:
        settings = exactly_once(tmp_path / "state", restart_max=1)
        running = await cluster.submit("job", builder.create_topology(), settings)
        await asyncio.sleep(20)
        assert running.snapshot_metrics is not None
        assert running.snapshot_metrics.failed > 3
        assert running.snapshot_metrics.failing > 3
        assert "No space left on device" in running.snapshot_metrics.problem
        assert running.metrics()["files"].executed == 500
        FullFolder.full = False
        await running.wait_finished(600)
        assert running.snapshot_metrics.rolled_back == 0
    lines = [line for path in (tmp_path / "out").iterdir() for line in path.read_text().splitlines()]
    assert sorted(json.loads(line)["n"] for line in lines) == list(range(500))
    assert not [path for path in (tmp_path / "out").iterdir() if path.name.startswith(".")]
