"""Timeouts: what fails by itself, and when."""

from __future__ import annotations

from typing import Any

import pytest

from aiostorm import LocalCluster, Spout, TopologyBuilder, Tuple
from aiostorm.testing import FeederSpout, SimClock

from .parts import AcksEveryOther, Notes, Rich, straight
from .scenario import scenario

EXACT = "Exact to a twentieth of the timeout; in Storm it fires between one and two times the timeout"


@scenario(
    "A tuple that is never acked fails by timeout; the others are acked",
    "TopologyIntegrationTest#testTimeout",
    EXACT,
)
@pytest.mark.parametrize("grain", [1, 256])
async def test_timeout(local_cluster: LocalCluster, sim_clock: SimClock, grain: int) -> None:
    feeder = FeederSpout("field1")
    config = {"topology.message.timeout.secs": 10, "acker_tree_max_messages": grain}
    await local_cluster.submit("timeout-tester", straight(feeder, acks=AcksEveryOther), config)
    await sim_clock.advance(11)
    for message_id, word in enumerate("abc", 1):
        await feeder.feed(word, message_id)
    await sim_clock.advance(9)
    assert feeder.acked == [1, 3]
    assert feeder.failed == {}
    await sim_clock.advance(1.6)  # 10.6 seconds after it was emitted
    assert list(feeder.failed) == [2]
    assert {failure.reason for failure in feeder.failed.values()} == {"timeout"}


@scenario(
    "A bolt restarts the timeout of a tuple that it holds",
    "TopologyIntegrationTest#testResetTimeout",
    EXACT,
)
async def test_reset_timeout(local_cluster: LocalCluster, sim_clock: SimClock) -> None:
    class ResetsTheFirst(Rich):
        """Holds the first tuple until the fifth comes, forgets the second, acks the others."""

        def prepare(self, context: Any, collector: Any) -> None:
            super().prepare(context, collector)
            self.count = 0

        def execute(self, tup: Tuple) -> None:
            self.count += 1
            if self.count == 1:
                self.first = tup
                return
            if self.count == 5:
                self.collector.ack(self.first)
            else:
                self.collector.reset_timeout(self.first)
            if self.count != 2:
                self.collector.ack(tup)

    feeder = FeederSpout("field1")
    config = {"message_timeout_s": 10}
    await local_cluster.submit("reset-timeout-tester", straight(feeder, resets=ResetsTheFirst), config)
    await feeder.feed("a", 1)
    await feeder.feed("b", 2)
    await sim_clock.advance(9)
    await feeder.feed("c", 3)
    await sim_clock.settle()
    assert feeder.acked == [3]
    await sim_clock.advance(9)
    await feeder.feed("d", 4)
    await sim_clock.settle()
    assert feeder.acked == [3, 4]
    await sim_clock.advance(2)
    assert list(feeder.failed) == [2]
    await feeder.feed("e", 5)
    await feeder.idle()
    assert sorted(feeder.acked) == [1, 3, 4, 5]
    assert list(feeder.failed) == [2]


@scenario("Time advances only when the test advances it", "TestingTest#testAdvanceClusterTime")
async def test_advance_time(local_cluster: LocalCluster, sim_clock: SimClock) -> None:
    feeder = FeederSpout("field1")
    config = {"message_timeout_s": 10}
    await local_cluster.submit("timeout-tester", straight(feeder, acks=AcksEveryOther), config)
    for message_id, word in enumerate("abc", 1):
        await feeder.feed(word, message_id)
    await sim_clock.advance(9)
    assert feeder.acked == [1, 3]
    assert feeder.failed == {}
    await sim_clock.advance(12)
    assert list(feeder.failed) == [2]


@scenario(
    "With timeouts switched off, a tuple that is never acked stays pending for ever",
    "TestingTest#testDisableTupleTimeout",
)
async def test_disabled_timeouts(local_cluster: LocalCluster, sim_clock: SimClock) -> None:
    feeder = FeederSpout("field1")
    config = {"topology.enable.message.timeouts": False, "message_timeout_s": 10}
    running = await local_cluster.submit("disable-timeout-tester", straight(feeder, acks=AcksEveryOther), config)
    for message_id, word in enumerate("abc", 1):
        await feeder.feed(word, message_id)
    await sim_clock.advance(9)
    assert feeder.acked == [1, 3]
    await sim_clock.advance(86_400)
    assert feeder.failed == {}
    assert running.pending() == {"spout": [2]}


@scenario(
    "With several spout tasks, a message does not time out sooner than with one",
    "SpoutExecutorTest#testPendingTuplesRotateShouldBeCalledOnlyOnce",
    "Deadlines instead of rotating buckets, so nothing can rotate twice",
)
async def test_timeout_with_several_spout_tasks(local_cluster: LocalCluster, sim_clock: SimClock) -> None:
    class Forgets(Rich):
        def execute(self, tup: Tuple) -> None:
            pass

    failed = Notes()

    class EmitsOne(Spout):
        outputs = "task"

        def open(self, context: Any, collector: Any) -> None:
            collector.emit((context.task_index,), message_id=context.task_index)
            collector.finish()

        def next_tuple(self) -> None:
            raise AssertionError("it has finished")

        def fail(self, message_id: Any, failure: Any) -> None:
            failed.append((message_id, sim_clock.monotonic()))

    builder = TopologyBuilder()
    builder.set_spout("spout", EmitsOne, 5)
    builder.set_bolt("forgets", Forgets).shuffle_grouping("spout")
    begun_s = sim_clock.monotonic()
    running = await local_cluster.submit("t", builder.create_topology(), {"message_timeout_s": 10})
    await running.wait_finished()
    assert sorted(message_id for message_id, _ in failed) == [0, 1, 2, 3, 4]
    assert all(10 <= at_s - begun_s <= 10.6 for _, at_s in failed)
