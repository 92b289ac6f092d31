"""What a shuffle promises at low rates: rows come one by one, and still a task gets a millisecond of work in a row."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from aiostorm import BasicBolt, LocalCluster, TopologyBuilder, spout

TASKS = 4
EVERY_S = 1.0


class Work(BasicBolt):
    def __init__(self, takes_s: float, went: list[int]) -> None:
        self.takes_s = takes_s
        self.went = went

    def __deepcopy__(self, memo: dict[int, Any]) -> Work:
        return Work(self.takes_s, self.went)

    def prepare(self, context: Any) -> None:
        self.index = context.task_index

    async def execute(self, tup: Any, collector: Any) -> None:
        await asyncio.sleep(self.takes_s)
        self.went.append(self.index)


async def where(count: int, takes_s: float, grouping: str) -> list[int]:
    """To which tasks so many rows went, one after the other, a second apart."""
    went: list[int] = []

    @spout(outputs="n")
    async def seldom() -> AsyncIterator[int]:
        for n in range(count):
            yield n
            await asyncio.sleep(EVERY_S)

    builder = TopologyBuilder()
    builder.set_spout("seldom", seldom)
    getattr(builder.set_bolt("work", Work(takes_s, went), TASKS), grouping)("seldom")
    async with LocalCluster() as cluster:
        running = await cluster.submit("t", builder.create_topology())
        await running.wait_finished()
    return went


SHUFFLES = pytest.mark.parametrize(
    "grouping", ["shuffle_grouping", "local_or_shuffle_grouping", "local_first_grouping"]
)


@SHUFFLES
@pytest.mark.parametrize("takes_s", [0.0006, 0.003, 0.2])
async def test_rows_of_more_than_half_a_millisecond_go_to_each_task_in_turn(
    sim_clock: object, grouping: str, takes_s: float
) -> None:
    went = await where(10 * TASKS, takes_s, grouping)
    assert all(len(set(went[at : at + TASKS])) == TASKS for at in range(0, len(went), TASKS))


@SHUFFLES
@pytest.mark.parametrize(("takes_s", "piece"), [(0.00021, 4), (9e-5, 11), (3e-6, 256)])
async def test_fast_rows_are_sent_in_pieces_at_any_rate(
    sim_clock: object, grouping: str, takes_s: float, piece: int
) -> None:
    went = await where(TASKS + 2 * TASKS * piece, takes_s, grouping)
    assert len(set(went[:TASKS])) == TASKS, "one row each until it is known what a row takes"
    pieces = [went[at : at + piece] for at in range(TASKS, len(went), piece)]
    assert all(len(set(found)) == 1 for found in pieces)
    for at in range(0, len(pieces), TASKS):
        assert len({found[0] for found in pieces[at : at + TASKS]}) == TASKS
