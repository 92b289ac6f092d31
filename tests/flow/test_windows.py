"""Windows through whole topologies, in virtual time: what fires when, and how time travels."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any, ClassVar

import pytest

from aiostorm import BasicBolt, EmitError, LocalCluster, Spout, TopologyBuilder, bolt
from aiostorm.testing import FeederSpout, Recorder, SimClock
from aiostorm.windows import (
    Collect,
    Combined,
    Count,
    Counts,
    Session,
    Sum,
    Time,
    Tumbling,
    WindowedBolt,
)

from .window_topology import FIELDS, Rig, as_it_is, sums


@pytest.fixture
async def cluster() -> AsyncIterator[LocalCluster]:
    async with LocalCluster() as cluster:
        yield cluster


# -- event time --------------------------------------------------------------------------------------------------------


async def test_a_window_fires_when_the_watermark_passes_its_end(
    cluster: LocalCluster,
) -> None:
    rig = Rig(sums(lag_ms=100))
    running = await cluster.submit("t", rig.topology)
    await rig.feed(("ann", 10, 1), ("bob", 20, 5), ("ann", 990, 2))
    await running.wait_idle()
    assert rig.acked == 3
    await rig.feed(("ann", 1_099, 4))
    await asyncio.sleep(3)
    assert rig.sink.values == []
    await rig.feed(("ann", 1_100, 8))
    await asyncio.sleep(2)
    assert rig.sink.values == [("ann", 3, 0, 1_000), ("bob", 5, 0, 1_000)]
    assert running.metrics()["windows"].live_windows == 1
    assert running.metrics()["windows"].watermark_ms == 1_000
    rig.finish()
    await running.wait_idle()
    assert rig.sink.values[2:] == [("ann", 12, 1_000, 2_000)]
    assert running.metrics()["windows"].live_windows == 0
    assert running.metrics()["windows"].fired == 3
    assert running.metrics()["windows"].watermark_ms is None


@pytest.mark.parametrize("between", [0, 3])
async def test_the_slowest_input_decides_until_it_is_idle(cluster: LocalCluster, between: int) -> None:
    rig = Rig(sums(idle_timeout_ms=10_000), spouts=2, between=between)
    running = await cluster.submit("t", rig.topology)
    await rig.feed(*[("ann", at, 1) for at in range(0, 3_000, 500)])
    if not between:
        await rig.feed(("bob", 1_500, 1), ("bob", 1_500, 1), to=1)
        await asyncio.sleep(5)
        assert [row[:2] for row in rig.sink.values] == [("ann", 2)]
    await asyncio.sleep(12)
    assert [row[:3] for row in rig.sink.values][:2] == [("ann", 2, 0), ("ann", 2, 1_000)]
    assert running.metrics()["windows"].tasks[0].time.idle  # type: ignore[union-attr]


@pytest.mark.parametrize("first", [0, 1])
async def test_with_all_inputs_idle_the_greatest_watermark_counts(cluster: LocalCluster, first: int) -> None:
    """In whatever order they fall silent. What is beyond that waits for the next row; what comes behind it is late."""
    rig = Rig(sums(idle_timeout_ms=10_000), spouts=2)
    running = await cluster.submit("t", rig.topology)
    feeds = [[("ann", 100, 1), ("ann", 1_500, 1)], [("ann", 2_500, 2), ("ann", 3_900, 4), ("ann", 4_000, 8)]]
    await rig.feed(*feeds[first], to=first)
    await asyncio.sleep(5)
    await rig.feed(*feeds[1 - first], to=1 - first)
    await asyncio.sleep(20)
    assert rig.sink.values == [
        ("ann", 1, 0, 1_000),
        ("ann", 1, 1_000, 2_000),
        ("ann", 2, 2_000, 3_000),
        ("ann", 4, 3_000, 4_000),
    ]
    metrics = running.metrics()["windows"]
    assert (metrics.watermark_ms, metrics.live_windows, metrics.late) == (4_000, 1, 0)
    await asyncio.sleep(100)
    assert len(rig.sink.values) == 4
    await rig.feed(("ann", 1_600, 1), ("ann", 4_100, 16))
    await running.wait_idle()
    assert running.metrics()["windows"].late == 1
    rig.finish()
    await running.wait_idle()
    assert rig.sink.values[4:] == [("ann", 24, 4_000, 5_000)]


async def test_bolts_without_windows_pass_watermarks_on(cluster: LocalCluster) -> None:
    feeder, sink = FeederSpout(FIELDS), Recorder()

    @bolt(outputs=("user", "total", "until"))
    def renamed(user: str, result: int, start: int, end: int) -> tuple[str, int, int]:
        return user, result, end - 1

    builder = TopologyBuilder()
    builder.set_spout("spout", feeder)
    builder.set_bolt("seconds", sums(), parallelism=2).fields_grouping("spout", "user")
    builder.set_bolt("renamed", renamed, parallelism=3).shuffle_grouping("seconds")
    minutes = WindowedBolt(Tumbling(3_000), Combined(total=Sum("total"), seconds=Count()), timestamp="until")
    builder.set_bolt("minutes", minutes).global_grouping("renamed")
    builder.set_bolt("sink", sink).shuffle_grouping("minutes")
    running = await cluster.submit("t", builder.create_topology())
    for at in range(0, 9_001, 250):
        for user in ("ann", "bob", "cat", "dan"):
            await feeder.feed((user, at, 1))
    await asyncio.sleep(5)
    assert sink.values == [(48, 12, 0, 3_000), (48, 12, 3_000, 6_000), (48, 12, 6_000, 9_000)]
    assert running.metrics()["minutes"].late == 0
    feeder.finish()
    await running.wait_idle()
    assert sink.values[3:] == [(4, 4, 9_000, 12_000)]


async def test_a_spout_emits_watermarks(cluster: LocalCluster) -> None:
    class WatermarkSpout(Spout):
        outputs = FIELDS
        watermarks = True
        steps: ClassVar[list[Any]] = [("ann", 5, 1), ("ann", 900, 1), 999, ("ann", 950, 1), 1_000, ("ann", 990, 1)]

        def open(self, context: Any, collector: Any) -> None:
            self.collector, self.left = collector, list(self.steps)

        async def next_tuple(self) -> None:
            await asyncio.sleep(1)
            if not self.left:
                return
            step = self.left.pop(0)
            if isinstance(step, int):
                self.collector.emit_watermark(step)
            else:
                self.collector.emit(step, message_id=step)

    sink = Recorder()
    builder = TopologyBuilder()
    builder.set_spout("spout", WatermarkSpout)
    builder.set_bolt("between", as_it_is, parallelism=2).fields_grouping("spout", "at")
    builder.set_bolt("windows", sums()).fields_grouping("between", "user")
    builder.set_bolt("sink", sink).shuffle_grouping("windows")
    running = await cluster.submit("t", builder.create_topology())
    await asyncio.sleep(4.5)
    assert sink.values == []
    await asyncio.sleep(1)
    assert sink.values == [("ann", 3, 0, 1_000)]
    await asyncio.sleep(1)
    assert running.metrics()["windows"].late == 1


async def test_a_blocking_spout_emits_watermarks() -> None:
    class Blocking(Spout):
        outputs = FIELDS
        watermarks = True
        blocking = True

        def open(self, context: Any, collector: Any) -> None:
            self.collector, self.n = collector, 0

        def next_tuple(self) -> None:
            if self.n == 3:
                self.collector.finish()
                return
            self.collector.emit(("ann", self.n, 1), message_id=self.n)
            self.collector.emit_watermark(self.n)
            self.n += 1

    sink = Recorder()
    builder = TopologyBuilder()
    builder.set_spout("spout", Blocking)
    builder.set_bolt("windows", WindowedBolt(Tumbling(1), Count(), timestamp="at")).global_grouping("spout")
    builder.set_bolt("sink", sink).shuffle_grouping("windows")
    async with LocalCluster() as cluster:
        running = await cluster.submit("t", builder.create_topology())
        await running.wait_idle()
        assert sink.values == [(1, 0, 1), (1, 1, 2), (1, 2, 3)]
        assert running.metrics()["windows"].late == 0


async def test_a_spout_that_does_not_declare_watermarks_cannot_emit_them() -> None:
    class NoWatermarks(Spout):
        outputs = FIELDS

        def open(self, context: Any, collector: Any) -> None:
            with pytest.raises(EmitError, match="watermarks = True"):
                collector.emit_watermark(1)
            self.collector = collector

        def next_tuple(self) -> None:
            self.collector.finish()

    builder = TopologyBuilder()
    builder.set_spout("spout", NoWatermarks)
    async with LocalCluster() as cluster:
        running = await cluster.submit("t", builder.create_topology())
        await running.wait_idle()
        assert running.errors() == []


async def test_one_bad_clock_does_not_close_every_window(cluster: LocalCluster) -> None:
    rig = Rig(sums(max_advance_ms=2_000))
    running = await cluster.submit("t", rig.topology)
    await rig.feed(("ann", 100, 1), ("ann", 200, 1), ("ann", 10**13, 1), ("ann", 3_000, 1), ("ann", 3_100, 1))
    await asyncio.sleep(3)
    assert rig.sink.values == [("ann", 2, 0, 1_000)]
    await rig.feed(("ann", 3_200, 1))
    await running.wait_idle()
    assert (rig.acked, running.metrics()["windows"].late) == (6, 0)


# -- the clock, ingestion, counts, sessions ----------------------------------------------------------------------------


async def test_processing_time_windows_fire_without_new_rows(cluster: LocalCluster, sim_clock: SimClock) -> None:
    rig = Rig(sums(Tumbling(10_000, time=Time.PROCESSING), timestamp=None))
    running = await cluster.submit("t", rig.topology)
    await rig.feed(("ann", 10**15, 1), ("ann", 0, 2))  # what they say does not matter
    await running.wait_idle()
    begun_ms = int(sim_clock.now() * 1000)
    until_ms = begun_ms - begun_ms % 10_000 + 10_000
    await asyncio.sleep((until_ms - begun_ms) / 1000 - 0.01)
    assert rig.sink.values == []
    await asyncio.sleep(0.02)
    assert rig.sink.values == [("ann", 3, until_ms - 10_000, until_ms)]


async def test_rows_carry_their_ingestion_time(cluster: LocalCluster, sim_clock: SimClock) -> None:
    class Slow(BasicBolt):
        outputs = FIELDS

        async def execute(self, tup: Any, collector: Any) -> None:
            await asyncio.sleep(tup["amount"])
            collector.emit(tup.values)

    feeder, sink = FeederSpout(FIELDS), Recorder()
    builder = TopologyBuilder()
    builder.set_spout("spout", feeder)
    builder.set_bolt("slow", Slow, parallelism=2).fields_grouping("spout", "amount")
    builder.set_bolt("more", as_it_is).shuffle_grouping("slow")
    windows = WindowedBolt(Tumbling(1_000, time=Time.INGESTION), Collect("user"), lag_ms=60_000)
    builder.set_bolt("windows", windows).global_grouping("more")
    builder.set_bolt("sink", sink).shuffle_grouping("windows")
    running = await cluster.submit("t", builder.create_topology())
    await asyncio.sleep(1 - sim_clock.now() % 1)
    begun_ms = round(sim_clock.now() * 1000)
    for n in range(4):
        await feeder.feed((f"u{n}", 0, (7, 0, 3, 0)[n]))
        await asyncio.sleep(1)
    feeder.finish()
    await running.wait_idle()
    assert sink.values == [([f"u{n}"], begun_ms + n * 1_000, begun_ms + n * 1_000 + 1_000) for n in range(4)]


async def test_windows_by_count(cluster: LocalCluster) -> None:
    rig = Rig(sums(Counts(3, 2), timestamp=None))
    running = await cluster.submit("t", rig.topology)
    await rig.feed(*[("ann", 0, n) for n in range(1, 8)], ("bob", 0, 1))
    await running.wait_idle()
    assert rig.sink.values == [("ann", 1 + 2 + 3, 0, 3), ("ann", 3 + 4 + 5, 2, 5), ("ann", 5 + 6 + 7, 4, 7)]


async def test_sessions_merge(cluster: LocalCluster) -> None:
    rig = Rig(sums(Session(100), lag_ms=200))
    running = await cluster.submit("t", rig.topology)
    await rig.feed(("ann", 0, 1), ("ann", 150, 2), ("ann", 75, 4), ("ann", 251, 8), ("bob", 60, 16), ("bob", 160, 32))
    rig.finish()
    await running.wait_idle()
    assert sorted(rig.sink.values) == [("ann", 7, 0, 250), ("ann", 8, 251, 351), ("bob", 48, 60, 260)]
