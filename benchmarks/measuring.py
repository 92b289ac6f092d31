"""`python -m benchmarks.measuring [w1] [w3] [w6] [--seconds 30]`: what it costs to measure times.

One topology in one process, in turns of PHASE_S with and without the entries into histograms: the functions that make
them are replaced while it runs. So what differs from run to run, and from minute to minute, differs in both sides.
"""

from __future__ import annotations
import __future__

import argparse
import ast
import asyncio
import inspect
import json
import statistics
import sys
import textwrap
import time
from collections.abc import Callable, Iterator
from types import CodeType, FunctionType
from typing import Any, Final

from aiostorm import Config, LocalCluster, RunningTopology, Topology, TopologyBuilder, bolt, spout
from aiostorm.runtime import loop_factory
from aiostorm.tasks.emit.ack_batch import AckBatch
from aiostorm.tasks.execution import Execution
from aiostorm.tasks.message_outcomes import MessageOutcomes

from .adapters import ours_w1, ours_w3, ours_w6
from .w1 import corpus

PHASE_S: Final = 0.08
SETTLED_S: Final = 0.02
"""At the beginning of each phase: what runs then may have begun before it."""

MEASURING: Final = ((Execution, "slices"), (Execution, "batch"), (MessageOutcomes, "_acked"), (AckBatch, "done"))
ENTRIES: Final = frozenset({"executions", "ages", "timings"})
"""The names to which entries are added there."""


class _WithoutEntries(ast.NodeTransformer):
    def __init__(self) -> None:
        self.removed = 0

    def visit_AugAssign(self, node: ast.AugAssign) -> ast.stmt:
        if not (isinstance(node.target, ast.Name) and node.target.id in ENTRIES):
            return node
        self.removed += 1
        return ast.copy_location(ast.Pass(), node)


def without_entries(function: Callable[..., Any]) -> Callable[..., Any]:
    """The same function, which adds no times. ValueError if it has no such line: this file is to be adapted then."""
    assert isinstance(function, FunctionType)
    transformer = _WithoutEntries()
    tree = ast.fix_missing_locations(transformer.visit(ast.parse(textwrap.dedent(inspect.getsource(function)))))
    if not transformer.removed:
        raise ValueError(f"{function.__qualname__} adds to none of {', '.join(sorted(ENTRIES))}")
    module = compile(tree, inspect.getfile(function), "exec", __future__.annotations.compiler_flag)
    [code] = [made for made in module.co_consts if isinstance(made, CodeType) and made.co_name == function.__name__]
    return FunctionType(code, function.__globals__, function.__name__, function.__defaults__)


class Switch:
    """Whether times are measured in this process."""

    def __init__(self) -> None:
        measuring = {(owner, name): getattr(owner, name) for owner, name in MEASURING}
        self._on = measuring
        self._off = {place: without_entries(function) for place, function in measuring.items()}

    def use(self, *, on: bool) -> None:
        for (owner, name), function in (self._on if on else self._off).items():
            setattr(owner, name, function)


def words(_latencies_s: list[float]) -> Topology:
    """W1, at least once, functions."""
    sentences = corpus(300_000).sentences * 100
    counts: dict[str, int] = {}
    builder = TopologyBuilder()
    builder.set_spout("sentences", ours_w1.Sentences(sentences, tracked=True))
    builder.set_bolt("split", ours_w1.split).shuffle_grouping("sentences")
    builder.set_bolt("last", ours_w1.function_count(counts), ours_w1.COUNT_TASKS).fields_grouping("split", "word")
    return builder.create_topology()


def identities(_latencies_s: list[float]) -> Topology:
    """W3, at least once, functions."""

    @spout(outputs="number", tracked=True)
    def numbers() -> Iterator[int]:
        yield from range(10**12)

    @bolt
    def last(number: int) -> None:
        pass

    return _three("numbers", numbers, ours_w3.identity, last)


def single(latencies_s: list[float]) -> Topology:
    """W6, at least once, functions: 1,000 tuples a second."""

    @bolt
    def last(number: int, emitted_s: float) -> None:
        latencies_s.append(time.perf_counter() - emitted_s)

    return _three("source", ours_w6.Source(10**9, tracked=True), ours_w6.identity, last)


def _three(source: str, given: Any, middle: Any, last: Any) -> Topology:
    builder = TopologyBuilder()
    builder.set_spout(source, given)
    builder.set_bolt("first", middle).shuffle_grouping(source)
    builder.set_bolt("second", middle).shuffle_grouping("first")
    builder.set_bolt("last", last).shuffle_grouping("second")
    return builder.create_topology()


WORKLOADS: Final[dict[str, Callable[[list[float]], Topology]]] = {"w1": words, "w3": identities, "w6": single}


async def measure(make: Callable[[list[float]], Topology], seconds: float) -> dict[str, Any]:
    """Rates in tuples per second of the processor's time; latencies where the workload has some."""
    latencies_s: list[float] = []
    switch = Switch()
    rates: dict[bool, list[float]] = {True: [], False: []}
    medians_s: dict[bool, list[float]] = {True: [], False: []}
    async with LocalCluster() as cluster:
        running = await cluster.submit("measured", make(latencies_s), Config())
        try:
            await asyncio.sleep(1.0)
            for number in range(4 * max(1, int(seconds / PHASE_S / 4))):
                on = number % 4 in (0, 3)  # on, off, off, on: a drift counts for both
                switch.use(on=on)
                rates[on].append(await _rate(running, latencies_s))
                if latencies_s:
                    medians_s[on].append(statistics.median(latencies_s))
            await running.kill(0)
        finally:
            switch.use(on=True)
    ratios = [with_ / without for with_, without in zip(rates[True], rates[False], strict=True)]
    found: dict[str, Any] = {"pairs": len(ratios)}
    if medians_s[True]:
        microseconds = {on: round(1e6 * statistics.median(values), 2) for on, values in medians_s.items()}
        return found | {"median latency with, us": microseconds[True], "without": microseconds[False]}
    error = statistics.stdev(ratios) / len(ratios) ** 0.5 if len(ratios) > 1 else 0.0
    mean = statistics.mean(rates[True]) / statistics.mean(rates[False])
    return found | {"rate with, of the rate without": round(mean, 4), "+-": round(error, 4)}


async def _rate(running: RunningTopology, latencies_s: list[float]) -> float:
    await asyncio.sleep(SETTLED_S)
    latencies_s.clear()
    executed, used_s = running.metrics()["last"].executed, time.process_time()
    await asyncio.sleep(PHASE_S - SETTLED_S)
    return (running.metrics()["last"].executed - executed) / (time.process_time() - used_s)


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.measuring", description=__doc__)
    parser.add_argument("what", nargs="*", metavar="w1|w3|w6")
    parser.add_argument("--seconds", type=float, default=30.0)
    given = parser.parse_args(arguments)
    if wrong := set(given.what) - WORKLOADS.keys():
        parser.error(f"{min(wrong)!r}: there are {', '.join(WORKLOADS)}")
    for what in given.what or WORKLOADS:
        with asyncio.Runner(loop_factory=loop_factory()) as loop:
            print(json.dumps({what: loop.run(measure(WORKLOADS[what], given.seconds))}), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
