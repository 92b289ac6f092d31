"""A lease ends, whatever becomes of the backpressure monitor: it has failed, it sleeps, or all is switched off."""

from __future__ import annotations

import asyncio
from typing import Any

from aiostorm import BasicBolt, Config, LocalCluster, RunningTopology, Spout, TopologyBuilder
from aiostorm.backpressure import Pace, PaceChange
from aiostorm.tasks import SpoutTask

CONFIG = Config(backpressure_check_interval_ms=100)


class Quiet(Spout):
    outputs = "n"

    def open(self, context: Any, collector: Any) -> None:
        self.collector = collector

    def next_tuple(self) -> None:
        return None


class Nothing(BasicBolt):
    def execute(self, tup: Any, collector: Any) -> None:
        return None


async def idle(cluster: LocalCluster, config: Config = CONFIG) -> tuple[RunningTopology, SpoutTask]:
    builder = TopologyBuilder()
    builder.set_spout("spout", Quiet())
    builder.set_bolt("bolt", Nothing()).shuffle_grouping("spout")
    running = await cluster.submit("t", builder.create_topology(), config)
    (spout,) = running._task_set.tasks.spouts
    return running, spout


def slow(running: RunningTopology, spout: SpoutTask) -> None:
    """An order comes."""
    running._task_set.tasks.post(spout, Pace(epoch=1, step=1, change=PaceChange.SLOW, lease_s=0.5, time_us=2_000_000))


async def test_an_order_that_comes_late_to_an_idle_spout_ends_with_its_lease(local_cluster: LocalCluster) -> None:
    running, spout = await idle(local_cluster)
    await asyncio.sleep(5)
    assert not running._task_set.tasks.env.sampling
    slow(running, spout)
    await asyncio.sleep(0.01)
    assert spout.pace.wait_us
    await asyncio.sleep(3)
    assert not spout.pace.wait_us
    assert not running._task_set.tasks.env.sampling


async def test_a_monitor_that_has_failed_ends_the_leases_all_the_same(local_cluster: LocalCluster) -> None:
    running, spout = await idle(local_cluster)
    slow(running, spout)
    await asyncio.sleep(0.15)
    monitor: Any = running._task_set.tasks.monitor
    monitor.mailbox.post("nonsense")
    await asyncio.sleep(5)
    assert not spout.pace.wait_us
    assert not running._task_set.tasks.env.sampling


async def test_an_order_that_was_under_way_does_nothing_when_all_is_off(local_cluster: LocalCluster) -> None:
    running, spout = await idle(local_cluster)
    await running.update({"backpressure_enable": False})
    slow(running, spout)
    await asyncio.sleep(0.01)
    assert not spout.pace.wait_us
    await running.update({"backpressure_enable": True})
    slow(running, spout)
    await asyncio.sleep(0.01)
    assert spout.pace.wait_us


async def test_off_from_the_beginning_no_order_is_taken(local_cluster: LocalCluster) -> None:
    running, spout = await idle(local_cluster, CONFIG.merge({"backpressure_enable": False}))
    slow(running, spout)
    await asyncio.sleep(0.01)
    assert not spout.pace.wait_us
