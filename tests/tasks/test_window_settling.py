"""Windows are settled when time has moved, and not after every turn: what is due fires all the same, and on time."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from aiostorm import LocalCluster, TopologyBuilder, bolt, spout
from aiostorm.windows import Count, Periodic, Punctuated, Time, Tumbling, WindowedBolt

Seen = list[tuple[float, Any, int]]


async def flow(windows: WindowedBolt, rows: list[tuple[float, str, int]]) -> Seen:
    """Rows are (when they come, key, their time); seen: when a result came, its key, the start of its window."""
    seen: Seen = []
    loop = asyncio.get_running_loop()
    begun_s = loop.time()

    @spout(outputs=("key", "at"))
    async def source() -> AsyncIterator[tuple[str, int]]:
        for come_s, key, at_ms in rows:
            await asyncio.sleep(begun_s + come_s - loop.time())
            yield key, at_ms

    @bolt
    def take(key: str, result: int, start: int, end: int) -> None:
        seen.append((round(loop.time() - begun_s, 1), key, start))

    builder = TopologyBuilder()
    builder.set_spout("rows", source)
    builder.set_bolt("windows", lambda: windows).fields_grouping("rows", "key")
    builder.set_bolt("take", take).shuffle_grouping("windows")
    async with LocalCluster() as cluster:
        running = await cluster.submit("t", builder.create_topology())
        await running.wait_finished()
    return seen


async def test_windows_fire_by_the_clock_when_no_row_comes():
    windows = WindowedBolt(
        Tumbling(1_000), Count(), key="key", timestamp="at", generator=lambda: Periodic(interval_ms=2_000)
    )
    rows = [(0.0, "a", 100), (0.5, "a", 1_500), (10.0, "a", 1_600)]
    assert await flow(windows, rows) == [(2.0, "a", 0), (10.0, "a", 1_000)]


async def test_an_input_that_was_idle_is_waited_for_again():
    windows = WindowedBolt(
        Tumbling(1_000), Count(), key="key", timestamp="at", interval_ms=1_000, idle_timeout_ms=3_000
    )
    rows = [(0.0, "a", 100), (20.0, "a", 1_500), (20.1, "b", 1_600), (30.0, "b", 2_500), (50.0, "b", 9_000)]
    assert await flow(windows, rows) == [
        (20.0, "a", 0),
        (30.0, "a", 1_000),
        (30.0, "b", 1_000),
        (50.0, "b", 2_000),
        (50.0, "b", 9_000),
    ]


async def test_a_mark_counts_at_once():
    windows = WindowedBolt(
        Tumbling(1_000), Count(), key="key", timestamp="at", generator=lambda: Punctuated(lambda row: row[0] == "mark")
    )
    rows = [(0.0, "a", 100), (1.0, "a", 5_000), (2.0, "mark", 5_500), (3.0, "mark", 7_000), (9.0, "a", 7_100)]
    assert await flow(windows, rows) == [
        (2.0, "a", 0),
        (3.0, "a", 5_000),
        (3.0, "mark", 5_000),
        (9.0, "a", 7_000),
        (9.0, "mark", 7_000),
    ]


@pytest.mark.parametrize("size_ms", [1_000, 4_000])
async def test_windows_by_the_clock_fire_by_the_clock(size_ms: int):
    windows = WindowedBolt(Tumbling(size_ms, time=Time.PROCESSING), Count(), key="key")
    seen = await flow(windows, [(0.0, "a", 0), (20.0, "a", 0), (20.1, "b", 0), (40.0, "a", 0)])
    firsts = [come_s for come_s, key, _ in seen if key == "a"]
    assert firsts[0] <= size_ms / 1_000 + 0.1
    assert 20 < firsts[1] <= 20 + size_ms / 1_000 + 0.1
