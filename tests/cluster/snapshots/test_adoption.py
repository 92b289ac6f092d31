"""Exactly once: workers outlive their parent, and the next one builds their tasks again, in the same processes."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any

import pytest

from aiostorm import LocalCluster, RunningTopology
from aiostorm.cluster.messages import Connect
from aiostorm.cluster.parent.builds import first_build_of
from aiostorm.cluster.worker.importing import TopologyImporter
from aiostorm.cluster.worker.service import WorkerService
from aiostorm.transport import pack_value, unpack_value

from ...simulation.planted.planting import replaced
from ..parents import Parents, parents
from .exact import HERE, KEYS, Committed, expected

TARGET = f"{HERE}:counted"


@pytest.fixture(autouse=True)
def _fresh() -> None:
    Committed.rows.clear()


def written() -> Counter[tuple[int, int]]:
    return Counter(row for rows in Committed.rows.values() for row in rows)


async def submit(cluster: LocalCluster, count: int) -> RunningTopology:
    settings = {"topology.state.dir": "memory://exact"}  # any URL: the world opens its own store
    return await cluster.submit("exact", TARGET, settings, arguments=("", str(count)))


async def all_is_right(running: RunningTopology, count: int) -> None:
    await running.wait_finished(300)
    found = (await running.results())["count"]
    assert {key: n for part in found for key, n in part.items()} == dict.fromkeys(range(KEYS), 2 * count // KEYS)
    assert written() == expected(count)


@pytest.mark.parametrize("after_s", [0.02, 0.1, 0.2])
@pytest.mark.parametrize("away_s", [0.0, 2.0])
def test_the_next_parent_goes_on_from_the_last_snapshot_in_the_same_processes(after_s: float, away_s: float) -> None:
    count = 4000
    imports: list[str] = []
    builds: list[set[int]] = [set()]
    real, really_connect = TopologyImporter.import_topology, WorkerService.connect

    async def connect(self: WorkerService, order: Connect) -> Any:
        builds[-1].add(order.build)
        return await really_connect(self, order)

    def import_topology(self: TopologyImporter, order: Any) -> Any:
        imports.append(order.name)
        return real(self, order)

    async def first(backend: Parents, cluster: LocalCluster) -> None:
        await submit(cluster, count)
        await asyncio.sleep(after_s)
        await backend.replace_parent(away_s)

    async def second(backend: Parents, cluster: LocalCluster) -> None:
        builds.append(set())
        began_s = backend.world.now_s
        running = await submit(cluster, count)
        print(f"built again {backend.world.now_s - began_s:.3f} s after the start of the next parent")
        assert backend.pids() == [1, 1]
        await all_is_right(running, count)

    with (
        replaced(TopologyImporter, "import_topology", import_topology),
        replaced(WorkerService, "connect", connect),
    ):
        parents(first, second, target=TARGET)
    assert builds[1]
    assert not builds[0] & builds[1], "what belongs to tasks of the first parent reaches none of the second"
    assert imports == ["exact", "exact"], "once in each worker"


def test_totals_go_on() -> None:
    async def first(backend: Parents, cluster: LocalCluster) -> None:
        running = await submit(cluster, 4000)
        await backend.world.until(lambda: running.metrics()["numbers"].emitted > 0, 2, "the first poll")
        totals.append(running.metrics()["numbers"].emitted)
        await backend.replace_parent()

    async def second(backend: Parents, cluster: LocalCluster) -> None:
        running = await submit(cluster, 4000)
        for _ in range(20):
            totals.append(running.metrics()["numbers"].emitted)
            await asyncio.sleep(0.1)
        assert totals == sorted(totals)
        await all_is_right(running, 4000)

    totals: list[int] = []
    parents(first, second, target=TARGET)


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(1, 6))])
def test_every_row_counts_once_whichever_process_dies_when(seed: int) -> None:
    names, count = ("worker-1", "worker-2", "worker-3"), 6000

    async def trouble(backend: Parents, cluster: LocalCluster) -> None:
        world, chance = backend.world, backend.world.chance.stream("what the test does")
        starting = asyncio.ensure_future(submit(cluster, count))
        await asyncio.sleep(chance.choice([0.05, 0.3, 1.0]))
        for _ in range(chance.choice([0, 1, 2])):
            victim = world.processes[chance.choice(names)]
            if chance.random() < 0.7:
                world.call_at(world.now_s + chance.random(), victim.kill)
            else:
                world.call_at(world.now_s + chance.random(), victim.pause, chance.choice([0.5, 7.0]))
        await asyncio.sleep(chance.random())
        await asyncio.gather(starting, backend.replace_parent(chance.choice([0.05, 1.0, 8.0])))

    async def last(backend: Parents, cluster: LocalCluster) -> None:
        await all_is_right(await submit(cluster, count), count)

    parents(*[trouble] * 4, last, names=names, seed=seed, target=TARGET)


def test_the_builds_of_two_parents_have_different_numbers_that_fit_into_a_credit() -> None:
    numbers = [first_build_of(incarnation) + n for incarnation in (0, 1, 2**48 - 1) for n in (0, 1, 2**14 - 1)]
    assert len(set(numbers)) == len(numbers)
    assert min(numbers) > 0
    head = 2 * max(numbers) + 1
    assert unpack_value(pack_value((head,))) == (head,)
    assert len(pack_value(head)) == 9, "eight bytes"
