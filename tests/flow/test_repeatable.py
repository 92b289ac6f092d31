"""Repeatable: in virtual time a run depends on its random source and on nothing else; no machine is too slow for it."""

from __future__ import annotations

import asyncio
import random
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from aiostorm import BasicBolt, Config, Fields, LocalCluster, Spout, TopologyBuilder
from aiostorm.runtime.stall import is_ours

TESTS = str(Path(__file__).parent.parent)
CLOCKS = ("time", "monotonic", "perf_counter", "process_time", "thread_time")


class Seeded:
    """A random source that a seed fixes, ids included."""

    def __init__(self, seed: int) -> None:
        self._chance = random.Random(seed)

    def token_bytes(self, size_bytes: int) -> bytes:
        return self._chance.randbytes(size_bytes)

    def generator(self) -> random.Random:
        return random.Random(self._chance.getrandbits(64))


class Lumps(Spout):
    """Forty tuples a call, each millisecond."""

    outputs = Fields("n")

    def open(self, context: Any, collector: Any) -> None:
        self.collector = collector

    async def next_tuple(self) -> None:
        await asyncio.sleep(0.001)
        for number in range(40):
            self.collector.emit((number,), message_id=number)


class OneIsSlow(BasicBolt):
    """Five milliseconds a tuple; a hundred in the first task."""

    def __init__(self, done: list[tuple[float, int]]) -> None:
        self.done = done

    def __deepcopy__(self, memo: dict[int, Any]) -> OneIsSlow:
        return OneIsSlow(self.done)

    def prepare(self, context: Any) -> None:
        self.task = context.task_index

    async def execute(self, tup: Any, collector: Any) -> None:
        await asyncio.sleep(0.1 if self.task == 0 else 0.005)
        self.done.append((asyncio.get_running_loop().time(), self.task))


async def run(seed: int, seconds: int, config: Config) -> list[tuple[float, int]]:
    """When which task was done with a tuple."""
    done: list[tuple[float, int]] = []
    builder = TopologyBuilder()
    builder.set_spout("source", Lumps())
    builder.set_bolt("slow", OneIsSlow(done), parallelism=5).shuffle_grouping("source")
    async with LocalCluster(rng=Seeded(seed)) as cluster:
        begun_s = asyncio.get_running_loop().time()
        running = await cluster.submit("t", builder.create_topology(), config)
        await asyncio.sleep(seconds)
        await running.kill(0)
    return [(at_s - begun_s, task) for at_s, task in done if at_s - begun_s < seconds]


@pytest.mark.parametrize("seed", range(4))
async def test_one_slow_task_does_not_starve_others_for_any_order_of_the_shuffle(seed: int) -> None:
    """With rows bound to a full task, a spout waited for that task; the order that was drawn decided when."""
    done = await run(seed, 13, Config(backpressure_enable=False, mailbox_capacity_tuples=100))
    a_second = [sum(begin <= at_s < begin + 1 for at_s, _ in done) for begin in range(3, 13)]
    assert min(a_second) > 0.9 * 810, a_second


async def test_a_run_with_the_same_seed_is_the_same_run(monkeypatch: pytest.MonkeyPatch) -> None:
    first = await run(7, 5, Config(mailbox_capacity_tuples=100))

    def lagging(clock: Callable[[], float]) -> Callable[[], float]:
        """A machine that stands still for an hour before each reading."""
        lag_s = iter(range(0, 1_000_000_000, 3_600))
        return lambda: clock() + next(lag_s) * _is_aiostorm()

    for name in CLOCKS:
        monkeypatch.setattr(time, name, lagging(getattr(time, name)))
    assert await run(7, 5, Config(mailbox_capacity_tuples=100)) == first


async def test_a_running_topology_reads_no_clock_but_the_loop_s(monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[str] = []

    def noting(name: str) -> Callable[[], float]:
        real: Callable[[], float] = getattr(time, name)

        def clock() -> float:
            if _is_aiostorm():
                read.append(f"time.{name} in {sys._getframe(1).f_code.co_filename}")
            return real()

        return clock

    for name in CLOCKS:
        monkeypatch.setattr(time, name, noting(name))
    await run(7, 5, Config(mailbox_capacity_tuples=100))
    assert not read


def _is_aiostorm() -> bool:
    """Was the clock read by a file of aiostorm? Not by the test, nor by asyncio or logging."""
    filename = sys._getframe(2).f_code.co_filename
    return is_ours(filename) and not filename.startswith((TESTS, str(Path(asyncio.__file__).parent)))
