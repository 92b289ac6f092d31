"""Any topology around windows, whose spouts emit correct watermarks: no row is late, and every window is whole.

From one seed: spouts that pause, bolts between that let some rows overtake others, windows in several tasks, perhaps
windows behind windows, small mailboxes and turns.
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from typing import Any

import pytest

from aiostorm import BasicBolt, Config, Fields, LocalCluster, Spout, TopologyBuilder
from aiostorm.testing import Recorder
from aiostorm.windows import BufferedWindowBolt, Combined, Count, Sliding, Sum, Tumbling, WindowedBolt, WindowRows

from .window_topology import FIELDS

Step = tuple[str, int, int] | int | float
"""A row, a watermark, or a pause in seconds."""


class WatermarkSpout(Spout):
    outputs = FIELDS
    watermarks = True

    def __init__(self, steps: list[Step]) -> None:
        self.steps = steps

    def open(self, context: Any, collector: Any) -> None:
        self.collector, self.left = collector, list(self.steps)

    async def next_tuple(self) -> None:
        if not self.left:
            self.collector.finish()
            return
        step = self.left.pop(0)
        if isinstance(step, float):
            await asyncio.sleep(step)
        elif isinstance(step, int):
            self.collector.emit_watermark(step)
        else:
            self.collector.emit(step, message_id=len(self.left))


class Between(BasicBolt):
    outputs = FIELDS

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)

    async def execute(self, tup: Any, collector: Any) -> None:
        if self.rng.random() < 0.1:
            await asyncio.sleep(2 * self.rng.random())
        collector.emit(tup.values)


class Kept(BufferedWindowBolt):
    outputs = Fields("user", "result", "start", "end")

    def execute(self, window: WindowRows) -> tuple[Any, ...]:
        return window.key, len(window.get()), window.window.start, window.window.end


def steps(rng: random.Random) -> list[Step]:
    """No row is before a watermark that was emitted before it."""
    made: list[Step] = []
    far, watermark = 0, -1_000_000
    for _ in range(rng.randint(0, 40)):
        what = rng.random()
        if what < 0.6:
            far += rng.choice((0, 10, 100))
            made.append((rng.choice("abc"), max(watermark, far - rng.choice((0, 0, 50))), 1))
        elif what < 0.85:
            watermark = max(watermark, far - rng.choice((0, 20)))
            far = max(far, watermark)
            made.append(watermark)
        else:
            made.append(rng.choice((0.0, 0.01, 1.0, 3.0)))
    return made


async def assert_whole(seed: int) -> None:
    rng = random.Random(seed)
    spouts = [steps(rng) for _ in range(rng.randint(1, 3))]
    size = rng.choice((50, 200, 1_000))
    windows = rng.choice((Tumbling(size), Sliding(size, size // 2), Sliding(size, size * 2 // 5)))
    settings: Any = {"key": "user", "timestamp": "at", "allowed_lateness_ms": rng.choice((0, 0, 100))}
    kept, again = rng.random() < 0.5, rng.random() < 0.5
    builder, sink, sources = TopologyBuilder(), Recorder(), list[str]()
    for n, of_spout in enumerate(spouts):
        builder.set_spout(f"spout{n}", WatermarkSpout(of_spout))
        sources.append(f"spout{n}")
    for n in range(rng.randint(0, 2)):
        between = builder.set_bolt(f"between{n}", Between(seed), parallelism=rng.randint(1, 3))
        for source in sources:
            between.shuffle_grouping(source)
        sources = [f"between{n}"]
    windowed = Kept(windows, **settings) if kept else WindowedBolt(windows, Count(), **settings)
    declared = builder.set_bolt("windows", windowed, parallelism=rng.randint(1, 2))
    for source in sources:
        declared.fields_grouping(source, "user")
    if again:
        totals = Combined(total=Sum("result"), windows=Count())
        behind = WindowedBolt(Tumbling(2 * size), totals, timestamp=lambda tup: tup["end"] - 1)
        builder.set_bolt("again", behind).global_grouping("windows")
    builder.set_bolt("sink", sink).global_grouping("again" if again else "windows")
    config = Config(turn_max_tuples=rng.choice((2, 256)), mailbox_capacity_tuples=rng.choice((8, 1_024)))
    async with LocalCluster() as cluster:
        running = await cluster.submit("t", builder.create_topology(), config)
        await running.wait_finished(timeout_s=900)
        metrics = running.metrics()
    rows = [step for of_spout in spouts for step in of_spout if isinstance(step, tuple)]
    expected = Counter((user, one.start, one.end) for user, at, _ in rows for one in windows.windows_of(at))
    assert metrics["windows"].late == metrics["windows"].live_windows == 0
    assert metrics["windows"].acked == len(rows)
    if not again:
        assert sorted(sink.values) == sorted((user, n, start, end) for (user, start, end), n in expected.items())
        return
    twice, many = Counter[int](), Counter[int]()
    for (_, _, end), n in expected.items():
        start = (end - 1) // (2 * size) * 2 * size
        twice[start] += n
        many[start] += 1
    assert metrics["again"].late == 0
    assert sink.values == [(twice[start], many[start], start, start + 2 * size) for start in sorted(twice)]


@pytest.mark.parametrize("seed", range(25))
async def test_every_window_is_whole(seed: int) -> None:
    await assert_whole(seed)


@pytest.mark.slow
async def test_every_window_is_whole_in_many_topologies() -> None:
    for seed in range(25, 525):
        await assert_whole(seed)
