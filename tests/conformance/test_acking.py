"""Acking: which messages are acked, and when."""

from __future__ import annotations

from typing import Any

import pytest

from aiostorm import BasicBolt, LocalCluster, Spout, TopologyBuilder, Tuple
from aiostorm.testing import FeederSpout, FixedTuple, NotAckedError, SimClock, complete_topology, track_topology

from .parts import AckCount, Acks, Aggregating, Branching, Identity, Notes, Rich, Words, straight
from .scenario import scenario


@scenario("Branches of three spouts, joined by threes and branched again", "TopologyIntegrationTest#testAcking")
async def test_acking(local_cluster: LocalCluster, sim_clock: SimClock) -> None:
    feeders = [FeederSpout("num") for _ in range(3)]
    one, two, three = (AckCount(feeder) for feeder in feeders)
    builder = TopologyBuilder()
    for i, feeder in enumerate(feeders, 1):
        builder.set_spout(f"spout{i}", feeder)
    builder.set_bolt("4", Branching(2)).shuffle_grouping("spout1")
    builder.set_bolt("5", Branching(4)).shuffle_grouping("spout2")
    builder.set_bolt("6", Branching(1)).shuffle_grouping("spout3")
    builder.set_bolt("7", Aggregating(3)).shuffle_grouping("4").shuffle_grouping("5").shuffle_grouping("6")
    builder.set_bolt("8", Branching(2)).shuffle_grouping("7")
    builder.set_bolt("9", Acks).shuffle_grouping("8")
    tracked = await track_topology(local_cluster, builder.create_topology(), name="acking-test1")
    await sim_clock.advance(11)

    async def feed(number: int) -> None:
        await feeders[number - 1].feed(1)
        await tracked.wait_emitted(1)

    await feed(1)
    assert one.new() == 0
    await feed(2)
    assert (one.new(), two.new()) == (1, 1)
    await feed(1)
    assert one.new() == 0
    await feed(1)
    assert one.new() == 1
    await feed(3)
    assert (one.new(), three.new()) == (0, 0)
    await feed(2)
    assert (one.new(), two.new(), three.new()) == (1, 1, 1)
    for feeder in feeders:
        await feeder.feed(1)
    await tracked.wait_emitted(3)  # seven branches: two joins, and one branch that waits for others
    assert one.new() + two.new() + three.new() == 2


@scenario(
    "Two branches are joined over two messages: both are acked when the second has come",
    "TopologyIntegrationTest#testAckBranching",
)
async def test_ack_branching(local_cluster: LocalCluster) -> None:
    feeder = FeederSpout("num")
    acks = AckCount(feeder)
    builder = TopologyBuilder()
    builder.set_spout("1", feeder)
    builder.set_bolt("2", Identity).shuffle_grouping("1")
    builder.set_bolt("3", Identity).shuffle_grouping("1")
    builder.set_bolt("4", Aggregating(4)).shuffle_grouping("2").shuffle_grouping("3")
    tracked = await track_topology(local_cluster, builder.create_topology(), name="test-acking2")
    await feeder.feed(1)
    await tracked.wait_emitted(1)
    assert acks.new() == 0
    await feeder.feed(1)
    await tracked.wait_emitted(1)
    assert acks.new() == 2


@scenario(
    "The same anchor twice counts once",
    "TopologyIntegrationTest#testAckingSelfAnchor",
)
async def test_self_anchored(local_cluster: LocalCluster, sim_clock: SimClock) -> None:
    class Twice(Rich):
        outputs = "num"

        def execute(self, tup: Tuple) -> None:
            self.collector.emit((1,), [tup, tup])
            self.collector.ack(tup)

    feeder = FeederSpout("num")
    acks = AckCount(feeder)
    tracked = await track_topology(local_cluster, straight(feeder, twice=Twice, acks=Acks))
    await sim_clock.advance(11)
    await feeder.feed(1)
    await tracked.wait_emitted(1)
    assert acks.new() == 1
    await feeder.feed_all([1, 1, 1])
    await tracked.wait_emitted(3)
    assert acks.new() == 3


@scenario(
    "A tracked topology counts what was emitted, transferred and processed",
    "TestingTest#testWithTrackedCluster",
    "Tuples to ackers are not counted. A wait for fewer tuples than were emitted returns",
)
async def test_tracked_topology(local_cluster: LocalCluster) -> None:
    feeder = FeederSpout("num")
    builder = TopologyBuilder()
    builder.set_spout("1", feeder)
    builder.set_bolt("2", Identity).shuffle_grouping("1")
    builder.set_bolt("3", Identity).shuffle_grouping("1")
    builder.set_bolt("4", Aggregating(4)).shuffle_grouping("2").shuffle_grouping("3")
    tracked = await track_topology(local_cluster, builder.create_topology())
    for emitted in (1, 2):
        await feeder.feed(1)
        await tracked.wait_emitted(1)
        # to 2 and to 3, and from there to 4
        assert (tracked.emitted, tracked.transferred, tracked.processed) == (emitted, 4 * emitted, 4 * emitted)
    await tracked.wait_all_acked()
    assert (tracked.acked, tracked.failed) == (2, 0)


@scenario(
    "Without ackers every message is acked when it is emitted",
    "testing4j_test (0.10)#test-with-local-cluster",
    note="Storm's test starts such a cluster and runs nothing in it",
)
async def test_no_ackers(local_cluster: LocalCluster) -> None:
    class Forgets(Rich):
        def execute(self, tup: Tuple) -> None:
            pass

    feeder = FeederSpout("num")
    config = {"topology.acker.executors": 0}
    tracked = await track_topology(local_cluster, straight(feeder, forgets=Forgets), config)
    await feeder.feed_all([1, 2, 3])
    await tracked.wait_all_acked()
    assert feeder.acked == [0, 1, 2]
    assert "__acker" not in tracked.running.metrics()


@scenario(
    "A tuple without a message id: the spout gets no ack and no failure for it",
    "SpoutOutputCollectorImpl (code)#sendSpoutMsg",
)
async def test_without_a_message_id(local_cluster: LocalCluster, sim_clock: SimClock) -> None:
    received = Notes()

    class Some(Spout):
        outputs = "n"

        def open(self, context: Any, collector: Any) -> None:
            self.collector, self.left = collector, [(1, None), (2, "two"), (3, None)]

        def next_tuple(self) -> None:
            if self.left:
                n, message_id = self.left.pop(0)
                self.collector.emit((n,), message_id=message_id)

        def ack(self, message_id: Any) -> None:
            received.append(message_id)

        def fail(self, message_id: Any, failure: Any) -> None:
            received.append((message_id, failure.reason))

    class FailsOdd(Rich):
        def execute(self, tup: Tuple) -> None:
            if tup["n"] % 2:
                self.collector.fail(tup)
            else:
                self.collector.ack(tup)

    tracked = await track_topology(local_cluster, straight(Some, fails=FailsOdd))
    await tracked.wait_all_acked()
    await sim_clock.advance(100)
    assert received == ["two"]
    assert tracked.processed == 3


@scenario(
    "A basic bolt that raises an error fails this tuple, and continues",
    "BasicBoltExecutor (code)#execute",
    "Any exception fails the tuple, and the spout receives the reason. In Storm only FailedException "
    "does; any other ends the worker",
)
async def test_a_basic_bolt_that_raises(local_cluster: LocalCluster) -> None:
    class Picky(BasicBolt):
        outputs = "word"

        def execute(self, tup: Tuple, collector: Any) -> None:
            if tup["word"] == "bad":
                raise ValueError("I do not like it")
            collector.emit(tup.values)

    rows = ["good", FixedTuple(("bad",), message_id="b"), "fine"]
    result = await complete_topology(straight(Words, picky=Picky), {"spout": rows})
    assert result["picky"] == [("good",), ("fine",)]
    assert (result.acked, result.failed, result.metrics["picky"].restarts) == (2, 1, 0)
    failure = result.failures["spout"]["b"]
    assert (failure.component, failure.error) == ("picky", "ValueError: I do not like it")


@scenario(
    "A failure reaches the messages of all anchors",
    "integration_test (0.10)#test-acking-branching-complex",
    note="Storm's test has a name but no body",
)
async def test_a_failure_reaches_all_anchors(local_cluster: LocalCluster) -> None:
    class Fails(Rich):
        def execute(self, tup: Tuple) -> None:
            self.collector.fail(tup, "no")

    feeder = FeederSpout("num")
    builder = TopologyBuilder()
    builder.set_spout("1", feeder)
    builder.set_bolt("2", Aggregating(3)).shuffle_grouping("1")
    builder.set_bolt("3", Branching(2)).shuffle_grouping("2")
    builder.set_bolt("4", Acks).shuffle_grouping("3")
    builder.set_bolt("5", Fails).shuffle_grouping("2")
    tracked = await track_topology(local_cluster, builder.create_topology())
    await feeder.feed_all([1, 2])
    await tracked.wait_emitted(2)
    assert tracked.failed == 0
    await feeder.feed(3)
    with pytest.raises(NotAckedError, match=r"3 messages failed"):
        await tracked.wait_all_acked()
    assert sorted(feeder.failed) == [0, 1, 2]
