"""Spouts whose methods block, in a thread: emits are sent at once, acks and failures wait for the thread."""

from __future__ import annotations

import asyncio
import queue
import threading
from typing import Any

import pytest

from aiostorm import Config, EmitError, LocalCluster, Spout
from aiostorm.testing import Recorder, SimClock

from .parts import DoesRich, Notes, line

PATIENCE_S = 60


class Takes(Spout):
    """Blocks until its queue has something; 0 is nothing."""

    outputs = "n"
    blocking = True

    def __init__(self, items: queue.Queue[int], *, tracked: bool = True) -> None:
        self.items, self.tracked = items, tracked
        self.calls, self.again = 0, threading.Event()

    def __deepcopy__(self, memo: dict[int, Any]) -> Takes:
        return self

    def open(self, context: Any, collector: Any) -> None:
        self.collector = collector

    def next_tuple(self) -> None:
        self.calls += 1
        if self.calls == 2:
            self.again.set()
        n = self.items.get()
        if n:
            self.collector.emit((n,), message_id=n if self.tracked else None)


@pytest.mark.sockets
async def test_emits_of_a_blocking_spout_are_sent_while_its_next_call_blocks() -> None:
    """In real time: the thread waits in the second call; the first tuple must not wait with it."""
    items: queue.Queue[int] = queue.Queue()

    class Blocks(Spout):
        outputs = "n"
        blocking = True
        outcomes = Notes()

        def open(self, context: Any, collector: Any) -> None:
            self.collector = collector

        def next_tuple(self) -> None:
            n = items.get()
            self.collector.emit((n,), message_id=n)
            if n == 3:
                self.collector.finish()

        def ack(self, message_id: Any) -> None:
            self.outcomes.append(message_id)

    async with LocalCluster() as cluster:
        sink = Recorder()
        running = await cluster.submit("t", line(Blocks, sink=sink))
        try:
            for n in (1, 2):
                items.put(n)
                await sink.wait(n, timeout_s=PATIENCE_S)
        finally:
            items.put(3)
        await running.wait_finished(PATIENCE_S)
        assert sorted(Blocks.outcomes) == [1, 2, 3]


@pytest.mark.sockets
async def test_a_blocking_spout_that_waits_is_idle_after_a_while() -> None:
    items: queue.Queue[int] = queue.Queue()

    class Blocks(Spout):
        outputs = "n"
        blocking = True

        def open(self, context: Any, collector: Any) -> None:
            self.collector = collector

        def next_tuple(self) -> None:
            n = items.get()
            if n:
                self.collector.emit((n,), message_id=n)

    async with LocalCluster() as cluster:
        sink = Recorder()
        running = await cluster.submit("t", line(Blocks, sink=sink))
        try:
            items.put(1)
            await running.wait_idle(PATIENCE_S, quiet_s=0.1)
            assert sink.values == [(1,)]
            # It cannot be cancelled: the drain waits until its thread comes back.
            with pytest.raises(TimeoutError):
                await running.drain(0.1)
        finally:
            items.put(0)
        await running.drain(PATIENCE_S)


@pytest.mark.sockets
async def test_messages_settled_at_once_are_counted_while_the_thread_blocks() -> None:
    items: queue.Queue[int] = queue.Queue()
    async with LocalCluster() as cluster:
        sink = Recorder()
        running = await cluster.submit("t", line(Takes(items), sink=sink), Config(acker_executors=0))
        try:
            items.put(1)
            await running.wait_idle(PATIENCE_S, quiet_s=0.05)
            assert (running.metrics()["spout"].acked, sink.values) == (1, [(1,)])
        finally:
            items.put(0)


async def test_the_limit_is_looked_at_between_two_calls(local_cluster: LocalCluster, sim_clock: SimClock) -> None:
    """One call may go over it, as with every spout: what it has emitted is sent."""

    class Threes(Spout):
        outputs = "n"
        blocking = True
        calls = Notes()

        def open(self, context: Any, collector: Any) -> None:
            self.collector = collector

        def next_tuple(self) -> None:
            self.calls.append("next_tuple")
            for n in range(3):
                self.collector.emit((n,), message_id=n)

    hold = DoesRich()
    running = await local_cluster.submit("t", line(Threes, hold=hold), Config(max_spout_pending=4))
    await sim_clock.advance(1)
    assert (len(Threes.calls), running.metrics().pending, len(hold.held)) == (2, 6, 6)
    for tup in hold.held[:2]:
        hold.collectors[0].ack(tup)
    await sim_clock.advance(1)
    assert len(Threes.calls) == 2
    for tup in hold.held[2:6]:
        hold.collectors[0].ack(tup)
    await sim_clock.advance(1)
    assert running.metrics().pending == 6


@pytest.mark.sockets
async def test_emits_of_the_last_call_are_sent_while_the_spout_stops() -> None:
    """The thread cannot be interrupted: the stop waits for it, and takes what it still emits, untracked tuples too."""
    items: queue.Queue[int] = queue.Queue()
    async with LocalCluster() as cluster:
        source, sink = Takes(items, tracked=False), Recorder()
        running = await cluster.submit("t", line(source, sink=sink), Config(graceful_stop_s=5))
        items.put(1)
        await sink.wait(1, timeout_s=PATIENCE_S)
        await asyncio.to_thread(
            source.again.wait, PATIENCE_S
        )  # a kill before it is asked again finds nothing to wait for
        asyncio.get_running_loop().call_later(0.2, items.put, 2)
        await running.kill(0.1)
        assert sink.values == [(1,), (2,)]
        assert cluster.dead_letters == 0


async def test_an_emit_after_the_end_is_an_error_in_the_thread(local_cluster: LocalCluster) -> None:
    collectors = Notes()

    class Keeps(Takes):
        def open(self, context: Any, collector: Any) -> None:
            super().open(context, collector)
            collectors.append(collector)

    items: queue.Queue[int] = queue.Queue()
    items.put(1)
    running = await local_cluster.submit("t", line(lambda: Keeps(items), sink=Recorder()), Config(max_spout_pending=1))
    items.put(0)
    await running.kill()
    with pytest.raises(EmitError, match="emits after it was closed"):
        await asyncio.to_thread(collectors[0].emit, (1,), 1)
