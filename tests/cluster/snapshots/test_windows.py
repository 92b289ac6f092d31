"""Windows and time exactly once: a job that was killed and started again gives the rows of one that was not."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar

import pytest

from aiostorm import (
    BasicBolt,
    BufferedWindowBolt,
    Count,
    Counts,
    Every,
    Fields,
    JoinBolt,
    LocalCluster,
    Session,
    Sliding,
    Sum,
    Time,
    Topology,
    TopologyBuilder,
    Tumbling,
    WindowedBolt,
)
from aiostorm.cluster import TopologyFailedError

from .parts import Database, Numbers, Store, chances, exactly_once

COUNT = 140


def time_of(number: int) -> int:
    """Out of order by less than 40 ms."""
    return 1_000_000 + number * 10 + number * 7919 % 40


class Events(Numbers):
    """Its share of the events: key, n, at."""

    outputs = Fields("key", "n", "at")

    async def next_tuple(self) -> None:  # type: ignore[override]
        await asyncio.sleep(0.003)
        if self.at >= self.count:
            self.collector.finish()
            return
        gap_ms = self.at // 40 * 500
        self.collector.emit((f"k{self.at % 5}", self.at, time_of(self.at) + gap_ms))
        self.at += self.step


class Pass(BasicBolt):
    """Passes rows on, and so their watermarks."""

    outputs = Fields("key", "n", "at")

    def execute(self, tup: Any, collector: Any) -> None:
        collector.emit(tup.values)


class Own(WindowedBolt):
    """States that are changed in place."""

    outputs = Fields("key", "numbers", "start")
    windows = Sliding(200, 50)
    key, timestamp, lag_ms = "key", "at", 50

    def init_state(self, window: Any) -> list[int]:
        return []

    def execute(self, tup: Any, state: list[int], window: Any) -> list[int] | None:
        state.append(tup["n"])
        return None

    def purge(self, state: list[int], window: Any, key: str) -> Any:
        return key, sorted(state), window.start


class Kept(BufferedWindowBolt):
    """The tuples themselves, also those that were restored."""

    outputs = Fields("key", "numbers", "start")
    windows: ClassVar[Any] = Sliding(200, 100)
    key, timestamp, lag_ms = "key", "at", 50

    def execute(self, window: Any) -> Any:
        for tup in window.get():
            assert (tup.source_component, tup.stream, list(tup.fields)) == ("pass", "default", ["key", "n", "at"])
            assert tup["n"] == tup[1] == tup.as_dict()["n"]
        numbers = sorted(tup["n"] for tup in window.get())
        return window.key, numbers, window.window.start


class KeptSessions(Kept):
    windows: ClassVar[Any] = Session(100)


class KeptCounts(Kept):
    windows: ClassVar[Any] = Counts(8, 4)


EVENT_TIME: dict[str, Any] = {"key": "key", "timestamp": "at", "lag_ms": 50}

BOLTS: dict[str, Callable[[], Any]] = {
    "tumbling": lambda: WindowedBolt(Tumbling(100), Sum("n"), **EVENT_TIME),
    "sliding": lambda: WindowedBolt(Sliding(200, 50), Sum("n"), **EVENT_TIME),
    "sessions": lambda: WindowedBolt(Session(100), Sum("n"), **EVENT_TIME),
    "counts": lambda: WindowedBolt(Counts(7), Sum("n"), key="key"),
    "own": Own,
    "by the clock": lambda: WindowedBolt(Tumbling(50, time=Time.PROCESSING), Count(), key="key"),
    "early": lambda: WindowedBolt(Tumbling(100), Count(), early=Every(10), **EVENT_TIME),
    "kept": Kept,
    "kept sessions": KeptSessions,
    "kept counts": KeptCounts,
}


def job(database: Database, kind: str, tasks: int = 2) -> Topology:
    builder = TopologyBuilder()
    builder.set_spout("events", Events(COUNT), 2 if "counts" not in kind else 1)
    builder.set_bolt("pass", Pass(), 2 if "counts" not in kind else 1).fields_grouping("events", "key")
    builder.set_bolt("windows", BOLTS[kind](), tasks).fields_grouping("pass", "key")
    builder.set_bolt("store", Store(database)).shuffle_grouping("windows")
    return builder.create_topology()


def joined(database: Database, tasks: int = 2) -> Topology:
    builder = TopologyBuilder()
    for name in ("left", "right"):
        builder.set_spout(name, Events(COUNT // 2))
    join = JoinBolt("left", "n", Tumbling(100), timestamp="at", lag_ms=50).join("right", "n").select("left:n, right:at")
    bolt = builder.set_bolt("join", join, tasks)
    bolt.fields_grouping("left", "n").fields_grouping("right", "n")
    builder.set_bolt("store", Store(database)).shuffle_grouping("join")
    return builder.create_topology()


async def run(topology: Topology, folder: Path, seconds: float | None = None) -> None:
    """To the end, or for a while; then it ends at once, as after a kill."""
    async with LocalCluster() as cluster:
        running = await cluster.submit(
            "job", topology, exactly_once(folder, message_timeout_s=600, snapshot_interval_ms=25)
        )
        if seconds is None:
            await running.wait_finished(600)
        else:
            await asyncio.sleep(seconds)
            await running.kill(0)


def rows_of(database: Database) -> list[Any]:
    return sorted(map(repr, database.rows))


@pytest.mark.parametrize("kind", [kind for kind in BOLTS if kind not in ("by the clock", "early")])
async def test_windows_continue_where_a_run_was_killed(tmp_path: Path, kind: str) -> None:
    whole, parts, rng = Database(), Database(), chances(3)
    await run(job(whole, kind), tmp_path / "whole")
    assert len(whole.rows) > 15
    for _ in range(3):
        await run(job(parts, kind), tmp_path / "parts", rng.uniform(0.03, 0.07))
    assert len(parts.rows) < len(whole.rows)
    await run(job(parts, kind), tmp_path / "parts")
    assert rows_of(parts) == rows_of(whole)


@pytest.mark.parametrize("kind", ["by the clock", "early"])
async def test_each_row_is_in_one_result(tmp_path: Path, kind: str) -> None:
    """By the clock, results depend on when rows come; early ones on when they are shown."""
    database, rng = Database(), chances(4)
    for seconds in [*(rng.uniform(0.03, 0.07) for _ in range(3)), None]:
        await run(job(database, kind), tmp_path, seconds)
        await asyncio.sleep(5)  # windows are overdue then
    final = [row for row in database.rows if kind == "by the clock" or row[-1]]
    assert sum(row[1] for row in final) == COUNT
    starts = [(row[0], row[2]) for row in final]
    assert len(set(starts)) == len(starts)


def without_windows(patch: pytest.MonkeyPatch) -> None:
    patch.setattr("aiostorm.tasks.bolt_time.load_windows", lambda *_: None)


async def test_a_planted_bug_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    without_windows(monkeypatch)
    with pytest.raises(AssertionError, match="Right contains"):
        await test_windows_continue_where_a_run_was_killed(tmp_path, "sliding")


async def test_joins_continue_where_a_run_was_killed(tmp_path: Path) -> None:
    database, rng = Database(), chances(5)
    for _ in range(4):
        await run(joined(database), tmp_path, rng.uniform(0.02, 0.15))
    await run(joined(database), tmp_path)
    assert sorted(n for n, _ in database.rows) == list(range(COUNT // 2))


class Unsavable(Own):
    """A state that no snapshot can contain."""

    def init_state(self, window: Any) -> Any:
        return Box()

    def execute(self, tup: Any, state: Any, window: Any) -> Any:
        state.numbers.append(tup["n"])

    def purge(self, state: Any, window: Any, key: str) -> Any:
        return key, state.numbers, window.start


class Box:
    def __init__(self) -> None:
        self.numbers: list[int] = []


async def test_a_state_that_cannot_be_saved_ends_the_topology(tmp_path: Path) -> None:
    BOLTS["unsavable"] = Unsavable
    try:
        with pytest.raises(TopologyFailedError) as raised:
            await run(job(Database(), "unsavable"), tmp_path)
    finally:
        del BOLTS["unsavable"]
    for part in ("component 'windows', task ", "the state of key 'k", "Box", "the window or slice from "):
        assert part in str(raised.value)
