"""Groupings: which task gets which tuple."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from aiostorm import LocalCluster, TopologyBuilder, Tuple, bolt, direct, spout
from aiostorm.testing import FeederSpout, SimClock, assert_multiset_equal, complete_topology, track_topology

from .parts import Acks, FirstTasks, Identity, Notes, Noting, Rich, WordCounter, Words, straight
from .scenario import scenario

KEY_NOTE = "The test looks only at the tuples that reach the bolt's tasks"


async def tasks_of(cluster: LocalCluster, rows: list[Any], tasks: int, subscribe: Callable[[Any], Any]) -> list[int]:
    """The index of the task that each row goes to; the rows are fed one by one."""
    notes, feeder = Notes(), FeederSpout("key", "other")
    topology = straight(feeder, sink=Noting(notes), subscribe=subscribe, tasks=tasks)
    tracked = await track_topology(cluster, topology, name=f"tasks-{len(cluster.topologies)}")
    for row in rows:
        await feeder.feed(row)
        await tracked.wait_all_acked()
    assert [values for _, values in notes] == rows
    return [task for task, _ in notes]


async def counts_of(cluster: LocalCluster, count: int, tasks: int, emitters: int = 1) -> list[int]:
    """How many of `count` shuffled tuples from each emitter each task gets."""

    @spout(outputs="n", tracked=False)
    def numbers() -> Any:
        yield from range(count)

    builder = TopologyBuilder()
    builder.set_spout("numbers", numbers, emitters)
    builder.set_bolt("sink", Acks, tasks).shuffle_grouping("numbers")
    running = await cluster.submit("counts", builder.create_topology())
    await running.wait_finished()
    return [task.executed for task in running.metrics()["sink"].tasks]


# -- shuffle -----------------------------------------------------------------------------------------------------------


@scenario(
    "Shuffle between two tasks is even within one percent",
    "GroupingIntegrationTest#testShuffle",
    note="Exactly even",
)
async def test_shuffle(local_cluster: LocalCluster) -> None:
    assert await counts_of(local_cluster, 100_000, 2) == [50_000, 50_000]


@scenario("Shuffle is round robin: each of six tasks gets exactly a sixth", "ShuffleGroupingTest#testShuffleGrouping")
async def test_shuffle_is_round_robin(local_cluster: LocalCluster) -> None:
    assert await counts_of(local_cluster, 30_000, 6) == [5000] * 6


@scenario(
    "Shuffle from ten emitters at once is even, too",
    "ShuffleGroupingTest#testShuffleGroupMultiThreaded",
    note="Each emitting task has a grouping; in Storm all threads share one",
)
async def test_shuffle_from_many(local_cluster: LocalCluster) -> None:
    assert await counts_of(local_cluster, 3000, 6, emitters=10) == [5000] * 6


@scenario(
    "Equal load, few targets: shuffle stays even",
    "LoadAwareShuffleGroupingTest#testLoadAwareShuffleGroupingWithEvenLoadWithLessTargets",
    note="Exactly even; in Storm within 1.5 percent",
)
async def test_even_load_few_targets(local_cluster: LocalCluster) -> None:
    assert await counts_of(local_cluster, 7 * 1000, 7) == [1000] * 7


@scenario(
    "Equal load, many targets: shuffle stays even",
    "LoadAwareShuffleGroupingTest#testLoadAwareShuffleGroupingWithEvenLoadWithManyTargets",
    note="200 tasks; in Storm's test 1000 task ids without running tasks",
)
async def test_even_load_many_targets(local_cluster: LocalCluster) -> None:
    assert await counts_of(local_cluster, 200 * 50, 200) == [50] * 200


@scenario(
    "A loaded task receives less, and its share again when it has recovered",
    "LoadAwareShuffleGroupingTest#testUnevenLoadOverTime",
    "A task is left out while it is over its high mark, and then used again at once. Storm changes "
    "weights step by step",
)
async def test_uneven_load(local_cluster: LocalCluster, sim_clock: SimClock) -> None:
    gate, begun = asyncio.Event(), Notes()

    class FirstIsStuck(Rich):
        async def execute(self, tup: Tuple) -> None:
            begun.append(self.context.task_index)
            if self.context.task_index == 0:
                await gate.wait()
            self.collector.ack(tup)

    feeder = FeederSpout("n")
    topology = straight(feeder, sink=FirstIsStuck, tasks=2)
    config = {"mailbox_capacity_tuples": 10}
    tracked = await track_topology(local_cluster, topology, config)
    await feeder.feed_all(range(100))
    await sim_clock.advance(1)
    assert begun.count(0) == 1
    assert begun.count(1) > 80
    gate.set()
    await tracked.wait_all_acked()
    before = Counter(begun)
    assert before[0] < 20
    for n in range(0, 100, 2):  # a hundred at once would go to the first with free capacity
        await feeder.feed_all((n, n + 1))
        await tracked.wait_all_acked()
    again = Counter(begun) - before
    assert again[0] == pytest.approx(50, abs=1)


# -- by fields ---------------------------------------------------------------------------------------------------------


@scenario("Equal keys of four spout tasks meet in one of six bolt tasks", "GroupingIntegrationTest#testFieldGrouping")
async def test_fields_grouping() -> None:
    builder = TopologyBuilder()
    builder.set_spout("1", Words, 4)
    builder.set_bolt("2", WordCounter, 6).fields_grouping("1", "word")
    result = await complete_topology(builder.create_topology(), {"1": [b"a", b"b"] * 24})
    assert_multiset_equal(result["2"], [(word, count) for word in (b"a", b"b") for count in range(1, 25)])


@scenario(
    "Spouts with different parallelism group the same way",
    "integration_test (0.10)#test-fields-grouping",
    note="Storm's test has a name and this plan, but no body",
)
async def test_fields_from_different_spouts(local_cluster: LocalCluster) -> None:
    notes = Notes()

    def words(n: int) -> Any:
        @spout(outputs="word")
        def emits() -> Any:
            yield from (f"word{i % 97}" for i in range(n))

        return emits

    builder = TopologyBuilder()
    builder.set_spout("one", words(500), 1)
    builder.set_spout("five", words(300), 5)
    builder.set_bolt("sink", Noting(notes), 7).fields_grouping("one", "word").fields_grouping("five", "word")
    running = await local_cluster.submit("t", builder.create_topology())
    await running.wait_finished()
    homes: dict[Any, set[int]] = {}
    for task, values in notes:
        homes.setdefault(values, set()).add(task)
    assert len(notes) == 500 + 5 * 300
    assert len(homes) == 97
    assert all(len(tasks) == 1 for tasks in homes.values())
    assert len({task for tasks in homes.values() for task in tasks}) == 7


@scenario(
    "Partial key: the tuples of one key go to two tasks alternately",
    "PartialKeyGroupingTest#testChooseTasks",
    f"{KEY_NOTE}",
)
async def test_partial_key(local_cluster: LocalCluster) -> None:
    chosen = await tasks_of(local_cluster, [("key1", 0)] * 3, 6, lambda sink: sink.partial_key_grouping("spout", "key"))
    assert chosen[0] != chosen[1]
    assert chosen[2] == chosen[0]


@scenario("Partial key uses only the named field", "PartialKeyGroupingTest#testChooseTasksFields", note=KEY_NOTE)
async def test_partial_key_of_one_field(local_cluster: LocalCluster) -> None:
    rows: list[Any] = [("key1", i) for i in range(20)]
    chosen = await tasks_of(local_cluster, rows, 6, lambda sink: sink.partial_key_grouping("spout", "key"))
    assert chosen[:2] * 10 == chosen
    assert len(set(chosen)) == 2


@scenario(
    "Partial key: the two tasks of a key are always the same",
    "RandomTwoTaskAssignmentCreatorTest#returnsSameAssignmentForSameKey",
    note=KEY_NOTE,
)
async def test_partial_key_again(local_cluster: LocalCluster) -> None:
    def subscribe(sink: Any) -> None:
        sink.partial_key_grouping("spout", "key")

    first = await tasks_of(local_cluster, [("some_key_one", 0)] * 4, 8, subscribe)
    second = await tasks_of(local_cluster, [("some_key_one", 0)] * 4, 8, subscribe)
    assert set(first) == set(second)
    assert len(set(first)) == 2


@scenario(
    "Partial key: different keys have different tasks",
    "RandomTwoTaskAssignmentCreatorTest#returnsDifferentAssignmentForDifferentKeys",
    note=KEY_NOTE,
)
async def test_partial_keys_differ(local_cluster: LocalCluster) -> None:
    pairs = set()
    for i in range(20):
        rows: list[Any] = [(f"some_key_{i}", 0)] * 2
        pairs.add(frozenset(await tasks_of(local_cluster, rows, 8, lambda s: s.partial_key_grouping("spout", "key"))))
    assert all(len(pair) == 2 for pair in pairs)
    assert len(pairs) > 10


@scenario(
    "Partial key: the less used of the two tasks is chosen",
    "BalancedTargetSelectorTest#selectsTaskThatHasBeenUsedTheLeast",
    note=f"{KEY_NOTE}. Each emitter counts for itself how often a task is used",
)
async def test_partial_key_balances(local_cluster: LocalCluster) -> None:
    # Two tasks: they are the candidates of every key.
    rows: list[Any] = [(f"key{i % 5}", i) for i in range(50)]
    chosen = await tasks_of(local_cluster, rows, 2, lambda sink: sink.partial_key_grouping("spout", "key"))
    assert all(chosen[i] != chosen[i + 1] for i in range(0, 50, 2))


# -- all, global, direct, custom ---------------------------------------------------------------------------------------


@scenario(
    "All grouping: every task gets every tuple, once",
    "integration_test (0.10)#test-all-grouping",
    note="Storm's test has a name but no body",
)
async def test_all_grouping() -> None:
    topology = straight(Words, sink=Identity, subscribe=lambda sink: sink.all_grouping("spout"), tasks=4)
    result = await complete_topology(topology, {"spout": ["a", "b"]})
    assert_multiset_equal(result["sink"], [("a",)] * 4 + [("b",)] * 4)
    assert [task.executed for task in result.metrics["sink"].tasks] == [2, 2, 2, 2]
    assert result.acked == 2


@scenario(
    "Direct grouping: the emitter names the task",
    "integration_test (0.10)#test-direct-grouping",
    note="Storm's test has a name but no body",
)
async def test_direct_grouping() -> None:
    class Sends(Rich):
        outputs = direct("n")

        def execute(self, tup: Tuple) -> None:
            tasks = self.context.tasks("sink")
            self.collector.emit_direct(tasks[tup["word"] % len(tasks)], (tup["word"],), tup)
            self.collector.ack(tup)

    notes = Notes()
    builder = TopologyBuilder()
    builder.set_spout("spout", Words)
    builder.set_bolt("sends", Sends, 2).shuffle_grouping("spout")
    builder.set_bolt("sink", Noting(notes), 3).direct_grouping("sends")
    result = await complete_topology(builder.create_topology(), {"spout": range(30)})
    assert sorted(notes) == sorted((n % 3, (n,)) for n in range(30))
    assert result.acked == 30
    assert_multiset_equal(result["sends"], [(n,) for n in range(30)])


@scenario(
    "Global grouping: the task with the lowest id receives all tuples",
    "TestingTest (server)#testCompleteTopologyLocal",
    note="With several tasks; Storm's test has one",
)
async def test_global_grouping() -> None:
    topology = straight(Words, sink=Identity, subscribe=lambda sink: sink.global_grouping("spout"), tasks=4)
    result = await complete_topology(topology, {"spout": range(40)})
    assert result["sink"] == [(n,) for n in range(40)]
    assert [task.executed for task in result.metrics["sink"].tasks] == [40, 0, 0, 0]


@scenario(
    "Custom groupings: an object, and one made by name",
    "GroupingIntegrationTest#testCustomGroupings",
    "A class or factory instead of a Java class name with arguments",
)
async def test_custom_groupings() -> None:
    @bolt(outputs="val")
    def same(word: str) -> str:
        return word

    builder = TopologyBuilder()
    builder.set_spout("1", Words)
    builder.set_bolt("2", same, 4).custom_grouping("1", FirstTasks(2))
    builder.set_bolt("3", same, 6).custom_grouping("1", FirstTasks)
    result = await complete_topology(builder.create_topology(), {"1": ["a", "b"]})
    assert_multiset_equal(result["2"], [("a",), ("a",), ("b",), ("b",)])
    assert_multiset_equal(result["3"], [("a",), ("a",), ("a",), ("b",), ("b",), ("b",)])
    assert [task.executed for task in result.metrics["3"].tasks] == [2, 2, 2, 0, 0, 0]
