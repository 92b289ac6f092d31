"""One task of a shuffle hangs or is slow in another worker than the spout: the others have all that they can do."""

from __future__ import annotations

import asyncio
import math

import pytest

from aiostorm import Config, LocalCluster, Topology
from aiostorm.testing.simulation import World
from aiostorm.topology import make_plan

from ..flow.bad_task import LEAST, SETTLES_S, Cell, Trouble
from ..flow.bad_task import topology as of_cell
from .sim_workers import SimSite, with_workers

SHARED = Trouble("hung", 0, math.inf)
"""One for the tasks of all simulated workers, which load the topology by its name."""


def topology(name: str) -> Topology:
    """Of the cell of that name."""
    return of_cell(Cell.named(name), SHARED)


async def worst_second(trouble: Trouble, seconds: int) -> int:
    """Rows done in it; a task goes bad now."""
    trouble.at_s = asyncio.get_running_loop().time()
    await asyncio.sleep(SETTLES_S)
    found = []
    for _ in range(seconds):
        before = trouble.done
        await asyncio.sleep(1)
        found.append(trouble.done - before)
    return min(found)


@pytest.mark.parametrize("name", ["hung-4-1024-1024-1", "slow-4-1024-1024-1", "slow-10-16-16-1"])
def test_with_links_between_processes(name: str) -> None:
    cell = Cell.named(name)
    found: list[int] = []

    async def story(world: World, cluster: LocalCluster, site: SimSite) -> None:
        config = Config(mailbox_capacity_tuples=cell.mailbox, turn_max_tuples=cell.turn)
        target = "tests.cluster.test_bad_task:topology"
        running = await cluster.submit("t", target, config, arguments=(name,))
        tasks_of = make_plan(topology(name), config.merge({"topology.workers": 2})).tasks_of
        (far,) = (worker.tasks for worker in running.workers() if tasks_of["endless"][0] not in worker.tasks)
        there = [index for index, task in enumerate(tasks_of["work"]) if task in far]
        assert 0 < len(there) < cell.tasks
        SHARED.index = there[0]
        await asyncio.sleep(0.5)
        found.append(await worst_second(SHARED, 2))
        await running.kill(0)

    SHARED.bad, SHARED.at_s, SHARED.done = cell.bad, math.inf, 0
    with_workers(story)
    assert found[0] >= LEAST * cell.rows_a_second
