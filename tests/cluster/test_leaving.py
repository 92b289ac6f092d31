"""A failure, and leaving the block: other topologies continue, a caller gets the error, nothing is left behind."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

from aiostorm import (
    BasicBolt,
    Config,
    LocalCluster,
    Spout,
    State,
    TopologyBuilder,
    TopologyFailedError,
)
from aiostorm.testing import Recorder, SimClock

from ..tasks.parts import Does, DoesRich, Gate, Notes, Numbers, line
from .parts import Broken, Endless, stuck


async def test_a_failed_topology_leaves_the_others_alone(local_cluster: LocalCluster) -> None:
    sink = Recorder()
    failed = await local_cluster.submit("failed", line(Broken, sink=Recorder()))
    healthy = await local_cluster.submit("healthy", line(Numbers(1000), sink=sink))
    with pytest.raises(TopologyFailedError, match=r"topology 'failed' failed: spout\[1\]"):
        await failed.wait_idle()
    await healthy.wait_finished()
    assert len(sink.values) == 1000
    assert failed.state is State.FAILED
    await failed.kill()
    assert failed.state is State.FAILED


async def test_the_block_ends_with_a_failure_that_no_caller_has_received(sim_clock: SimClock) -> None:
    with pytest.raises(TopologyFailedError, match="broken"):  # noqa: PT012 - the block is what raises
        async with LocalCluster() as cluster:
            await cluster.submit("t", line(Broken, sink=Recorder()))
            await sim_clock.advance(60)


async def test_the_block_ends_well_once_a_caller_has_received_it(sim_clock: SimClock) -> None:
    async with LocalCluster() as cluster:
        running = await cluster.submit("t", line(Broken, sink=Recorder()))
        with pytest.raises(TopologyFailedError):
            await running.wait_ended()


async def test_a_failure_while_the_block_drains_is_raised_at_its_end() -> None:
    class Fails(DoesRich):
        def execute(self, tup: Any) -> Any:
            raise LookupError("in the drain")

    with pytest.raises(TopologyFailedError, match="in the drain"):
        async with LocalCluster() as cluster:
            await cluster.submit("t", line(Numbers(10), bolt=Fails()), Config(restart_max=2))


async def test_an_exception_in_the_block_comes_before_a_failure(sim_clock: SimClock) -> None:
    with pytest.raises(ZeroDivisionError):  # noqa: PT012 - the block is what raises
        async with LocalCluster() as cluster:
            await cluster.submit("t", line(Broken, sink=Recorder()))
            await sim_clock.advance(60)
            raise ZeroDivisionError


async def test_killing_a_failed_topology_counts_as_receiving_its_failure(sim_clock: SimClock) -> None:
    async with LocalCluster() as cluster:
        running = await cluster.submit("t", line(Broken, sink=Recorder()))
        await sim_clock.advance(60)
        assert running.state is State.FAILED
        await running.kill()


async def test_the_spouts_of_a_failed_topology_are_silent(local_cluster: LocalCluster, sim_clock: SimClock) -> None:
    asked = Notes()

    class Waits(Spout):
        outputs = "n"

        async def next_tuple(self) -> None:
            asked.append("begun")
            try:
                await asyncio.Event().wait()
            finally:
                asked.append("ended")

    class Fails(DoesRich):
        def execute(self, tup: Any) -> Any:
            raise LookupError("always")

    builder = TopologyBuilder()
    builder.set_spout("a", Endless())
    builder.set_spout("b", Waits)
    builder.set_bolt("bolt", Fails()).shuffle_grouping("a").shuffle_grouping("b")
    running = await local_cluster.submit("t", builder.create_topology(), Config(max_spout_pending=1))
    with pytest.raises(TopologyFailedError):
        await running.wait_idle()
    await sim_clock.advance(1)
    assert asked == ["begun", "ended"]
    emitted = running.metrics()["a"].emitted
    await sim_clock.advance(100)
    assert running.metrics()["a"].emitted == emitted


# -- leaving the block -------------------------------------------------------------------------------------------------


async def test_leaving_the_block_drains(sim_clock: SimClock) -> None:
    source = Endless()

    async def slow(tup: Any, collector: Any) -> None:
        await asyncio.sleep(0.1)

    async with LocalCluster() as cluster:
        running = await cluster.submit("t", line(source, slow=Does(slow)), Config(max_spout_pending=10))
        await sim_clock.advance(1)
    assert running.state is State.KILLED
    assert running.metrics().pending == 0
    assert cluster.dead_letters == 0


async def test_leaving_the_block_after_an_exception_stops_at_once(sim_clock: SimClock) -> None:
    begun_s = sim_clock.monotonic()
    before = asyncio.all_tasks()
    with pytest.raises(ZeroDivisionError):  # noqa: PT012 - the block is what raises
        async with LocalCluster() as cluster:
            running = await cluster.submit("t", line(Endless(), bolt=Does(stuck)), Config(mailbox_capacity_tuples=10))
            await cluster.submit("u", line(Endless(), hold=DoesRich()), Config(max_spout_pending=5))
            await asyncio.sleep(1)
            raise ZeroDivisionError
    assert sim_clock.monotonic() - begun_s == pytest.approx(1)
    assert running.state is State.KILLED
    assert asyncio.all_tasks() == before
    assert cluster.dead_letters > 0


async def test_an_exception_while_another_kill_drains(sim_clock: SimClock) -> None:
    begun_s = sim_clock.monotonic()
    with pytest.raises(ZeroDivisionError):  # noqa: PT012 - the block is what raises
        async with LocalCluster() as cluster:
            running = await cluster.submit("t", line(Numbers(5), bolt=Does(stuck)))
            await asyncio.sleep(1)
            killing = asyncio.ensure_future(running.kill())
            await asyncio.sleep(1)
            raise ZeroDivisionError
    await killing
    assert sim_clock.monotonic() - begun_s == pytest.approx(2)


@pytest.mark.parametrize("after_s", [0.0, 1.5, 35.0, 41.0])
async def test_a_cancel_while_the_block_drains_leaves_nothing(sim_clock: SimClock, after_s: float) -> None:
    """At any moment of the end: in the drain, while tasks stop, while one that will not stop is killed."""

    class Stubborn(BasicBolt):
        async def execute(self, tup: Any, collector: Any) -> None:
            await asyncio.Event().wait()

        async def cleanup(self) -> None:
            await asyncio.sleep(8)

    before, threads = asyncio.all_tasks(), threading.active_count()

    async def serve() -> None:
        async with LocalCluster() as cluster:
            for name in ("t", "u"):
                await cluster.submit(name, line(Numbers(5), bolt=Stubborn()))
            await asyncio.sleep(1)

    serving = asyncio.ensure_future(serve())
    await sim_clock.advance(1 + after_s)
    serving.cancel()
    cancelled_s = sim_clock.monotonic()
    with pytest.raises(asyncio.CancelledError):
        await serving
    assert sim_clock.monotonic() - cancelled_s <= 10.1
    assert asyncio.all_tasks() - before == set()
    assert threading.active_count() == threads


async def test_stop_may_be_called_without_a_block(sim_clock: SimClock) -> None:
    cluster, source = LocalCluster(), Numbers(5)
    await cluster.start()
    running = await cluster.submit("t", line(source, sink=Recorder()))
    await running.wait_finished()
    await cluster.stop()
    assert len(source.acked) == 5
    assert running.state is State.KILLED
    await cluster.stop()


async def test_gate_opens_after_the_kill_began(local_cluster: LocalCluster, sim_clock: SimClock) -> None:
    """What was blocked goes on while the topology drains, and all of it is processed."""
    gate, source = Gate(), Numbers(50)

    async def wait(tup: Any, collector: Any) -> None:
        await gate.wait()

    running = await local_cluster.submit("t", line(source, wait=Does(wait)), Config(mailbox_capacity_tuples=4))
    await sim_clock.advance(1)
    killing = asyncio.ensure_future(running.kill())
    await sim_clock.advance(1)
    gate.open()
    await killing
    emitted = running.metrics()["spout"].emitted
    assert len(source.acked) == emitted == running.metrics()["wait"].executed
