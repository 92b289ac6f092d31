"""Submit, activate, drain, kill: the states of a running topology, and what is asked of it in each."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

from aiostorm import (
    BasicBolt,
    Config,
    ConfigError,
    LocalCluster,
    Spout,
    State,
    TopologyBuilder,
    TopologyFailedError,
    TopologyKilledError,
)
from aiostorm.testing import FeederSpout, FixedSpout, Recorder, SimClock

from ..tasks.parts import Does, DoesRich, Gate, Notes, Numbers, line, rows


async def stuck(tup: Any, collector: Any) -> None:
    await asyncio.Event().wait()


class Endless(Numbers):
    """Goes on for ever."""

    def __init__(self) -> None:
        super().__init__(1 << 60)


class Broken(Spout):
    """Raises in next_tuple, always."""

    outputs = "n"

    def next_tuple(self) -> None:
        raise LookupError("broken")


async def test_submit_returns_an_active_topology(local_cluster: LocalCluster) -> None:
    running = await local_cluster.submit("t", line(FeederSpout("n"), sink=Recorder()))
    assert running.state is State.ACTIVE
    assert running.name == "t"
    assert dict(local_cluster.topologies) == {"t": running}
    await running.kill()
    assert running.state is State.KILLED
    assert not local_cluster.topologies


async def test_two_topologies_at_once_do_not_mix(local_cluster: LocalCluster) -> None:
    sinks = [Recorder(), Recorder()]
    first = await local_cluster.submit("first", line(FixedSpout(rows(range(50)), "n"), sink=sinks[0]))
    second = await local_cluster.submit("second", line(FixedSpout(rows(range(50, 100)), "n"), sink=sinks[1]))
    await asyncio.gather(first.wait_finished(), second.wait_finished())
    assert [sorted(sink.values) for sink in sinks] == [rows(range(50)), rows(range(50, 100))]
    await first.kill()
    assert second.state is State.ACTIVE
    assert list(local_cluster.topologies) == ["second"]


async def test_one_topology_runs_many_times(local_cluster: LocalCluster) -> None:
    """A Topology is a description: nothing of a run is left in it."""
    source = Numbers(10)
    topology = line(source, sink=Recorder())
    for name in ("a", "b", "a"):
        running = await local_cluster.submit(name, topology)
        await running.wait_finished()
        await running.kill()
    assert len(source.acked) == 30


async def test_a_name_is_taken_until_it_is_killed(local_cluster: LocalCluster) -> None:
    running = await local_cluster.submit("t", line(FeederSpout("n"), sink=Recorder()))
    with pytest.raises(ValueError, match="a topology named 't' is running: kill it first"):
        await local_cluster.submit("t", line(FeederSpout("n"), sink=Recorder()))
    assert local_cluster.topologies["t"] is running
    await running.kill()
    again = await local_cluster.submit("t", line(FeederSpout("n"), sink=Recorder()))
    assert again.state is State.ACTIVE


@pytest.mark.parametrize("name", ["", "a/b"])
async def test_a_name_that_cannot_be_used(local_cluster: LocalCluster, name: str) -> None:
    with pytest.raises(ValueError, match="name"):
        await local_cluster.submit(name, line(FeederSpout("n"), sink=Recorder()))
    assert not local_cluster.topologies


async def test_submit_needs_a_running_cluster() -> None:
    cluster = LocalCluster()
    topology = line(FeederSpout("n"), sink=Recorder())
    with pytest.raises(RuntimeError, match="async with LocalCluster"):
        await cluster.submit("t", topology)
    assert not cluster.topologies
    async with cluster:
        await cluster.submit("t", topology)
    with pytest.raises(RuntimeError, match="has ended"):
        await cluster.submit("t", topology)
    assert not cluster.topologies


async def test_layers_of_configuration() -> None:
    """Cluster < topology < submit."""
    seen = Notes()

    class Looks(BasicBolt):
        def prepare(self, context: Any) -> None:
            seen.append(context.config)

        def execute(self, tup: Any, collector: Any) -> None: ...

    base = Config(max_spout_pending=1, message_timeout_s=5, acker_executors=2)
    async with LocalCluster(base) as cluster:
        import dataclasses

        topology = dataclasses.replace(line(FeederSpout("n"), looks=Looks), config=Config(message_timeout_s=6))
        running = await cluster.submit("t", topology, {"topology.acker.executors": 3})
        assert (running.config.max_spout_pending, running.config.message_timeout_s) == (1, 6)
        assert seen[0].acker_executors == 3
        with pytest.raises(ConfigError, match=r"topology\.max\.spout\.pendin"):
            await cluster.submit("u", topology, {"topology.max.spout.pendin": 3})
        assert list(cluster.topologies) == ["t"]


# -- kill --------------------------------------------------------------------------------------------------------------


async def test_kill_drains_what_is_under_way(local_cluster: LocalCluster, sim_clock: SimClock) -> None:
    source, sink = Endless(), Recorder()

    async def slow(tup: Any, collector: Any) -> None:
        await asyncio.sleep(0.5)
        collector.emit(tup.values)

    running = await local_cluster.submit("t", line(source, slow=Does(slow), sink=sink), Config(max_spout_pending=10))
    await sim_clock.advance(3)
    await running.kill()
    assert running.metrics().pending == 0
    assert sorted(source.acked) == list(range(source.acked[-1] + 1))
    assert len(sink.values) == len(source.acked)
    assert local_cluster.dead_letters == 0


async def test_kill_gives_up_draining_after_its_time(local_cluster: LocalCluster, sim_clock: SimClock) -> None:
    for wait_s, least_s in ((None, 30), (7, 7), (0, 0)):
        source = Numbers(5)
        running = await local_cluster.submit("t", line(source, hold=DoesRich()))
        await sim_clock.advance(1)
        assert running.pending() == {"spout": [0, 1, 2, 3, 4]}
        begun_s = sim_clock.monotonic()
        if wait_s is None:  # the messages time out just before the drain does
            running.config.__dict__  # noqa: B018 - the default is the message timeout
        await running.kill(wait_s)
        assert least_s - 1 <= sim_clock.monotonic() - begun_s <= least_s + 1
        assert source.acked == []


async def test_killing_twice_waits_for_the_first(local_cluster: LocalCluster, sim_clock: SimClock) -> None:
    source = Numbers(1)
    running = await local_cluster.submit("t", line(source, hold=DoesRich()), Config(enable_message_timeouts=False))
    await sim_clock.advance(1)
    begun_s = sim_clock.monotonic()
    await asyncio.gather(running.kill(5), running.kill(), running.kill(3))
    assert sim_clock.monotonic() - begun_s == pytest.approx(5)
    await running.kill()
    assert sim_clock.monotonic() - begun_s == pytest.approx(5)


async def test_a_second_kill_at_once_cuts_the_drain_short(local_cluster: LocalCluster, sim_clock: SimClock) -> None:
    source = Numbers(1)
    running = await local_cluster.submit("t", line(source, bolt=Does(stuck)), Config(enable_message_timeouts=False))
    await sim_clock.advance(1)
    first = asyncio.ensure_future(running.kill(1000))
    await sim_clock.advance(1)
    begun_s = sim_clock.monotonic()
    await running.kill(0)
    await first
    assert sim_clock.monotonic() - begun_s < 0.1


@pytest.mark.parametrize("wait_s", [None, 0])
async def test_kill_while_everything_is_blocked(
    local_cluster: LocalCluster, sim_clock: SimClock, wait_s: float | None
) -> None:
    def on(tup: Any, collector: Any) -> None:
        collector.emit(tup.values)

    config = Config(mailbox_capacity_tuples=1, message_timeout_s=5, graceful_stop_s=1)
    topology = line(Endless(), a=Does(on, "n"), b=Does(on, "n"), c=Does(stuck))
    running = await local_cluster.submit("t", topology, config)
    await sim_clock.advance(2)
    begun_s = sim_clock.monotonic()
    await running.kill(wait_s)
    # The drain, then a second for each step of the stream.
    assert sim_clock.monotonic() - begun_s <= (0 if wait_s == 0 else 5 + 4) + 0.1
    assert running.state is State.KILLED


@pytest.mark.parametrize("wait_s", [None, 0])
@pytest.mark.parametrize("where", ["prepare", "open"])
async def test_kill_during_start_ends_it_at_once(sim_clock: SimClock, wait_s: float | None, where: str) -> None:
    """A component that takes long to be prepared, or for ever: `submit` raises TopologyKilledError."""

    class SlowBolt(BasicBolt):
        async def prepare(self, context: Any) -> None:
            if where == "prepare":
                await asyncio.Event().wait()

        def execute(self, tup: Any, collector: Any) -> None: ...

    class SlowSpout(Numbers):
        async def open(self, context: Any, collector: Any) -> None:  # type: ignore[override]
            super().open(context, collector)
            if where == "open":
                await asyncio.Event().wait()

    async with LocalCluster() as cluster:
        submitting = asyncio.ensure_future(cluster.submit("t", line(SlowSpout(3), bolt=SlowBolt)))
        await sim_clock.advance(1)
        running = cluster.topologies["t"]
        assert running.state is State.STARTING
        begun_s = sim_clock.monotonic()
        await running.kill(wait_s)
        assert sim_clock.monotonic() - begun_s < 0.1
        with pytest.raises(TopologyKilledError, match="'t' was killed"):
            await submitting
        assert not cluster.topologies


async def test_kill_before_anything_has_started(local_cluster: LocalCluster) -> None:
    submitting = asyncio.ensure_future(local_cluster.submit("t", line(Numbers(3), sink=Recorder())))
    await asyncio.sleep(0)
    await local_cluster.topologies["t"].kill()
    with pytest.raises(TopologyKilledError):
        await submitting
    assert not local_cluster.topologies


async def test_a_cancelled_submit_leaves_nothing(local_cluster: LocalCluster, sim_clock: SimClock) -> None:
    cleaned = Notes()

    class Slow(BasicBolt):
        async def prepare(self, context: Any) -> None:
            try:
                await asyncio.Event().wait()
            finally:
                cleaned.append("ended")

        def execute(self, tup: Any, collector: Any) -> None: ...

    before = asyncio.all_tasks()
    submitting = asyncio.ensure_future(local_cluster.submit("t", line(Numbers(3), bolt=Slow)))
    await sim_clock.advance(1)
    submitting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await submitting
    assert cleaned == ["ended"]
    assert not local_cluster.topologies
    assert asyncio.all_tasks() == before


async def test_who_waits_is_told_of_a_kill(local_cluster: LocalCluster, sim_clock: SimClock) -> None:
    running = await local_cluster.submit("t", line(Numbers(1), hold=DoesRich()))
    waiting = [asyncio.ensure_future(wait()) for wait in (running.wait_idle, running.wait_finished, running.drain)]
    ended = asyncio.ensure_future(running.wait_ended())
    await sim_clock.advance(1)
    await running.kill(0)
    for wait in waiting:
        with pytest.raises(TopologyKilledError, match="'t' was killed"):
            await wait
    await ended
    for asked in (running.activate, running.deactivate, running.results, running.wait_idle, running.drain):
        with pytest.raises(TopologyKilledError):
            await asked()
    assert running.metrics()["spout"].emitted == 1
    assert running.pending() == {"spout": [0]}
    assert running.errors() == []


async def test_kill_calls_close_and_cleanup(local_cluster: LocalCluster) -> None:
    calls = Notes()

    class Ends(BasicBolt):
        def execute(self, tup: Any, collector: Any) -> None: ...

        async def cleanup(self) -> None:
            await asyncio.sleep(1)
            calls.append("cleanup")

    class Closes(Numbers):
        async def close(self) -> None:
            await asyncio.sleep(1)
            calls.append("close")

    for wait_s in (None, 0):
        running = await local_cluster.submit("t", line(Closes(3), bolt=Ends))
        await running.wait_finished()
        await running.kill(wait_s)
        assert sorted(calls) == ["cleanup", "close"]
        calls.clear()


async def test_a_cleanup_that_hangs_is_cut_short(local_cluster: LocalCluster, sim_clock: SimClock) -> None:
    class Hangs(BasicBolt):
        def execute(self, tup: Any, collector: Any) -> None: ...

        async def cleanup(self) -> None:
            await asyncio.Event().wait()

    running = await local_cluster.submit("t", line(Numbers(3), bolt=Hangs), Config(graceful_stop_s=4))
    await running.wait_finished()
    begun_s = sim_clock.monotonic()
    await running.kill()
    assert sim_clock.monotonic() - begun_s <= 4 + 5 + 0.1  # then it is killed, and cancelled once more


# -- drain -------------------------------------------------------------------------------------------------------------


async def test_drain_then_results_then_kill(local_cluster: LocalCluster, sim_clock: SimClock) -> None:
    class Counts(BasicBolt):
        def __init__(self) -> None:
            self.count = 0

        async def execute(self, tup: Any, collector: Any) -> None:
            await asyncio.sleep(0.01)
            self.count += 1

        def result(self) -> Any:
            return self.count

    source = Endless()
    running = await local_cluster.submit("t", line(source, counts=Counts()), Config(max_spout_pending=20))
    await sim_clock.advance(1)
    await running.drain()
    assert running.state is State.INACTIVE
    assert await running.results() == {"counts": [len(source.acked)]}
    assert running.metrics().pending == 0
    await running.drain()  # again: nothing to do
    await running.kill()


async def test_drain_has_a_time_limit_and_the_spouts_are_ended_all_the_same(
    local_cluster: LocalCluster, sim_clock: SimClock
) -> None:
    source, hold = Endless(), DoesRich()
    running = await local_cluster.submit("t", line(source, hold=hold), Config(max_spout_pending=5))
    await sim_clock.advance(1)
    with pytest.raises(TimeoutError):
        await running.drain(2)
    for tup in list(hold.held):
        hold.collectors[0].ack(tup)
    await running.wait_idle()
    assert len(source.acked) == 5
    with pytest.raises(TopologyKilledError, match="was drained"):
        await running.activate()


# -- failure -----------------------------------------------------------------------------------------------------------


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


async def test_the_block_ends_with_a_failure_that_nobody_was_told(sim_clock: SimClock) -> None:
    with pytest.raises(TopologyFailedError, match="broken"):  # noqa: PT012 - the block is what raises
        async with LocalCluster() as cluster:
            await cluster.submit("t", line(Broken, sink=Recorder()))
            await sim_clock.advance(60)


async def test_the_block_ends_well_once_somebody_was_told(sim_clock: SimClock) -> None:
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


async def test_killing_a_failed_topology_counts_as_knowing(sim_clock: SimClock) -> None:
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
