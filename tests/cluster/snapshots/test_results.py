"""Results, metrics and reports while all tasks go back to a snapshot: they wait, or tell what is known."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any, ClassVar

import pytest

from aiostorm import BasicBolt, LocalCluster, RunningTopology, TopologyBuilder
from aiostorm.cluster import TopologyFailedError
from aiostorm.state import ValueState
from aiostorm.testing.simulation import World

from ..sim_workers import SimBackend, with_workers
from .exact import HERE, Committed
from .parts import CountByKey, Database, Failing, Keyed, SlowNumbers, Store, Total, exactly_once


def read_all(running: RunningTopology) -> None:
    """What answers at once, whatever happens."""
    assert running.metrics()["numbers"].emitted >= 0
    running.errors()
    running.pending()
    running.backpressure()
    running.workers()
    running.stalls()
    assert running.snapshot_metrics is not None


async def ask_all_the_time(running: RunningTopology, found: list[dict[str, Any]], pause_s: float) -> None:
    while True:
        read_all(running)
        found.append(await running.results(60))
        await asyncio.sleep(pause_s)


@pytest.mark.parametrize("seed", range(6))
def test_results_wait_for_the_rebuild_on_workers(seed: int) -> None:
    Committed.rows.clear()
    found: list[dict[str, Any]] = []

    async def story(world: World, cluster: LocalCluster, backend: SimBackend) -> None:
        settings = {"topology.state.dir": "memory://exact"}
        running = await cluster.submit("exact", f"{HERE}:counted", settings, arguments=("", "3000"))
        chance = world.chance.stream("what the test does")
        async with asyncio.TaskGroup() as group:
            asking = group.create_task(ask_all_the_time(running, found, 0.001))
            for _ in range(4):
                await asyncio.sleep(chance.random() * 0.3)
                alive = [p for name, p in world.processes.items() if name.startswith("worker") and p.alive]
                if alive:
                    chance.choice(alive).kill("is killed by the test")
            await running.wait_finished(300)
            asking.cancel()
        found.append(await running.results(60))
        assert running.snapshot_metrics is not None
        assert running.snapshot_metrics.rolled_back > 0

    with_workers(story, workers=3, seed=seed)
    parts = {len(each["count"]) for each in found}
    assert len(parts) == 1, "each answer has all tasks"
    assert sum(n for part in found[-1]["count"] for n in part.values()) == 6000


class Summing(BasicBolt):
    state = ValueState(0)

    def __init__(self, failing: Failing) -> None:
        self.failing = failing

    def prepare(self, context: Any) -> None:
        self.total = context.state

    async def execute(self, tup: Any, collector: Any) -> None:  # type: ignore[override]
        await asyncio.sleep(0.001)
        self.failing.check(tup["n"])
        self.total.value += tup["n"]

    async def result(self) -> int:  # type: ignore[override]
        await asyncio.sleep(0.002)
        return self.total.value


def summing(failing: Failing) -> Any:
    builder = TopologyBuilder()
    builder.set_spout("numbers", SlowNumbers(200))
    builder.set_bolt("sum", Summing(failing), 2).shuffle_grouping("numbers")
    return builder.create_topology()


async def test_results_wait_for_the_rebuild_in_one_process(tmp_path: Path) -> None:
    found: list[dict[str, Any]] = []
    async with LocalCluster() as cluster:
        config = exactly_once(tmp_path, restart_max=20, restart_backoff_s=(0.05,))
        running = await cluster.submit("job", summing(Failing([3, 50, 51, 120, 199])), config)
        async with asyncio.TaskGroup() as group:
            asking = group.create_task(ask_all_the_time(running, found, 0.0005))
            await running.wait_finished(600)
            asking.cancel()
        assert sum((await running.results())["sum"]) == sum(range(200))
        assert running.snapshot_metrics is not None
        assert running.snapshot_metrics.rolled_back >= 3
    assert len(found) > 20
    assert all(len(each["sum"]) == 2 for each in found)


async def test_results_end_with_a_topology_that_fails_meanwhile(tmp_path: Path) -> None:
    class Always(Failing):
        def check(self, number: int) -> None:
            if number == 10:
                raise ValueError("never")

    found: list[dict[str, Any]] = []
    async with LocalCluster() as cluster:
        config = exactly_once(tmp_path, restart_max=2, restart_backoff_s=(0.5,))
        running = await cluster.submit("job", summing(Always()), config)
        with pytest.raises(TopologyFailedError, match="never"):
            async with asyncio.timeout(60):
                await ask_all_the_time(running, found, 0.0005)


class FailsToPrepare(Store):
    """Fails when it is asked to."""

    fails: ClassVar[bool] = False

    def pre_commit(self, number: int) -> Any:
        if FailsToPrepare.fails:
            FailsToPrepare.fails = False
            raise ConnectionError("the database does not prepare")
        return super().pre_commit(number)


class SlowResult(Total):
    async def result(self) -> int:  # type: ignore[override]
        await asyncio.sleep(1)
        return self.total.value


async def test_results_come_although_the_tasks_go_back_meanwhile(tmp_path: Path) -> None:
    builder = TopologyBuilder()
    builder.set_spout("numbers", SlowNumbers(100))
    builder.set_bolt("keyed", Keyed(17)).shuffle_grouping("numbers")
    builder.set_bolt("count", CountByKey()).fields_grouping("keyed", "key")
    builder.set_bolt("total", SlowResult()).shuffle_grouping("count")
    builder.set_bolt("store", FailsToPrepare(Database())).shuffle_grouping("count")
    async with LocalCluster() as cluster:
        running = await cluster.submit("job", builder.create_topology(), exactly_once(tmp_path))
        await running.wait_finished(600)
        FailsToPrepare.fails = True
        async with asyncio.timeout(600):
            assert (await running.results())["total"] == [100]
        assert not FailsToPrepare.fails
