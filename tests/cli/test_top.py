"""`aiostorm top`: what is shown, what the keys do, and how it ends."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiostorm import LocalCluster, TopologyBuilder, bolt, spout
from aiostorm.cli.top import pressed
from aiostorm.cli.top_view import SORTS, Choice, Reading, Row, Top, document, lines, ordered, table
from aiostorm.cluster import RemoteTopology, TopologySocket
from aiostorm.cluster.control.view import view_of

from ..transport.parts import MemoryNetwork
from .conftest import JOBS, Command, Process

Start = Callable[..., Process]


@spout(outputs="n")
async def numbers() -> AsyncIterator[int]:
    n = 0
    while True:
        yield n
        n += 1
        await asyncio.sleep(0.1)


@bolt
async def slow(n: int) -> None:
    await asyncio.sleep(0.05)
    if n % 10 == 9:
        raise ValueError("\x1b[2J")


async def test_rates_and_latencies_are_of_the_time_between_two_readings() -> None:
    builder = TopologyBuilder()
    builder.set_spout("numbers", numbers, max_retries=0)
    builder.set_bolt("slow", slow, 2).shuffle_grouping("numbers")
    async with LocalCluster() as cluster:
        running = await cluster.submit("t", builder.create_topology())
        top, target = Top(), TopologySocket("t", 7, "/x/7-t")

        def take() -> Reading:
            remote = RemoteTopology(MemoryNetwork().seen_by("client"), target, view_of(running))
            [reading] = top.take({"t": remote})
            return reading

        await asyncio.sleep(5)
        first = take()
        assert [row.per_s for row in first.rows] == [None, None]
        assert first.acked_per_s is None
        await asyncio.sleep(10)
        reading = take()
        source, sink = reading.rows
        assert source.per_s == pytest.approx(10, abs=0.5)
        assert sink.per_s == pytest.approx(10, abs=0.5)
        assert reading.acked_per_s == pytest.approx(9, abs=0.5)
        assert sink.p50_s == pytest.approx(0.05, rel=0.15)
        assert sink.busy == pytest.approx(0.25, abs=0.05)
        assert (source.fill, sink.tasks, len(reading.tasks["slow"])) == (None, 2, 2)
        assert sum(task.per_s or 0 for task in reading.tasks["slow"]) == pytest.approx(10, abs=0.5)
        assert reading.uptime_s == pytest.approx(15, abs=0.1)
        assert (reading.errors, reading.last_error) == (15, "slow: ValueError: \x1b[2J")
        text = "\n".join(line for line, _ in lines([reading], Choice(tasks=True, component=1), 80))
        assert "\x1b" not in text
        assert "tasks of slow" in text
        assert json.loads(json.dumps(document([reading])))["topologies"][0]["rows"][1]["name"] == "slow"
        await running.kill(0)


def row(name: str, per_s: float | None = 1.0, fill: float | None = 0.5) -> Row:
    return Row(name, "bolt", 2, per_s, 3, 0, fill, 0, 0.001, 1.5, 0.25, None)


def reading(*rows: Row, name: str = "orders") -> Reading:
    words = "a waits 1 ms a tuple, because b cannot keep up; c waits 2 ms a tuple"
    tasks = {each.name: (row("task 1"),) for each in rows}
    return Reading(name, 7, "ACTIVE", "w1 is away", 61.0, 12, 1e7, 3, 4, words, "b: ValueError: x", rows, tasks)


def test_eighty_columns() -> None:
    found = [line for line, _ in lines([reading(row("payments"), row("log", None, None))], Choice(), 80)]
    assert found == [
        "orders (pid 7) ACTIVE  up 61 s  10M acked/s  12 pending  3 failed",
        "w1 is away",
        "a waits 1 ms a tuple, because b cannot keep up",
        "c waits 2 ms a tuple",
        "",
        "component    tasks  tuples/s      mailbox     p50     p99 failed busy blkd",
        "payments         2         1 ████░░░  50%    1 ms   1.5 s      3  25%    –",
        "log              2         –                 1 ms   1.5 s      3  25%    –",
        "",
        "4 errors, the last of b: ValueError: x",
    ]


@given(
    st.integers(1, 200),
    st.lists(st.text(max_size=60), max_size=4, unique=True),
    st.booleans(),
    st.sampled_from(SORTS),
    st.integers(-9, 9),
)
def test_no_line_is_wider_than_the_terminal(width: int, names: list[str], tasks: bool, sort: str, number: int) -> None:
    readings = [reading(*map(row, names), name=name) for name in names[:3]]
    choice = Choice(number, number, tasks, sort)
    for text, _ in [*lines(readings, choice, width), *table([row(n) for n in names], width)]:
        assert len(text) <= width
        assert text.isprintable()


def test_rows_are_sorted_by_what_is_chosen() -> None:
    rows = [row("b", 1.0, 0.9), row("c", 5.0, 0.1), row("a", None, None)]
    assert [r.name for r in ordered(rows, "declared")] == ["b", "c", "a"]
    assert [r.name for r in ordered(rows, "rate")] == ["c", "b", "a"]
    assert [r.name for r in ordered(rows, "mailbox")] == ["b", "c", "a"]
    assert [r.name for r in ordered(rows, "name")] == ["a", "b", "c"]


def test_keys() -> None:
    choice = Choice()
    for key, field, value in (
        ("s", "sort", SORTS[1]),
        ("n", "topology", 1),
        ("j", "component", 1),
        ("t", "tasks", True),
    ):
        changed = pressed(key, choice)
        assert changed is not None
        assert getattr(changed, field) == value
    assert pressed("\x1b[A", choice) == pressed("k", choice) == Choice(component=-1)
    assert pressed("x", choice) == choice
    assert pressed("q", choice) is None
    helped = pressed("?", choice)
    assert helped is not None
    assert lines([reading(row("a"))], helped, 80)[0][0].startswith("q  end")
    assert pressed("q", helped) == choice, "it closes the help first"
    sorts = choice
    for _ in SORTS:
        sorts = pressed("s", sorts) or sorts
    assert sorts == choice


def test_what_cannot_be_shown_is_one_message(aiostorm: Command) -> None:
    for arguments in (("top", "orders"), ("top", "--once")):
        outcome = aiostorm(*arguments)
        assert (outcome.code, outcome.out) == (2, "")
        assert "runs here with `aiostorm run`" in outcome.err


@pytest.mark.slow
@pytest.mark.sockets
@pytest.mark.skipif(sys.platform == "win32", reason="no unix sockets")
def test_a_topology_of_another_program_is_shown(aiostorm: Command, start: Start) -> None:
    process = start("run", f"{JOBS}:endless", "-q", "--timeout", "30")
    process.until_out("under way")
    assert "endless (pid " in aiostorm("top", "--once").out
    [found] = aiostorm("top", "endless", "--once", "--json").json["topologies"]
    assert (found["name"], found["state"]) == ("endless", "ACTIVE")
    screen = on_a_terminal("top", keys=b"?q")
    assert b"q  end" in screen
    until_end = aiostorm("top", "endless", "--json")
    documents = [json.loads(line) for line in until_end.out.splitlines()]
    assert documents[-1]["topologies"][0]["state"] == "KILLED"
    assert process.end().code == 124


def on_a_terminal(*arguments: str, keys: bytes) -> bytes:
    """What the command writes to a terminal while these keys are pressed, each after half a second, then `q`."""
    import pty
    import termios

    ours, theirs = pty.openpty()
    before = termios.tcgetattr(theirs)
    env = {**os.environ, "TERM": "xterm", "COLUMNS": "80", "LINES": "24"}
    command = [sys.executable, "-m", "aiostorm", *arguments]
    with subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs, env=env) as process:
        found = b""
        while b"\x1b[?1049h" not in found:
            found += os.read(ours, 4096)
        for key in keys + b"q":
            time.sleep(0.5)
            os.write(ours, bytes([key]))
            found += os.read(ours, 65536)
        assert process.wait(20) == 0
        assert termios.tcgetattr(theirs) == before, "the terminal is as it was"
    os.close(theirs)
    os.close(ours)
    return found
