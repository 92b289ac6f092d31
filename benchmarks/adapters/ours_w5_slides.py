"""What a row costs by size / slide: sums by key over events a millisecond apart.

`slides`: the machines alone. `in_topology`: a spout, a `WindowedBolt` and a task that takes the results, at least once.

Windows slide by 100 ms, and are 1, 10 or 100 slides long: rows come to as many slices in each case (a batch of 256 is
in three or four), and only size / slide differs. The machines take the same events as windows of 100 ms that tumble
and as windows that slide, in turns, in batches of 256; adding rows and making results are timed apart. What is shown
is how many times that of tumbling windows each is: the median of the rounds.

`kind` "shared": a row is counted in one slice, windows are put together from slices. "plain": it is counted in each of
its windows. Oracle: running totals of each key, and differences of two of them.
"""

from __future__ import annotations

import random
import statistics
import time
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate
from typing import Any

from aiostorm import LocalCluster, Topology, TopologyBuilder, spout
from aiostorm.windows import END_MS, PlainWindows, SharedWindows, Sliding, Sum, Tumbling, WindowedBolt

from ..cells import Outcome, WrongResultError
from ..clocking import Stopwatch, run_in
from .ours_w5 import INTERVAL_MS, Results

SLIDE_MS = 100
BATCH = 256
ROUNDS = 3
KINDS = {"shared": SharedWindows, "plain": PlainWindows}
Machine = SharedWindows | PlainWindows


@dataclass(frozen=True, slots=True)
class Spent:
    """Seconds of processor time."""

    add_s: float
    fire_s: float
    results: int


@lru_cache(maxsize=1)
def drawn(size: int, keys: int) -> tuple[list[str], list[int]]:
    """Key and value of each event; its time is its number, in milliseconds."""
    rng = random.Random(42)
    names = [f"key{n}" for n in range(keys)]
    return rng.choices(names, k=size), rng.choices(range(1_000), k=size)


def slides(size: int, *, kind: str = "shared", keys: int = 10, parts: int = 100) -> Outcome:
    """One run: so many events, windows of `parts` slides."""
    rows, results = [], []
    _checked(size, keys, parts, _machine(kind, parts))
    begun_s, begun_cpu_s = time.perf_counter(), time.process_time()
    before = _spent(size, keys, PlainWindows(Tumbling(SLIDE_MS), Sum()))
    for _ in range(ROUNDS):
        own = _spent(size, keys, _machine(kind, parts))
        after = _spent(size, keys, PlainWindows(Tumbling(SLIDE_MS), Sum()))
        rows.append(own.add_s / ((before.add_s + after.add_s) / 2))
        results.append(own.fire_s / own.results / ((before.fire_s + after.fire_s) / 2 / after.results))
        before = after
    figures = {
        "a row": statistics.median(rows),
        "a result": statistics.median(results),
        "results for a row": own.results / size,
    }
    wall_s, cpu_s = time.perf_counter() - begun_s, time.process_time() - begun_cpu_s
    return Outcome(size * ROUNDS, wall_s, cpu_s, figures=figures)


def _machine(kind: str, parts: int) -> Machine:
    return KINDS[kind](Sliding(parts * SLIDE_MS, SLIDE_MS), Sum())


def _spent(size: int, keys: int, windows: Machine) -> Spent:
    names, values = drawn(size, keys)
    add_s = fire_s = 0.0
    count = 0
    for begin in range(0, size, BATCH):
        end = min(begin + BATCH, size)
        begun_s = time.process_time()
        windows.add(names[begin:end], range(begin, end), values[begin:end])
        added_s = time.process_time()
        count += sum(1 for _ in windows.advance(end))
        fire_s += time.process_time() - added_s
        add_s += added_s - begun_s
    begun_s = time.process_time()
    count += sum(1 for _ in windows.advance(END_MS))
    return Spent(add_s, fire_s + time.process_time() - begun_s, count)


def _checked(size: int, keys: int, parts: int, windows: Machine) -> None:
    names, values = drawn(size, keys)
    windows.add(names, range(size), values)
    fired = windows.advance(END_MS)
    _compare({(one.key, one.window.start): one.result for one in fired}, _expected(size, keys, parts))


def _compare(found: dict[Any, int], expected: dict[Any, int]) -> None:
    if found != expected:
        raise WrongResultError(f"{len(found)} results, {len(expected)} expected, or other sums")


@lru_cache(maxsize=4)
def _expected(size: int, keys: int, parts: int) -> dict[tuple[str, int], int]:
    names, values = drawn(size, keys)
    slides = -(-size // SLIDE_MS)
    rows, sums = ({name: [0] * (slides + parts) for name in set(names)} for _ in range(2))
    for at_ms, (name, value) in enumerate(zip(names, values, strict=True)):
        rows[name][at_ms // SLIDE_MS] += 1
        sums[name][at_ms // SLIDE_MS] += value
    expected = {}
    for name in rows:
        counted, summed = ([0, *accumulate(of[name])] for of in (rows, sums))
        for end in range(1, slides + parts):
            begin = max(0, end - parts)
            if counted[end] > counted[begin]:
                expected[name, (end - parts) * SLIDE_MS] = summed[end] - summed[begin]
    return expected


def in_topology(size: int, *, keys: int = 10, parts: int = 100) -> Outcome:
    """One run of a topology."""
    names, values = drawn(size, keys)
    rows: list[tuple[str, int, int, int]] = []
    watch, ended = run_in("uvloop", _run(_topology(list(zip(names, range(size), values, strict=True)), parts, rows)))
    _compare({(key, start): total for key, total, start, _ in rows}, _expected(size, keys, parts))
    if ended != (size, 0, 0):
        raise WrongResultError(f"{ended[0]} acked, {ended[1]} failed, {ended[2]} pending of {size}")
    return Outcome(size, watch.wall_s, watch.cpu_s, seen={"results": len(rows)})


def _topology(events: list[tuple[str, int, int]], parts: int, rows: list[Any]) -> Topology:
    @spout(outputs=("key", "at", "value"))
    def source() -> Iterator[tuple[str, int, int]]:
        yield from events

    def windowed() -> WindowedBolt:
        windows = Sliding(parts * SLIDE_MS, SLIDE_MS)
        return WindowedBolt(windows, Sum("value"), key="key", timestamp="at", interval_ms=INTERVAL_MS)

    builder = TopologyBuilder()
    builder.set_spout("events", source)
    builder.set_bolt("windows", windowed).fields_grouping("events", "key")
    builder.set_bolt("results", lambda: Results(rows)).shuffle_grouping("windows")
    return builder.create_topology("slides")


async def _run(topology: Topology) -> tuple[Stopwatch, tuple[int, int, int]]:
    async with LocalCluster() as cluster:
        with Stopwatch() as watch:
            running = await cluster.submit("slides", topology)
            await running.wait_finished()
        source = running.metrics()["events"]
        return watch, (source.acked, source.failed, source.pending)
