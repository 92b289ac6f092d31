"""Windows at another parallelism: a job that was killed and started with more or fewer tasks gives the same rows."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from aiostorm import (
    BufferedWindowBolt,
    Each,
    Fields,
    JoinBolt,
    LatePolicy,
    LocalCluster,
    Session,
    Sliding,
    Sum,
    TopologyBuilder,
    Tumbling,
    WindowedBolt,
)
from aiostorm.state import ForeignError

from .parts import Database, Store, chances, exactly_once
from .test_windows import BOLTS, COUNT, EVENT_TIME, Events, Pass, job, joined, rows_of, run

TASKS = (4, 6, 3, 1, 5)


class Corrected(WindowedBolt):
    """Late rows correct what has fired; a correction has a greater revision than those before it."""

    outputs = Fields("key", "start", "total", "revision")
    windows = Tumbling(20)
    key, timestamp, late = "key", "at", LatePolicy.RETRACT

    def init_state(self, window: Any) -> int:
        return 0

    def execute(self, tup: Any, state: int, window: Any) -> int:
        return state + tup["n"]

    def purge(self, state: int, window: Any, key: str) -> Any:
        return key, window.start, state, 0

    def retract(self, tup: Any, windows: Any) -> Any:
        return [(tup["key"], window.start, tup["n"], window.revision) for window in windows]


WINDOWS = {
    **{kind: make for kind, make in BOLTS.items() if kind not in ("by the clock", "early")},
    "each": lambda: WindowedBolt(Tumbling(100), Sum("n"), early=Each(2), **EVENT_TIME),
    "each session": lambda: WindowedBolt(Session(60), Sum("n"), early=Each(2), **EVENT_TIME),
    "two fields": lambda: WindowedBolt(Sliding(200, 50), Sum("n"), **{**EVENT_TIME, "key": ("n", "key")}),
}


@pytest.mark.parametrize("kind", WINDOWS)
async def test_windows_continue_with_another_number_of_tasks(
    tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(BOLTS, kind, WINDOWS[kind])
    whole, parts, rng = Database(), Database(), chances(6)
    await run(job(whole, kind, 1), tmp_path / "whole")
    assert len(whole.rows) > 15
    for tasks in TASKS[:-1]:
        await run(job(parts, kind, tasks), tmp_path / "parts", rng.uniform(0.03, 0.07))
    assert len(parts.rows) < len(whole.rows)
    await run(job(parts, kind, TASKS[-1]), tmp_path / "parts")
    assert rows_of(parts) == rows_of(whole)


@pytest.mark.parametrize("kind", ["by the clock", "early"])
async def test_each_row_is_in_one_result(tmp_path: Path, kind: str) -> None:
    """By the clock, results depend on when rows come; early ones on when they are shown."""
    database, rng = Database(), chances(4)
    for tasks in TASKS[:-1]:
        await run(job(database, kind, tasks), tmp_path, rng.uniform(0.03, 0.07))
    await run(job(database, kind, TASKS[-1]), tmp_path)
    final = [row for row in database.rows if kind == "by the clock" or row[-1]]
    assert sum(row[1] for row in final) == COUNT
    starts = [(row[0], row[2]) for row in final]
    assert len(set(starts)) == len(starts)


class SomeLate(Events):
    """Some of its rows are 400 ms behind the others."""

    async def next_tuple(self) -> None:
        await asyncio.sleep(0.003)
        if self.at >= self.count:
            self.collector.finish()
            return
        at_ms = 1_000_000 + self.at * 10 - (400 if self.at % 7 == 6 else 0)
        self.collector.emit((f"k{self.at % 5}", self.at, at_ms))
        self.at += self.step


async def test_late_rows_stay_late_and_corrections_go_on(tmp_path: Path) -> None:
    def topology(tasks: int) -> Any:
        builder = TopologyBuilder()
        builder.set_spout("events", SomeLate(COUNT))
        builder.set_bolt("windows", Corrected(), tasks).fields_grouping("events", "key")
        builder.set_bolt("store", Store(database)).shuffle_grouping("windows")
        return builder.create_topology()

    database, whole, rng = Database(), Database(), chances(8)
    for tasks in TASKS[:-1]:
        await run(topology(tasks), tmp_path / "parts", rng.uniform(0.06, 0.12))
    assert len(database.rows) > 0
    await run(topology(TASKS[-1]), tmp_path / "parts")
    parts, database = database, whole
    await run(topology(1), tmp_path / "whole")
    assert sorted(row[:3] for row in parts.rows) == sorted(row[:3] for row in whole.rows)
    database = parts
    assert sum(row[2] for row in database.rows) == sum(range(COUNT)), "each row is in a result or in a correction"
    results = [(key, start) for key, start, _, revision in database.rows if not revision]
    assert len(set(results)) == len(results), "a window fires once"
    revisions: dict[tuple[str, int], list[int]] = {}
    for key, start, _, revision in database.rows:
        if revision:
            revisions.setdefault((key, start), []).append(revision)
    assert revisions
    for given in revisions.values():
        assert len(set(given)) == len(given)


def sessions_joined(database: Database, tasks: int) -> Any:
    builder = TopologyBuilder()
    for name in ("left", "right"):
        builder.set_spout(name, Events(COUNT // 2))
    join = JoinBolt("left", ("key", "n"), Session(30), timestamp="at", lag_ms=50)
    join.left_join("right", ("key", "n")).select("left:n, right:at")
    bolt = builder.set_bolt("join", join, tasks)
    bolt.fields_grouping("left", "n", "key").fields_grouping("right", "key", "n")
    builder.set_bolt("store", Store(database)).shuffle_grouping("join")
    return builder.create_topology()


@pytest.mark.parametrize("make", [joined, sessions_joined])
async def test_joins_continue_with_another_number_of_tasks(tmp_path: Path, make: Any) -> None:
    database, rng = Database(), chances(5)
    for tasks in TASKS[:-1]:
        await run(make(database, tasks), tmp_path, rng.uniform(0.02, 0.15))
    await run(make(database, TASKS[-1]), tmp_path)
    assert sorted(n for n, _ in database.rows) == list(range(COUNT // 2))
    assert None not in {at for _, at in database.rows}


NOTHING = (None, float("nan"))
"""Values that equal nothing."""


class EqualNothing(SomeLate):
    """Rows of five groups, whose keys equal nothing. Rows of one group are further apart than a session's gap."""

    outputs = Fields("key", "group", "n", "at")

    async def next_tuple(self) -> None:
        await asyncio.sleep(0.003)
        if self.at >= self.count:
            self.collector.finish()
            return
        at_ms = 1_000_000 + self.at * 10 - (400 if self.at % 7 == 6 else 0)
        self.collector.emit((NOTHING[self.at % 2], self.at % 5, self.at, at_ms))
        self.at += self.step


def nothing_joined(database: Database, tasks: int) -> Any:
    builder = TopologyBuilder()
    for name in ("left", "right"):
        builder.set_spout(name, EqualNothing(COUNT))
    join = JoinBolt("left", ("key", "group"), Session(30), timestamp="at", lag_ms=50)
    join.full_join("right", ("key", "group")).select("left:n, right:n as other")
    bolt = builder.set_bolt("join", join, tasks)
    bolt.fields_grouping("left", "key", "group").fields_grouping("right", "key", "group")
    builder.set_bolt("store", Store(database)).shuffle_grouping("join")
    return builder.create_topology()


async def test_rows_that_equal_nothing_do_not_depend_on_which_others_their_task_has(tmp_path: Path) -> None:
    """A row that is late in one task is late with any number of tasks, before and after."""
    found = []
    for name, numbers in {"one": (1,), "five": (5,), "changing": TASKS}.items():
        database, rng = Database(), chances(9)
        for tasks in numbers[:-1]:
            await run(nothing_joined(database, tasks), tmp_path / name, rng.uniform(0.06, 0.12))
        await run(nothing_joined(database, numbers[-1]), tmp_path / name)
        found.append(sorted(database.rows, key=repr))
    assert all(None in row for row in found[0]), "they join nothing"
    in_time = [n for n in range(COUNT) if n % 7 != 6]
    assert found[0] == sorted([*((n, None) for n in in_time), *((None, n) for n in in_time)], key=repr)
    assert found[1] == found[0]
    assert found[2] == found[0]


async def test_windows_over_windows(tmp_path: Path) -> None:
    """Both at another parallelism, and a bolt between them that passes watermarks on."""

    def topology(database: Database, first: int, between: int, second: int) -> Any:
        builder = TopologyBuilder()
        builder.set_spout("events", Events(COUNT), 2)
        builder.set_bolt("pass", Pass(), between).shuffle_grouping("events")
        sums = WindowedBolt(Sliding(100, 50), Sum("n"), **EVENT_TIME)
        builder.set_bolt("sums", sums, first).fields_grouping("pass", "key")
        again = WindowedBolt(Tumbling(300), Sum("result"), key="key", timestamp="start", lag_ms=100)
        builder.set_bolt("again", again, second).fields_grouping("sums", "key")
        builder.set_bolt("store", Store(database)).shuffle_grouping("again")
        return builder.create_topology()

    whole, parts, rng = Database(), Database(), chances(7)
    await run(topology(whole, 1, 1, 1), tmp_path / "whole")
    for tasks in ((2, 2, 4), (3, 2, 4), (3, 4, 1), (1, 1, 5)):
        await run(topology(parts, *tasks), tmp_path / "parts", rng.uniform(0.03, 0.07))
    assert 0 <= len(parts.rows) < len(whole.rows)
    await run(topology(parts, 4, 3, 2), tmp_path / "parts")
    assert rows_of(parts) == rows_of(whole)


# -- what cannot be divided --------------------------------------------------------------------------------------------


class All(BufferedWindowBolt):
    """All rows of a task together."""

    outputs = Fields("count")
    windows = Tumbling(100)
    timestamp = "at"

    def execute(self, window: Any) -> Any:
        return (len(window.get()),)


def by_function() -> Any:
    return WindowedBolt(Tumbling(100), Sum("n"), key=lambda tup: tup["n"] % 3, timestamp="at")


REFUSED = {
    "no key": (All, "fields", ("key",), "its windows have no key: each task has windows of all its rows together"),
    "a function": (by_function, "fields", ("key",), "the key of its windows is a function"),
    "shuffled": (BOLTS["sliding"], "shuffle", (), "its windows are by key, but it reads 'pass' with shuffle grouping"),
    "other fields": (
        BOLTS["sliding"],
        "fields",
        ("key", "n"),
        "its windows are by key, but it reads 'pass' with fields grouping by key, n",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
async def test_windows_of_tasks_are_refused_before_anything_runs(tmp_path: Path, case: str) -> None:
    make, grouping, fields, reason = REFUSED[case]

    def topology(tasks: int) -> Any:
        builder = TopologyBuilder()
        builder.set_spout("events", Events(COUNT))
        builder.set_bolt("pass", Pass()).shuffle_grouping("events")
        getattr(builder.set_bolt("windows", make(), tasks), f"{grouping}_grouping")("pass", *fields)
        builder.set_bolt("store", Store(database)).shuffle_grouping("windows")
        return builder.create_topology()

    database = Database()
    await run(topology(2), tmp_path, 0.1)
    async with LocalCluster() as cluster:
        with pytest.raises(ForeignError) as raised:
            await cluster.submit("job", topology(3), exactly_once(tmp_path))
    for part in ("bolt 'windows' had 2 tasks in snapshot ", " and has 3 now", reason, "Start with the parallelism"):
        assert part in str(raised.value)
    await run(topology(2), tmp_path)


async def test_another_grouping_is_refused(tmp_path: Path) -> None:
    def topology(*fields: str) -> Any:
        builder = TopologyBuilder()
        builder.set_spout("events", Events(COUNT))
        windows = WindowedBolt(Tumbling(100), Sum("n"), key=("key", "n"), timestamp="at")
        builder.set_bolt("windows", windows, 2).fields_grouping("events", *fields)
        builder.set_bolt("store", Store(database)).shuffle_grouping("windows")
        return builder.create_topology()

    database = Database()
    await run(topology("key"), tmp_path, 0.1)
    async with LocalCluster() as cluster:
        with pytest.raises(ForeignError, match="were grouped by key, and now they are by key, n: other tasks"):
            await cluster.submit("job", topology("n", "key"), exactly_once(tmp_path))
