"""A job with windows as a real program, stopped in order, killed with signal 9, and its workers: row for row the same.

    lines of a file ─► parse ─by key─► sliding windows ×2, sessions ×2 ─► FileSink ×2

Each run reads the same file. The first one is left alone; the others are interrupted again and again, and started with
the same command, until one of them ends by itself.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any, Final

import pytest

from ..test_workers_real import ROOT

pytestmark = [
    pytest.mark.sockets,
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform != "linux", reason="it looks into /proc"),
]

LINES: Final = 3_000
KEYS: Final = 7
LIMIT_S: Final = 150

JOB = '''
import json
import os
import time
from pathlib import Path

from aiostorm import Combined, Count, Max, Min, Session, Sliding, Spout, TopologyBuilder, WindowedBolt, bolt
from aiostorm.state import FileSink


class Lines(Spout):
    """The lines of a file, 1,000 a second. Its position: how many of them."""

    outputs = ("line",)

    def __init__(self, path):
        self.path, self.at = path, 0

    def open(self, context, collector):
        self.collector = collector
        self.lines = Path(self.path).read_text().splitlines()

    def next_tuple(self):
        if self.at == len(self.lines):
            self.collector.finish()
            return
        self.collector.emit((self.lines[self.at],))
        self.at += 1
        if self.at % 10 == 0:
            time.sleep(0.01)

    def snapshot(self):
        return self.at

    def restore(self, position):
        self.at = position


@bolt(outputs=("key", "n", "at"))
def parse(line):
    yield tuple(json.loads(line))


def named(name):
    @bolt(outputs=("what", "key", "count", "least", "most", "start", "end"))
    def give(key, count, least, most, start, end):
        return name, key, count, least, most, start, end

    return give


def topology(lines, out):
    builder = TopologyBuilder()
    builder.set_spout("lines", lambda: Lines(lines))
    builder.set_bolt("parse", parse).shuffle_grouping("lines")
    sink = builder.set_bolt("out", FileSink(Path(out)), 2)
    for name, windows in (("sliding", Sliding(2_000, 500)), ("session", Session(400))):
        measured = WindowedBolt(
            windows,
            Combined(count=Count(), least=Min("n"), most=Max("n")),
            key="key",
            timestamp="at",
            lag_ms=200,
        )
        builder.set_bolt(name, measured, 2).fields_grouping("parse", "key")
        builder.set_bolt(f"{name}-rows", named(name)).shuffle_grouping(name)
        sink.shuffle_grouping(f"{name}-rows")
    return builder.create_topology("windows")
'''


def events(rng: random.Random) -> list[tuple[str, int, int]]:
    """Key, number and time in milliseconds: out of order by less than 200 ms, with gaps that end sessions."""
    made, at_ms = list[tuple[str, int, int]](), 1_000_000
    for number in range(LINES):
        at_ms += rng.choice((5, 10, 20)) + (600 if rng.random() < 0.01 else 0)
        made.append((f"k{rng.randrange(KEYS)}", number, at_ms + rng.randrange(150)))
    return made


def rows(out: Path) -> Counter[tuple[Any, ...]]:
    """The rows in complete files, as another program reads them."""
    return Counter(
        tuple(json.loads(line).values())
        for file in out.glob("*.jsonl")
        if not file.name.startswith(".")
        for line in file.read_text().splitlines()
    )


class Job:
    """The program: one command, in a folder of its own."""

    def __init__(self, folder: Path, name: str, lines: Path, workers: int) -> None:
        self.out = folder / name / "out"
        self.out.parent.mkdir()
        self.log = folder / f"{name}.log"
        self._words = (
            *(sys.executable, "-m", "aiostorm", "run", str(folder / "job.py")),
            *("--workers", str(workers), "--guarantee", "exactly-once", "--state", str(folder / name / "state")),
            *("-c", "topology.snapshot.interval.ms=200", str(lines), str(self.out)),
        )

    def start(self) -> subprocess.Popen[bytes]:
        """Begin a run. Its output goes to a file."""
        with self.log.open("ab") as log:
            return subprocess.Popen(self._words, cwd=ROOT, stdout=log, stderr=log)

    def ends(self, process: subprocess.Popen[bytes], within_s: float) -> bool:
        """Has the run come to its end within this time? Then it has to be a good one."""
        try:
            code = process.wait(within_s)
        except subprocess.TimeoutExpired:
            return False
        assert code == 0, self.log.read_text()[-4000:]
        return True


def children(pid: int) -> list[int]:
    """The processes that it has started, and that live."""
    try:
        return [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except FileNotFoundError:
        return []


def interrupt(process: subprocess.Popen[bytes], how: str, rng: random.Random) -> None:
    """Stop it in order, kill it, or kill one of its workers."""
    victims = children(process.pid) if how == "worker" else []
    if how == "order":
        process.send_signal(signal.SIGTERM)
    elif victims:
        os.kill(rng.choice(victims), signal.SIGKILL)
    else:
        process.kill()


@pytest.mark.parametrize(
    ("workers", "ways"), [(0, ("order", "kill")), (2, ("order", "kill", "worker"))], ids=["one process", "two workers"]
)
def test_however_it_ends_its_windows_are_those_of_a_run_that_was_left_alone(
    tmp_path: Path, workers: int, ways: tuple[str, ...]
) -> None:
    rng = random.Random(workers)
    (tmp_path / "job.py").write_text(JOB)
    lines = tmp_path / "lines"
    lines.write_text("".join(f"{json.dumps(event)}\n" for event in events(rng)))
    alone, interrupted = Job(tmp_path, "alone", lines, 0), Job(tmp_path, "interrupted", lines, workers)
    assert alone.ends(alone.start(), LIMIT_S)
    expected = rows(alone.out)
    assert {row[0] for row in expected} == {"sliding", "session"}
    assert max(expected.values()) == 1
    done = list[str]()
    process = interrupted.start()
    while not interrupted.ends(process, rng.uniform(1.5, 3.0) if len(done) < 2 * len(ways) else LIMIT_S):
        assert len(done) < 2 * len(ways), f"it does not end: {interrupted.log.read_text()[-4000:]}"
        done.append(ways[len(done) % len(ways)])
        interrupt(process, done[-1], rng)
        if done[-1] != "worker":
            process.wait()
            process = interrupted.start()
    assert set(done) == set(ways), f"it ended before it was interrupted: {done}"
    found = rows(interrupted.out)
    assert found == expected, f"missing {expected - found}, too many {found - expected}"
