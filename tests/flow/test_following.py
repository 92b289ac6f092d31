"""Event time belongs to the stream: all tasks of a bolt with windows get the time of rows that go to any of them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from aiostorm import Config, Fields, LocalCluster, Spout, TopologyBuilder, direct
from aiostorm.testing import FeederSpout, Recorder
from aiostorm.windows import Count, Session, Tumbling, WindowedBolt

from .window_topology import FIELDS, Rig, sums

USERS = ("ann", "bob", "cat", "dan", "eve", "fay", "gus", "hal")


@pytest.fixture
async def cluster() -> AsyncIterator[LocalCluster]:
    async with LocalCluster() as cluster:
        yield cluster


@pytest.mark.parametrize("parallelism", [1, 2, 4, 8])
@pytest.mark.parametrize("between", [0, 2])
async def test_sessions_that_have_ended_fire_though_another_key_goes_on(
    cluster: LocalCluster, parallelism: int, between: int
) -> None:
    rig = Rig(sums(Session(1_000)), parallelism=parallelism, between=between)
    await cluster.submit("t", rig.topology)
    await rig.feed(*[(user, n, 1) for n, user in enumerate(USERS)])
    await rig.feed(*[("zoe", at, 1) for at in range(100, 5_000, 100)])
    await asyncio.sleep(1)
    assert sorted(row[0] for row in rig.sink.values) == list(USERS)


async def test_several_bolts_look_at_several_times(cluster: LocalCluster) -> None:
    feeder, seconds, minutes = FeederSpout(Fields("user", "at", "seen")), Recorder(), Recorder()
    builder = TopologyBuilder()
    builder.set_spout("spout", feeder)
    for name, sink, timestamp in (
        ("by-at", seconds, "at"),
        ("by-seen", minutes, lambda tup: tup["seen"] * 1_000),
    ):
        bolt = WindowedBolt(Tumbling(1_000), Count(), key="user", timestamp=timestamp)
        builder.set_bolt(name, bolt, 3).fields_grouping("spout", "user")
        builder.set_bolt(f"{name}-sink", sink).shuffle_grouping(name)
    running = await cluster.submit("t", builder.create_topology())
    await feeder.feed_all([(user, n, 7) for n, user in enumerate(USERS)])
    await feeder.feed_all([("zoe", 1_500, 7)])
    await running.wait_idle()
    assert (len(seconds.values), len(minutes.values)) == (8, 0)
    await feeder.feed_all([("zoe", 1_600, 9)])
    await running.wait_idle()
    assert (len(seconds.values), len(minutes.values)) == (8, 9)


async def test_a_function_is_asked_once_for_each_row_and_its_error_fails_the_row(cluster: LocalCluster) -> None:
    asked: list[int] = []

    def when(tup: Any) -> Any:
        asked.append(tup["amount"])
        return 1_000 // tup["at"]

    rig = Rig(sums(timestamp=when, lag_ms=5_000), parallelism=3)
    running = await cluster.submit("t", rig.topology)
    rows = [(user, n, n) for n, user in enumerate(USERS)] * 3
    await rig.feeders[0].feed_all([(user, at, n) for n, (user, at, _) in enumerate(rows)])
    rig.finish()
    await running.wait_idle()
    assert sorted(asked) == list(range(len(rows)))
    assert (rig.acked, rig.failed, sum(row[1] for row in rig.sink.values)) == (21, 3, sum(range(24)) - 8 * 3)
    report = running.errors()[0]
    assert report.component == "windows"
    assert "ZeroDivisionError" in report.error


async def test_a_row_without_a_time_moves_no_clock(cluster: LocalCluster) -> None:
    rig = Rig(sums(), parallelism=2)
    running = await cluster.submit("t", rig.topology)
    await rig.feed(("ann", 10, 1), ("bob", 20, 1), ("ann", None, 1), ("ann", 2**70, 1), ("ann", "x", 1))  # type: ignore[arg-type]
    await running.wait_idle()
    assert (rig.sink.values, rig.failed) == ([], 3)
    await rig.feed(("ann", 1_000.5, 1))  # type: ignore[arg-type]
    await running.wait_idle()
    assert sorted(rig.sink.values) == [("ann", 1, 0, 1_000), ("bob", 1, 0, 1_000)]


async def test_rows_for_tasks_by_name_are_late_by_what_came_before_all_of_them(cluster: LocalCluster) -> None:
    class Deals(Spout):
        outputs = direct("user", "at")

        def open(self, context: Any, collector: Any) -> None:
            self.collector, self.tasks = collector, context.tasks("windows")
            self.calls = [[(0, 10), (1, 2_000), (0, 20)], [(0, 30), (1, 3_000)]]

        async def next_tuple(self) -> None:
            await asyncio.sleep(1)
            for to, at in self.calls.pop(0) if self.calls else ():
                self.collector.emit_direct(self.tasks[to], ("ann", at), message_id=at)

    sink = Recorder()
    builder = TopologyBuilder()
    builder.set_spout("spout", Deals)
    bolt = WindowedBolt(Tumbling(1_000), Count(), key="user", timestamp="at")
    builder.set_bolt("windows", bolt, parallelism=3).direct_grouping("spout")
    builder.set_bolt("sink", sink).shuffle_grouping("windows")
    running = await cluster.submit("t", builder.create_topology())
    await asyncio.sleep(5)
    assert sorted(sink.values) == [("ann", 1, 2_000, 3_000), ("ann", 2, 0, 1_000)]
    assert running.metrics()["windows"].late == 1
    assert [task.time.watermark_ms for task in running.metrics()["windows"].tasks] == [3_000] * 3  # type: ignore[union-attr]


@pytest.mark.parametrize("timestamp", ["at", lambda tup: tup["at"]])
@pytest.mark.parametrize("unit", ["ints", "us", "ns"])
async def test_columns_are_followed(cluster: LocalCluster, timestamp: Any, unit: str) -> None:
    pa = pytest.importorskip("pyarrow")
    kind = pa.int64() if unit == "ints" else pa.timestamp(unit, "UTC")
    scale = {"ints": 1, "us": 1_000, "ns": 1_000_000}[unit]

    class Batches(Spout):
        outputs = Fields("user", "at")

        def open(self, context: Any, collector: Any) -> None:
            self.collector = collector
            self.calls = [([*USERS], [*range(8)]), (["zoe", "zoe"], [1_500, None]), (["ann"], [30]), (["zoe"], [5_000])]

        async def next_tuple(self) -> None:
            await asyncio.sleep(1)
            if self.calls:
                users, times = self.calls.pop(0)
                times = [None if at is None else at * scale for at in times]
                columns = [pa.array(users), pa.array(times, kind)]
                self.collector.emit_arrow(pa.RecordBatch.from_arrays(columns, names=["user", "at"]), len(self.calls))

    sink = Recorder()
    builder = TopologyBuilder()
    builder.set_spout("spout", Batches)
    bolt = WindowedBolt(Tumbling(1_000), Count(), key="user", timestamp=timestamp)
    builder.set_bolt("windows", bolt, parallelism=3).fields_grouping("spout", "user")
    builder.set_bolt("sink", sink).shuffle_grouping("windows")
    running = await cluster.submit("t", builder.create_topology())
    await asyncio.sleep(6)
    assert sorted(sink.values) == [*((user, 1, 0, 1_000) for user in USERS), ("zoe", 1, 1_000, 2_000)]
    assert running.metrics()["windows"].late == 1


async def test_streams_are_not_followed_without_a_window_behind_them(cluster: LocalCluster) -> None:
    feeder = FeederSpout(FIELDS)
    builder = TopologyBuilder()
    builder.set_spout("spout", feeder)
    builder.set_bolt("sink", Recorder()).shuffle_grouping("spout")
    running = await cluster.submit("t", builder.create_topology(), Config())
    assert all(task.emitter.following is None for task in running._task_set.tasks)
