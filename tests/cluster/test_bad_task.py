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
from .sim_workers import SimBackend, with_workers

LEAST_OF_FEW = 0.8

SHARED = Trouble("hung", 0, math.inf)
"""One for the tasks of all simulated workers, which import the topology by its name."""


def topology(name: str) -> Topology:
    """Of the cell of that name."""
    return of_cell(Cell.named(name), SHARED)


async def worst_second(trouble: Trouble, seconds: int, settles_s: float = SETTLES_S) -> int:
    """Rows done in it; a task goes bad now."""
    trouble.at_s = asyncio.get_running_loop().time()
    await asyncio.sleep(settles_s)
    found = []
    for _ in range(seconds):
        before = trouble.done
        await asyncio.sleep(1)
        found.append(trouble.done - before)
    return min(found)


def rows_a_second(name: str, *, pending: int | None = None, bad: bool = True, settles_s: float = SETTLES_S) -> int:
    """In the worst of two seconds, on two workers. The spout has so many messages open at the most."""
    cell = Cell.named(name)
    found: list[int] = []

    async def story(world: World, cluster: LocalCluster, backend: SimBackend) -> None:
        config = Config(mailbox_capacity_tuples=cell.mailbox, turn_max_tuples=cell.turn, max_spout_pending=pending)
        target = "tests.cluster.test_bad_task:topology"
        running = await cluster.submit("t", target, config, arguments=(name,))
        tasks_of = make_plan(topology(name), config.merge({"topology.workers": 2})).tasks_of
        (far,) = (worker.tasks for worker in running.workers() if tasks_of["endless"][0] not in worker.tasks)
        there = [index for index, task in enumerate(tasks_of["work"]) if task in far]
        assert 0 < len(there) < cell.tasks
        SHARED.index = there[0] if bad else -1
        await asyncio.sleep(0.5)
        found.append(await worst_second(SHARED, 2, settles_s))
        await running.kill(0)

    SHARED.bad, SHARED.at_s, SHARED.done = cell.bad, math.inf, 0
    with_workers(story)
    return found[0]


@pytest.mark.parametrize("name", ["hung-4-1024-1024-1", "slow-4-1024-1024-1", "slow-10-16-16-1"])
def test_with_links_between_processes(name: str) -> None:
    assert rows_a_second(name) >= LEAST * Cell.named(name).rows_a_second


@pytest.mark.parametrize("pending", [10, 30, 100])
def test_spouts_of_other_workers_learn_that_a_task_hangs_with_few_messages_open(pending: int) -> None:
    """They went on to give it its share of what may be open, until nothing else was."""
    held = -(-pending // 4)  # of the turn in which it came to hang
    found = rows_a_second("hung-4-1024-256-1", pending=pending, settles_s=2 * SETTLES_S)
    without = rows_a_second("hung-3-1024-256-1", pending=pending - held, bad=False)
    assert found >= LEAST_OF_FEW * without
