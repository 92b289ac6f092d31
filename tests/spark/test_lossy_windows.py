"""What Spark does not bring again must not be in windows that a crash takes along. Without Spark."""

from __future__ import annotations

from typing import Any

import pytest

from aiostorm import BasicBolt, BufferedWindowBolt, Config, TopologyBuilder, TopologyError, Tumbling, WindowedBolt
from aiostorm.spark import SparkBatchSpout, SparkIngressSpout, SparkStreamSpout
from aiostorm.topology import make_plan
from aiostorm.windows import Count


class Through(BasicBolt):
    outputs = ("at",)

    def execute(self, tup: Any, collector: Any) -> None:
        collector.emit(tup.values)


class Buffered(BufferedWindowBolt):
    windows = Tumbling(1_000)
    timestamp = "at"
    outputs = ("rows",)

    def execute(self, window: Any) -> Any:
        return [(len(window.get()),)]


def built(spout: Any, bolt: Any) -> Any:
    builder = TopologyBuilder()
    builder.set_spout("flights", spout)
    builder.set_bolt("through", Through).shuffle_grouping("flights")
    builder.set_bolt("windows", bolt).shuffle_grouping("through")
    topology = builder.create_topology()
    assert make_plan(topology, Config())
    return topology


def batch(**given: Any) -> SparkBatchSpout:
    return SparkBatchSpout(sql="select 1 as at", fields="at", **given)


def stream(**given: Any) -> SparkStreamSpout:
    return SparkStreamSpout(lambda: None, "/checkpoint", fields="at", **given)


def ingress(**given: Any) -> SparkIngressSpout:
    return SparkIngressSpout("at", endpoints="/endpoints", **given)


@pytest.mark.parametrize(
    ("spout", "what"),
    [(batch(progress="/p"), "progress="), (stream(), "a checkpoint"), (ingress(), "acknowledged writes")],
)
def test_windows_that_would_lose_rows_are_refused(spout: Any, what: str) -> None:
    with pytest.raises(TopologyError, match=rf"'flights': with {what} acked messages .*'windows' .*lossy_windows=True"):
        built(spout, WindowedBolt(Tumbling(1_000), Count(), timestamp="at"))


@pytest.mark.parametrize(
    "spout",
    [batch(), batch(progress="/p", lossy_windows=True), stream(lossy_windows=True), ingress(lossy_windows=True)],
)
def test_windows_that_lose_nothing_or_may_lose_rows_are_built(spout: Any) -> None:
    assert built(spout, WindowedBolt(Tumbling(1_000), Count(), timestamp="at"))


def test_windows_that_keep_their_tuples_lose_nothing() -> None:
    assert built(batch(progress="/p"), Buffered)
    assert built(stream(), Buffered)
    assert built(ingress(), Buffered)
