"""Time that a task is held up by those behind it is no silence of its inputs; all other time is."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from aiostorm import BasicBolt, BufferedWindowBolt, Config, LocalCluster, TopologyBuilder
from aiostorm.testing import FeederSpout
from aiostorm.windows import Tumbling

CONFIG = Config(mailbox_capacity_tuples=32, message_timeout_s=1_000, backpressure_enable=False)
MANY = 100
"""Rows: more than mailboxes hold."""


class Busy(BasicBolt):
    """Of each hundred rows the first one takes it so long."""

    def __init__(self, takes_s: float) -> None:
        self.takes_s = takes_s

    async def execute(self, tup: Any, collector: Any) -> None:
        await asyncio.sleep(self.takes_s if tup["copy"] == 0 else 0)


class Windows(BufferedWindowBolt):
    """`emit(self)`: what a window does."""

    windows = Tumbling(1_000)
    timestamp = "at"
    idle_timeout_ms = 1_000_000
    outputs = "copy"

    def __init__(self, emit: Callable[[Any], Any]) -> None:
        self.emit = emit
        self.own: list[asyncio.Task[None]] = []

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        return self

    def prepare(self, context: Any, collector: Any) -> None:
        self.collector = collector

    def cleanup(self) -> None:
        for task in self.own:
            task.cancel()

    async def execute(self, window: Any) -> Any:
        return await self.emit(self)


class Rig:
    """Two spouts ─► windows ─► slow."""

    def __init__(self, emit: Callable[[Any], Any], slow_s: float) -> None:
        self.feeders = [FeederSpout("at"), FeederSpout("at")]
        self.windows = Windows(emit)
        builder = TopologyBuilder()
        for n, feeder in enumerate(self.feeders):
            builder.set_spout(f"spout{n}", feeder)
        builder.set_bolt("windows", self.windows).global_grouping("spout0").global_grouping("spout1")
        builder.set_bolt("slow", Busy(slow_s)).shuffle_grouping("windows")
        self.topology = builder.create_topology()

    async def submit(self, cluster: LocalCluster) -> Any:
        """The task of the windows. `spout0` is a minute ahead, and silent from now on."""
        running = await cluster.submit("t", self.topology, CONFIG)
        await self.feeders[0].feed_all([(30_000,), (60_000,)])
        await self.feeders[1].feed_all([(0,), (1,)])
        (task,) = [bolt for bolt in running._task_set.tasks.bolts if bolt.task.component == "windows"]
        return task


async def in_its_turn(bolt: Windows) -> None:
    for copy in range(MANY):
        bolt.collector.emit((copy,))
    await bolt.collector.drain()


async def behind_its_turn(bolt: Windows) -> list[tuple[int]]:
    return [(copy,) for copy in range(MANY)]


async def beside_its_turns(bolt: Windows) -> None:
    async def emit() -> None:
        await asyncio.sleep(4)
        await in_its_turn(bolt)

    bolt.own.append(asyncio.create_task(emit()))


EMIT = pytest.mark.parametrize("emit", [in_its_turn, behind_its_turn, beside_its_turns])


@EMIT
async def test_only_the_time_held_up_is_not_counted(emit: Callable[[Any], Any]) -> None:
    rig = Rig(emit, 0.7)
    async with LocalCluster() as cluster:
        task = await rig.submit(cluster)
        for n in range(1, 4):
            await asyncio.sleep(8)
            await rig.feeders[1].feed((8_000 * n,))  # the window before fires
            await asyncio.sleep(8)
            assert task.time.driver.keeper.skipped_ms == 700 * n


@EMIT
async def test_a_target_that_ends_frees_no_task_that_waits_for_another(emit: Callable[[Any], Any]) -> None:
    rig = Rig(emit, 30)
    async with LocalCluster() as cluster:
        task = await rig.submit(cluster)
        await rig.feeders[1].feed((8_000,))
        for _ in range(3):
            await asyncio.sleep(8)
            assert task.outbox.blocked
            task.outbox.stir()  # as if another target had ended: something was lost
        await asyncio.sleep(16)
        assert not task.outbox.blocked
        assert task.time.driver.keeper.skipped_ms == 30_000
