"""Scenarios of Storm's tests of windows that need a topology: what is declared, acks, and bolts behind one another."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from aiostorm import Config, Fields, LocalCluster, Spout, TopologyBuilder, TopologyError
from aiostorm.testing import FeederSpout, Recorder, complete_topology
from aiostorm.windows import (
    BufferedWindowBolt,
    Collect,
    Count,
    Counts,
    LatePolicy,
    Mean,
    Punctuated,
    Sliding,
    Sum,
    Tumbling,
    WindowBolt,
    WindowedBolt,
    WindowRows,
)

from .scenarios import scenario


class Numbers(Spout):
    outputs = Fields("value", "ts")

    def next_tuple(self) -> None:
        raise AssertionError("replaced")


class Sums(BufferedWindowBolt):
    """Storm's SlidingWindowSumBolt: it adds what is new and takes off what has expired."""

    windows = Counts(30, 10)
    outputs = Fields("sum")

    def prepare(self, context: Any, collector: Any) -> None:
        self.total = 0

    def execute(self, window: WindowRows) -> tuple[int]:
        self.total += sum(tup["value"] for tup in window.get_new()) - sum(tup["value"] for tup in window.get_expired())
        return (self.total,)


def built(bolt: WindowBolt, spout: Spout | None = None, config: Config | None = None) -> Any:
    builder = TopologyBuilder()
    builder.set_spout("numbers", spout or Numbers())
    builder.set_bolt("windows", bolt).global_grouping("numbers")
    return builder.create_topology(config=config)


@pytest.fixture
async def cluster() -> AsyncIterator[LocalCluster]:
    async with LocalCluster() as cluster:
        yield cluster


@scenario(
    "The same sums and means as a topology: a bolt for the sums, and one for the means of three sums",
    "JStorm SlidingWindowTopologyTest#testSlidingWindowTopology",
    "for rows 1, 2, 3, …: 55, 210, 465, 765; means are whole numbers",
    "55, 210, 465, 765; means are floats",
    "Mean is the arithmetic mean",
)
async def test_a_topology_of_sums_and_means() -> None:
    builder = TopologyBuilder()
    builder.set_spout("numbers", Numbers)
    builder.set_bolt("sum", Sums).shuffle_grouping("numbers")
    builder.set_bolt("avg", WindowedBolt(Counts(3), Mean("sum"))).shuffle_grouping("sum")
    done = await complete_topology(builder.create_topology(), {"numbers": [(value, 0) for value in range(1, 91)]})
    sums = [value for (value,) in done["sum"]]
    assert sums[:4] == [55, 210, 465, 765]
    assert [row[0] for row in done["avg"]] == [sum(sums[at : at + 3]) / 3 for at in (0, 3, 6)]


@scenario(
    "A timestamp field that no input has",
    "WindowedBoltExecutorTest#testExecuteWithoutTs",
    "IllegalArgumentException at the first tuple",
    "TopologyError when the topology is built, with component and field",
    "Mistakes that can be found before anything runs are reported then",
)
def test_a_field_that_is_not_there() -> None:
    with pytest.raises(TopologyError, match="'windows': timestamp: numbers has no field 'when'; there are: value, ts"):
        built(WindowedBolt(Tumbling(20), Count(), timestamp="when"))


@scenario(
    "A late stream without a timestamp",
    "WindowedBoltExecutorTest#testPrepareLateTupleStreamWithoutTs",
    "IllegalArgumentException when the bolt is prepared",
    "TopologyError when the topology is built",
    "As in the row above",
)
def test_a_late_stream_without_a_timestamp() -> None:
    with pytest.raises(TopologyError, match="give timestamp="):
        built(WindowedBolt(Sliding(20, 10), Count(), late=LatePolicy.STREAM))


@scenario(
    "A late stream that is configured but not declared",
    "WindowedBoltExecutorTest#testPrepareLateTupleStreamWithoutBuilder",
    "IllegalArgumentException: declare it with the builder",
    "no declaration is needed: `late=LatePolicy.STREAM` is enough",
    "One setting instead of two that must agree",
)
def test_a_late_stream_is_declared_by_itself() -> None:
    topology = built(WindowedBolt(Sliding(20, 10), Count(), timestamp="ts", late=LatePolicy.STREAM, late_stream="old"))
    fields = topology.components["windows"].outputs["old"].fields
    assert fields == Fields("values", "timestamp_ms", "component", "stream")


class Rig:
    """A spout that a test feeds, a bolt with windows, and who reads its results and its late tuples."""

    def __init__(self, bolt: WindowBolt, config: Config | None = None) -> None:
        self.feeder, self.results, self.late = FeederSpout(Fields("ts")), Recorder(), Recorder()
        builder = TopologyBuilder()
        builder.set_spout("s1", self.feeder)
        builder.set_bolt("windows", bolt).global_grouping("s1")
        builder.set_bolt("results", self.results).global_grouping("windows")
        if bolt.late is LatePolicy.STREAM:
            builder.set_bolt("late", self.late).global_grouping("windows", stream="late")
        self.topology = builder.create_topology(config=config)


def each_row(_: Any) -> bool:
    return True


@scenario(
    "603, 605, 607, 618, 626, 636, then 600: the late stream",
    "WindowedBoltExecutorTest#testLateTupleStreamEmitsSerializableTuple",
    "600, as a copy of its tuple that can be sent to another worker; anchored to the tuple; the tuple is acked",
    '600 as plain values: ((600,), 600, "s1", "default"); anchored to the tuple; the tuple is acked',
    "The receiver needs no class of aiostorm to read the row",
)
async def test_tuples_of_the_late_stream(cluster: LocalCluster) -> None:
    bolt = WindowedBolt(
        Sliding(20, 10),
        Collect("ts"),
        timestamp="ts",
        late=LatePolicy.STREAM,
        generator=lambda: Punctuated(each_row, lag_ms=5),
    )
    rig = Rig(bolt)
    running = await cluster.submit("t", rig.topology)
    for timestamp in (603, 605, 607, 618, 626, 636, 600):
        await rig.feeder.feed((timestamp,))
        await running.wait_still()
    assert rig.results.values == [
        ([603, 605, 607], 590, 610),
        ([603, 605, 607, 618], 600, 620),
        ([618, 626], 610, 630),
    ]
    assert rig.late.values == [((600,), 600, "s1", "default")]
    assert len(rig.feeder.acked) == 7
    assert running.metrics()["windows"].late == 1


@scenario(
    "A tuple of a window with state is acked once, when it is in the window",
    "PersistentWindowedBoltExecutorTest#testExecuteTuple",
    "acked by `execute`: the window is in durable state",
    "incremental: acked when it is in its windows; buffered: acked when the last of its windows has fired",
    "State is not durable yet: the content of incremental windows is lost with the process, which is "
    "counted and logged",
)
async def test_incremental_windows_ack_at_once_and_buffered_ones_when_they_fire(cluster: LocalCluster) -> None:
    class Rows(BufferedWindowBolt):
        windows = Tumbling(1_000)
        timestamp = "ts"
        outputs = Fields("rows")

        def execute(self, window: WindowRows) -> tuple[int]:
            return (len(window.get()),)

    for name, bolt, acked in (("i", WindowedBolt(Tumbling(1_000), Count(), timestamp="ts"), 1), ("b", Rows(), 0)):
        rig = Rig(bolt)
        running = await cluster.submit(name, rig.topology)
        await rig.feeder.feed((5,))
        await running.wait_still()
        assert len(rig.feeder.acked) == acked
        rig.feeder.finish()
        await running.wait_idle()
        assert len(rig.feeder.acked) == 1
        assert len(rig.results.values) == 1


@scenario(
    "A window and its slide are longer than the message timeout",
    "WindowedBoltExecutor (code)#ensureDurationLessThanTimeout",
    "IllegalArgumentException when the bolt is prepared, if they are longer",
    "TopologyError when the topology is built, if they are as long or longer; allowed for incremental windows",
    "Incremental windows keep no tuples; in Storm all windows are buffered",
)
def test_windows_longer_than_messages_may_take() -> None:
    class Rows(BufferedWindowBolt):
        windows = Sliding(20_000, 10_000)
        timestamp = "ts"

        def execute(self, window: WindowRows) -> None:
            pass

    with pytest.raises(TopologyError, match="time out after 30 s"):
        built(Rows())
    built(Rows(), config=Config(message_timeout_s=31))
    built(WindowedBolt(Sliding(20_000, 10_000), Count(), timestamp="ts"))


@scenario(
    "A count window that is longer than `topology.max.spout.pending`",
    "WindowedBoltExecutor (code)#ensureCountLessThanMaxPending",
    "IllegalArgumentException when the bolt is prepared, if length and slide are more than one task may have pending",
    "TopologyError when the topology is built, if the length is more than all tasks of its spouts may have pending",
    "Only windows that would never fire are refused; behind another bolt this cannot be known",
)
def test_windows_longer_than_there_may_be_messages() -> None:
    class Rows(BufferedWindowBolt):
        windows = Counts(50, 10)

        def execute(self, window: WindowRows) -> None:
            pass

    with pytest.raises(TopologyError, match=r"'windows': it keeps 50 tuples .* have at most 49 messages open"):
        built(Rows(), config=Config(max_spout_pending=49))
    built(Rows(), config=Config(max_spout_pending=50))
    built(Rows())
    built(WindowedBolt(Counts(50), Count()), config=Config(max_spout_pending=1))
    builder = TopologyBuilder()
    builder.set_spout("numbers", Numbers, 2, max_spout_pending=20)
    builder.set_bolt("between", Sums).global_grouping("numbers")
    builder.set_bolt("behind", Rows).global_grouping("between")
    builder.set_bolt("windows", Rows).global_grouping("numbers")
    with pytest.raises(TopologyError, match=r"1 mistake:\n.*'windows': .* 40 messages"):
        builder.create_topology()


@scenario(
    "Three tuples of a window, counted by an aggregate",
    "WindowedProcessorBoltTest#testEmit",
    "3, then a punctuation on a stream of its own",
    "3, with start and end of the window; then a watermark, which user code does not see",
    "The next windows use watermarks: no tuples of the framework are among the user's tuples",
)
async def test_an_aggregate_of_three() -> None:
    done = await complete_topology(built(WindowedBolt(Counts(3), Count())), {"numbers": [(100, 0)] * 3})
    assert done["windows"] == [(3, 0, 3)]


@scenario(
    "A bolt without settings of its own",
    "WindowedBoltExecutorTest#testEmptyConfigOnWrappedBolt",
    "its configuration is empty",
)
def test_a_bolt_without_settings() -> None:
    topology = built(WindowedBolt(Counts(3), Sum("value")))
    assert topology.components["windows"].config == {}
