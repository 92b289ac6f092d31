"""Validation: what is refused before anything runs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from aiostorm import Fields, LocalCluster, Topology, TopologyBuilder, TopologyError
from aiostorm.testing import FeederSpout, complete_topology, track_topology

from .parts import Acks, Identity, Rich, WordCounter, Words
from .scenario import scenario

AT_ONCE = "create_topology reports all mistakes at once; Storm reports one at a time, at submit"


def word_counts(subscribe: Callable[[Any], Any]) -> Topology:
    builder = TopologyBuilder()
    builder.set_spout("1", Words, 3)
    subscribe(builder.set_bolt("2", WordCounter, 4))
    return builder.create_topology()


@scenario(
    "An unknown component, field or stream is refused", "TopologyIntegrationTest#testValidateTopologystructure", AT_ONCE
)
async def test_topology_structure() -> None:
    valid = word_counts(lambda counter: counter.fields_grouping("1", "word"))
    result = await complete_topology(valid, {"1": ["nathan", "bob", "joey", "nathan"]}, {"topology.workers": 2})
    assert result.acked == 4
    with pytest.raises(TopologyError, match="no such component"):
        word_counts(lambda counter: counter.fields_grouping("3", "word"))
    with pytest.raises(TopologyError, match="no field 'non-exists-field'"):
        word_counts(lambda counter: counter.fields_grouping("1", "non-exists-field"))
    with pytest.raises(TopologyError, match="declares no stream 'non-exists-stream'"):
        word_counts(lambda counter: counter.fields_grouping("1", "word", stream="non-exists-stream"))
    with pytest.raises(TopologyError) as every:
        word_counts(lambda counter: counter.fields_grouping("3", "word").fields_grouping("1", "a", "b"))
    assert len(every.value.problems) == 3


@scenario("A topology without a spout is refused", "TestStormSubmitter#invalidTopologyWithoutSpout", AT_ONCE)
def test_no_spout() -> None:
    builder = TopologyBuilder()
    builder.set_bolt("bolt1", WordCounter, 10).shuffle_grouping("spout1")
    builder.set_bolt("bolt11", WordCounter, 10).shuffle_grouping("bolt1")
    builder.set_bolt("bolt12", WordCounter, 10).shuffle_grouping("bolt1")
    with pytest.raises(TopologyError, match="the topology has no spout") as refused:
        builder.create_topology()
    assert any("no such component" in problem for problem in refused.value.problems)


@scenario(
    "A rich bolt with no tasks is refused",
    "TopologyBuilderTest#testSetRichBolt",
    "create_topology reports it, with all other mistakes; set_bolt never raises an error",
)
def test_no_tasks_of_a_rich_bolt() -> None:
    builder = TopologyBuilder()
    builder.set_spout("spout", Words)
    builder.set_bolt("bolt", Acks, 0).shuffle_grouping("spout")
    with pytest.raises(TopologyError, match="bolt 'bolt': parallelism must be at least 1, not 0"):
        builder.create_topology()


@scenario(
    "A basic bolt with no tasks is refused",
    "TopologyBuilderTest#testSetBasicBolt",
    "create_topology reports it, as above",
)
def test_no_tasks_of_a_basic_bolt() -> None:
    builder = TopologyBuilder()
    builder.set_spout("spout", Words)
    builder.set_bolt("bolt", Identity, 0).shuffle_grouping("spout")
    with pytest.raises(TopologyError, match="bolt 'bolt': parallelism must be at least 1, not 0"):
        builder.create_topology()


@scenario(
    "A spout with no tasks is refused", "TopologyBuilderTest#testSetSpout", "create_topology reports it, as above"
)
def test_no_tasks_of_a_spout() -> None:
    builder = TopologyBuilder()
    builder.set_spout("spout", Words, 0)
    with pytest.raises(TopologyError, match="spout 'spout': parallelism must be at least 1, not 0"):
        builder.create_topology()


@scenario(
    "Zero tasks by configuration",
    "NimbusClojurePortTest#testZeroExecutorOrTasks",
    "A component has at least one task; in Storm it may have none. Storm's setting topology.tasks is ignored",
)
async def test_zero_tasks(local_cluster: LocalCluster) -> None:
    builder = TopologyBuilder()
    builder.set_spout("1", FeederSpout("n"), 3).set_config({"topology.tasks": 0})
    builder.set_bolt("2", Identity, 1).none_grouping("1")
    builder.set_bolt("3", Acks, 5).none_grouping("2")
    running = await local_cluster.submit("mystorm", builder.create_topology())
    assert [len(running.metrics()[component].tasks) for component in "123"] == [3, 1, 5]


@scenario(
    "More tasks than slots: each component has as many as it declares",
    "NimbusClojurePortTest#testOverParallelismAssignment",
    "One worker has all tasks, whatever topology.workers says",
)
async def test_many_tasks(local_cluster: LocalCluster) -> None:
    feeder = FeederSpout("n")
    builder = TopologyBuilder()
    builder.set_spout("1", feeder, 21)
    for bolt, tasks in (("2", 9), ("3", 2), ("4", 10)):
        builder.set_bolt(bolt, Acks, tasks).none_grouping("1")
    tracked = await track_topology(local_cluster, builder.create_topology(), {"topology.workers": 7})
    assert [len(tracked.running.metrics()[component].tasks) for component in "1234"] == [21, 9, 2, 10]
    await feeder.feed_all(range(100))
    await tracked.wait_all_acked()
    assert tracked.processed == 300


@scenario(
    "A topology with an invalid name is refused",
    "NimbusClojurePortTest#testSubmitInvalid",
    "There is no limit to the number of tasks or workers, because there are no slots",
)
async def test_a_bad_name(local_cluster: LocalCluster) -> None:
    topology = word_counts(lambda counter: counter.shuffle_grouping("1"))
    for name in ("test/aaa", ""):
        with pytest.raises(ValueError, match="a topology's name is 1 to 128 printable characters"):
            await local_cluster.submit(name, topology)
    assert not local_cluster.topologies


# -- fields ------------------------------------------------------------------------------------------------------------


@scenario(
    "Field names are distinct",
    "FieldsTest#duplicateFieldsNotAllowedWhenConstructingWithVarArgsTest",
)
def test_duplicate_fields() -> None:
    with pytest.raises(ValueError, match="given twice: foo"):
        Fields("foo", "bar", "foo")
    with pytest.raises(ValueError, match="given twice: foo"):
        Fields(["foo", "bar", "foo"])

    class Twice(Rich):
        outputs = ("foo", "bar", "foo")

    builder = TopologyBuilder()
    builder.set_spout("spout", Words)
    builder.set_bolt("bolt", Twice).shuffle_grouping("spout")
    with pytest.raises(TopologyError, match=r"bolt 'bolt': .*given twice: foo"):
        builder.create_topology()


@scenario(
    "Fields: size, get, index, contains, iteration",
    "FieldsTest#fieldIndexThrowsWhenOutOfBoundsTest",
    "Fields is a Python sequence; an unknown name is a KeyError that lists the names",
)
def test_fields() -> None:
    fields = Fields("foo", "bar")
    assert (len(fields), fields[0], fields[1], list(fields)) == (2, "foo", "bar", ["foo", "bar"])
    assert (fields.position("foo"), fields.position("bar")) == (0, 1)
    assert ("foo" in fields, "bar" in fields, "baz" in fields) == (True, True, False)
    with pytest.raises(IndexError):
        fields[2]
    with pytest.raises(KeyError, match="no field 'baz'; the fields are: foo"):
        Fields("foo").position("baz")
