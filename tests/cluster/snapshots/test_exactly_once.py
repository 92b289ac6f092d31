"""Exactly once in one process: results are those of a run in which nothing has happened."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any, ClassVar

import pytest

from aiostorm import LocalCluster
from aiostorm.cluster import TopologyFailedError
from aiostorm.runtime import AiostormError
from aiostorm.topology import Topology

from .parts import (
    COUNTERS,
    BlockingNumbers,
    Database,
    Failing,
    Numbers,
    SlowNumbers,
    chances,
    check_counting,
    counting,
    exactly_once,
)


async def finish(topology: Topology, folder: Path, **settings: Any) -> Any:
    async with LocalCluster() as cluster:
        running = await cluster.submit("job", topology, exactly_once(folder, **settings))
        await running.wait_finished(600)
        return running.metrics()


async def kill_after(topology: Topology, folder: Path, seconds: float, **settings: Any) -> None:
    """Run for a while, and then end at once, as a kill does."""
    async with LocalCluster() as cluster:
        running = await cluster.submit("job", topology, exactly_once(folder, **settings))
        await asyncio.sleep(seconds)
        await running.kill(0)


@pytest.mark.parametrize("counter", COUNTERS)
async def test_each_row_counts_once(tmp_path: Path, counter: str) -> None:
    database = Database()
    await finish(counting(database, counter=counter), tmp_path)
    check_counting(database)


@pytest.mark.parametrize("counter", COUNTERS)
@pytest.mark.parametrize("spout", [Numbers, SlowNumbers, BlockingNumbers])
async def test_a_run_continues_where_the_last_one_was_killed(tmp_path: Path, counter: str, spout: type) -> None:
    database, rng = Database(), chances(7)
    for _ in range(4):
        topology = counting(database, counter=counter, spout=spout(400, each=1), count=400)
        await kill_after(topology, tmp_path, rng.uniform(0.0, 0.2))
    await finish(counting(database, counter=counter, spout=spout(400), count=400), tmp_path)
    check_counting(database, 400)


@pytest.mark.parametrize("counter", COUNTERS)
async def test_rows_that_fail_take_the_topology_back_to_the_last_snapshot(tmp_path: Path, counter: str) -> None:
    database, failing = Database(), Failing([5, 300, 301, 700, 999])
    topology = counting(database, counter=counter, spout=SlowNumbers(1000, each=5), failing=failing)
    await finish(topology, tmp_path, restart_max=10)
    check_counting(database)
    assert not failing.left


async def test_a_sink_that_cannot_commit_when_a_run_begins_is_rolled_back(tmp_path: Path) -> None:
    database = Database()
    await kill_after(counting(database, spout=SlowNumbers(400), count=400), tmp_path, 0.1)
    database.fail_commits = 1
    began_s = asyncio.get_running_loop().time()
    await finish(counting(database, spout=SlowNumbers(400), count=400), tmp_path, restart_backoff_s=(0,))
    assert asyncio.get_running_loop().time() - began_s < 30, "snapshots were given up, each after its timeout"
    assert not database.fail_commits
    check_counting(database, 400)


async def test_a_row_that_always_fails_makes_the_topology_fail(tmp_path: Path) -> None:
    class Always(Failing):
        def check(self, number: int) -> None:
            if number == 500:
                raise ValueError("never")

    database = Database()
    with pytest.raises(TopologyFailedError, match="never"):
        await finish(counting(database, failing=Always()), tmp_path, restart_max=3)
    assert len(database.rows) < 1000
    await finish(counting(database), tmp_path)
    check_counting(database)


class OtherDataError(AiostormError):
    final = True


class Unrestorable(SlowNumbers):
    """Refuses its position."""

    closed: ClassVar[int] = 0

    def restore(self, position: int) -> None:
        raise OtherDataError("of other data")

    def close(self) -> None:
        type(self).closed += 1


async def test_a_spout_that_refuses_its_position_is_closed(tmp_path: Path) -> None:
    Unrestorable.closed = 0
    await kill_after(counting(Database(), spout=SlowNumbers(400, each=1)), tmp_path, 0.1)
    with pytest.raises(TopologyFailedError, match="of other data"):
        await finish(counting(Database(), spout=Unrestorable(400)), tmp_path)
    assert Unrestorable.closed >= 1
