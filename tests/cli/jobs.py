"""Topologies for tests of the command line: `aiostorm run tests/cli/jobs.py:NAME`."""

from __future__ import annotations

import asyncio
import logging
import sys
import threading
import time
from collections.abc import AsyncIterator, Iterator
from typing import Any

from aiostorm import (
    BasicBolt,
    BasicCollector,
    Bolt,
    BoltCollector,
    Config,
    Failure,
    Fields,
    Spout,
    SpoutCollector,
    Topology,
    TopologyBuilder,
    TopologyContext,
    Tuple,
    bolt,
    spout,
)
from aiostorm.state import ValueState


@bolt(outputs="n")
def double(n: int) -> int:
    return 2 * n


class Sum(BasicBolt):
    def __init__(self) -> None:
        self.total = 0

    def execute(self, tup: Tuple, collector: BasicCollector) -> None:
        self.total += tup["n"]

    def result(self) -> int:
        return self.total


def bounded(limit: str | int = 100) -> Topology:
    """Sums 0, 2, 4, … and ends."""

    @spout(outputs="n")
    def numbers() -> Iterator[int]:
        yield from range(int(limit))

    builder = TopologyBuilder()
    builder.set_spout("numbers", numbers)
    builder.set_bolt("double", double, 2).shuffle_grouping("numbers")
    builder.set_bolt("sum", Sum).global_grouping("double")
    return builder.create_topology("sums", lambda results: {"sum": sum(results["sum"])}, Config(max_spout_pending=50))


topology = bounded()
unfinished = TopologyBuilder()
unfinished.set_spout("numbers", spout(outputs="n")(lambda: (yield 1)))
unfinished.set_bolt("double", double).shuffle_grouping("numbers")
broken = TopologyBuilder()
broken.set_bolt("double", double).shuffle_grouping("numbrs")
not_one = "a text"


def makes_nothing() -> None:
    """Forgets to return it."""


async def makes_it_later() -> Topology:
    """Cannot be awaited by the command line."""
    return bounded()


def wide() -> Topology:
    """Four tasks, unless the configuration says otherwise."""

    @spout(outputs="n")
    def numbers() -> Iterator[int]:
        yield from range(100)

    builder = TopologyBuilder()
    builder.set_spout("numbers", numbers)
    builder.set_bolt("double", double, 4).shuffle_grouping("numbers")
    return builder.create_topology("wide", config=Config(acker_tree_max_messages=50))


def without_summary() -> Topology:
    """The results are shown by component."""

    @spout(outputs="n")
    def numbers() -> Iterator[int]:
        yield from range(100)

    class Kinds(Sum):
        def result(self) -> Any:
            return {f"number {n}": n for n in range(30)}

    builder = TopologyBuilder()
    builder.set_spout("numbers", numbers)
    builder.set_bolt("sum", Sum, 2).shuffle_grouping("numbers")
    builder.set_bolt("kinds", Kinds).shuffle_grouping("numbers")
    return builder.create_topology()


def bad_summary() -> Topology:
    """Its summary raises."""

    def summary(results: dict[str, list[Any]]) -> dict[str, Any]:
        return {"sum": results["no such component"]}

    return _sums(Sum, summary)


def text_summary() -> Topology:
    """Its summary is text."""
    return _sums(Sum, lambda results: f"the sum is {results['sum'][0]}\n  \x1b[31mred")


def odd_summary() -> Topology:
    """Its summary is neither names and values nor text."""
    return _sums(Sum, lambda results: results["sum"])


def bad_result() -> Topology:
    """A component's result raises."""

    class Bad(Sum):
        def result(self) -> int:
            raise RuntimeError("lost it")

    return _sums(Bad)


def _sums(component: Any, summary: Any = None, config: Config | None = None, count: int = 10) -> Topology:
    @spout(outputs="n")
    def numbers() -> Iterator[int]:
        yield from range(count)

    builder = TopologyBuilder()
    builder.set_spout("numbers", numbers)
    builder.set_bolt("sum", component).shuffle_grouping("numbers")
    return builder.create_topology("sums", summary, config)


def exact(limit: str | int = 100) -> Topology:
    """Sums 0, 1, 2, …; the sum survives."""

    @spout(outputs="n")
    def numbers(*, start: int = 0) -> Iterator[int]:
        yield from range(start, int(limit))

    class Total(BasicBolt):
        state = ValueState(0)

        def prepare(self, context: TopologyContext) -> None:
            self.total = context.state

        def execute(self, tup: Tuple, collector: BasicCollector) -> None:
            self.total.value += tup["n"]

        def result(self) -> int:
            return int(self.total.value)

    builder = TopologyBuilder()
    builder.set_spout("numbers", numbers)
    builder.set_bolt("sum", Total).shuffle_grouping("numbers")
    return builder.create_topology("sums", lambda results: {"sum": sum(results["sum"])})


# -- things that go wrong ----------------------------------------------------------------------------------------------


def dead_letters() -> Topology:
    """Every tenth number fails, however often it is tried."""

    @bolt
    def picky(n: int) -> None:
        if n % 10 == 3:
            raise ValueError(f"not {n}")

    return _sums(picky, config=Config(max_retries=1), count=30)


def given_up() -> Topology:
    """A spout that lets failed messages go."""

    class Numbers(Spout):
        outputs = Fields("n")

        def open(self, context: TopologyContext, collector: SpoutCollector) -> None:
            self.collector, self.n = collector, 0

        def next_tuple(self) -> None:
            self.collector.emit((self.n,), self.n)
            self.n += 1
            if self.n == 5:
                self.collector.finish()

        def fail(self, message_id: Any, failure: Failure) -> None:
            """Drop the message."""

    @bolt
    def picky(n: int) -> None:
        if n == 3:
            raise ValueError("not 3")

    builder = TopologyBuilder()
    builder.set_spout("numbers", Numbers)
    builder.set_bolt("picky", picky).shuffle_grouping("numbers")
    return builder.create_topology()


def escalates() -> Topology:
    """A bolt that fails for good."""

    class Fragile(Bolt):
        def execute(self, tup: Tuple) -> None:
            raise RuntimeError("it broke")

    return _sums(Fragile, config=Config(restart_max=0))


def cannot_open() -> Topology:
    """A bolt that cannot be prepared."""

    class Closed(Sum):
        def prepare(self, context: TopologyContext) -> None:
            raise ConnectionError("no database")

    return _sums(Closed, config=Config(restart_max=0))


def prints() -> Topology:
    """Prints and logs while it runs."""

    @bolt
    def show(n: int) -> None:
        print("a print of", n)

    return _sums(show)


def logs() -> Topology:
    """Logs at level info."""

    @bolt
    def show(n: int) -> None:
        logging.getLogger("tests.jobs").info("received %d", n)

    return _sums(show, count=1)


# -- things without an end ---------------------------------------------------------------------------------------------


def endless(component: Any = None, config: Config | None = None) -> Topology:
    """Counts until it is stopped."""

    @spout(outputs="n")
    async def numbers() -> AsyncIterator[int]:
        n = 0
        while True:
            yield n
            n += 1
            await asyncio.sleep(0.001)

    builder = TopologyBuilder()
    builder.set_spout("numbers", numbers)
    builder.set_bolt("sum", component or _Announcer).shuffle_grouping("numbers")
    return builder.create_topology("endless", lambda results: {"sum": sum(results["sum"])}, config)


class _Announcer(Sum):
    """Prints when it runs: then a test may send its signal."""

    def execute(self, tup: Tuple, collector: BasicCollector) -> None:
        super().execute(tup, collector)
        if tup["n"] == 3:
            _under_way()


def too_fast() -> Topology:
    """A spout that is faster than its bolt."""

    @spout(outputs="n")
    async def numbers() -> AsyncIterator[int]:
        n = 0
        while True:
            yield n
            n += 1
            if n % 100 == 0:
                await asyncio.sleep(0.001)

    @bolt
    async def slow(n: int) -> None:
        await asyncio.sleep(0.01)

    builder = TopologyBuilder()
    builder.set_spout("numbers", numbers)
    builder.set_bolt("slow", slow).shuffle_grouping("numbers")
    return builder.create_topology("too-fast", config=Config(backpressure_check_interval_ms=100))


def complains() -> Topology:
    """Fails one number."""

    class Picky(Sum):
        def execute(self, tup: Tuple, collector: BasicCollector) -> None:
            super().execute(tup, collector)
            if tup["n"] == 20:
                raise ValueError("not 20")

    return endless(Picky)


def holds() -> Topology:
    """Keeps its tuples, not for long: the drain must be cut short."""
    return never_acks(0.5)


def never_acks(timeout_s: float = 1.0) -> Topology:
    """Keeps its tuples: the drain must be cut short."""

    class Holds(Bolt):
        def prepare(self, context: TopologyContext, collector: BoltCollector) -> None:
            self.count = 0

        def execute(self, tup: Tuple) -> None:
            self.count += 1
            if self.count == 3:
                _under_way()

        def result(self) -> int:
            return self.count

    return endless(Holds, Config(message_timeout_s=timeout_s, max_spout_pending=20))


def never_acks_for_long() -> Topology:
    """Keeps its tuples: the drain takes a while."""
    return never_acks(600)


def opens_slowly() -> Topology:
    """A bolt whose prepare waits."""

    class Slow(Sum):
        async def prepare(self, context: TopologyContext) -> None:
            _under_way()
            await asyncio.sleep(600)

    return endless(Slow)


def blocks() -> Topology:
    """Blocks the loop for ever, in Python, and catches every exception."""

    @bolt
    def stuck(n: int) -> None:
        _under_way()
        while True:
            try:
                time.sleep(60)
            except BaseException:
                print("caught", file=sys.stderr)
                raise

    return endless(stuck)


def spins() -> Topology:
    """Blocks the loop for ever, without a call."""

    @bolt
    def stuck(n: int) -> None:
        _under_way()
        while True:
            n += 1

    return endless(stuck)


def stuck_thread() -> Topology:
    """A blocking bolt whose thread does not end."""

    class Stuck(BasicBolt):
        blocking = True

        def execute(self, tup: Tuple, collector: BasicCollector) -> None:
            _under_way()
            threading.Event().wait()

    return endless(Stuck, Config(message_timeout_s=0.2, graceful_stop_s=0.2, max_spout_pending=20))


def _under_way() -> None:
    print("under way", flush=True)
