"""What a running topology tells of its snapshots."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

from aiostorm import LocalCluster, TopologyBuilder, spout

from .parts import Database, Failing, SlowNumbers, counting, exactly_once


async def test_the_status_of_snapshots(tmp_path: Path) -> None:
    topology = counting(Database(), spout=SlowNumbers(1000, each=5), failing=Failing([300]))
    async with LocalCluster() as cluster:
        running = await cluster.submit("job", topology, exactly_once(tmp_path))
        assert running.snapshots is not None
        assert running.snapshots.number is None
        await running.wait_finished(600)
        await running.kill()
        status = running.snapshots
        await asyncio.sleep(5)
        assert running.snapshots.age_s >= 5
    assert status.taken == status.number or status.rolled_back, "numbers are left out after a rollback only"
    assert status.taken > 1
    assert status.size_bytes > 0
    assert 0 <= status.took_s < 1
    assert (status.rolled_back, status.failed) == (1, 0)
    assert "300" in status.reason
    async with LocalCluster() as cluster:
        again = await cluster.submit("job", topology, exactly_once(tmp_path))
        assert again.snapshots is not None
        assert again.snapshots.number is not None
        assert status.number is not None
        assert again.snapshots.number >= status.number


async def test_other_guarantees_have_none() -> None:
    @spout(outputs="n")
    async def numbers() -> AsyncIterator[int]:
        yield 1

    builder = TopologyBuilder()
    builder.set_spout("numbers", numbers)
    async with LocalCluster() as cluster:
        running = await cluster.submit("job", builder.create_topology())
        assert running.snapshots is None
