"""Which messages are acked and which fail, and when: at least once, by the acks and fails of the spout."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from aiostorm import (
    BasicBolt,
    Config,
    LocalCluster,
    TopologyBuilder,
    bolt,
)
from aiostorm.testing import FeederSpout, FixedSpout, Recorder, SimClock

from .parts import Does, DoesRich, Notes, Numbers, line, rows

TREES = [1, 3, 64]
ACKERS = [1, 3]


class Batches(BasicBolt):
    """Fails the batches that hold the value 5, and notes how large they are."""

    def __init__(self) -> None:
        self.sizes = Notes()

    def execute_batch(self, tuples: Any, collector: Any) -> None:
        self.sizes.append(len(tuples))
        if 5 in tuples.column("n"):
            raise ValueError("five")


def rich(tup: Any, collector: Any) -> None:
    if tup["n"] == 5:
        collector.fail(tup, ValueError("five"))
    else:
        collector.ack(tup)


def basic(tup: Any, collector: Any) -> None:
    if tup["n"] == 5:
        raise ValueError("five")


@bolt
def function(n: int) -> None:
    if n == 5:
        raise ValueError("five")


@bolt
async def async_function(n: int) -> None:
    await asyncio.sleep(0.001)
    if n == 5:
        raise ValueError("five")


KINDS = {
    "basic": lambda: Does(basic),
    "rich": lambda: DoesRich(rich),
    "function": lambda: function,
    "async function": lambda: async_function,
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("tree", TREES)
@pytest.mark.parametrize("ackers", ACKERS)
async def test_one_bad_message_fails_alone_and_at_once(
    local_cluster: LocalCluster, sim_clock: SimClock, kind: str, tree: int, ackers: int
) -> None:
    source = FixedSpout(rows(range(100)), "n")
    config = Config(acker_tree_max_messages=tree, acker_executors=ackers)
    begun_s = sim_clock.monotonic()
    running = await local_cluster.submit("t", line(source, bolt=KINDS[kind]()), config)
    await running.wait_finished()
    assert sim_clock.monotonic() - begun_s < 1
    assert sorted(source.acked) == [n for n in range(100) if n != 5]
    failure = source.failed[5]
    assert (failure.reason, failure.component, failure.task) == ("failed", "bolt", 2)
    assert (failure.error, failure.attempts) == ("ValueError: five", 1)
    metrics = running.metrics()
    assert (metrics["bolt"].acked, metrics["bolt"].failed, metrics["bolt"].executed) == (99, 1, 100)
    assert (metrics["spout"].acked, metrics["spout"].failed, metrics["spout"].pending) == (99, 1, 0)


async def test_a_basic_batch_fails_as_a_whole_and_the_next_goes_on(local_cluster: LocalCluster) -> None:
    source, batches = FixedSpout(rows(range(100)), "n"), Batches()
    config = Config(turn_max_tuples=10, acker_tree_max_messages=10)
    running = await local_cluster.submit("t", line(source, bolt=batches), config)
    await running.wait_finished()
    assert sum(batches.sizes) == 100
    assert 5 in source.failed
    assert len(source.failed) < 100
    assert len(source.failed) + len(source.acked) == 100
    assert {failure.error for failure in source.failed.values()} == {"ValueError: five"}
    metrics = running.metrics()["bolt"]
    assert (metrics.executed, metrics.failed) == (100, len(source.failed))
    assert metrics.acked == len(source.acked)


@pytest.mark.parametrize("tree", TREES)
async def test_an_ack_waits_for_the_last_leaf(local_cluster: LocalCluster, tree: int) -> None:
    """spout ─► a ─► b ×2 ─► hold: nothing is acked before the last descendant is."""
    feeder, hold = FeederSpout("n"), DoesRich()

    def twice(tup: Any, collector: Any) -> None:
        collector.emit(tup.values)
        collector.emit(tup.values)

    topology = line(feeder, a=Does(twice), b=Does(twice), hold=hold)
    await local_cluster.submit("t", topology, Config(acker_tree_max_messages=tree))
    await feeder.feed(7)
    await asyncio.sleep(1)
    assert len(hold.held) == 4
    for tup in hold.held[:3]:
        hold.collectors[0].ack(tup)
    await asyncio.sleep(1)
    assert feeder.acked == []
    hold.collectors[0].ack(hold.held[3])
    await feeder.idle()
    assert feeder.acked == [0]
    assert feeder.failed == {}


@pytest.mark.parametrize("timeout_s", [1.0, 30.0, 3600.0])
@pytest.mark.parametrize("tree", TREES)
async def test_a_forgotten_ack_fails_by_timeout_within_a_tenth(
    local_cluster: LocalCluster, sim_clock: SimClock, timeout_s: float, tree: int
) -> None:
    source, failed_s = Numbers(3, each_call=3), []
    source.fail = lambda message_id, failure: failed_s.append(  # type: ignore[method-assign]
        (message_id, failure.reason, sim_clock.monotonic() - begun_s)
    )
    config = Config(message_timeout_s=timeout_s, acker_tree_max_messages=tree)
    begun_s = sim_clock.monotonic()
    running = await local_cluster.submit("t", line(source, hold=DoesRich()), config)
    await running.wait_finished()
    assert sorted(message_id for message_id, _, _ in failed_s) == [0, 1, 2]
    for _, reason, after_s in failed_s:
        assert reason == "timeout"
        assert timeout_s <= after_s <= timeout_s * 1.1
    assert running.metrics()["spout"].failed == 3


async def test_a_timeout_has_no_component(local_cluster: LocalCluster) -> None:
    source = FixedSpout(rows([1]), "n")
    running = await local_cluster.submit("t", line(source, hold=DoesRich()))
    await running.wait_finished()
    failure = source.failed[0]
    assert (failure.reason, failure.component, failure.task, failure.error) == ("timeout", None, None, None)


async def test_without_timeouts_a_forgotten_tuple_stays_pending(
    local_cluster: LocalCluster, sim_clock: SimClock
) -> None:
    feeder, hold = FeederSpout("n"), DoesRich()
    running = await local_cluster.submit("t", line(feeder, hold=hold), Config(enable_message_timeouts=False))
    await feeder.feed(1)
    await sim_clock.advance(100_000)
    assert feeder.pending == 1
    assert running.pending() == {"spout": [0]}
    hold.collectors[0].ack(hold.held[0])
    await feeder.idle()
    assert feeder.acked == [0]


async def test_a_held_tuple_can_be_acked_much_later(local_cluster: LocalCluster, sim_clock: SimClock) -> None:
    feeder, hold = FeederSpout("n"), DoesRich()
    await local_cluster.submit("t", line(feeder, hold=hold), Config(message_timeout_s=1000))
    await feeder.feed(1)
    await sim_clock.advance(990)
    assert feeder.pending == 1
    hold.collectors[0].ack(hold.held[0])
    await sim_clock.settle()
    assert feeder.acked == [0]


async def test_an_ack_after_the_timeout_changes_nothing(local_cluster: LocalCluster, sim_clock: SimClock) -> None:
    feeder, hold = FeederSpout("n"), DoesRich()
    running = await local_cluster.submit("t", line(feeder, hold=hold))
    await feeder.feed(1)
    await sim_clock.advance(40)
    assert feeder.failed[0].reason == "timeout"
    hold.collectors[0].ack(hold.held[0])
    await sim_clock.advance(100)
    assert feeder.acked == []
    await running.wait_idle()


async def test_reset_timeout_restarts_the_clock(local_cluster: LocalCluster, sim_clock: SimClock) -> None:
    feeder, hold = FeederSpout("n"), DoesRich()
    await local_cluster.submit("t", line(feeder, hold=hold))
    await feeder.feed(1)
    for _ in range(5):
        await sim_clock.advance(25)
        hold.collectors[0].reset_timeout(hold.held[0])
    await sim_clock.advance(29.9)
    assert feeder.pending == 1
    await sim_clock.advance(3.2)
    assert feeder.failed[0].reason == "timeout"


async def test_reset_timeout_of_joined_tuples_restarts_all_their_trees(
    local_cluster: LocalCluster, sim_clock: SimClock
) -> None:
    feeder, hold, pair = FeederSpout("n"), DoesRich(), Notes()

    def join(tup: Any, collector: Any) -> None:
        pair.append(tup)
        if len(pair) == 2:
            collector.emit((1,), anchors=list(pair))
            for each in pair:
                collector.ack(each)

    await local_cluster.submit("t", line(feeder, join=DoesRich(join), hold=hold))
    await feeder.feed_all([0, 1])
    await sim_clock.advance(20)
    hold.collectors[0].reset_timeout(hold.held[0])
    await sim_clock.advance(20)
    assert feeder.pending == 2
    hold.collectors[0].ack(hold.held[0])
    await feeder.idle()
    assert sorted(feeder.acked) == [0, 1]


@pytest.mark.parametrize(
    ("calls", "acked"),
    [
        (("ack", "ack"), True),
        (("ack", "fail"), True),
        (("fail", "ack"), False),
        (("fail", "fail"), False),
        (("ack", "ack", "ack", "fail", "ack"), True),
    ],
)
@pytest.mark.parametrize("tree", TREES)
async def test_the_first_of_ack_and_fail_counts(
    local_cluster: LocalCluster, calls: tuple[str, ...], acked: bool, tree: int
) -> None:
    def act(tup: Any, collector: Any) -> None:
        for call in calls if tup["n"] == 1 else ("ack",):
            getattr(collector, call)(tup)

    source = Numbers(3, each_call=3)
    running = await local_cluster.submit("t", line(source, bolt=DoesRich(act)), Config(acker_tree_max_messages=tree))
    await running.wait_finished()
    assert sorted(source.acked) == ([0, 1, 2] if acked else [0, 2])
    assert list(source.failed) == ([] if acked else [1])
    metrics = running.metrics()["bolt"]
    assert metrics.acked + metrics.failed == 3


async def test_fail_without_an_error_says_where(local_cluster: LocalCluster) -> None:
    source = FixedSpout(rows([1, 2]), "n")

    def act(tup: Any, collector: Any) -> None:
        collector.fail(tup) if tup["n"] == 1 else collector.fail(tup, "too late")

    running = await local_cluster.submit("t", line(source, bolt=DoesRich(act)))
    await running.wait_finished()
    assert (source.failed[0].component, source.failed[0].error) == ("bolt", None)
    assert source.failed[1].error == "too late"
    assert running.errors() == []  # only an exception is an error; `fail` may be part of the plan


@pytest.mark.parametrize("tree", TREES)
@pytest.mark.parametrize("ackers", ACKERS)
@pytest.mark.parametrize("fails", [False, True])
async def test_several_anchors(local_cluster: LocalCluster, tree: int, ackers: int, fails: bool) -> None:
    """A join: its result belongs to both trees. One of the two anchors is named twice."""
    left, right = FeederSpout("n"), FeederSpout("n")
    pair: Notes = Notes()

    def join(tup: Any, collector: Any) -> None:
        pair.append(tup)
        if len(pair) == 3:
            collector.emit((1,), anchors=(pair[0], pair[1], pair[0]))
            for each in pair:
                collector.ack(each)

    sink = Recorder(fail_on=lambda tup: fails)
    builder = TopologyBuilder()
    builder.set_spout("left", left)
    builder.set_spout("right", right)
    builder.set_bolt("join", DoesRich(join)).shuffle_grouping("left").shuffle_grouping("right")
    builder.set_bolt("sink", sink).shuffle_grouping("join")
    config = Config(acker_tree_max_messages=tree, acker_executors=ackers)
    running = await local_cluster.submit("t", builder.create_topology(), config)
    await left.feed(0)
    await right.feed(1)
    await asyncio.sleep(0.1)
    await left.feed(2)  # joined with no row: it is acked in either case
    await left.idle()
    await right.idle()
    await running.wait_idle()
    assert len(pair) == 3
    if fails:
        assert (left.acked, list(left.failed), right.acked, list(right.failed)) == ([1], [0], [], [0])
        assert left.failed[0] == right.failed[0]
    else:
        assert (sorted(left.acked), right.acked) == ([0, 1], [0])
