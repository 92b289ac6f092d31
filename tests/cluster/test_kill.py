"""Kill: in order and within a bound, whatever the topology does at the time."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from aiostorm import (
    BasicBolt,
    Config,
    LocalCluster,
    State,
    TopologyKilledError,
)
from aiostorm.testing import Recorder, SimClock

from ..tasks.parts import Does, DoesRich, Notes, Numbers, line
from .parts import Endless, stuck


async def test_kill_drains_messages_under_way(local_cluster: LocalCluster, sim_clock: SimClock) -> None:
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


async def test_a_waiting_caller_is_notified_of_a_kill(local_cluster: LocalCluster, sim_clock: SimClock) -> None:
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
