"""What a topology that is stopped at once leaves behind: each segment that was accepted and not executed."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from aiostorm import BasicBolt, Bolt, Config, LocalCluster, TopologyBuilder, bolt
from aiostorm.testing import Recorder, SimClock

from ..tasks.parts import Notes, Numbers, line


class Basic(BasicBolt):
    """Executes the first tuple at once and the second for ever."""

    def __init__(self) -> None:
        self.seen = Notes()

    async def execute(self, tup: Any, collector: Any) -> None:
        self.seen.append(tup["n"])
        if len(self.seen) == 2:
            await asyncio.Event().wait()


class Rich(Bolt):
    """The same."""

    def __init__(self) -> None:
        self.seen = Notes()

    def prepare(self, context: Any, collector: Any) -> None:
        self.collector = collector

    async def execute(self, tup: Any) -> None:
        self.seen.append(tup["n"])
        if len(self.seen) == 2:
            await asyncio.Event().wait()
        self.collector.ack(tup)


class Batch(BasicBolt):
    """The same, a batch at a time."""

    def __init__(self) -> None:
        self.seen = Notes()

    async def execute_batch(self, tuples: Any, collector: Any) -> None:
        self.seen.extend(tuples.column("n"))
        if len(self.seen) > 1:
            await asyncio.Event().wait()


@bolt
async def function(n: int) -> None:
    if n == 1:
        await asyncio.Event().wait()


@pytest.mark.parametrize("kind", [Basic, Rich, Batch, lambda: function], ids=["basic", "rich", "batch", "function"])
async def test_tuples_in_execution_become_dead_letters(sim_clock: SimClock, kind: Any) -> None:
    """Five messages, a segment each: one is executed, one in execution, three wait."""
    source = Numbers(5)
    async with LocalCluster() as cluster:
        running = await cluster.submit("t", line(source, bolt=kind()), Config(acker_tree_max_messages=1))
        await sim_clock.advance(1)
        await running.kill(0)
        done = len(source.acked)
        assert done < 5
        assert cluster.dead_letters == 5 - done


async def test_a_cleanup_that_hangs_hides_no_dead_letters(sim_clock: SimClock) -> None:
    class Hangs(Basic):
        async def cleanup(self) -> None:
            await asyncio.Event().wait()

    source = Numbers(5)
    async with LocalCluster() as cluster:
        running = await cluster.submit("t", line(source, bolt=Hangs()), Config(acker_tree_max_messages=1))
        await sim_clock.advance(1)
        await running.kill(0)
        assert cluster.dead_letters == 5 - len(source.acked) > 0


async def test_orders_and_verdicts_are_no_dead_letters(local_cluster: LocalCluster) -> None:
    """The topology is killed before its tasks have received any order."""
    running = await local_cluster.submit("t", line(Numbers(5), sink=Recorder()))
    await running.deactivate()
    await running.activate()
    await running.kill(0)
    assert local_cluster.dead_letters == 0


@pytest.mark.parametrize("wait_s", [None, 0])
async def test_a_finished_topology_leaves_no_dead_letters(local_cluster: LocalCluster, wait_s: float | None) -> None:
    builder = TopologyBuilder()
    builder.set_spout("spout", Numbers(100, each_call=10))
    builder.set_bolt("a", Recorder(), 3).shuffle_grouping("spout")
    running = await local_cluster.submit("t", builder.create_topology())
    await running.wait_finished()
    await running.kill(wait_s)
    assert local_cluster.dead_letters == 0
