"""Every kind of spout, every method that may raise, and what a topology makes of it."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

from aiostorm import Config, LocalCluster, Spout, State, TopologyBuilder, TopologyContext, TopologyFailedError, spout
from aiostorm.testing import Recorder, SimClock

from .parts import Notes, Numbers, line


class AsyncNumbers(Numbers):
    async def open(self, context: Any, collector: Any) -> None:  # type: ignore[override]
        await asyncio.sleep(0.5)
        super().open(context, collector)

    async def next_tuple(self) -> None:  # type: ignore[override]
        await asyncio.sleep(0.01)
        super().next_tuple()

    async def ack(self, message_id: Any) -> None:  # type: ignore[override]
        await asyncio.sleep(0.01)
        super().ack(message_id)


class BlockingNumbers(Numbers):
    blocking = True

    def __init__(self, count: int, *, each_call: int = 1) -> None:
        super().__init__(count, each_call=each_call)
        self.threads = Notes()

    def open(self, context: Any, collector: Any) -> None:
        self.threads.append(threading.current_thread().name)
        super().open(context, collector)

    def next_tuple(self) -> None:
        self.threads.append(threading.current_thread().name)
        super().next_tuple()

    def ack(self, message_id: Any) -> None:
        self.threads.append(threading.current_thread().name)
        super().ack(message_id)

    def close(self) -> None:
        self.threads.append(threading.current_thread().name)


class QuietBlockingNumbers(Numbers):
    """Does not handle acks: the control loop has nothing to do in the thread, and runs while it emits."""

    blocking = True
    ack = Spout.ack  # type: ignore[assignment]

    def next_tuple(self) -> None:
        super().next_tuple()


@spout(outputs="n")
def generator() -> Iterator[int]:
    yield from range(300)


@spout(outputs="n")
async def async_generator() -> AsyncIterator[int]:
    for n in range(300):
        if n % 50 == 0:
            await asyncio.sleep(0.1)
        yield n


@spout(outputs="n", blocking=True)
def blocking_generator() -> Iterator[int]:
    yield from range(300)


KINDS: dict[str, Any] = {
    "sync": lambda: Numbers(300),
    "async": lambda: AsyncNumbers(300),
    "blocking": lambda: BlockingNumbers(300),
    "blocking, deaf": lambda: QuietBlockingNumbers(300),
    "generator": lambda: generator,
    "async generator": lambda: async_generator,
    "blocking generator": lambda: blocking_generator,
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "config", [{}, {"max_spout_pending": 1}, {"mailbox_capacity_tuples": 1}, {"acker_executors": 0}]
)
async def test_every_kind_of_spout_emits_all_and_finishes(
    local_cluster: LocalCluster, kind: str, config: dict[str, Any]
) -> None:
    sink = Recorder()
    running = await local_cluster.submit("t", line(KINDS[kind](), sink=sink), Config(**config))
    await running.wait_finished()
    assert [row[0] for row in sink.values] == list(range(300))
    metrics = running.metrics()["spout"]
    assert (metrics.emitted, metrics.acked, metrics.failed, metrics.pending) == (300, 300, 0, 0)


async def test_a_blocking_spout_runs_in_one_thread_of_its_own(local_cluster: LocalCluster) -> None:
    source = BlockingNumbers(20)
    running = await local_cluster.submit("t", line(source, sink=Recorder()))
    await running.wait_finished()
    assert sorted(source.acked) == list(range(20))
    await running.kill()
    assert len(set(source.threads)) == 1
    assert source.threads[0].startswith("aiostorm-spout")
    assert source.threads[0] != threading.current_thread().name


@pytest.mark.sockets
async def test_a_blocking_spout_loses_nothing_while_acks_come_in() -> None:
    """In real time: the loop takes over what was emitted while the thread goes on emitting."""

    async with LocalCluster() as cluster:
        source, sink = QuietBlockingNumbers(20_000, each_call=50), Recorder()
        running = await cluster.submit("t", line(source, sink=sink), Config(turn_max_ms=1))
        await running.wait_finished(30)
        assert [row[0] for row in sink.values] == list(range(20_000))


async def test_the_context_of_a_generator_spout(local_cluster: LocalCluster) -> None:
    @spout(outputs="n")
    def numbers(context: TopologyContext) -> Iterator[int]:
        yield context.task_index

    builder = TopologyBuilder()
    builder.set_spout("spout", numbers, 3)
    sink = Recorder()
    builder.set_bolt("sink", sink).shuffle_grouping("spout")
    running = await local_cluster.submit("t", builder.create_topology())
    await running.wait_finished()
    assert sorted(sink.values) == [(0,), (1,), (2,)]


class Life(Numbers):
    """Notes the calls; raises in those that the test names."""

    def __init__(self, *raises: str, count: int = 3, times: int = 1) -> None:
        super().__init__(count)
        self.raises, self.times = raises, times
        self.calls, self.raised = Notes(), Notes()

    def note(self, call: str) -> None:
        self.calls.append(call)
        if call in self.raises and self.raised.count(call) < self.times:
            self.raised.append(call)
            raise LookupError(f"{call} is broken")

    def open(self, context: Any, collector: Any) -> None:
        self.note("open")
        super().open(context, collector)

    def next_tuple(self) -> None:
        self.note("next_tuple")
        super().next_tuple()

    def ack(self, message_id: Any) -> None:
        super().ack(message_id)
        self.note("ack")

    def fail(self, message_id: Any, failure: Any) -> None:
        super().fail(message_id, failure)
        self.note("fail")

    def activate(self) -> None:
        self.note("activate")

    def deactivate(self) -> None:
        self.note("deactivate")

    def close(self) -> None:
        self.note("close")


async def test_the_order_of_calls(local_cluster: LocalCluster) -> None:
    source = Life()
    running = await local_cluster.submit("t", line(source, sink=Recorder()))
    await running.wait_finished()
    await running.deactivate()
    await running.activate()
    await running.wait_idle()
    await running.kill()
    calls = [call for call in source.calls if call not in ("next_tuple", "ack")]
    assert calls == ["open", "activate", "deactivate", "activate", "deactivate", "close"]
    assert source.calls.count("ack") == 3


@pytest.mark.parametrize("method", ["open", "next_tuple", "ack", "fail", "activate", "deactivate", "close"])
async def test_an_error_of_a_method_is_reported_and_the_spout_goes_on(local_cluster: LocalCluster, method: str) -> None:
    source = Life(method)
    sink = Recorder(fail_on=lambda tup: tup["n"] == 1)
    running = await local_cluster.submit("t", line(source, sink=sink))
    await running.wait_finished()
    assert sorted(source.acked) == [0, 2]
    assert list(source.failed) == [1]
    await running.kill()
    [report] = running.errors()
    assert (report.component, report.task, report.where) == ("spout", 1, method)
    assert report.error == f"LookupError: {method} is broken"
    assert 'raise LookupError(f"{call} is broken")' in report.traceback
    assert running.metrics()["spout"].errors == 1
    assert running.metrics()["spout"].restarts == (1 if method == "open" else 0)
    assert source.calls.count("close") == 1


@pytest.mark.parametrize("method", ["ack", "fail", "activate", "deactivate", "close"])
async def test_notifications_may_always_raise(local_cluster: LocalCluster, method: str) -> None:
    source = Life(method, times=100, count=20)
    running = await local_cluster.submit("t", line(source, sink=Recorder(fail_on=lambda tup: tup["n"] % 2)))
    await running.wait_finished()
    assert len(source.outcomes) == 20
    await running.kill()
    assert running.state is State.KILLED
    assert {report.where for report in running.errors()} == {method}


async def test_an_open_that_always_raises_fails_the_submit(sim_clock: SimClock) -> None:
    source = Life("open", times=1000)
    begun_s = sim_clock.monotonic()
    async with LocalCluster() as cluster:
        with pytest.raises(TopologyFailedError, match=r"spout\[1\] was given up.*open is broken") as raised:
            await cluster.submit("t", line(source, sink=Recorder()))
        assert isinstance(raised.value.__cause__, LookupError)
        assert not cluster.topologies
    assert source.calls == ["open"] * 6
    assert sim_clock.monotonic() - begun_s < 12


async def test_a_next_tuple_that_always_raises_fails_the_topology(local_cluster: LocalCluster) -> None:
    source = Life("next_tuple", times=1000)
    running = await local_cluster.submit("t", line(source, sink=Recorder()))
    for wait in (running.wait_idle, running.wait_finished, running.wait_ended, running.results, running.activate):
        with pytest.raises(
            TopologyFailedError, match=r"'t' failed: spout\[1\] was given up.*next_tuple is broken"
        ) as raised:
            await wait()
        assert isinstance(raised.value.__cause__, LookupError)
    assert running.state is State.FAILED
    assert source.calls.count("next_tuple") == 6
    assert [report.where for report in running.errors()] == ["next_tuple"] * 6
    await running.kill()
    assert source.calls[-1] == "close"


async def test_emits_of_a_next_tuple_that_raises_are_sent(local_cluster: LocalCluster) -> None:
    class Half(Numbers):
        def next_tuple(self) -> None:
            super().next_tuple()
            if self.next == 2:
                raise LookupError("after the emit")

    source, sink = Half(4), Recorder()
    running = await local_cluster.submit("t", line(source, sink=sink))
    await running.wait_finished()
    assert sorted(sink.values) == [(0,), (1,), (2,), (3,)]
    assert sorted(source.acked) == [0, 1, 2, 3]


@pytest.mark.parametrize("blocking", [False, True])
async def test_stop_iteration_is_an_error_like_any_other(local_cluster: LocalCluster, blocking: bool) -> None:
    """`next(lines)` in next_tuple: a coroutine and a future both treat StopIteration in ways of their own."""

    class Exhausted(Spout):
        outputs = "n"

        def open(self, context: Any, collector: Any) -> None:
            self.collector, self.items = collector, iter([1, 2])

        def next_tuple(self) -> None:
            self.collector.emit((next(self.items),), message_id=1)

    Exhausted.blocking = blocking
    running = await local_cluster.submit("t", line(Exhausted, sink=Recorder()))
    with pytest.raises(TopologyFailedError, match="StopIteration"):
        await running.wait_idle(60)


async def test_a_next_tuple_that_is_cancelled_by_what_it_awaits(local_cluster: LocalCluster) -> None:
    """The spout was not cancelled: it is an error of next_tuple, which is called again."""
    source, sink = Numbers(3), Recorder()

    class Cancelled(Numbers):
        async def next_tuple(self) -> None:  # type: ignore[override]
            if not self.outcomes:
                self.outcomes.append("cancelled")
                other = asyncio.get_running_loop().create_future()
                other.cancel()
                await other
            super().next_tuple()

    source = Cancelled(3)
    running = await local_cluster.submit("t", line(source, sink=sink))
    await running.wait_finished(60)
    assert sorted(sink.values) == [(0,), (1,), (2,)]
    [report] = running.errors()
    assert report.where == "next_tuple"
    assert "cancelled" in report.error.lower()


@pytest.mark.parametrize("method", ["ack", "fail"])
async def test_an_ack_that_is_cancelled_by_what_it_awaits(local_cluster: LocalCluster, method: str) -> None:
    class Cancelled(Life):
        async def lost(self) -> None:
            other = asyncio.get_running_loop().create_future()
            other.cancel()
            await other

        async def ack(self, message_id: Any) -> None:  # type: ignore[override]
            super().ack(message_id)
            await self.lost()

        async def fail(self, message_id: Any, failure: Any) -> None:  # type: ignore[override]
            super().fail(message_id, failure)
            await self.lost()

    source = Cancelled(count=5)
    running = await local_cluster.submit("t", line(source, sink=Recorder(fail_on=lambda tup: method == "fail")))
    await running.wait_finished(60)
    assert len(source.outcomes) == 5
    assert source.calls.count("open") == 1
    assert {report.where for report in running.errors()} == {method}
