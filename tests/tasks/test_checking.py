"""`topology.testing.always.try.serialize`: what another worker could not be sent is found in one process."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from aiostorm import (
    BasicBolt,
    BasicCollector,
    Config,
    LocalCluster,
    Time,
    Topology,
    TopologyBuilder,
    Tumbling,
    Tuple,
    WindowedBolt,
    bolt,
    direct,
    spout,
)
from aiostorm.testing import FixedSpout, Recorder, complete_topology
from aiostorm.windows import Collect

CHECKED = Config(testing_always_try_serialize=True)


class Point:
    """Of the user's own, and not registered."""


def made(source: Any, sink: Recorder, *, windows: bool = False) -> Topology:
    builder = TopologyBuilder()
    builder.set_spout("source", source)
    if windows:
        builder.set_bolt("windows", WindowedBolt(Tumbling(1_000, time=Time.INGESTION), Collect())).global_grouping(
            "source"
        )
    builder.set_bolt("sink", sink, 2).shuffle_grouping("source")
    return builder.create_topology(config=Config(max_retries=0))


@pytest.mark.parametrize("windows", [False, True])
@pytest.mark.parametrize("fields", [("n",), ("n", "m")])
async def test_a_value_that_cannot_be_sent_is_named(
    local_cluster: LocalCluster, fields: tuple[str, ...], *, windows: bool
) -> None:
    rows = [(n if n != 2 else Point(), 1)[: len(fields)] for n in range(5)]
    source, sink = FixedSpout(rows, *fields), Recorder()
    running = await local_cluster.submit("t", made(source, sink, windows=windows), CHECKED)
    await running.wait_finished()
    assert (sorted(source.acked), list(source.failed)) == ([0, 1, 3, 4], [2])
    assert sorted(sink.values) == [row for row in rows if not isinstance(row[0], Point)]
    [report] = running.errors()
    assert report.component == "source"
    assert "UnsendableError: 'source' emits on stream 'default', field 'n': a value of type " in report.error
    assert "Point cannot be sent to another process" in report.error


async def test_a_checked_value_arrives_as_it_would_on_a_worker(local_cluster: LocalCluster) -> None:
    sink = Recorder()
    sent = {"a": [1, (2, "b")]}
    running = await local_cluster.submit("t", made(FixedSpout([(sent,)], "value"), sink), CHECKED)
    await running.wait_finished()
    [(came,)] = sink.values
    assert came == sent
    assert came is not sent, "two bolts that change it do not see each other's"


async def test_the_check_is_optional(local_cluster: LocalCluster) -> None:
    sink = Recorder()
    running = await local_cluster.submit("t", made(FixedSpout([(Point(),)], "n"), sink))
    await running.wait_finished()
    assert isinstance(sink.values[0][0], Point)


class Directs(BasicBolt):
    outputs = direct("n")

    def prepare(self, context: Any) -> None:
        self.target = context.tasks("sink")[0]

    def execute(self, tup: Tuple, collector: BasicCollector) -> None:
        collector.emit_direct(self.target, (Point() if tup["n"] else 7,))


async def test_a_direct_stream(local_cluster: LocalCluster) -> None:
    source, sink = FixedSpout([(0,), (1,)], "n"), Recorder()
    builder = TopologyBuilder()
    builder.set_spout("source", source)
    builder.set_bolt("directs", Directs).shuffle_grouping("source")
    builder.set_bolt("sink", sink).direct_grouping("directs")
    running = await local_cluster.submit("t", builder.create_topology(), CHECKED)
    await running.wait_finished()
    assert (sink.values, source.acked, list(source.failed)) == ([(7,)], [0], [1])


@spout(outputs="n")
def numbers() -> Iterator[int]:
    yield from range(3)


@bolt(outputs="point")
def points(n: int) -> Any:
    return Point()


async def test_the_testing_kit_has_it_on() -> None:
    builder = TopologyBuilder()
    builder.set_spout("numbers", numbers)
    builder.set_bolt("points", points).shuffle_grouping("numbers")
    builder.set_bolt("sink", Recorder()).shuffle_grouping("points")
    topology = builder.create_topology(config=Config(max_retries=0))
    done = await complete_topology(topology)
    assert done.failed == 3
    assert "Point cannot be sent to another process" in str(done.errors[0])
    done = await complete_topology(topology, config={"topology.testing.always.try.serialize": False})
    assert (done.acked, done.failed) == (3, 0)
