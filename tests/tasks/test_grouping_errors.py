"""Rows that a grouping refuses: the error names component, stream and field; the message fails, its batch goes through."""  # noqa: E501

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from aiostorm import Grouping, LocalCluster, Spout, TopologyBuilder, TopologyError
from aiostorm.testing import FeederSpout, Recorder

from .parts import Does, DoesRich


def keyed(source: Any, bolt: Any, sink: Any, *, bolt_keyed: bool = True) -> Any:
    """spout ─► bolt ─► sink ×2, the last by the field "key"; or spout ─► sink ×2 by key."""
    builder = TopologyBuilder()
    builder.set_spout("spout", source)
    if bolt is not None:
        builder.set_bolt("bolt", bolt).shuffle_grouping("spout")
    builder.set_bolt("sink", sink, 2).fields_grouping("bolt" if bolt is not None else "spout", "key")
    return builder.create_topology()


UNHASHABLE: list[Any] = [[1, 2], {"a": 1}, {1}, object(), bytearray(b"x"), (1, [2])]


@pytest.mark.parametrize("key", UNHASHABLE, ids=lambda key: type(key).__name__)
async def test_an_unhashable_key_fails_its_message_only(local_cluster: LocalCluster, key: Any) -> None:
    feeder, sink = FeederSpout("n"), Recorder()
    bolt = Does(lambda tup, c: c.emit((tup["n"], key if tup["n"] == 5 else tup["n"])), ("n", "key"))
    running = await local_cluster.submit("t", keyed(feeder, bolt, sink))
    await feeder.feed_all(range(10))
    await feeder.idle()
    assert sorted(feeder.acked) == [0, 1, 2, 3, 4, 6, 7, 8, 9]
    assert sorted(row[0] for row in sink.values) == [0, 1, 2, 3, 4, 6, 7, 8, 9]
    failure = feeder.failed[5]
    assert (failure.reason, failure.component, failure.task) == ("failed", "bolt", 2)
    for part in ("'bolt'", "'default'", "'key'"):
        assert part in str(failure.error)
    [report] = running.errors()
    assert (report.component, report.where) == ("bolt", "emit on stream 'default'")


async def test_an_unhashable_key_from_a_spout_fails_its_message_only(local_cluster: LocalCluster) -> None:
    feeder, sink = FeederSpout("n", "key"), Recorder()
    running = await local_cluster.submit("t", keyed(feeder, None, sink))
    await feeder.feed_all([(n, n if n != 5 else [n]) for n in range(10)])
    await feeder.idle()
    assert sorted(feeder.acked) == [0, 1, 2, 3, 4, 6, 7, 8, 9]
    failure = feeder.failed[5]
    assert (failure.component, failure.task) == ("spout", 1)
    assert "'key'" in str(failure.error)
    await running.wait_idle()
    assert running.metrics()["sink"].executed == 9
    assert running.metrics()["spout"].errors == 1


async def test_a_message_that_is_alone_in_its_tree_fails_too(local_cluster: LocalCluster) -> None:
    feeder = FeederSpout("n", "key")
    await local_cluster.submit("t", keyed(feeder, None, Recorder()))
    await feeder.feed_all([(5, [5])])
    await feeder.idle()
    assert list(feeder.failed) == [0]
    assert not feeder.acked


async def test_an_unhashable_key_of_an_untracked_tuple_is_reported(local_cluster: LocalCluster) -> None:
    class Untracked(Spout):
        outputs = ("n", "key")

        def open(self, context: Any, collector: Any) -> None:
            self.collector = collector

        def next_tuple(self) -> None:
            for n in range(5):
                self.collector.emit((n, [n] if n == 2 else n))
            self.collector.finish()

    sink = Recorder()
    running = await local_cluster.submit("t", keyed(Untracked, None, sink))
    await running.wait_finished()
    assert sorted(row[0] for row in sink.values) == [0, 1, 3, 4]
    assert running.metrics()["spout"].errors == 1


async def test_a_tuple_with_several_anchors_fails_all_their_messages(local_cluster: LocalCluster) -> None:
    feeder, sink = FeederSpout("n"), Recorder()
    pair: list[Any] = []

    def join(tup: Any, collector: Any) -> None:
        pair.append(tup)
        if len(pair) == 2:
            collector.emit((0, [0]), anchors=pair)
            collector.emit((1, 1), anchors=pair)
            for each in pair:
                collector.ack(each)

    running = await local_cluster.submit("t", keyed(feeder, DoesRich(join, ("n", "key")), sink))
    await feeder.feed_all([0, 1])
    await feeder.idle()
    assert sorted(feeder.failed) == [0, 1]
    assert sink.values == [(1, 1)]
    await running.wait_idle()


class Picks(Grouping):
    """Sends to what a function of (row, targets) says."""

    def __init__(self, pick: Any) -> None:
        self.pick = pick

    def choose(self, values: Any) -> Sequence[int]:
        chosen: Sequence[int] = self.pick(values[0], self.targets)
        return chosen


def _raise(n: int, targets: Any) -> Any:
    if n == 2:
        raise LookupError("no such place")
    return targets[:1]


WRONG_PICKS: dict[str, tuple[Any, str]] = {
    "raises": (_raise, "LookupError: no such place"),
    "wrong target": (lambda n, targets: [999] if n == 2 else targets[:1], "chose task 999; the tasks of 'sink' are"),
    "no list": (lambda n, targets: 7 if n == 2 else targets[:1], "choose must return a list or tuple of task ids"),
}


@pytest.mark.parametrize("kind", WRONG_PICKS)
@pytest.mark.parametrize("from_spout", [False, True])
async def test_a_custom_grouping_that_errs_fails_its_message_only(
    local_cluster: LocalCluster, kind: str, from_spout: bool
) -> None:
    pick, says = WRONG_PICKS[kind]
    feeder, sink = FeederSpout("n"), Recorder()
    builder = TopologyBuilder()
    builder.set_spout("spout", feeder)
    source = "spout"
    if not from_spout:
        builder.set_bolt("bolt", Does(lambda tup, c: c.emit(tup.values))).shuffle_grouping("spout")
        source = "bolt"
    builder.set_bolt("sink", sink, 2).custom_grouping(source, Picks(pick))
    await local_cluster.submit("t", builder.create_topology())
    await feeder.feed_all(range(4))
    await feeder.idle()
    assert sorted(feeder.acked) == [0, 1, 3]
    assert feeder.failed[2].component == source
    assert says in str(feeder.failed[2].error)
    assert sorted(sink.values) == [(0,), (1,), (3,)]


async def test_a_grouping_that_picks_no_target_acks_the_message(local_cluster: LocalCluster) -> None:
    feeder, sink = FeederSpout("n"), Recorder()
    builder = TopologyBuilder()
    builder.set_spout("spout", feeder)
    builder.set_bolt("sink", sink, 2).custom_grouping("spout", Picks(lambda n, targets: [] if n % 2 else targets))
    running = await local_cluster.submit("t", builder.create_topology())
    await feeder.feed_all(range(4))
    await feeder.idle()
    assert sorted(feeder.acked) == [0, 1, 2, 3]
    assert sorted(sink.values) == [(0,), (0,), (2,), (2,)]
    await running.wait_idle()


async def test_a_grouping_that_cannot_be_prepared_fails_the_submit_and_leaves_nothing() -> None:
    class Broken(Grouping):
        def prepare(self, context: Any, stream: Any, targets: Any) -> None:
            raise LookupError("no map of the targets")

        def choose(self, values: Any) -> Sequence[int]:
            return ()

    builder = TopologyBuilder()
    builder.set_spout("spout", FeederSpout("n"))
    builder.set_bolt("sink", Recorder()).custom_grouping("spout", Broken())
    async with LocalCluster() as cluster:
        with pytest.raises(TopologyError, match=r"'sink': its custom grouping .* of 'spout' .* no map of the targets"):
            await cluster.submit("t", builder.create_topology())
        assert not cluster.topologies
