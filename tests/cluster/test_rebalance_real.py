"""Rebalance and `submit --replace` with real processes: other tasks, other workers, other code, and bad code."""

from __future__ import annotations

import asyncio
import json
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from .test_cluster_real import Daemons, command, daemons, until

__all__ = ["daemons"]

pytestmark = [
    pytest.mark.sockets,
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform != "linux", reason="it looks into /proc"),
]

CODE = '''
"""Numbers for as long as there is no file `ends`; each line has the version of the code, and how often its key came."""

import os
import time
from pathlib import Path

from aiostorm import BasicBolt, Spout, TopologyBuilder
from aiostorm.state import FileSink, KeyedState

VERSION = "{version}"
KEYS = 50


class Numbers(Spout):
    outputs = ("n", "key")

    def __init__(self, ends):
        self.ends, self.at = ends, 0

    def open(self, context, collector):
        self.collector = collector

    def next_tuple(self):
        if os.path.exists(self.ends):
            self.collector.finish()
        else:
            self.collector.emit((self.at, self.at % KEYS))
            self.at += 1
            time.sleep(0.001)

    def snapshot(self):
        return self.at

    def restore(self, position):
        self.at = position


class Count(BasicBolt):
    outputs = ("n", "key", "count", "version", "pid")
    state = KeyedState(key="key")

    def prepare(self, context):
        self.counts = context.state

    def execute(self, tup, collector):
        n, key = tup.values
        self.counts[key] = count = self.counts.get(key, 0) + 1
        collector.emit((n, key, count, VERSION, os.getpid()))


def topology(folder, ends):
    builder = TopologyBuilder()
    builder.set_spout("numbers", Numbers(ends), max_spout_pending=100)
    builder.set_bolt("count", Count, 2).fields_grouping("numbers", "key")
    builder.set_bolt("out", FileSink(Path(folder)), 2).shuffle_grouping("count")
    return builder.create_topology()
'''


def code(folder: Path, text: str) -> str:
    folder.mkdir(exist_ok=True)
    (folder / "counting.py").write_text(text)
    return str(folder)


def rows(out: Path) -> list[dict[str, Any]]:
    """What was committed."""
    return [json.loads(line) for file in out.glob("[!.]*.jsonl") for line in file.read_text().splitlines()]


def test_state_goes_on_with_other_tasks_workers_and_code_and_bad_code_is_taken_back(daemons: Daemons) -> None:
    asyncio.run(_goes_on(daemons))


async def _goes_on(daemons: Daemons) -> None:
    out, ends = daemons.folder / "out", daemons.folder / "ends"
    out.mkdir()
    daemons.nimbus()
    daemons.supervisor()
    target = ("counting:topology", str(out), str(ends))
    options = ("--guarantee", "exactly-once", "--state", f"file://{daemons.folder}/state", "--workers", "2")
    interval = ("-c", "topology.snapshot.interval.ms=200")
    one = code(daemons.folder / "one", CODE.replace("{version}", "one"))
    await command(daemons, "submit", *target, "--name", "counts", "--code", one, *options, *interval, "--wait", "60")

    async def more() -> None:
        """Rows that were made after now are committed."""
        before = len(rows(out))
        await until("more rows", lambda: _more_than(out, before + 500))

    await more()
    first = {row["pid"] for row in rows(out)}
    await command(daemons, "rebalance", "counts", "-e", "count=4")
    await more()
    assert {row["pid"] for row in rows(out)} == first, "in the same processes"
    shown = json.loads(await command(daemons, "show", "counts", "--json"))
    assert shown["parallelism"] == {"count": 4}
    await command(daemons, "rebalance", "counts", "--workers", "1")
    await more()
    two = code(daemons.folder / "two", CODE.replace("{version}", "two"))
    await command(daemons, "submit", *target, "--replace", "counts", "--code", two, "--wait", "60")
    await more()
    assert {row["version"] for row in rows(out)} == {"one", "two"}
    bad = code(daemons.folder / "bad", CODE.replace("{version}", "bad") + "\n\nraise RuntimeError('it is bad')\n")
    with pytest.raises(AssertionError, match=r"it is bad"):
        await command(daemons, "submit", *target, "--replace", "counts", "--code", bad)
    with pytest.raises(AssertionError, match=r"did not run, and was taken back: (?s:.*)it is bad"):
        await command(daemons, "submit", *target, "--replace", "counts", "--code", bad, "--no-check", "--wait", "60")
    await more()
    ends.touch()

    async def finished() -> bool:
        return json.loads(await command(daemons, "list", "--json"))["topologies"] == []

    await until("it has finished", finished, 60)
    found = rows(out)
    numbers = Counter(row["n"] for row in found)
    assert sorted(numbers) == list(range(len(numbers)))
    assert set(numbers.values()) == {1}, "each once"
    assert all(row["count"] == row["n"] // 50 + 1 for row in found), "the state of each key went on"
    assert {row["version"] for row in found} == {"one", "two"}


async def _more_than(out: Path, count: int) -> bool:
    return len(rows(out)) > count
