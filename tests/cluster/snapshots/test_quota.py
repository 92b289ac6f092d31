"""A quota of the snapshots: one that does not fit fails, the data goes on, and then one fits again."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from aiostorm import BasicBolt, LocalCluster, RunningTopology, TopologyBuilder
from aiostorm.metrics import SnapshotMetrics
from aiostorm.state import ValueState
from aiostorm.state.blobs import BlobName

from .parts import SlowNumbers, exactly_once

MB = 1024 * 1024
ROWS = 2_000


class Large(BasicBolt):
    """Has a state of this size, and counts its rows in it."""

    state = ValueState((0, b""))

    def __init__(self, size_bytes: int) -> None:
        self.size_bytes = size_bytes
        self.shrinks_at = ROWS

    def prepare(self, context: Any) -> None:
        self.kept = context.state

    def execute(self, tup: Any, collector: Any) -> None:
        count = self.kept.value[0] + 1
        self.kept.value = count, bytes(self.size_bytes if count < self.shrinks_at else 10)

    def result(self) -> int:
        count: int = self.kept.value[0]
        return count


async def started(cluster: LocalCluster, folder: Path, bolt: Large, **settings: Any) -> RunningTopology:
    builder = TopologyBuilder()
    builder.set_spout("numbers", SlowNumbers(ROWS))
    builder.set_bolt("large", bolt).shuffle_grouping("numbers")
    config = exactly_once(folder, testing_always_try_serialize=False, **settings)
    return await cluster.submit("job", builder.create_topology(), config)


def status(running: RunningTopology) -> SnapshotMetrics:
    assert running.snapshot_metrics is not None
    return running.snapshot_metrics


def blobs(folder: Path) -> set[int]:
    """The numbers of the snapshots of which blobs are there."""
    found = [BlobName.parse(path.stem) for path in folder.iterdir()]
    return {name.number for name in found if name is not None}


async def raise_it(running: RunningTopology) -> None:
    await running.update({"topology.state.quota.mb": 4})


async def end_it(running: RunningTopology) -> None:
    await running.update({"state_quota_mb": None})


async def keep_fewer(running: RunningTopology) -> None:
    await running.update({"snapshot_keep": 1})


@pytest.mark.parametrize("give_space", [raise_it, end_it, keep_fewer])
async def test_above_the_quota_snapshots_fail_and_data_goes_on(
    tmp_path: Path, give_space: Callable[[RunningTopology], Awaitable[None]], caplog: pytest.LogCaptureFixture
) -> None:
    async with LocalCluster() as cluster:
        running = await started(cluster, tmp_path, Large(700_000), state_quota_mb=1)
        await asyncio.sleep(3)
        found = status(running)
        assert found.failing > 3
        assert "and topology.state.quota.mb allows 1,048,576: raise it (aiostorm update)" in found.problem
        assert found.stored_bytes <= found.quota_bytes == MB
        executed = running.metrics()["large"].executed
        assert len(blobs(tmp_path)) <= 3, "of the newest, of the last that failed, of the one that is written"
        assert found.rolled_back == 0
        await asyncio.sleep(0.5)
        assert running.metrics()["large"].executed > executed, "data goes on"
        before = status(running)
        await give_space(running)
        await asyncio.sleep(0.3)  # the wait after so many failures is longer
        after = status(running)
        assert (after.failing, after.problem) == (0, "")
        assert (after.number or 0) > (before.number or 0)
        await running.wait_finished(600)
        assert await running.results() == {"large": [ROWS]}
        assert status(running).rolled_back == 0
    assert "snapshot 2 has failed: job: with snapshot 2 those that are kept would have" in caplog.text


async def test_snapshots_go_on_when_the_state_gets_smaller(tmp_path: Path) -> None:
    bolt = Large(900_000)
    bolt.shrinks_at = 1_000
    async with LocalCluster() as cluster:
        running = await started(cluster, tmp_path, bolt, state_quota_mb=1)
        await asyncio.sleep(2)
        assert status(running).failing
        await running.wait_finished(600)
        assert status(running).rolled_back == 0
        assert await running.results() == {"large": [ROWS]}
        assert not status(running).failing


async def test_the_next_run_has_the_quota_too(tmp_path: Path) -> None:
    async with LocalCluster() as cluster:
        running = await started(cluster, tmp_path, Large(700_000))
        await asyncio.sleep(2)
        assert status(running).taken > 3
        await running.kill(0)
    async with LocalCluster() as cluster:
        running = await started(cluster, tmp_path, Large(700_000), state_quota_mb=1)
        assert status(running).stored_bytes > MB
        await asyncio.sleep(1)
        assert status(running).failing
        await running.update({"snapshot_keep": 1})
        await running.wait_finished(600)
        assert await running.results() == {"large": [ROWS]}
        assert status(running).stored_bytes <= MB
