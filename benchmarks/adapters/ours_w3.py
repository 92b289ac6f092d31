"""aiostorm does W3: a spout and three bolts of one task each; the third adds up. Words as in ours_w1."""

from __future__ import annotations

from collections.abc import Callable, Iterator
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
    spout,
)

from ..cells import Outcome, WrongResultError
from ..clocking import Stopwatch, run_in
from ..w3 import Total, check


class Numbers(Spout):
    outputs = Fields("number")

    def __init__(self, size: int, tracked: bool) -> None:
        self.size = size
        self.tracked = tracked
        self.number = 0
        self.acked = 0
        self.failed = 0

    def open(self, context: TopologyContext, collector: SpoutCollector) -> None:
        self.collector = collector

    def next_tuple(self) -> None:
        number = self.number
        if number == self.size:
            self.collector.finish()
            return
        self.number = number + 1
        self.collector.emit((number,), number if self.tracked else None)

    def ack(self, message_id: Any) -> None:
        self.acked += 1

    def fail(self, message_id: Any, failure: Failure) -> None:
        self.failed += 1


@bolt(outputs="number")
def identity(number: int) -> int:
    return number


class Identity(BasicBolt):
    outputs = Fields("number")

    def execute(self, tup: Tuple, collector: BasicCollector) -> None:
        collector.emit(tup.values)


class Add(BasicBolt):
    def __init__(self, end: Total) -> None:
        self.end = end

    def execute(self, tup: Tuple, collector: BasicCollector) -> None:
        self.end.execute(tup[0])


def identities(
    size: int,
    *,
    style: str = "functions",
    guarantee: str = "at least once",
    source: str = "",
    loop: str = "uvloop",
    config: dict[str, Any] | None = None,
) -> Outcome:
    """One run. `source` is "class" or "generator", as in ours_w1; without one it is that of the style."""
    source = source or ("class" if style == "classes" else "generator")
    end = Total()
    tracked = guarantee == "at least once"
    numbers = Numbers(size, tracked)

    @spout(outputs="number", tracked=tracked)
    def generated() -> Iterator[int]:
        yield from range(size)

    middle, last = _bolts(style, end)
    given = generated if source == "generator" else lambda: numbers
    watch, metrics = run_in(loop, _run(given, middle, last, Config(**(config or {}))))
    check(size, end.count, end.total)
    ended = (metrics.acked, metrics.failed) if source == "generator" else (numbers.acked, numbers.failed)
    if tracked and ended != (size, 0):
        raise WrongResultError(f"{ended[0]} acked, {ended[1]} failed; {size} were emitted")
    return Outcome(size, watch.wall_s, watch.cpu_s)


def _bolts(style: str, end: Total) -> tuple[Component | Callable[[], Component], Component | Callable[[], Component]]:
    if style == "classes":
        return Identity, lambda: Add(end)

    @bolt
    def add(number: int) -> None:
        end.count += 1
        end.total += number

    return identity, add


async def _run(numbers: Any, middle: Any, last: Any, config: Config) -> tuple[Stopwatch, Any]:
    builder = TopologyBuilder()
    builder.set_spout("numbers", numbers)
    builder.set_bolt("first", middle).shuffle_grouping("numbers")
    builder.set_bolt("second", middle).shuffle_grouping("first")
    builder.set_bolt("third", last).shuffle_grouping("second")
    async with LocalCluster() as cluster:
        with Stopwatch() as watch:
            running = await cluster.submit("w3", builder.create_topology(), config)
            await running.wait_finished()
        return watch, running.metrics()["numbers"]
