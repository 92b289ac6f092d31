"""Queues: order and backpressure, seen from outside."""

from __future__ import annotations

import asyncio
from typing import Any

from aiostorm import LocalCluster, TopologyBuilder, Tuple, spout
from aiostorm.testing import FeederSpout, SimClock

from .parts import Notes, Noting, Rich, straight
from .scenario import scenario


class Slow(Rich):
    """Executes one tuple each second."""

    def __init__(self, notes: Notes) -> None:
        self.notes = notes

    async def execute(self, tup: Tuple) -> None:
        await asyncio.sleep(1)
        self.notes.append(tup[0])
        self.collector.ack(tup)


@scenario(
    "The tuple that is published first arrives first",
    "JCQueueTest#testFirstMessageFirst",
    note="The test runs a topology; Storm tests the queue itself",
)
async def test_first_message_first(local_cluster: LocalCluster) -> None:
    notes, feeder = Notes(), FeederSpout("n")
    await feeder.feed("FIRST")
    running = await local_cluster.submit("t", straight(feeder, sink=Noting(notes)))
    await feeder.feed_all(range(100))
    await running.wait_idle()
    assert notes[0] == (0, ("FIRST",))
    assert len(notes) == 101


@scenario("A hundred thousand tuples arrive in order", "JCQueueTest#testInOrder")
async def test_in_order(local_cluster: LocalCluster) -> None:
    @spout(outputs="n", tracked=False)
    def numbers() -> Any:
        yield from range(100_000)

    class Expects(Rich):
        def prepare(self, context: Any, collector: Any) -> None:
            super().prepare(context, collector)
            self.expected = 0

        def execute(self, tup: Tuple) -> None:
            assert tup["n"] == self.expected
            self.expected += 1

        def result(self) -> int:
            return self.expected

    running = await local_cluster.submit("t", straight(numbers, sink=Expects))
    await running.wait_finished()
    assert await running.results() == {"sink": [100_000]}
    assert running.errors() == []


@scenario("Backpressure does not change the order", "JCQueueBackpressureTest#testNoReOrderingUnderBackPressure")
async def test_no_reordering(local_cluster: LocalCluster) -> None:
    notes, feeder = Notes(), FeederSpout("n")
    config = {"topology.executor.receive.buffer.size": 64, "enable_message_timeouts": False}
    running = await local_cluster.submit("t", straight(feeder, slow=Slow(notes)), config)
    await feeder.feed_all(range(300))
    await running.wait_idle()
    assert notes == list(range(300))


@scenario(
    "A full queue accepts no more tuples until there is free capacity",
    "JCQueueBackpressureTest#testBasicBackPressure",
    "A mailbox closes at its high mark and opens at its low mark. The sender waits, and nothing is refused",
)
async def test_basic_backpressure(local_cluster: LocalCluster, sim_clock: SimClock) -> None:
    notes, feeder = Notes(), FeederSpout("n")
    config = {"mailbox_capacity_tuples": 64, "turn_max_tuples": 1, "enable_message_timeouts": False}
    config |= {"mailbox_target_ms": 0}  # a number of tuples, as theirs; ours is a time by default
    running = await local_cluster.submit("t", straight(feeder, slow=Slow(notes)), config)
    await feeder.feed_all(range(100))

    def fill() -> int:
        return running.metrics()["slow"].tasks[0].fill

    await sim_clock.advance(0.5)
    assert 0.8 * 64 < fill() <= 64
    emitted = running.metrics()["spout"].emitted
    assert emitted < 100
    await sim_clock.advance(20)  # not yet below the low mark
    assert running.metrics()["spout"].emitted == emitted
    await sim_clock.advance(25)
    assert running.metrics()["spout"].emitted > emitted
    assert fill() <= 64
    await running.wait_idle()
    assert notes == list(range(100))


@scenario(
    "Four producers: the messages of each stay in order, and none is lost", "JStorm DisruptorTest#testMessageDisorder"
)
async def test_many_producers(local_cluster: LocalCluster) -> None:
    @spout(outputs=["producer", "n"], tracked=False)
    def producer(context: Any) -> Any:
        yield from ((context.task_index, n) for n in range(1000))

    notes = Notes()
    builder = TopologyBuilder()
    builder.set_spout("producer", producer, 4)
    builder.set_bolt("sink", Noting(notes)).global_grouping("producer")
    running = await local_cluster.submit("t", builder.create_topology(), {"mailbox_capacity_tuples": 128})
    await running.wait_finished()
    for task in range(4):
        assert [n for _, (producer_task, n) in notes if producer_task == task] == list(range(1000))
    assert len(notes) == 4000


@scenario(
    "A queue of one: nothing hangs",
    "JStorm DisruptorTest#testSingleProducer",
    note="The test expects all messages; JStorm's test expects one",
)
async def test_a_queue_of_one(local_cluster: LocalCluster) -> None:
    notes, feeder = Notes(), FeederSpout("n")
    topology = straight(feeder, sink=Noting(notes))
    running = await local_cluster.submit("t", topology, {"mailbox_capacity_tuples": 1})
    await feeder.feed_all(range(50))
    await running.wait_idle()
    assert notes == [(0, (n,)) for n in range(50)]
