"""Any parallelism: windows by event time give what a plain model says of the rows as they are emitted, however many
tasks there are.

    python -m tests.flow.any_parallelism --streams 300       says what it found, and ends with 1 if it was anything

A stream is drawn from a seed: sessions, tumbling or sliding windows, ready made, with a class's own methods, or
buffered; rows in order or not, with a lag or without; late rows; a field or a function that says when. Of one spout
task, the model gets the time before each row. Two spout tasks emit in turns, one row at a time, so that there is one
order of rows; or freely, and then no row is further behind than the lag.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import sys
from dataclasses import dataclass
from typing import Any, ClassVar

from aiostorm import Config, Fields, LocalCluster, Spout, Topology, TopologyBuilder
from aiostorm.testing import Recorder, VirtualTimeLoop
from aiostorm.windows import BufferedWindowBolt, Collect, LatePolicy, Session, Sliding, Tumbling, WindowedBolt

from ..windows import reference

FIELDS = Fields("key", "at", "n")
RESULTS = Fields("key", "result", "start", "end")
PARALLELISM = 1, 2, 4, 8
END_MS = 10**15

Results = tuple[list[Any], list[Any]]
"""Fired: key, start, end, rows. Late: rows."""


class Buffered(BufferedWindowBolt):
    outputs = RESULTS

    def execute(self, window: Any) -> Any:
        rows = [tup["n"] for tup in window.get()]
        return window.key, rows, window.window.start, window.window.end


class Own(WindowedBolt):
    outputs = RESULTS

    def init_state(self, window: Any) -> list[int]:
        return []

    def execute(self, tup: Any, state: list[int], window: Any) -> list[int]:
        return [*state, tup["n"]]

    def purge(self, state: list[int], window: Any, key: Any = None) -> Any:
        return key, state, window.start, window.end


def by_function(tup: Any) -> int:
    at: int = tup["at"]
    return at


@dataclass(frozen=True)
class Stream:
    """`chunks`: of each spout task, what it emits in one call. `in_turns`: one row each, one task after the other."""

    windows: Any
    style: str
    settings: dict[str, Any]
    chunks: list[list[list[reference.Row]]]
    in_turns: bool

    @classmethod
    def draw(cls, seed: int) -> Stream:
        rng = random.Random(seed)
        tasks = rng.choice((1, 1, 2))
        in_turns = tasks == 2 and rng.random() < 0.5
        size = rng.choice((1, 5, 10, 10, 25, 60))
        lag = rng.choice((0, 0, 5, 20))
        kind = rng.choice(("session", "session", "tumbling", "sliding"))
        windows: Any = Session(size) if kind == "session" else Tumbling(size, rng.choice((0, 3)))
        if kind == "sliding":
            windows = Sliding(size, rng.randint(1, size), rng.choice((0, -7)))
        styles = ("ready", "ready") if kind == "session" else ("ready", "own", "buffered")
        disorder = lag if tasks == 2 and not in_turns else rng.choice((0, lag, lag, 30))
        keys = "abcdefgh"[: rng.choice((1, 3, 8))]
        settings = {
            "lag_ms": lag,
            "allowed_lateness_ms": rng.choice((0, 0, 0, 7)),
            "max_advance_ms": rng.choice((0, 10**6)),
            "idle_timeout_ms": 0,
            "timestamp": rng.choice(("at", "at", by_function)),
        }
        return cls(windows, rng.choice(styles), settings, rows_of(rng, tasks, in_turns, keys, disorder), in_turns)

    def topology(self, parallelism: int, sink: Recorder, late: Recorder) -> Topology:
        builder = TopologyBuilder()
        builder.set_spout("rows", Emits(self.chunks, self.in_turns), len(self.chunks))
        settings = {**self.settings, "key": "key", "late": LatePolicy.STREAM}
        made: Any = {"own": Own, "buffered": Buffered}.get(self.style)
        if made is None:
            bolt: Any = WindowedBolt(self.windows, Collect("n"), outputs=RESULTS, **settings)
        else:
            bolt = made(self.windows, **settings)
        builder.set_bolt("windows", bolt, parallelism).fields_grouping("rows", "key")
        builder.set_bolt("sink", sink).shuffle_grouping("windows")
        builder.set_bolt("late", late).shuffle_grouping("windows", stream="late")
        return builder.create_topology()

    def expected(self) -> Results:
        """What the plain model says."""
        windows, settings = self.windows, self.settings
        lag, lateness = settings["lag_ms"], settings["allowed_lateness_ms"]
        model: Any = reference.Sessions(windows.gap_ms, lateness) if isinstance(windows, Session) else None
        if model is None:
            model = reference.Aligned(windows.size_ms, windows.slide_ms, windows.offset_ms, lateness)
        far: list[list[int]] = [[] for _ in self.chunks]
        needed = 2 if settings["max_advance_ms"] else 1  # one row alone begins no clock that is bounded
        fired: list[Any] = []
        for task, row in self.in_order():
            if all(len(seen) >= needed for seen in far):
                fired += model.advance(min(map(max, far)) - lag)
            model.add([row])
            far[task].append(row[1])
        fired += model.advance(END_MS)
        return (
            sorted((key, list(rows), *span) for span, key, rows in fired),
            sorted(row[2] for row in model.late),
        )

    def in_order(self) -> list[tuple[int, reference.Row]]:
        """Task and row, as they are emitted."""
        flat = [[row for chunk in chunks for row in chunk] for chunks in self.chunks]
        if len(flat) == 1:
            return [(0, row) for row in flat[0]]
        found = []
        for n in range(max(map(len, flat))):
            found += [(task, rows[n]) for task, rows in enumerate(flat) if n < len(rows)]
        return found


def rows_of(rng: random.Random, tasks: int, in_turns: bool, keys: str, disorder: int) -> list[list[list[Any]]]:
    """Of each task the rows that it emits, by call."""
    found: list[list[list[Any]]] = []
    number = 0
    for _ in range(tasks):
        at, chunks = rng.choice((0, 1_000_000)), []
        at = 0 if tasks == 2 else at
        for _ in range(rng.choice((3, 10, 30))):
            rows = []
            for _ in range(1 if in_turns else rng.choice((1, 1, 3, 10, 40))):
                at += rng.choice((0, 1, 2, 5, 5, 40))
                rows.append((rng.choice(keys), at - rng.choice((0, 0, rng.randint(0, disorder))), number))
                number += 1
            chunks.append(rows)
        found.append(chunks)
    return found


class Emits(Spout):
    """Emits what its task is to emit, and then finishes."""

    outputs = FIELDS
    step_s: ClassVar[float] = 1.0

    def __init__(self, chunks: list[list[list[Any]]], in_turns: bool) -> None:
        self.chunks = chunks
        self.in_turns = in_turns

    def open(self, context: Any, collector: Any) -> None:
        self.collector = collector
        self.left = list(self.chunks[context.task_index])
        self.wait_s = self.step_s / 2 * context.task_index + 0.1 if self.in_turns else 0.0

    async def next_tuple(self) -> None:
        if self.wait_s:
            await asyncio.sleep(self.wait_s)
            self.wait_s = self.step_s
        for row in self.left.pop(0) if self.left else ():
            self.collector.emit(row, message_id=row[2])
        if not self.left:
            if self.in_turns:  # an end counts as well: not before the other task has emitted its last row
                await asyncio.sleep(100)
            self.collector.finish()


async def outcome(stream: Stream, parallelism: int) -> Results:
    """What a topology gives."""
    sink, late = Recorder(), Recorder()
    config = Config(turn_max_tuples=random.Random(parallelism).choice((1, 7, 1024)), message_timeout_s=10_000)
    async with LocalCluster() as cluster:
        running = await cluster.submit("t", stream.topology(parallelism, sink, late), config)
        await running.wait_finished()
    return sorted_results(sink.values, late.values)


def sorted_results(results: list[Any], late: list[Any]) -> Results:
    fired = [(key, sorted(rows), start, end) for key, rows, start, end in results]
    return sorted(fired), sorted(row[0][2] for row in late)


async def problem(seed: int, parallelisms: tuple[int, ...] = PARALLELISM) -> str | None:
    """What is wrong with a seed; None: nothing."""
    stream = Stream.draw(seed)
    expected = stream.expected()
    for parallelism in parallelisms:
        found = await outcome(stream, parallelism)
        if found != expected:
            fired = [one for one in found[0] if one not in expected[0]], [o for o in expected[0] if o not in found[0]]
            return (
                f"seed {seed}, {parallelism} tasks, {stream.windows}, {stream.style}, {stream.settings}: fired "
                f"{fired[0][:3]} instead of {fired[1][:3]}; late {found[1][:9]} instead of {expected[1][:9]}"
            )
    return None


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--streams", type=int, default=300)
    parser.add_argument("--first", type=int, default=0)
    given = parser.parse_args()
    found = []
    for seed in range(given.first, given.first + given.streams):
        with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
            wrong = runner.run(problem(seed))
        if wrong is not None:
            print(wrong)
            found.append(seed)
    print(f"{given.streams} streams at parallelism {', '.join(map(str, PARALLELISM))}: {len(found)} differ {found}")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
