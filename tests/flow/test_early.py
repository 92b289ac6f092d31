"""Early results through whole topologies."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from aiostorm import (
    BufferedWindowBolt,
    Counts,
    Each,
    Every,
    LocalCluster,
    Session,
    Time,
    TopologyBuilder,
    TopologyError,
    Tumbling,
    WindowedBolt,
)
from aiostorm.testing import FeederSpout, Recorder
from aiostorm.windows import Combined, Count, Sum

from .window_topology import FIELDS, Rig, sums


async def test_results_after_a_number_of_rows() -> None:
    async with LocalCluster() as cluster:
        rig = Rig(sums(early=Each(2)))
        running = await cluster.submit("t", rig.topology)
        await rig.feed(("ann", 0, 1), ("ann", 5, 2), ("bob", 10, 7), ("ann", 15, 4), ("ann", 20, 8))
        await running.wait_idle()
        assert rig.sink.values == [("ann", 3, 0, 1_000, False), ("ann", 15, 0, 1_000, False)]
        assert (running.metrics()["windows"].fired, running.metrics()["windows"].live_windows) == (0, 2)
        await rig.feed(("bob", 1_000, 1))
        await running.wait_idle()
        assert rig.sink.values[2:] == [("ann", 15, 0, 1_000, True), ("bob", 7, 0, 1_000, True)]
        assert (running.metrics()["windows"].fired, rig.acked) == (2, 6)


@pytest.mark.parametrize("time", [Time.EVENT, Time.PROCESSING])
async def test_results_after_an_interval(time: Time) -> None:
    async with LocalCluster() as cluster:
        rig = Rig(sums(Session(20_000, time=time), early=Every(1_000)))
        running = await cluster.submit("t", rig.topology)
        await rig.feed(("ann", 0, 1), ("ann", 5, 2))
        await asyncio.sleep(0.9)
        await rig.feed(("bob", 5, 4))
        assert rig.sink.values == []
        await asyncio.sleep(0.2)
        assert [(row[0], row[1], row[-1]) for row in rig.sink.values] == [("ann", 3, False), ("bob", 4, False)]
        await asyncio.sleep(5)
        await rig.feed(("ann", 5, 8))
        await asyncio.sleep(5)
        assert [(row[0], row[1], row[-1]) for row in rig.sink.values][2:] == [("ann", 11, False)]
        rig.finish()
        await running.wait_idle()
        last = sorted((row[0], row[1], row[-1]) for row in rig.sink.values[3:])
        assert last == [("ann", 11, True), ("bob", 4, True)]


async def test_a_window_that_waits_for_the_next_row_has_no_wakeup() -> None:
    async with LocalCluster() as cluster:
        rig = Rig(sums(early=Every(1_000), idle_timeout_ms=0))
        running = await cluster.submit("t", rig.topology)
        await rig.feed(("ann", 0, 1))
        await asyncio.sleep(3)
        assert len(rig.sink.values) == 1
        [task] = [task for task in running._task_set.tasks.bolts if task.task.component == "windows"]
        assert task.time.wakeup is None or not task.time.wakeup.active


class Alerts(WindowedBolt):
    windows = Tumbling(1_000)
    key = "user"
    timestamp = "at"
    early = Each(1)
    outputs = "user", "names", "final"

    def init_state(self, window: Any) -> list[int]:
        return []

    def execute(self, tup: Any, state: list[int], window: Any) -> None:
        state.append(tup["amount"])

    def purge(self, state: list[int], window: Any, key: Any = None) -> Any:
        if state[-1] == 13 and not window.final:
            raise ValueError("bad luck")
        return key, list(state), window.final


async def test_a_class_reads_early_results_from_the_window() -> None:
    async with LocalCluster() as cluster:
        rig = Rig(Alerts())
        running = await cluster.submit("t", rig.topology)
        await rig.feed(("ann", 0, 1), ("ann", 5, 2), ("ann", 5, 13))
        rig.finish()
        await running.wait_idle()
        assert rig.sink.values == [("ann", [1], False), ("ann", [1, 2], False), ("ann", [1, 2, 13], True)]
        assert "bad luck" in running.errors()[0].error
        assert rig.failed == 0


async def test_results_of_several_fields_without_a_key() -> None:
    feeder, sink = FeederSpout(FIELDS), Recorder()
    builder = TopologyBuilder()
    builder.set_spout("spout", feeder)
    both = Combined(paid=Sum("amount"), times=Count())
    bolt = WindowedBolt(Tumbling(1_000), both, timestamp="at", early=Each(2))
    builder.set_bolt("windows", bolt).shuffle_grouping("spout")
    builder.set_bolt("sink", sink).shuffle_grouping("windows")
    assert bolt.outputs.names == ("paid", "times", "start", "end", "final")  # type: ignore[union-attr]
    async with LocalCluster() as cluster:
        running = await cluster.submit("t", builder.create_topology())
        await feeder.feed_all([("ann", 0, 1), ("bob", 5, 2)])
        feeder.finish()
        await running.wait_idle()
    assert sink.values == [(3, 2, 0, 1_000, False), (3, 2, 0, 1_000, True)]


class Kept(BufferedWindowBolt):
    windows = Tumbling(10)
    timestamp = "at"
    early = Each(1)

    def execute(self, window: Any) -> Any: ...


@pytest.mark.parametrize(
    ("bolt", "problem"),
    [
        (lambda: sums(early=5), "early is 5; give Every(ms) or Each(rows)"),
        (lambda: sums(Counts(3), early=Each(2), timestamp=None), "early results are of windows by time"),
        (Kept, "early results are of states: derive from WindowedBolt"),
    ],
)
def test_impossible_early_results_are_refused_when_the_topology_is_built(bolt: Any, problem: str) -> None:
    builder = TopologyBuilder()
    builder.set_spout("spout", FeederSpout(FIELDS))
    builder.set_bolt("windows", bolt()).shuffle_grouping("spout")
    with pytest.raises(TopologyError) as raised:
        builder.create_topology()
    assert problem in str(raised.value)
