"""aiostorm does W6: a spout that waits for its source in an async `next_tuple`, and three bolts of one task each."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from aiostorm import (
    BasicBolt,
    BasicCollector,
    Component,
    Config,
    Failure,
    Fields,
    LocalCluster,
    Spout,
    SpoutCollector,
    TopologyBuilder,
    TopologyContext,
    Tuple,
    bolt,
)

from ..cells import Outcome, WrongResultError
from ..clocking import Stopwatch, run_in
from ..w6 import Arrivals, Pace


class Source(Spout):
    outputs = Fields("number", "emitted_s")

    def __init__(self, size: int, tracked: bool) -> None:
        self.size = size
        self.tracked = tracked
        self.acked = 0
        self.failed = 0
        self.pace: Pace | None = None

    def open(self, context: TopologyContext, collector: SpoutCollector) -> None:
        self.collector = collector

    async def next_tuple(self) -> None:
        if self.pace is None:
            self.pace = Pace(self.size)
        if self.pace.over:
            self.collector.finish()
            return
        for number in await self.pace.due():
            self.collector.emit((number, time.perf_counter()), number if self.tracked else None)

    def ack(self, message_id: Any) -> None:
        self.acked += 1

    def fail(self, message_id: Any, failure: Failure) -> None:
        self.failed += 1


@bolt(outputs=("number", "emitted_s"))
def identity(number: int, emitted_s: float) -> tuple[int, float]:
    return number, emitted_s


class Identity(BasicBolt):
    outputs = Fields("number", "emitted_s")

    def execute(self, tup: Tuple, collector: BasicCollector) -> None:
        collector.emit(tup.values)


class Arrive(BasicBolt):
    def __init__(self, arrivals: Arrivals) -> None:
        self.arrivals = arrivals

    def execute(self, tup: Tuple, collector: BasicCollector) -> None:
        self.arrivals.add(*tup.values)


def latency(size: int, *, style: str = "functions", guarantee: str = "at least once", loop: str = "uvloop") -> Outcome:
    """One run."""
    arrivals = Arrivals()
    source = Source(size, guarantee == "at least once")
    middle, last = _bolts(style, arrivals)
    watch = run_in(loop, _run(source, middle, last))
    if source.tracked and (source.acked, source.failed) != (size, 0):
        raise WrongResultError(f"{source.acked} acked, {source.failed} failed; {size} were emitted")
    assert source.pace is not None, "next_tuple was never called"
    return arrivals.outcome(size, watch, source.pace)


def _bolts(
    style: str, arrivals: Arrivals
) -> tuple[Component | Callable[[], Component], Component | Callable[[], Component]]:
    if style == "classes":
        return Identity, lambda: Arrive(arrivals)

    @bolt
    def arrive(number: int, emitted_s: float) -> None:
        arrivals.add(number, emitted_s)

    return identity, arrive


async def _run(source: Source, middle: Any, last: Any) -> Stopwatch:
    builder = TopologyBuilder()
    builder.set_spout("source", lambda: source)
    builder.set_bolt("first", middle).shuffle_grouping("source")
    builder.set_bolt("second", middle).shuffle_grouping("first")
    builder.set_bolt("third", last).shuffle_grouping("second")
    async with LocalCluster() as cluster:
        with Stopwatch() as watch:
            running = await cluster.submit("w6", builder.create_topology(), Config())
            await running.wait_finished()
        return watch
