"""When is a running topology idle, or finished? Exactly then: not later, not sooner, and never not at all."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from aiostorm import Bolt, Config, LocalCluster, Spout, TopologyBuilder, spout
from aiostorm.testing import FeederSpout, FixedSpout, Recorder, SimClock

from ..tasks.parts import Does, DoesRich, Gate, Notes, Numbers, line, rows


async def test_idle_at_once_when_there_is_nothing_to_do(local_cluster: LocalCluster, sim_clock: SimClock) -> None:
    running = await local_cluster.submit("t", line(FeederSpout("n"), sink=Recorder()))
    now_s = sim_clock.monotonic()
    await running.wait_idle()
    assert sim_clock.monotonic() == now_s


async def test_a_topology_is_idle_as_soon_as_the_last_tuple_is_done(
    local_cluster: LocalCluster, sim_clock: SimClock
) -> None:
    source, hold = Numbers(1), DoesRich()
    running = await local_cluster.submit("t", line(source, hold=hold))
    await sim_clock.advance(10)
    waiting = [asyncio.ensure_future(wait()) for wait in (running.wait_idle, running.wait_finished)]
    await sim_clock.advance(5)
    assert not any(wait.done() for wait in waiting)
    now_s = sim_clock.monotonic()
    hold.collectors[0].ack(hold.held[0])
    await asyncio.gather(*waiting)
    assert sim_clock.monotonic() == now_s


@pytest.mark.parametrize("wait", ["wait_idle", "wait_finished", "drain"])
async def test_the_timeouts(local_cluster: LocalCluster, sim_clock: SimClock, wait: str) -> None:
    running = await local_cluster.submit("t", line(Numbers(1), hold=DoesRich()))
    await sim_clock.advance(1)
    begun_s = sim_clock.monotonic()
    with pytest.raises(TimeoutError):
        await getattr(running, wait)(7)
    assert sim_clock.monotonic() - begun_s == pytest.approx(7)


async def test_a_feeder_is_idle_but_not_finished(local_cluster: LocalCluster) -> None:
    feeder = FeederSpout("n")
    running = await local_cluster.submit("t", line(feeder, sink=Recorder()))
    await feeder.feed(1)
    await running.wait_idle()
    with pytest.raises(TimeoutError):
        await running.wait_finished(100)
    feeder.finish()
    await running.wait_finished()


async def test_a_spout_that_replays_from_fail_is_not_idle_before_it_has(local_cluster: LocalCluster) -> None:
    class Later(Spout):
        """Replays from next_tuple the messages that fail() was called for."""

        outputs = "n"

        def __init__(self) -> None:
            self.todo, self.acked = Notes([1, 2, 3]), Notes()

        def open(self, context: Any, collector: Any) -> None:
            self.collector = collector

        def next_tuple(self) -> None:
            while self.todo:
                n = self.todo.pop()
                self.collector.emit((n,), message_id=n)

        def ack(self, message_id: Any) -> None:
            self.acked.append(message_id)

        async def fail(self, message_id: Any, failure: Any) -> None:
            await asyncio.sleep(3)
            self.todo.append(message_id)

    source, seen = Later(), Notes()

    def act(tup: Any, collector: Any) -> None:
        seen.append(tup["n"])
        if seen.count(tup["n"]) < 4:
            raise ValueError("again")

    running = await local_cluster.submit("t", line(source, bolt=Does(act)))
    await running.wait_idle()
    assert sorted(source.acked) == [1, 2, 3]


async def test_a_waiting_generator_is_not_idle_a_waiting_class_is(
    local_cluster: LocalCluster, sim_clock: SimClock
) -> None:
    gate = Gate()

    @spout(outputs="n")
    async def numbers() -> Any:
        yield 1
        await gate.wait()

    class Waits(Spout):
        outputs = "n"

        async def next_tuple(self) -> None:
            await gate.wait()

    generator = await local_cluster.submit("generator", line(numbers, sink=Recorder()))
    with pytest.raises(TimeoutError):
        await generator.wait_idle(60)
    waits = await local_cluster.submit("class", line(Waits, sink=Recorder()))
    for quiet_s in (1.0, 20.0):
        begun_s = sim_clock.monotonic()
        await waits.wait_idle(quiet_s=quiet_s)
        assert sim_clock.monotonic() - begun_s <= quiet_s
    gate.open()
    await generator.wait_idle()


async def test_a_spout_with_a_new_row_in_its_source_is_not_idle(
    local_cluster: LocalCluster, sim_clock: SimClock
) -> None:
    queues = Notes()

    class Waits(Spout):
        outputs = "n"

        def open(self, context: Any, collector: Any) -> None:
            self.collector = collector
            queues.append(asyncio.Queue())

        async def next_tuple(self) -> None:
            self.collector.emit((await queues[0].get(),), message_id=1)

    sink = Recorder()
    running = await local_cluster.submit("t", line(Waits, sink=sink))
    await sim_clock.advance(100)
    queues[0].put_nowait(7)
    await running.wait_idle()
    assert sink.values == [(7,)]


async def test_a_topology_becomes_idle_long_after_its_messages_timed_out(
    local_cluster: LocalCluster, sim_clock: SimClock
) -> None:
    """The bolt acks after the timeout: the spout learns nothing from it, and the acker reports it to no task."""
    source = Numbers(3)

    async def slow(tup: Any, collector: Any) -> None:
        await asyncio.sleep(60)

    running = await local_cluster.submit("t", line(source, slow=Does(slow)))
    await running.wait_finished(1000)
    assert sorted(source.failed) == [0, 1, 2]
    assert sim_clock.monotonic() - 1000 == pytest.approx(180)


async def test_untracked_tuples_are_waited_for(local_cluster: LocalCluster, sim_clock: SimClock) -> None:
    executed = Notes()

    async def slow(tup: Any, collector: Any) -> None:
        await asyncio.sleep(1)
        executed.append(tup["n"])

    class Untracked(Numbers):
        def next_tuple(self) -> None:
            for n in range(10):
                self.collector.emit((n,))
            self.collector.finish()

    running = await local_cluster.submit("t", line(Untracked(0), slow=Does(slow)), Config(mailbox_capacity_tuples=2))
    await running.wait_finished()
    assert executed == list(range(10))


async def test_a_restarting_bolt_is_waited_for(local_cluster: LocalCluster, sim_clock: SimClock) -> None:
    seen = Notes()

    class Crashes(Bolt):
        def prepare(self, context: Any, collector: Any) -> None:
            self.collector = collector

        def execute(self, tup: Any) -> None:
            seen.append(tup["n"])
            if len(seen) < 4:
                raise LookupError("crash")
            self.collector.ack(tup)

    running = await local_cluster.submit("t", line(Numbers(10), bolt=Crashes))
    await running.wait_finished()
    assert seen == list(range(10))
    assert sim_clock.monotonic() - 1000 >= 1.2


async def test_a_spout_in_its_backoff_is_waited_for(local_cluster: LocalCluster) -> None:
    class Stumbles(Numbers):
        calls = Notes()

        def next_tuple(self) -> None:
            self.calls.append(1)
            if len(self.calls) in (2, 3, 4):
                raise LookupError("stumbles")
            super().next_tuple()

    source = Stumbles(10)
    running = await local_cluster.submit("t", line(source, sink=Recorder()))
    await running.wait_idle()
    assert len(source.acked) == 10


async def test_many_wait_at_once_and_some_give_up(local_cluster: LocalCluster, sim_clock: SimClock) -> None:
    source, hold = Numbers(1), DoesRich()
    running = await local_cluster.submit("t", line(source, hold=hold))
    await sim_clock.advance(1)
    waiting = [asyncio.ensure_future(running.wait_idle()) for _ in range(10)]
    await sim_clock.settle()
    for wait in waiting[::2]:
        wait.cancel()
    for _ in range(20):
        with pytest.raises(TimeoutError):
            await running.wait_idle(0.01)
    hold.collectors[0].ack(hold.held[0])
    results = await asyncio.gather(*waiting, return_exceptions=True)
    assert [type(result).__name__ for result in results] == ["CancelledError", "NoneType"] * 5


async def test_wait_idle_does_not_poll(local_cluster: LocalCluster, sim_clock: SimClock) -> None:
    """A thousand seconds of waiting: the loop turns a few times a sweep, not a thousand times."""
    turns = 0
    loop = asyncio.get_running_loop()
    hold = DoesRich()
    running = await local_cluster.submit("t", line(Numbers(1), hold=hold), Config(enable_message_timeouts=False))
    waiting = asyncio.ensure_future(running.wait_finished())
    await sim_clock.settle()
    run_once = loop._run_once  # type: ignore[attr-defined]

    def counted() -> None:
        nonlocal turns
        turns += 1
        run_once()

    loop._run_once = counted  # type: ignore[attr-defined]
    await sim_clock.advance(1000)
    del loop._run_once  # type: ignore[attr-defined]
    assert turns < 20
    hold.collectors[0].ack(hold.held[0])
    await waiting


@pytest.mark.parametrize("ackers", [0, 1, 3])
async def test_idle_again_and_again(local_cluster: LocalCluster, ackers: int) -> None:
    feeder, sink = FeederSpout("n"), Recorder()
    builder = TopologyBuilder()
    builder.set_spout("spout", feeder)
    builder.set_bolt("a", Does(lambda tup, c: c.emit(tup.values))).shuffle_grouping("spout")
    builder.set_bolt("sink", sink, 2).fields_grouping("a", "out")
    running = await local_cluster.submit("t", builder.create_topology(), Config(acker_executors=ackers))
    for n in range(50):
        await feeder.feed_all([n] * 3)
        await running.wait_idle()
        assert len(sink.values) == (n + 1) * 3
        assert feeder.pending == 0


async def test_results_do_not_disturb_what_is_idle(local_cluster: LocalCluster) -> None:
    running = await local_cluster.submit("t", line(FixedSpout(rows(range(5)), "n"), sink=Recorder()))
    await running.wait_finished()
    assert await running.results() == {}
    await running.wait_finished()
