"""Late rows correct what a table has, each once, whatever is killed."""

from __future__ import annotations

import asyncio
import sqlite3
from collections import Counter
from contextlib import closing
from pathlib import Path
from typing import Any, ClassVar

from aiostorm import Fields, LatePolicy, LocalCluster, Topology, TopologyBuilder, Tumbling, WindowedBolt
from aiostorm.state import UpsertSink

from .parts import Numbers, chances, exactly_once

COUNT = 200


def event(number: int) -> tuple[str, int]:
    """Every seventh is late."""
    return f"k{number % 3}", 1_000_000 + number * 10 - (400 if number % 7 == 6 else 0)


class Events(Numbers):
    outputs = Fields("key", "at")

    async def next_tuple(self) -> None:  # type: ignore[override]
        await asyncio.sleep(0.003)
        if self.at >= self.count:
            self.collector.finish()
            return
        self.collector.emit(event(self.at))
        self.at += self.step


class Corrected(WindowedBolt):
    outputs = Fields("key", "start", "n", "revision")
    windows: ClassVar[Any] = Tumbling(100)
    key, timestamp = "key", "at"
    late = LatePolicy.RETRACT

    def init_state(self, window: Any) -> int:
        return 0

    def execute(self, tup: Any, state: int, window: Any) -> int:
        return state + 1

    def purge(self, state: int, window: Any, key: str) -> Any:
        return key, window.start, state, window.revision

    async def retract(self, tup: Any, windows: Any) -> Any:
        await asyncio.sleep(0.001)
        return [(tup["key"], window.start, 1, window.revision) for window in windows]


def job(path: Path) -> Topology:
    builder = TopologyBuilder()
    builder.set_spout("events", Events(COUNT))
    builder.set_bolt("windows", Corrected(), 2).fields_grouping("events", "key")
    sink = UpsertSink(
        lambda: sqlite3.connect(path, timeout=30), "counts", key=("key", "start"), added="n", revision="revision"
    )
    builder.set_bolt("table", sink, 2).fields_grouping("windows", "key")
    return builder.create_topology()


async def test_a_table_has_the_last_word_of_each_window(tmp_path: Path) -> None:
    path, rng = tmp_path / "counts.db", chances(1)
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE counts (key, start, n, revision, PRIMARY KEY (key, start))")
        connection.commit()
    for seconds in [*(rng.uniform(0.05, 0.2) for _ in range(3)), None]:
        async with LocalCluster() as cluster:
            running = await cluster.submit("job", job(path), exactly_once(tmp_path / "state", snapshot_interval_ms=25))
            if seconds is None:
                await running.wait_finished(600)
            else:
                await asyncio.sleep(seconds)
                await running.kill(0)
    expected = Counter((key, at // 100 * 100) for key, at in map(event, range(COUNT)))
    with closing(sqlite3.connect(path)) as connection:
        rows = connection.execute("SELECT key, start, n, revision FROM counts").fetchall()
    assert {(key, start): n for key, start, n, _ in rows} == expected
    assert sum(revision > 0 for *_, revision in rows) > 10
