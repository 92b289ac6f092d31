"""Spouts that wait, are paused, or end: what they receive meanwhile, and what ends with them."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

from aiostorm import Config, LocalCluster, Spout, State, TopologyFailedError, TopologyKilledError, spout
from aiostorm.testing import Recorder, SimClock

from .parts import DoesRich, Gate, Notes, Numbers, line
from .test_spouts import Life


class Queued(Spout):
    """Waits for its source in next_tuple; gets acks meanwhile."""

    outputs = "n"

    def __init__(self) -> None:
        self.queues, self.outcomes = Notes(), Notes()

    def open(self, context: Any, collector: Any) -> None:
        self.collector = collector
        self.queues.append(asyncio.Queue())

    async def next_tuple(self) -> None:
        item = await self.queues[0].get()
        self.collector.emit((item,), message_id=item)

    def ack(self, message_id: Any) -> None:
        self.outcomes.append(message_id)

    def fail(self, message_id: Any, failure: Any) -> None:
        self.outcomes.append((message_id, failure.reason))


async def test_acks_are_received_while_next_tuple_waits(local_cluster: LocalCluster, sim_clock: SimClock) -> None:
    source, hold = Queued(), DoesRich()
    running = await local_cluster.submit("t", line(source, hold=hold))
    for n in range(3):
        source.queues[0].put_nowait(n)
    await sim_clock.settle()
    assert [tup["n"] for tup in hold.held] == [0, 1, 2]
    now_s = sim_clock.monotonic()
    for tup in hold.held:
        hold.collectors[0].ack(tup)
    await sim_clock.settle()
    assert sorted(source.outcomes) == [0, 1, 2]
    assert sim_clock.monotonic() == now_s
    await running.wait_idle()
    assert sim_clock.monotonic() - now_s <= 1.1  # quiet_s
    await running.kill()


async def test_a_message_that_fails_while_next_tuple_waits_is_emitted_again(
    local_cluster: LocalCluster, sim_clock: SimClock
) -> None:
    source, hold = Queued(), DoesRich()
    running = await local_cluster.submit("t", line(source, hold=hold), Config(max_retries=2, max_spout_pending=1))
    source.queues[0].put_nowait(7)
    for attempt in range(3):
        await sim_clock.settle()
        assert [tup["n"] for tup in hold.held] == [7] * (attempt + 1)
        hold.collectors[0].fail(hold.held[attempt])
    await sim_clock.settle()
    assert source.outcomes == [(7, "failed")]
    assert running.metrics()["spout"].replayed == 2
    await running.kill()


async def test_a_spout_that_waits_receives_timeouts(local_cluster: LocalCluster, sim_clock: SimClock) -> None:
    source, hold = Queued(), DoesRich()
    await local_cluster.submit("t", line(source, hold=hold))
    source.queues[0].put_nowait(7)
    await sim_clock.advance(33)
    assert source.outcomes == [(7, "timeout")]


async def test_while_an_async_fail_runs_next_tuple_is_not_called(local_cluster: LocalCluster) -> None:
    gate, calls = Gate(), Notes()

    class Slow(Numbers):
        def next_tuple(self) -> None:
            calls.append("next_tuple")
            super().next_tuple()

        async def fail(self, message_id: Any, failure: Any) -> None:  # type: ignore[override]
            calls.append("fail")
            await gate.wait()
            calls.append("failed")

    source = Slow(2)
    running = await local_cluster.submit(
        "t", line(source, sink=Recorder(fail_on=lambda tup: True)), Config(max_spout_pending=1)
    )
    await asyncio.sleep(5)
    assert calls == ["next_tuple", "fail"]
    gate.open()
    await running.wait_finished()
    assert calls == ["next_tuple", "fail", "failed", "next_tuple", "fail", "failed"]


async def test_a_deactivated_spout_is_not_asked(local_cluster: LocalCluster, sim_clock: SimClock) -> None:
    source = Life(count=10_000)
    source.outcomes = Notes()
    running = await local_cluster.submit("t", line(source, sink=Recorder()), Config(max_spout_pending=1))
    while len(source.acked) < 10:  # noqa: ASYNC110
        await asyncio.sleep(0)
    await running.deactivate()
    assert running.state is State.INACTIVE
    await sim_clock.settle()
    asked = source.calls.count("next_tuple")
    await sim_clock.advance(100)
    assert source.calls.count("next_tuple") == asked
    await running.wait_idle()
    await running.activate()
    assert running.state is State.ACTIVE
    await asyncio.sleep(0.01)
    assert source.calls.count("next_tuple") > asked
    await running.kill(0)


async def test_deactivating_twice_tells_the_spout_once(local_cluster: LocalCluster, sim_clock: SimClock) -> None:
    source = Life()
    running = await local_cluster.submit("t", line(source, sink=Recorder()))
    await running.wait_finished()
    for _ in range(2):
        await running.deactivate()
    for _ in range(2):
        await running.activate()
    await sim_clock.settle()
    assert [c for c in source.calls if c.endswith("activate")] == ["activate", "deactivate", "activate"]


@pytest.mark.parametrize("asynchronous", [False, True])
@pytest.mark.parametrize("blocking", [False, True])
async def test_a_generator_that_raises_fails_the_topology(asynchronous: bool, blocking: bool) -> None:
    ended = Notes()

    def numbers() -> Iterator[int]:
        try:
            yield 1
            raise LookupError("the source is lost")
        finally:
            ended.append("finally")

    async def async_numbers() -> AsyncIterator[int]:
        try:
            yield 1
            raise LookupError("the source is lost")
        finally:
            ended.append("finally")

    if asynchronous and blocking:
        pytest.skip("an async def is never run in a thread")
    source = spout(outputs="n", blocking=blocking)(async_numbers if asynchronous else numbers)
    sink = Recorder()
    with pytest.raises(TopologyFailedError, match=r"spout\[1\] was given up.*the source is lost"):  # noqa: PT012
        async with LocalCluster() as cluster:
            running = await cluster.submit("t", line(source, sink=sink))
            with pytest.raises(TopologyFailedError):
                await running.wait_finished()
            assert sink.values == [(1,)]
            assert running._failure is not None
            running._failure.reported = False  # as if no caller had waited
    assert ended == ["finally"]


@pytest.mark.parametrize("asynchronous", [False, True])
@pytest.mark.parametrize("blocking", [False, True])
@pytest.mark.parametrize("drain", [False, True])
async def test_the_finally_of_a_generator_runs_at_the_end(asynchronous: bool, blocking: bool, drain: bool) -> None:
    ended = Notes()

    def numbers() -> Iterator[int]:
        try:
            while True:
                yield 1
        finally:
            ended.append("finally")

    async def async_numbers() -> AsyncIterator[int]:
        try:
            yield 1
            await asyncio.Event().wait()
        finally:
            ended.append("finally")

    if asynchronous and blocking:
        pytest.skip("an async def is never run in a thread")
    source = spout(outputs="n", blocking=blocking)(async_numbers if asynchronous else numbers)
    async with LocalCluster() as cluster:
        sink = Recorder()
        running = await cluster.submit("t", line(source, sink=sink), Config(max_spout_pending=10))
        await sink.wait(1)
        await running.kill(None if drain else 0)
        assert ended == ["finally"]


async def test_a_blocking_spout_wakes_from_any_thread(local_cluster: LocalCluster) -> None:
    asked, collectors = Notes(), Notes()

    class Sleepy(Spout):
        outputs = "n"
        blocking = True

        def open(self, context: Any, collector: Any) -> None:
            collectors.append(collector)

        def next_tuple(self) -> None:
            asked.append(threading.current_thread().name)

    await local_cluster.submit("t", line(Sleepy, sink=Recorder()), Config(spout_wait_max_ms=1e6))
    await asyncio.sleep(100)
    before = len(asked)
    loop = asyncio.get_running_loop()
    await loop.run_in_executor(None, collectors[0].wake)
    await asyncio.sleep(0.0005)
    assert len(asked) == before + 1


async def test_results_of_spouts(local_cluster: LocalCluster) -> None:
    class Counts(Numbers):
        def result(self) -> Any:
            return len(self.outcomes)

    running = await local_cluster.submit("t", line(Counts(4), sink=Recorder()))
    await running.wait_finished()
    assert await running.results() == {"spout": [4]}


@pytest.mark.parametrize("config", [{"acker_executors": 0}, {"max_spout_pending": 5}])
async def test_messages_acked_at_once_are_acked_while_next_tuple_waits(
    local_cluster: LocalCluster, sim_clock: SimClock, config: dict[str, Any]
) -> None:
    class Unread(Queued):
        outputs = {"default": "n", "unread": "n"}  # noqa: RUF012

        async def next_tuple(self) -> None:
            item = await self.queues[0].get()
            self.collector.emit((item,), message_id=item, stream="unread")
            item = await self.queues[0].get()

    source = Unread()
    running = await local_cluster.submit("t", line(source, hold=DoesRich()), Config(**config))
    source.queues[0].put_nowait(7)
    await sim_clock.settle()
    assert source.outcomes == [7]
    await running.wait_idle()


async def test_a_spout_that_was_drained_stays_silent(local_cluster: LocalCluster) -> None:
    source, sink = Life(count=100_000), Recorder()
    running = await local_cluster.submit("t", line(source, sink=sink), Config(max_spout_pending=10))
    await sink.wait(10)
    await running.drain()
    asked = source.calls.count("next_tuple")
    assert running.metrics().pending == 0
    with pytest.raises(TopologyKilledError, match="was drained"):
        await running.activate()
    await asyncio.sleep(10)
    assert source.calls.count("next_tuple") == asked
    assert await running.results() == {}
