"""A rollback while a topology finishes, drains or is killed in order: rows come once, in this run or in the next."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from aiostorm import LocalCluster
from aiostorm.cluster import RunningTopology
from aiostorm.topology import Topology

from .parts import Database, Failing, Keyed, Numbers, SlowNumbers, check_counting, counting, exactly_once

COUNT = 200


class SlowKeyed(Keyed):
    """2 ms a row: much is under way when the spouts have ended."""

    async def execute(self, tup: Any, collector: Any) -> None:  # type: ignore[override]
        await asyncio.sleep(0.002)
        super().execute(tup, collector)


def job(database: Database, failing: Failing | None = None, spout: Any = None) -> Topology:
    return counting(database, count=COUNT, spout=spout or Numbers(COUNT, each=5), failing=failing, keyed=SlowKeyed)


async def run_again(database: Database, folder: Path) -> None:
    async with LocalCluster() as cluster:
        running = await cluster.submit("job", job(database), exactly_once(folder))
        await running.wait_finished(600)


@pytest.mark.parametrize("number", [3, 100, 150, 190, 198, 199])
@pytest.mark.parametrize("interval_ms", [7, 60_000])
async def test_a_topology_that_is_to_finish_does_so_after_a_rollback(
    tmp_path: Path, number: int, interval_ms: int
) -> None:
    database, failing = Database(), Failing([number])
    async with LocalCluster() as cluster:
        config = exactly_once(tmp_path, snapshot_interval_ms=interval_ms)
        running = await cluster.submit("job", job(database, failing), config)
        await running.wait_finished(600)
        assert not failing.left
        check_counting(database, COUNT)
        await running.kill()
    check_counting(database, COUNT)


@pytest.mark.parametrize("failures", [1, 2, 5])
async def test_it_finishes_although_its_last_snapshot_is_not_committed_at_first(tmp_path: Path, failures: int) -> None:
    database = Database(fail_commits=failures)
    async with LocalCluster() as cluster:
        config = exactly_once(tmp_path, snapshot_interval_ms=60_000, restart_max=10)
        running = await cluster.submit("job", job(database), config)
        await running.wait_finished(600)
        check_counting(database, COUNT)
    assert not database.fail_commits


async def end_by_drain(running: RunningTopology) -> None:
    await running.drain(600)
    await running.kill()


async def end_by_kill(running: RunningTopology) -> None:
    await running.kill(600)


@pytest.mark.parametrize("end", [end_by_drain, end_by_kill])
@pytest.mark.parametrize("number", [20, 60, 120, 199])
@pytest.mark.parametrize("spout", [Numbers, SlowNumbers])
@pytest.mark.parametrize("interval_ms", [7, 60_000])
async def test_what_a_drain_takes_back_comes_in_the_next_run(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, end: Any, number: int, spout: type, interval_ms: int
) -> None:
    database, failing = Database(), Failing([number])
    async with LocalCluster() as cluster:
        config = exactly_once(tmp_path, snapshot_interval_ms=interval_ms)
        running = await cluster.submit("job", job(database, failing, spout(COUNT, each=5)), config)
        await asyncio.sleep(0.03)
        was_met = not failing.left
        await end(running)
    warned = "its spouts have ended: the rows after it come in the next run" in caplog.text
    assert warned is (not failing.left and not was_met)
    await run_again(database, tmp_path)
    check_counting(database, COUNT)
