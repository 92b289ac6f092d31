"""Programs: words counted, streams split, joined and sent around."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

import pytest

from aiostorm import (
    BasicBolt,
    Bolt,
    Fields,
    LocalCluster,
    Spout,
    TopologyBuilder,
    Tuple,
    bolt,
    spout,
)
from aiostorm.testing import FeederSpout, FixedSpout, Recorder, complete_topology, track_topology

from .parts import Notes, Noting, Rich, WordCounter
from .scenario import scenario


@scenario(
    "Words of many sentences are counted, shuffled or local first",
    "JStorm FastWordCountTest#testFastWordCount",
    note="JStorm's test measures, and asserts nothing",
)
@pytest.mark.parametrize("grouping", ["shuffle_grouping", "local_first_grouping"])
async def test_fast_word_count(local_cluster: LocalCluster, grouping: str) -> None:
    sentences = ["the cow jumped over the moon", "an apple a day", "four score and seven years ago", "snow white"] * 500

    @spout(outputs="sentence")
    def emits() -> Any:
        yield from sentences

    @bolt(outputs="word")
    def split(sentence: str) -> Any:
        yield from sentence.split()

    class Counts(WordCounter):
        def result(self) -> dict[Any, int]:
            return self.counts

    builder = TopologyBuilder()
    builder.set_spout("spout", emits)
    getattr(builder.set_bolt("split", split, 2), grouping)("spout")
    builder.set_bolt("count", Counts, 2).fields_grouping("split", "word")
    running = await local_cluster.submit("FastWordCountTest", builder.create_topology())
    await running.wait_finished()
    one, other = (await running.results())["count"]
    assert not one.keys() & other.keys()
    assert one | other == Counter(word for sentence in sentences for word in sentence.split())
    assert running.metrics()["spout"].acked == 2000


@scenario(
    "Tuples are split into two streams, counted separately, merged by id and added up",
    "JStorm SequenceTopologyTest#testSequenceTopology",
    note="Merged tuples are anchored; in JStorm's test they are not",
)
async def test_sequence_topology() -> None:
    rng = random.Random(7)
    rows = [(i, {"trade": rng.randrange(100), "customer": rng.randrange(100)}) for i in range(500)]

    class Split(BasicBolt):
        outputs = {"trade": ("id", "pair"), "customer": ("id", "pair")}  # noqa: RUF012

        def execute(self, tup: Tuple, collector: Any) -> None:
            for stream, value in tup["record"].items():
                collector.emit((tup["id"], value), stream=stream)

    class Merge(Rich):
        outputs = Fields("id", "trade", "customer")

        def prepare(self, context: Any, collector: Any) -> None:
            super().prepare(context, collector)
            self.waiting: dict[int, Tuple] = {}

        def execute(self, tup: Tuple) -> None:
            other = self.waiting.pop(tup["id"], None)
            if other is None:
                self.waiting[tup["id"]] = tup
                return
            sides = {side.source_component: side["value"] for side in (tup, other)}
            self.collector.emit((tup["id"], sides["trade"], sides["customer"]), [tup, other])
            self.collector.ack(tup)
            self.collector.ack(other)

    class Pairs(BasicBolt):
        outputs = Fields("id", "value")

        def execute(self, tup: Tuple, collector: Any) -> None:
            collector.emit(tup.values)

    builder = TopologyBuilder()
    builder.set_spout("records", FixedSpout(rows, "id", "record"))
    builder.set_bolt("split", Split, 2).local_or_shuffle_grouping("records")
    builder.set_bolt("trade", Pairs, 2).shuffle_grouping("split", stream="trade")
    builder.set_bolt("customer", Pairs, 2).shuffle_grouping("split", stream="customer")
    builder.set_bolt("merge", Merge, 2).fields_grouping("trade", "id").fields_grouping("customer", "id")
    builder.set_bolt("total", Recorder(), 2).none_grouping("merge")
    result = await complete_topology(builder.create_topology(), config={"topology.acker.executors": 1})
    assert (result.acked, result.failed) == (500, 0)
    assert len(result.stream("split", "trade")) + len(result.stream("split", "customer")) == 1000
    assert len(result["trade"]) == len(result["customer"]) == len(result["merge"]) == 500
    assert result.metrics["total"].executed == 500
    assert sum(trade for _, trade, _ in result["merge"]) == sum(record["trade"] for _, record in rows)
    assert sum(customer for _, _, customer in result["merge"]) == sum(record["customer"] for _, record in rows)


@scenario("Two feeders joined by id, fed in opposite orders", "JStorm SingleJoinTest#test_single_join")
async def test_single_join(local_cluster: LocalCluster) -> None:
    class Join(Rich):
        outputs = Fields("id", "gender", "age")

        def prepare(self, context: Any, collector: Any) -> None:
            super().prepare(context, collector)
            self.pending: dict[int, dict[str, Tuple]] = {}

        def execute(self, tup: Tuple) -> None:
            parts = self.pending.setdefault(tup["id"], {})
            parts[tup.source_component] = tup
            if len(parts) == 2:
                row = (tup["id"], parts["gender"]["gender"], parts["age"]["age"])
                self.collector.emit(row, list(parts.values()))
                for part in parts.values():
                    self.collector.ack(part)

    genders, ages, joined = FeederSpout("id", "gender"), FeederSpout("id", "age"), Recorder()
    builder = TopologyBuilder()
    builder.set_spout("gender", genders)
    builder.set_spout("age", ages)
    builder.set_bolt("join", Join, 2).fields_grouping("gender", "id").fields_grouping("age", "id")
    builder.set_bolt("out", joined).global_grouping("join")
    tracked = await track_topology(local_cluster, builder.create_topology())
    await genders.feed_all((i, "female" if i % 2 else "male") for i in range(10))
    await tracked.wait_emitted(10)
    assert joined.values == []
    await ages.feed_all((i, i + 20) for i in reversed(range(10)))
    await tracked.wait_all_acked()
    assert sorted(joined.values) == [(i, "female" if i % 2 else "male", i + 20) for i in range(10)]


@scenario(
    "Tuples from one spout task to one bolt task arrive in order",
    "JStorm InOrderDeliveryTest#testInOrderDelivery",
)
async def test_in_order_delivery(local_cluster: LocalCluster) -> None:
    class Counting(Spout):
        outputs = Fields("task", "content")

        def open(self, context: Any, collector: Any) -> None:
            self.task, self.collector, self.content = context.task_index, collector, 0

        def next_tuple(self) -> None:
            self.collector.emit((self.task, self.content), message_id="msg")
            self.content += 1
            if self.content == 1000:
                self.collector.finish()

    notes = Notes()
    builder = TopologyBuilder()
    builder.set_spout("spout", Counting, 8)
    builder.set_bolt("bolt", Noting(notes), 8).fields_grouping("spout", "task")
    running = await local_cluster.submit("order", builder.create_topology())
    await running.wait_finished()
    seen: dict[int, int] = {}
    for _, (task, content) in notes:
        assert content == seen.get(task, 0)
        seen[task] = content + 1
    assert seen == dict.fromkeys(range(8), 1000)


@scenario(
    "Topologies with cycles are found",
    "UtilsTest#testFindComponentCycles",
    "A cycle is allowed and runs: the sender does not wait on the edge that closes it. Storm logs cycles at submit",
)
@pytest.mark.parametrize(
    "edges",
    [
        ["spout bolt1", "bolt1 bolt1"],
        ["spout bolt3", "bolt3 bolt4", "bolt4 bolt5", "bolt5 bolt3"],
        ["spout bolt3", "bolt3 bolt4", "bolt4 bolt5", "bolt5 bolt3", "spout bolt6", "bolt6 bolt6"],
        ["spout bolt1", "bolt1 bolt2", "bolt2 bolt3", "bolt3 bolt4", "spout bolt4", "bolt4 bolt3", "bolt4 bolt1"],
        ["spout bolt1", "bolt1 bolt2", "bolt2 bolt1", "bolt2 bolt3", "spout bolt4", "bolt4 bolt3", "bolt4 bolt1"],
    ],
    ids=["one", "three", "two loops", "complex 1", "complex 2"],
)
async def test_cycles(local_cluster: LocalCluster, edges: list[str]) -> None:
    @spout(outputs="hops")
    def six_hops() -> Any:
        for _ in range(50):
            yield 6

    class Hop(Bolt):
        outputs = Fields("hops")

        def prepare(self, context: Any, collector: Any) -> None:
            self.collector = collector

        def execute(self, tup: Tuple) -> None:
            if tup["hops"]:
                self.collector.emit((tup["hops"] - 1,), tup)
            self.collector.ack(tup)

    builder = TopologyBuilder()
    builder.set_spout("spout", six_hops)
    declarers: dict[str, Any] = {}
    for source, target in map(str.split, edges):
        declarers.setdefault(target, builder.set_bolt(target, Hop, 2) if target not in declarers else None)
        declarers[target].shuffle_grouping(source)
    config = {"mailbox_capacity_tuples": 4, "max_spout_pending": 10}
    tracked = await track_topology(local_cluster, builder.create_topology(), config)
    await tracked.wait_all_acked()
    assert tracked.acked == 50
