"""Topologies: whole graphs on given rows."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

import pytest

from aiostorm import (
    BasicBolt,
    EmitError,
    Fields,
    Topology,
    TopologyBuilder,
    TopologyError,
    Tuple,
    bolt,
)
from aiostorm.testing import FixedSpout, assert_multiset_equal, complete_topology

from .parts import AggregatesCounter, GlobalCount, Identity, Rich, WordCounter, Words, straight
from .scenario import scenario

NAMES = [("nathan",), ("bob",), ("joey",), ("nathan",)]


def counted_words(spouts: int = 3) -> Topology:
    builder = TopologyBuilder()
    builder.set_spout("1", Words, spouts)
    builder.set_bolt("2", WordCounter, 4).fields_grouping("1", "word")
    builder.set_bolt("3", GlobalCount).global_grouping("1")
    builder.set_bolt("4", AggregatesCounter).global_grouping("2")
    return builder.create_topology()


@scenario("A basic topology: counts by word, in total, and of the counts", "TopologyIntegrationTest#testBasicTopology")
async def test_basic_topology() -> None:
    result = await complete_topology(counted_words(), {"1": NAMES}, {"topology.workers": 2})
    assert_multiset_equal(result["1"], NAMES)
    assert_multiset_equal(result["2"], [("nathan", 1), ("nathan", 2), ("bob", 1), ("joey", 1)])
    assert result["3"] == [(1,), (2,), (3,), (4,)]
    assert result["4"] == [(1,), (2,), (3,), (4,)]


@scenario(
    "completeTopology: given rows replace a spout, and every tuple is captured",
    "TestingTest (server)#testCompleteTopologyLocalSimulated",
    "A spout that is not replaced keeps running; in Storm all spouts must be CompletableSpouts",
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
    "There are no executors: parallelism is the number of tasks",
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
    "A bolt that also reads the system stream still receives its data",
    "TopologyIntegrationTest#testSystemStream",
    "Components have no __system stream: reading it is reported as a mistake. Ticks need no grouping",
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


@scenario("24 tuples of two spout tasks arrive at six bolt tasks, each once", "MessagingTest#testLocalTransport")
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
    "There is one worker, whatever topology.workers says, and no socket",
)
async def test_many_receiving_tasks() -> None:
    topology = straight(Words, counts=GlobalCount, tasks=10)
    result = await complete_topology(topology, {"spout": ["a", "b"] * 12}, {"topology.workers": 2})
    # Shuffled round robin: each task gets two tuples, and four of them a third.
    assert_multiset_equal(result["counts"], [(1,)] * 10 + [(2,)] * 10 + [(3,)] * 4)


@scenario(
    "Bolts as functions: plain, prepared, with a parameter",
    "clojure_test (0.10)#test-clojure-bolt",
    "@bolt receives the values as arguments; a bolt that needs preparation is a class",
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
    "A map with field names is emitted",
    "clojure_test (0.10)#test-map-emit",
    "A row is a tuple or list, in the order of the fields; a dict is refused, and the input tuple fails",
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
    "Resources of the worker are visible to its tasks",
    "TopologyIntegrationTest#testUserResourcesAreVisibleToTasks",
    "The topology declares the resources that each worker opens; in Storm the cluster gives them to the workers",
)
async def test_resources() -> None:
    class Forwards(BasicBolt):
        outputs = Fields("key", "val")

        def prepare(self, context: Any) -> None:
            self.resource = context.resource

        def execute(self, tup: Tuple, collector: Any) -> None:
            collector.emit((tup["key"], self.resource(tup["key"])))

    resource = object()
    builder = TopologyBuilder()
    builder.resource("resource-key1", lambda: nullcontext(resource))
    builder.set_spout("spout", FixedSpout(["resource-key1"], "key"))
    builder.set_bolt("forward", Forwards).shuffle_grouping("spout")
    config = {"topology.testing.always.try.serialize": False}  # it is emitted, to be seen
    result = await complete_topology(builder.create_topology(), config=config)
    assert result["forward"] == [("resource-key1", resource)]
