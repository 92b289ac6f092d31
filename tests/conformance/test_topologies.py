"""Topologies: whole graphs on given rows."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

import pytest

from aiostorm import (
    BasicBolt,
    Bolt,
    EmitError,
    Fields,
    LocalCluster,
    Spout,
    Topology,
    TopologyBuilder,
    TopologyError,
    Tuple,
    bolt,
    spout,
)
from aiostorm.testing import FeederSpout, FixedSpout, Recorder, assert_multiset_equal, complete_topology, track_topology

from .parts import AggregatesCounter, GlobalCount, Identity, Notes, Noting, Rich, WordCounter, Words, straight
from .scenario import scenario

NAMES = [("nathan",), ("bob",), ("joey",), ("nathan",)]


def counted_words(spouts: int = 3) -> Topology:
    builder = TopologyBuilder()
    builder.set_spout("1", Words, spouts)
    builder.set_bolt("2", WordCounter, 4).fields_grouping("1", "word")
    builder.set_bolt("3", GlobalCount).global_grouping("1")
    builder.set_bolt("4", AggregatesCounter).global_grouping("2")
    return builder.create_topology()


@scenario("A basic topology: counts by word, in all, and of the counts", "TopologyIntegrationTest#testBasicTopology")
async def test_basic_topology() -> None:
    result = await complete_topology(counted_words(), {"1": NAMES}, {"topology.workers": 2})
    assert_multiset_equal(result["1"], NAMES)
    assert_multiset_equal(result["2"], [("nathan", 1), ("nathan", 2), ("bob", 1), ("joey", 1)])
    assert result["3"] == [(1,), (2,), (3,), (4,)]
    assert result["4"] == [(1,), (2,), (3,), (4,)]


@scenario(
    "completeTopology: rows in the place of a spout, every tuple captured",
    "TestingTest (server)#testCompleteTopologyLocalSimulated",
    "A spout that is not replaced keeps running; theirs must all be CompletableSpouts",
)
async def test_complete_topology() -> None:
    builder = TopologyBuilder()
    builder.set_spout("mocked", Words, 3)
    builder.set_spout("own", FixedSpout(NAMES, "word"))
    builder.set_bolt("2", WordCounter, 4).fields_grouping("mocked", "word").fields_grouping("own", "word")
    result = await complete_topology(builder.create_topology(), {"mocked": NAMES})
    assert_multiset_equal(result["mocked"], NAMES)
    assert_multiset_equal(result["own"], NAMES)
    assert len(result["2"]) == 8
    assert max(result["2"]) == ("nathan", 4)
    assert (result.acked, result.failed, result.pending) == (8, 0, 0)


@scenario(
    "More tasks than executors: each task has an index of its own",
    "TopologyIntegrationTest#testMultiTasksPerCluster",
    "No executors: parallelism is the number of tasks",
)
async def test_an_index_for_each_task() -> None:
    class EmitsIndex(Rich):
        outputs = Fields("tid")

        def execute(self, tup: Tuple) -> None:
            self.collector.emit((self.context.task_index,), tup)
            self.collector.ack(tup)

    topology = straight(Words, tids=EmitsIndex, subscribe=lambda tids: tids.all_grouping("spout"), tasks=6)
    result = await complete_topology(topology, {"spout": ["a"]})
    assert_multiset_equal(result["tids"], [(0,), (1,), (2,), (3,), (4,), (5,)])


@scenario(
    "A bolt that also reads the system stream gets its data all the same",
    "TopologyIntegrationTest#testSystemStream",
    "Components have no __system stream: to read it is a mistake that is told; ticks come without a grouping",
)
async def test_the_system_stream() -> None:
    builder = TopologyBuilder()
    builder.set_spout("1", Words, 3)
    two = builder.set_bolt("2", Identity, tick_tuple_freq_s=1).fields_grouping("1", "word")
    result = await complete_topology(builder.create_topology(), {"1": ["a", "b", "c"]})
    assert_multiset_equal(result["2"], [("a",), ("b",), ("c",)])
    two.global_grouping("1", stream="__system")
    with pytest.raises(TopologyError, match="streams that start with '__' belong to the framework"):
        builder.create_topology()


@scenario("24 tuples of two spout tasks over six bolt tasks arrive, each once", "MessagingTest#testLocalTransport")
async def test_local_transport() -> None:
    builder = TopologyBuilder()
    builder.set_spout("1", Words, 2)
    builder.set_bolt("2", GlobalCount, 6).shuffle_grouping("1")
    result = await complete_topology(builder.create_topology(), {"1": ["a", "b"] * 12}, {"topology.workers": 2})
    assert len(result["2"]) == 24
    assert result.acked == 24


@scenario(
    "Many tasks behind one sender",
    "MessagingTest#testRemoteTransportWithManyTasksInReceivingExecutor",
    "One worker, whatever topology.workers says: nothing goes over a socket",
)
async def test_many_receiving_tasks() -> None:
    topology = straight(Words, counts=GlobalCount, tasks=10)
    result = await complete_topology(topology, {"spout": ["a", "b"] * 12}, {"topology.workers": 2})
    # Shuffled round robin: each task gets two tuples, and four of them a third.
    assert_multiset_equal(result["counts"], [(1,)] * 10 + [(2,)] * 10 + [(3,)] * 4)


@scenario(
    "Bolts as functions: plain, prepared, with a parameter",
    "clojure_test (0.10)#test-clojure-bolt",
    "@bolt takes the values as arguments; what needs preparing is a class",
)
async def test_function_bolts() -> None:
    @bolt(outputs="word")
    def plain(word: str) -> str:
        return word + "lalala"

    class Prepared(BasicBolt):
        outputs = Fields("word")

        def prepare(self, context: Any) -> None:
            self.state = "lalala"

        def execute(self, tup: Tuple, collector: Any) -> None:
            collector.emit((tup["word"] + self.state,))

    def prefixed(prefix: str) -> Any:
        @bolt(outputs="word")
        def add(word: str) -> str:
            return word + prefix + "lalala"

        return add

    builder = TopologyBuilder()
    builder.set_spout("1", Words)
    builder.set_bolt("2", plain).shuffle_grouping("1")
    builder.set_bolt("3", Prepared).local_or_shuffle_grouping("1")
    builder.set_bolt("4", prefixed("_nathan_")).shuffle_grouping("1")
    result = await complete_topology(builder.create_topology(), {"1": ["david", "adam"]})
    assert_multiset_equal(result["2"], [("davidlalala",), ("adamlalala",)])
    assert_multiset_equal(result["3"], [("davidlalala",), ("adamlalala",)])
    assert_multiset_equal(result["4"], [("david_nathan_lalala",), ("adam_nathan_lalala",)])


@scenario(
    "A map is emitted by field names",
    "clojure_test (0.10)#test-map-emit",
    "A row is a tuple or list, in the order of the fields; a dict is refused, and its tuple fails",
)
async def test_emitting_a_map() -> None:
    class Punctuates(BasicBolt):
        outputs = Fields("word", "period", "question", "exclamation")

        def execute(self, tup: Tuple, collector: Any) -> None:
            word = tup["word"]
            marked = {"word": word, "exclamation": f"{word}!", "period": f"{word}.", "question": f"{word}?"}
            if word == "map":
                collector.emit(marked)
            collector.emit([marked[field] for field in self.outputs])

    result = await complete_topology(straight(Words, out=Punctuates), {"spout": ["foo", "map", "bar"]})
    assert_multiset_equal(result["out"], [("foo", "foo.", "foo?", "foo!"), ("bar", "bar.", "bar?", "bar!")])
    assert result.failures["spout"][1].error is not None
    assert EmitError.__name__ in result.failures["spout"][1].error


@scenario("Each word is exclaimed twice, by two layers of tasks", "DemoTest#testExclamationTopology")
async def test_exclamations() -> None:
    @bolt(outputs="word")
    def exclaim(word: str) -> str:
        return word + "!!!"

    builder = TopologyBuilder()
    builder.set_spout("word", Words, 10)
    builder.set_bolt("exclaim1", exclaim, 3).shuffle_grouping("word")
    builder.set_bolt("exclaim2", exclaim, 2).shuffle_grouping("exclaim1")
    words = ["nathan", "mike", "jackson", "golda", "bertels"] * 20
    result = await complete_topology(builder.create_topology(), {"word": words})
    assert_multiset_equal(result["exclaim2"], [(f"{word}!!!!!!",) for word in words])


@scenario(
    "Words of many sentences are counted, shuffled or local first",
    "JStorm FastWordCountTest#testFastWordCount",
    note="Theirs measures, and asserts nothing",
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
    "What the worker has is seen by its tasks",
    "TopologyIntegrationTest#testUserResourcesAreVisibleToTasks",
    "No worker hooks: an object is handed to components, or lies in the topology's config under a key of its own",
)
async def test_resources() -> None:
    class Forwards(BasicBolt):
        outputs = Fields("key", "val")

        def prepare(self, context: Any) -> None:
            self.resources = context.config

        def execute(self, tup: Tuple, collector: Any) -> None:
            collector.emit((tup["key"], self.resources.get(tup["key"])))

    resource = object()
    topology = straight(FixedSpout(["resource-key1"], "key"), forward=Forwards)
    result = await complete_topology(topology, config={"resource-key1": resource})
    assert result["forward"] == [("resource-key1", resource)]


@scenario(
    "Split into two streams, counted apart, merged by id, added up",
    "JStorm SequenceTopologyTest#testSequenceTopology",
    note="Merged tuples are anchored; theirs are not",
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
    "What one spout task sends one bolt task arrives in order",
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
    "A cycle is allowed, and runs: on the edge that closes it nobody waits. Theirs are logged at submit",
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
