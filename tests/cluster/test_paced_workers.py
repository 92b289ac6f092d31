"""Paced over workers, in a simulated world: spout, bolt and topology master in different processes; processes die."""

from __future__ import annotations

import asyncio
from typing import Any, ClassVar

import pytest

from aiostorm import BasicBolt, BasicCollector, Config, LocalCluster, RunningTopology, Spout, TopologyBuilder, Tuple
from aiostorm.testing.simulation import World

from .sim_workers import SimBackend, with_workers


class Endless(Spout):
    """Two hundred a second, for as long as it is asked."""

    outputs = "n"
    emitted: ClassVar[int] = 0
    acked: ClassVar[int] = 0

    def open(self, context: Any, collector: Any) -> None:
        self.collector = collector

    async def next_tuple(self) -> None:
        await asyncio.sleep(0.005)
        Endless.emitted += 1
        self.collector.emit((Endless.emitted,), message_id=Endless.emitted)

    def ack(self, message_id: int) -> None:
        Endless.acked += 1


class Slow(BasicBolt):
    takes_s: ClassVar[float] = 0.04

    async def execute(self, tup: Tuple, collector: BasicCollector) -> None:
        await asyncio.sleep(Slow.takes_s)


@pytest.fixture(autouse=True)
def _fresh() -> None:
    Endless.emitted = Endless.acked = 0
    Slow.takes_s = 0.04


def topology() -> Any:
    """Two tasks of each: with two workers one of each on either."""
    builder = TopologyBuilder()
    builder.set_spout("endless", Endless, 2)
    builder.set_bolt("slow", Slow, 2).shuffle_grouping("endless")
    settings = Config(mailbox_capacity_tuples=64, message_timeout_s=1000.0, backpressure_check_interval_ms=250)
    return builder.create_topology(config=settings)


async def submit(cluster: LocalCluster) -> RunningTopology:
    return await cluster.submit("paced", "tests.cluster.test_paced_workers:topology")


def kinds(running: RunningTopology) -> list[str]:
    return [event.kind for event in running.backpressure().events]


async def rate(world: World, seconds: float) -> float:
    before = Endless.emitted
    await asyncio.sleep(seconds)
    return (Endless.emitted - before) / seconds


def test_the_spouts_of_all_workers_are_paced_and_set_free_by_an_update() -> None:
    async def story(world: World, cluster: LocalCluster, backend: SimBackend) -> None:
        running = await submit(cluster)
        await asyncio.sleep(6)
        view = running.backpressure()
        assert view.state == "THROTTLED"
        assert [(s.component, s.why) for s in view.spouts] == [("endless", ("slow",))] * 2
        waits_s = []
        for _ in range(8):  # it swings by a tenth and more, around the right one: so its mean is compared
            await asyncio.sleep(0.25)
            waits_s += [spout.wait_s for spout in running.backpressure().spouts]
        assert sum(waits_s) / len(waits_s) == pytest.approx(0.04, rel=0.1)
        assert await rate(world, 4) == pytest.approx(50, rel=0.12)
        await running.update({"topology.backpressure.enable": False})
        Slow.takes_s = 0.0001  # else mailboxes, of 16 rows each, hold the spouts back as much
        await asyncio.sleep(0.1)  # what is executed now
        before = Endless.emitted
        await asyncio.sleep(0.1)
        assert Endless.emitted - before > 30  # of 40; while they are paced it is five
        await asyncio.sleep(1)
        view = running.backpressure()
        assert (view.enabled, view.state, view.spouts) == (False, "NORMAL", ())
        Slow.takes_s = 0.04
        await running.update({"topology.backpressure.enable": True})
        await asyncio.sleep(6)
        assert running.backpressure().state == "THROTTLED"
        Slow.takes_s = 0.0001
        await asyncio.sleep(4)
        assert running.backpressure().state == "NORMAL"
        await running.kill()

    with_workers(story)
    assert Endless.acked == Endless.emitted


@pytest.mark.slow
@pytest.mark.parametrize("victim", [0, 1])
def test_a_worker_that_dies_while_it_is_throttled_with_its_master_or_not(victim: int) -> None:
    async def story(world: World, cluster: LocalCluster, backend: SimBackend) -> None:
        running = await submit(cluster)
        await asyncio.sleep(6)
        assert running.backpressure().state == "THROTTLED"
        world.processes[f"worker-{victim + 1}"].kill("is killed by the test")
        await asyncio.sleep(6)
        assert [w.restarts for w in running.workers()] == [int(i == victim) for i in range(2)]
        view = running.backpressure()
        assert (view.state, len(view.spouts)) == ("THROTTLED", 2)
        assert await rate(world, 4) == pytest.approx(50, rel=0.12)
        Slow.takes_s = 0.0001
        await asyncio.sleep(4)
        assert (running.backpressure().state, running.backpressure().spouts) == ("NORMAL", ())
        assert await rate(world, 2) > 300
        assert kinds(running)[-1] == "NORMAL"
        await running.kill(0)

    with_workers(story)


def test_changed_settings_are_valid_in_the_next_process_of_a_worker() -> None:
    async def story(world: World, cluster: LocalCluster, backend: SimBackend) -> None:
        running = await submit(cluster)
        await running.update({"backpressure_enable": False})
        for name in ("worker-1", "worker-2"):
            world.processes[name].kill("is killed by the test")
            await asyncio.sleep(4)
        assert sum(w.restarts for w in running.workers()) == 2
        await asyncio.sleep(6)
        view = running.backpressure()
        assert (view.enabled, view.state, view.events) == (False, "NORMAL", ())
        await running.kill(0)

    with_workers(story)
