"""Emits that are refused: each error names component and task and says what to do; only its own message fails."""

from __future__ import annotations

from typing import Any

import pytest

from aiostorm import BasicBolt, Bolt, EmitError, LocalCluster, Spout, TopologyBuilder, direct
from aiostorm.testing import FeederSpout, FixedSpout, Recorder

from .parts import Does, DoesRich, Notes, line

TWO = {"default": ("a", "b"), "straight": direct("a")}

WRONG: dict[str, tuple[Any, str]] = {
    "arity": (lambda c: c.emit((1,)), "emits 1 values on stream 'default', which has 2 fields (a, b): (1,)"),
    "long": (lambda c: c.emit([1, 2, 3]), "emits 3 values on stream 'default'"),
    "stream": (lambda c: c.emit((1, 2), stream="side"), "stream 'side', which it does not declare (declared: default"),
    "string": (lambda c: c.emit("ab"), "a tuple or list of values is needed; for one value write emit((value,))"),
    "bytes": (lambda c: c.emit(b"ab"), "a tuple or list of values is needed"),
    "set": (lambda c: c.emit({1, 2}), "a tuple or list of values is needed"),
    "none": (lambda c: c.emit(None), "a tuple or list of values is needed"),
    "plain on direct": (lambda c: c.emit((1,), stream="straight"), "is direct: use emit_direct(task, values)"),
    "direct on plain": (lambda c: c.emit_direct(1, (1, 2)), "is not direct: declare it with direct(...) or use emit"),
    "no taker": (lambda c: c.emit_direct(99, (1,), stream="straight"), "to task 99, which does not take stream"),
    "direct arity": (lambda c: c.emit_direct(3, (1, 2), stream="straight"), "emits 2 values on stream 'straight'"),
}


def straight(source: Any, bolt: Any, sink: Any) -> Any:
    """spout ─► bolt ─► sink, which reads the bolt's default and its direct stream."""
    builder = TopologyBuilder()
    builder.set_spout("spout", source)
    builder.set_bolt("bolt", bolt).shuffle_grouping("spout")
    builder.set_bolt("sink", sink).shuffle_grouping("bolt").direct_grouping("bolt", stream="straight")
    return builder.create_topology()


@pytest.mark.parametrize("kind", ["basic", "rich"])
@pytest.mark.parametrize("wrong", WRONG)
async def test_a_wrong_emit_fails_its_message_and_leaves_the_others_alone(
    local_cluster: LocalCluster, wrong: str, kind: str
) -> None:
    emit, says = WRONG[wrong]
    feeder, sink = FeederSpout("n"), Recorder()

    def act(tup: Any, collector: Any) -> None:
        if tup["n"] == 2:
            emit(collector)
        collector.emit((tup["n"], 0))
        if kind == "rich":
            collector.ack(tup)

    bolt = Does(act, TWO) if kind == "basic" else DoesRich(act, TWO)
    running = await local_cluster.submit("t", straight(feeder, bolt, sink))
    await feeder.feed_all(range(5))
    await feeder.idle()
    await running.wait_idle()
    assert sorted(feeder.acked) == [0, 1, 3, 4]
    failure = feeder.failed[2]
    assert (failure.reason, failure.component, failure.task) == ("failed", "bolt", 2)
    assert failure.error is not None
    assert failure.error.startswith("EmitError: ")
    assert "component 'bolt' (task 2)" in failure.error
    assert says in failure.error
    assert sorted(sink.values) == [(0, 0), (1, 0), (3, 0), (4, 0)]
    [report] = running.errors()
    assert (report.component, report.task, report.where) == ("bolt", 2, "execute")
    assert "n=2" in str(report.tuple)
    assert running.metrics()["bolt"].errors == 1


@pytest.mark.parametrize("wrong", WRONG)
async def test_a_wrong_emit_of_a_spout_is_an_error_of_next_tuple(local_cluster: LocalCluster, wrong: str) -> None:
    emit, says = WRONG[wrong]
    calls = Notes()

    class Wrong(Spout):
        outputs = TWO

        def open(self, context: Any, collector: Any) -> None:
            self.collector = collector

        def next_tuple(self) -> None:
            calls.append(len(calls))
            if len(calls) == 2:
                emit(self.collector)
            elif len(calls) < 4:
                self.collector.emit((len(calls), 0), message_id=len(calls))
            else:
                self.collector.finish()

    sink = Recorder()
    builder = TopologyBuilder()
    builder.set_spout("spout", Wrong)
    builder.set_bolt("sink", sink, 2).shuffle_grouping("spout").direct_grouping("spout", stream="straight")
    running = await local_cluster.submit("t", builder.create_topology())
    await running.wait_finished()
    assert sorted(sink.values) == [(1, 0), (3, 0)]
    [report] = running.errors()
    assert (report.component, report.task, report.where) == ("spout", 1, "next_tuple")
    assert "component 'spout' (task 1)" in report.error
    assert says in report.error


async def test_emit_direct_reaches_the_named_task_only(local_cluster: LocalCluster) -> None:
    got = Notes()

    class Sink(BasicBolt):
        def prepare(self, context: Any) -> None:
            self.task = context.task_id

        def execute(self, tup: Any, collector: Any) -> None:
            got.append((self.task, tup["a"]))

    class Deal(Bolt):
        outputs = {"straight": direct("a")}  # noqa: RUF012

        def prepare(self, context: Any, collector: Any) -> None:
            self.collector, self.tasks = collector, context.tasks("sink")

        def execute(self, tup: Any) -> None:
            self.collector.emit_direct(self.tasks[tup["n"] % 3], (tup["n"],), anchors=tup, stream="straight")
            self.collector.ack(tup)

    feeder = FeederSpout("n")
    builder = TopologyBuilder()
    builder.set_spout("spout", feeder)
    builder.set_bolt("deal", Deal).shuffle_grouping("spout")
    builder.set_bolt("sink", Sink, 3).direct_grouping("deal", stream="straight")
    await local_cluster.submit("t", builder.create_topology())
    await feeder.feed_all(range(9))
    await feeder.idle()
    assert sorted(feeder.acked) == list(range(9))
    assert sorted(got) == sorted((3 + n % 3, n) for n in range(9))


async def test_a_basic_collector_used_after_execute_says_so(local_cluster: LocalCluster) -> None:
    kept: list[Any] = []
    feeder, sink = FeederSpout("n"), Recorder()

    def act(tup: Any, collector: Any) -> None:
        kept.append(collector)
        collector.emit((tup["n"],))

    await local_cluster.submit("t", line(feeder, bolt=Does(act), sink=sink))
    await feeder.feed(1)
    await feeder.idle()
    for emit in (lambda: kept[0].emit((2,)), lambda: kept[0].emit([2])):
        with pytest.raises(EmitError, match=r"component 'bolt' \(task 2\) emits outside of execute.*or use Bolt"):
            emit()
    await feeder.feed(3)
    await feeder.idle()
    assert sink.values == [(1,), (3,)]


@pytest.mark.parametrize("kind", ["basic", "rich"])
async def test_an_emit_after_cleanup_is_refused(kind: str) -> None:
    kept: list[Any] = []
    feeder = FeederSpout("n")

    def act(tup: Any, collector: Any) -> None:
        kept.append(collector)
        if kind == "rich":
            collector.ack(tup)

    async with LocalCluster() as cluster:
        bolt = Does(act) if kind == "basic" else DoesRich(act)
        await cluster.submit("t", line(feeder, bolt=bolt, sink=Recorder()))
        await feeder.feed(1)
        await feeder.idle()
    for values in ((2,), [2]):
        with pytest.raises(EmitError, match=r"component 'bolt' \(task 2\) emits"):
            kept[0].emit(values)


async def test_a_spouts_emit_after_close_is_refused() -> None:
    kept = Notes()

    class Keeps(Spout):
        outputs = "n"

        def open(self, context: Any, collector: Any) -> None:
            kept.append(collector)

        def next_tuple(self) -> None:
            kept[0].finish()

    async with LocalCluster() as cluster:
        await cluster.submit("t", line(Keeps, sink=Recorder()))
    for values in ((2,), [2]):
        with pytest.raises(EmitError, match=r"component 'spout' \(task 1\) emits after it was closed"):
            kept[0].emit(values, message_id=1)


async def test_an_anchor_that_is_no_tuple_is_refused(local_cluster: LocalCluster) -> None:
    feeder = FeederSpout("n")

    def act(tup: Any, collector: Any) -> None:
        collector.emit((1,), anchors=[tup, "tup"])

    running = await local_cluster.submit("t", line(feeder, bolt=DoesRich(act), sink=Recorder()))
    await feeder.feed(1, message_id="x")
    await feeder.idle()
    assert "an anchor is a Tuple (or a list of them), not 'tup'" in str(feeder.failed["x"].error)
    assert running.metrics()["bolt"].restarts == 1


async def test_a_list_is_a_row_and_changing_it_later_changes_nothing(local_cluster: LocalCluster) -> None:
    feeder, sink = FeederSpout("n"), Recorder()

    def act(tup: Any, collector: Any) -> None:
        row = [tup["n"]]
        collector.emit(row)
        row[0] = "changed"

    await local_cluster.submit("t", line(feeder, bolt=Does(act), sink=sink))
    await feeder.feed(1)
    await feeder.idle()
    assert sink.values == [(1,)]


async def test_an_untracked_stream_without_a_consumer_costs_nothing(local_cluster: LocalCluster) -> None:
    feeder, sink = FeederSpout("n"), Recorder()

    def act(tup: Any, collector: Any) -> None:
        collector.emit((tup["n"],))
        collector.emit((tup["n"],), stream="unread")

    outputs = {"default": "out", "unread": "out"}
    running = await local_cluster.submit("t", line(feeder, bolt=Does(act, outputs), sink=sink))
    await feeder.feed_all(range(3))
    await feeder.idle()
    metrics = running.metrics()["bolt"]
    assert (metrics.emitted, metrics.transferred) == (6, 3)


async def test_a_whole_batch_of_wrong_emits_hangs_nothing(local_cluster: LocalCluster) -> None:
    """Every message of a batch fails, one by one, and the tasks go on."""
    source, sink = FixedSpout([(n,) for n in range(200)], "n"), Recorder()
    running = await local_cluster.submit("t", line(source, bolt=Does(lambda tup, c: c.emit(())), sink=sink))
    await running.wait_finished()
    assert len(source.failed) == 200
    assert sink.values == []
    assert running.metrics()["bolt"].errors == 200
    assert len(running.errors()) == 200
