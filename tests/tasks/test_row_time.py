"""What a row takes a task: its senders read it at its mailbox."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from aiostorm import BasicBolt, LocalCluster, RunningTopology, TupleBatch

from .parts import Does, DoesRich, Numbers, line


def row_s(running: RunningTopology, component: str) -> float:
    env = running._task_set.tasks.env
    (task,) = env.plan.tasks_of[component]
    return env.mailboxes[task].reader.row_s


class Waits(BasicBolt):
    async def execute_batch(self, tuples: TupleBatch, collector: Any) -> None:
        await asyncio.sleep(0.01 * len(tuples))


async def waits(tup: Any, collector: Any) -> None:
    await asyncio.sleep(0.01)


async def waits_and_acks(tup: Any, collector: Any) -> None:
    await asyncio.sleep(0.01)
    collector.ack(tup)


@pytest.mark.parametrize("bolt", [Does(waits), DoesRich(waits_and_acks), Waits()])
async def test_the_time_of_a_row_is_what_the_bolt_took_lately(local_cluster: LocalCluster, bolt: Any) -> None:
    running = await local_cluster.submit("t", line(Numbers(50), bolt=bolt))
    assert row_s(running, "bolt") == 0.0
    await running.wait_finished()
    assert row_s(running, "bolt") == pytest.approx(0.01)
