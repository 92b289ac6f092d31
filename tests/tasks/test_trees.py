"""Trees of several messages, timeouts, and the acks and fails of spouts."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from aiostorm import (
    AckValueSpout,
    Config,
    FailValueSpout,
    Fields,
    LocalCluster,
    Spout,
)
from aiostorm.testing import FixedSpout, Recorder, SimClock

from .parts import DoesRich, Notes, Numbers, line, rows
from .test_acking import TREES


@pytest.mark.parametrize("tree", TREES)
async def test_several_anchors_of_one_tree(local_cluster: LocalCluster, tree: int) -> None:
    source, sink, pair = Numbers(4, each_call=4), Recorder(fail_on=lambda tup: True), Notes()

    def join(tup: Any, collector: Any) -> None:
        pair.append(tup)
        if len(pair) == 4:
            collector.emit((1,), anchors=pair[1:3])
            for each in pair:
                collector.ack(each)

    running = await local_cluster.submit(
        "t", line(source, join=DoesRich(join), sink=sink), Config(acker_tree_max_messages=tree)
    )
    await running.wait_finished()
    assert sorted(source.acked) == [0, 3]
    assert sorted(source.failed) == [1, 2]


async def test_an_anchored_emit_after_a_fail_of_its_anchor_leaves_nothing_behind(local_cluster: LocalCluster) -> None:
    source, sink = FixedSpout(rows([1]), "n"), Recorder()

    def act(tup: Any, collector: Any) -> None:
        collector.fail(tup, "no")
        collector.emit((1,), anchors=tup)

    running = await local_cluster.submit("t", line(source, bolt=DoesRich(act), sink=sink))
    await running.wait_finished()
    assert list(source.failed) == [0]
    assert sink.values == [(1,)]


class Mixed(Spout):
    """One message of each kind, in one call."""

    outputs = {"default": Fields("n"), "unread": Fields("n")}  # noqa: RUF012

    def __init__(self) -> None:
        self.outcomes = Notes()

    def open(self, context: Any, collector: Any) -> None:
        self.collector = collector

    def next_tuple(self) -> None:
        self.collector.emit((1,), message_id="tracked")
        self.collector.emit((2,))
        self.collector.emit((3,), message_id=None)
        self.collector.emit((4,), message_id="unread", stream="unread")
        self.collector.finish()

    def ack(self, message_id: Any) -> None:
        self.outcomes.append(message_id)

    def fail(self, message_id: Any, failure: Any) -> None:
        self.outcomes.append((message_id, failure.reason))


async def test_no_message_id_is_untracked_and_no_consumer_is_acked_at_once(local_cluster: LocalCluster) -> None:
    source, hold = Mixed(), DoesRich()
    running = await local_cluster.submit("t", line(source, hold=hold))
    await asyncio.sleep(1)
    assert source.outcomes == ["unread"]
    assert sorted(tup["n"] for tup in hold.held) == [1, 2, 3]
    await running.wait_finished()
    assert source.outcomes == ["unread", ("tracked", "timeout")]
    metrics = running.metrics()["spout"]
    assert (metrics.emitted, metrics.transferred, metrics.acked, metrics.failed) == (4, 3, 1, 1)


async def test_with_no_ackers_every_message_is_acked_at_once(local_cluster: LocalCluster, sim_clock: SimClock) -> None:
    source, hold = Numbers(10), DoesRich()
    begun_s = sim_clock.monotonic()
    running = await local_cluster.submit("t", line(source, hold=hold), Config(acker_executors=0))
    await running.wait_finished()
    assert sim_clock.monotonic() - begun_s < 0.1
    assert sorted(source.acked) == list(range(10))
    assert len(hold.held) == 10
    assert running.metrics().pending == 0


@pytest.mark.parametrize("tree", TREES)
@pytest.mark.parametrize("message_id", [[1], {"a": 1}, {1, 2}, (1, [2]), object()], ids=lambda m: type(m).__name__)
@pytest.mark.parametrize("fails", [False, True])
async def test_a_message_id_need_not_be_hashable(
    local_cluster: LocalCluster, tree: int, message_id: Any, fails: bool
) -> None:
    outcomes = Notes()

    class One(Mixed):
        def next_tuple(self) -> None:
            self.collector.emit((1,), message_id=message_id)
            self.collector.emit((2,), message_id=message_id)
            self.collector.finish()

        def ack(self, message_id: Any) -> None:
            outcomes.append(("ack", message_id))

        def fail(self, message_id: Any, failure: Any) -> None:
            outcomes.append(("fail", message_id))

    sink = Recorder(fail_on=lambda tup: fails)
    running = await local_cluster.submit("t", line(One(), sink=sink), Config(acker_tree_max_messages=tree))
    await running.wait_finished()
    assert [kind for kind, _ in outcomes] == ["fail" if fails else "ack"] * 2
    assert all(outcome_id is message_id for _, outcome_id in outcomes)


async def test_the_same_message_id_twice_is_two_messages(local_cluster: LocalCluster) -> None:
    class SameMessageTwice(Mixed):
        def next_tuple(self) -> None:
            for n in range(3):
                self.collector.emit((n,), message_id="same")
            self.collector.finish()

    source, sink = SameMessageTwice(), Recorder(fail_on=lambda tup: tup["n"] == 1)
    running = await local_cluster.submit("t", line(source, sink=sink))
    await running.wait_finished()
    assert sorted(map(str, source.outcomes)) == ["('same', 'failed')", "same", "same"]


@pytest.mark.parametrize("tree", [3, 64])
async def test_a_replay_by_the_spout_travels_alone(local_cluster: LocalCluster, tree: int) -> None:
    """A message that is never acked in time fails alone, and so do its replays."""

    class Stubborn(Numbers):
        def fail(self, message_id: Any, failure: Any) -> None:
            super().fail(message_id, failure)
            self.counts.append(message_id)
            if self.counts.count(message_id) < 4:
                self.collector.emit((message_id,), message_id=message_id)

    source, sink = Stubborn(10, each_call=10), Notes()
    source.counts = Notes()

    def act(tup: Any, collector: Any) -> None:
        sink.append(tup["n"])
        if tup["n"] != 4:  # 4 is forgotten, always
            collector.ack(tup)

    running = await local_cluster.submit("t", line(source, bolt=DoesRich(act)), Config(acker_tree_max_messages=tree))
    await running.wait_finished()
    assert source.counts.count(4) == 4
    assert {n: sink.count(n) for n in range(10)} == {n: 4 if n == 4 else 1 for n in range(10)}
    assert sorted(source.acked) == [n for n in range(10) if n != 4]


class WithValues(AckValueSpout, FailValueSpout):
    """Gets values with acks and failures."""

    outputs = ("n", "m")

    def __init__(self) -> None:
        self.outcomes = Notes()

    def open(self, context: Any, collector: Any) -> None:
        self.collector = collector

    def next_tuple(self) -> None:
        for n in range(4):
            self.collector.emit([n, n * 10], message_id=n)
        self.collector.finish()

    def ack(self, message_id: Any, values: Any) -> None:
        self.outcomes.append(("ack", message_id, values))

    def fail(self, message_id: Any, values: Any, failure: Any) -> None:  # type: ignore[override]
        self.outcomes.append(("fail", message_id, values, failure.reason))


@pytest.mark.parametrize("tree", TREES)
@pytest.mark.parametrize("config", [{}, {"acker_executors": 3}])
async def test_values_come_back_with_acks_and_failures(
    local_cluster: LocalCluster, tree: int, config: dict[str, Any]
) -> None:
    source = WithValues()
    running = await local_cluster.submit(
        "t",
        line(source, sink=Recorder(fail_on=lambda tup: tup["n"] == 2)),
        Config(acker_tree_max_messages=tree, **config),
    )
    await running.wait_finished()
    assert sorted(source.outcomes) == [
        ("ack", 0, (0, 0)),
        ("ack", 1, (1, 10)),
        ("ack", 3, (3, 30)),
        ("fail", 2, (2, 20), "failed"),
    ]


async def test_values_come_back_at_once_with_no_ackers(local_cluster: LocalCluster) -> None:
    source = WithValues()
    running = await local_cluster.submit("t", line(source, sink=Recorder()), Config(acker_executors=0))
    await running.wait_finished()
    assert sorted(source.outcomes) == [("ack", n, (n, n * 10)) for n in range(4)]
