"""How a spout that has nothing is asked again: all of a loop at one interval timer, in its own asyncio task."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from aiostorm import Config, LocalCluster
from aiostorm.tasks.emit_loop import SpoutWakeup
from aiostorm.tasks.interval_timer import IntervalTimer, interval_timer_of
from aiostorm.testing import Recorder, SimClock

from .parts import Notes, line
from .test_pending import Idle, waits_ms


async def waits(wakeup: SpoutWakeup, interval_timer: IntervalTimer, outcomes: Any) -> None:
    while True:
        rung = await wakeup.wait_for(interval_timer)
        outcomes.append((asyncio.get_running_loop().time(), rung))


async def test_a_wait_that_begins_between_two_timers_is_shorter(sim_clock: SimClock) -> None:
    interval_timer, outcomes, begun_s = IntervalTimer(10.0), [Notes(), Notes()], sim_clock.monotonic()
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(waits(SpoutWakeup(), interval_timer, outcomes[0]))]
        await sim_clock.advance(4)
        tasks.append(group.create_task(waits(SpoutWakeup(), interval_timer, outcomes[1])))
        await sim_clock.advance(30)
        for task in tasks:
            task.cancel()
    expected = [(begun_s + after_s, False) for after_s in (10, 20, 30)]
    assert [[*of_one] for of_one in outcomes] == [expected, expected]


async def test_one_that_is_rung_alone_waits_the_whole_interval_again(sim_clock: SimClock) -> None:
    wakeup, outcomes, begun_s = SpoutWakeup(), Notes(), sim_clock.monotonic()
    waiting = asyncio.create_task(waits(wakeup, IntervalTimer(10.0), outcomes))
    await sim_clock.advance(4)
    wakeup.wake()
    await sim_clock.advance(30)
    waiting.cancel()
    assert outcomes == [(begun_s + 4, True), *((begun_s + at_s, False) for at_s in (14, 24, 34))]


async def test_without_a_waiter_there_is_no_timer(sim_clock: SimClock) -> None:
    interval_timer = IntervalTimer(10.0)
    waiting = asyncio.create_task(waits(SpoutWakeup(), interval_timer, Notes()))
    await sim_clock.advance(25)
    assert interval_timer._timer is not None
    waiting.cancel()
    await sim_clock.settle()
    assert interval_timer._timer is None


async def test_a_loop_has_one_interval_timer_for_each_interval() -> None:
    loop = asyncio.get_running_loop()
    assert interval_timer_of(loop, 0.1) is interval_timer_of(loop, 0.1) is not interval_timer_of(loop, 0.2)


@pytest.mark.parametrize("way", ["time", "interval_timer"])
async def test_a_wake_just_after_the_time_was_over_is_received(sim_clock: SimClock, way: str) -> None:
    wakeup, interval_timer = SpoutWakeup(), IntervalTimer(10.0)
    rung = asyncio.create_task(wakeup.wait(10.0) if way == "time" else wakeup.wait_for(interval_timer))
    await asyncio.sleep(0)
    asyncio.get_running_loop().call_later(10.0, wakeup.wake)  # behind the timer, before the waiter runs
    await sim_clock.advance(10)
    assert await rung


async def test_idle_spouts_of_all_topologies_are_asked_at_one_interval_timer(
    local_cluster: LocalCluster, sim_clock: SimClock
) -> None:
    sources = [Idle() for _ in range(5)]
    for number, source in enumerate(sources):
        await local_cluster.submit(f"t{number}", line(source, sink=Recorder()))
        await sim_clock.advance(0.031)
    await sim_clock.advance(1)
    assert all(max(waits_ms(source.asked_s)) == 100 for source in sources)
    lasts = [source.asked_s[-5:] for source in sources]
    assert all(last == lasts[0] for last in lasts)


async def test_a_spout_is_asked_in_its_own_asyncio_task(local_cluster: LocalCluster, sim_clock: SimClock) -> None:
    names = Notes()

    class Named(Idle):
        def next_tuple(self) -> None:
            task = asyncio.current_task()
            names.append(task and task.get_name())

    await local_cluster.submit("t", line(Named(), sink=Recorder()))
    await sim_clock.advance(1)
    assert {*names} == {"/t/spout[1]:emit"}


async def test_rows_found_by_a_poll_are_emitted_in_full_turns(local_cluster: LocalCluster, sim_clock: SimClock) -> None:
    """Neither a tree of one message, nor a turn of one too many."""

    class Burst(Idle):
        def next_tuple(self) -> None:
            if self.todo:
                self.collectors[0].emit((self.todo.pop(),), message_id=1)

    source = Burst()
    running = await local_cluster.submit("t", line(source, sink=Recorder()), Config(turn_max_tuples=8))
    await sim_clock.advance(1)
    source.todo += range(20)
    await sim_clock.advance(1)
    assert running.metrics()["spout"].acked == 20
    assert running.metrics()["spout"].trees == 3


async def test_a_spout_that_wakes_itself_and_has_nothing_is_still(
    local_cluster: LocalCluster, sim_clock: SimClock
) -> None:
    class Restless(Idle):
        def next_tuple(self) -> None:
            super().next_tuple()
            self.collectors[0].wake()

    running = await local_cluster.submit("t", line(Restless(), sink=Recorder()))
    await sim_clock.advance(1)
    await running.wait_still(timeout_s=10)


async def test_an_async_spout_that_never_suspends_is_polled(local_cluster: LocalCluster, sim_clock: SimClock) -> None:
    class Async(Idle):
        async def next_tuple(self) -> None:  # type: ignore[override]
            super().next_tuple()

    source = Async()
    running = await local_cluster.submit("t", line(source, sink=Recorder()))
    await sim_clock.advance(1)
    assert waits_ms(source.asked_s)[:10] == [1, 2, 4, 8, 16, 32, 64, 100, 100, 100]
    source.todo += [1, 2, 3]
    await sim_clock.advance(1)
    assert running.metrics()["spout"].acked == 3


async def test_a_poll_that_suspends_sends_what_it_has_emitted(local_cluster: LocalCluster, sim_clock: SimClock) -> None:
    class Slow(Idle):
        async def next_tuple(self) -> None:  # type: ignore[override]
            if self.todo:
                super().next_tuple()
                await asyncio.sleep(3600)

    source, sink = Slow(), Recorder()
    running = await local_cluster.submit("t", line(source, sink=sink))
    await sim_clock.advance(1)
    source.todo.append(1)
    await sim_clock.advance(1)
    assert sink.values == [(1,)]
    await running.wait_still(timeout_s=10)
    source.todo.append(2)
    await sim_clock.advance(3600)
    assert sink.values == [(1,), (2,)]


async def test_a_poll_that_raises_is_reported_and_asked_again(local_cluster: LocalCluster, sim_clock: SimClock) -> None:
    class Breaks(Idle):
        def next_tuple(self) -> None:
            super().next_tuple()
            if len(self.asked_s) == 12:
                raise LookupError("no source")

    source = Breaks()
    running = await local_cluster.submit("t", line(source, sink=Recorder()), Config(restart_backoff_s=[0.5]))
    await sim_clock.advance(3)
    assert [error.where for error in running.errors()] == ["next_tuple"]
    assert 500 in waits_ms(source.asked_s)
    source.todo.append(1)
    await sim_clock.advance(1)
    assert running.metrics()["spout"].acked == 1


async def test_a_lost_tuple_that_was_emitted_outside_fails(local_cluster: LocalCluster, sim_clock: SimClock) -> None:
    """Its target has ended: the ackers get it though the spout has nothing more to send."""
    source = Idle()
    running = await local_cluster.submit("t", line(source, sink=Recorder()))
    await sim_clock.advance(1)
    [target] = [ref for ref in running._task_set.refs.values() if "sink" in ref.path]
    target.kill()
    await sim_clock.settle()
    source.collectors[0].emit((1,), message_id=1)
    await sim_clock.advance(1)
    assert running.metrics()["spout"].failed == 1
