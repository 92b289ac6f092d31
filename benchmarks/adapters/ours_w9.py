"""aiostorm does W9: a spout and one slow bolt, at least once.

There is no `max_spout_pending`: mailboxes alone hold the spout back.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import asdict
from typing import Any

from aiostorm import (
    Component,
    Config,
    Failure,
    Fields,
    LocalCluster,
    RunningTopology,
    Spout,
    SpoutCollector,
    TopologyBuilder,
    TopologyContext,
    bolt,
)

from ..cells import Outcome, WrongResultError
from ..clocking import Stopwatch, run_in
from ..resident import rss_mb
from ..w9 import ONE_IN, SAMPLE_S, TIMES_SLOWER, Latencies, Sample, figures, own_rate, rates, spin

CALIBRATION = 100_000
"""Tuples that say how fast the spout is."""


class Numbers(Spout):
    """Numbers and when they were emitted, until it is stopped."""

    outputs = Fields("number", "emitted_s")

    def __init__(self) -> None:
        self.number = 0
        self.acked = 0
        self.failed = 0
        self.stopped: Callable[[], bool] = lambda: False

    def open(self, context: TopologyContext, collector: SpoutCollector) -> None:
        self.collector = collector

    def next_tuple(self) -> None:
        if self.stopped():
            self.collector.finish()
            return
        self.collector.emit((self.number, time.perf_counter()), self.number)
        self.number += 1

    def ack(self, message_id: Any) -> None:
        self.acked += 1

    def fail(self, message_id: Any, failure: Failure) -> None:
        self.failed += 1

    def check(self, done: int) -> None:
        """WrongResultError unless all were done and acked."""
        if not done == self.acked == self.number or self.failed:
            raise WrongResultError(f"{done} done, {self.acked} acked, {self.failed} failed; {self.number} were emitted")


class Bottleneck:
    """What the bolt does, and how much it has done."""

    def __init__(self, service_s: float) -> None:
        self.service_s = service_s
        self.done = 0
        self.latencies = Latencies()

    def component(self) -> Component:
        """It as a function bolt."""

        @bolt
        def slow(number: int, emitted_s: float) -> None:
            if number != self.done:
                raise WrongResultError(f"{number} came when {self.done} was due")
            if self.service_s:
                spin(self.service_s)
            self.done = number + 1
            if not number % ONE_IN:
                self.latencies.add(time.perf_counter() - emitted_s)

        return slow


def steady(size: int, *, loop: str = "uvloop") -> Outcome:
    """Find out how slow the bolt must be, then run."""
    service_s = TIMES_SLOWER / run_in(loop, _spout_rate())
    own = own_rate(service_s)
    numbers, bottleneck = Numbers(), Bottleneck(service_s)
    watch, samples, capacity = run_in(loop, _steady(numbers, bottleneck, size / 1_000))
    own = max(own, own_rate(service_s))
    numbers.check(bottleneck.done)
    return Outcome(
        bottleneck.done,
        watch.wall_s,
        watch.cpu_s,
        bottleneck.latencies.quantiles(),
        {**figures(samples, capacity, own), **_latencies(bottleneck)},
        {
            "service_s": service_s,
            "bottleneck": own,
            "capacity": capacity,
            "samples": [list(asdict(sample).values()) for sample in samples],
            "rates": rates(samples),
        },
    )


def _latencies(bottleneck: Bottleneck) -> dict[str, float]:
    return {f"latency {name}": seconds * 1_000 for name, seconds in bottleneck.latencies.quantiles().items()}


async def _spout_rate() -> float:
    """Tuples a second from spout to bolt, when the bolt has nothing to do."""
    numbers, bottleneck = Numbers(), Bottleneck(0.0)
    numbers.stopped = lambda: numbers.number == CALIBRATION
    async with LocalCluster() as cluster:
        with Stopwatch() as watch:
            running = await _submit(cluster, numbers, bottleneck)
            await running.wait_finished()
    numbers.check(bottleneck.done)
    return CALIBRATION / watch.wall_s


async def _steady(numbers: Numbers, bottleneck: Bottleneck, lasting_s: float) -> tuple[Stopwatch, list[Sample], int]:
    samples: list[Sample] = []
    async with LocalCluster() as cluster:
        with Stopwatch() as watch:
            begun_s = time.perf_counter()
            numbers.stopped = lambda: time.perf_counter() - begun_s >= lasting_s
            running = await _submit(cluster, numbers, bottleneck)
            while time.perf_counter() - begun_s < lasting_s:
                await asyncio.sleep(SAMPLE_S)
                slow, spout = (running.metrics()[name].tasks[0] for name in ("slow", "numbers"))
                now_s = time.perf_counter() - begun_s
                samples.append(Sample(now_s, bottleneck.done, rss_mb(), slow.fill, spout.pending))
            await running.wait_finished()
        return watch, samples, running.metrics()["slow"].tasks[0].capacity


async def _submit(cluster: LocalCluster, numbers: Numbers, bottleneck: Bottleneck) -> RunningTopology:
    builder = TopologyBuilder()
    builder.set_spout("numbers", lambda: numbers)
    builder.set_bolt("slow", bottleneck.component).shuffle_grouping("numbers")
    return await cluster.submit("w9", builder.create_topology(), Config())
