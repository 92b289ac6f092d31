"""Every kind of bolt: what it is given, what it may await, and what an exception in it does."""

from __future__ import annotations

import asyncio
import threading
import time
from typing import Any

import pytest

from aiostorm import BasicBolt, Bolt, Config, LocalCluster, TopologyBuilder, bolt
from aiostorm.testing import FixedSpout, Recorder

from .parts import Does, DoesRich, Gate, Notes, line, rows

VALUES = list(range(200))


def double(tup: Any, collector: Any) -> None:
    collector.emit((tup["n"] * 2,))


async def double_later(tup: Any, collector: Any) -> None:
    await asyncio.sleep(0.001)
    collector.emit((tup["n"] * 2,))
    await collector.drain()


def rich(tup: Any, collector: Any) -> None:
    collector.emit((tup["n"] * 2,), anchors=tup)
    collector.ack(tup)


async def rich_later(tup: Any, collector: Any) -> None:
    await asyncio.sleep(0.001)
    rich(tup, collector)


class Blocking(BasicBolt):
    outputs = "out"
    blocking = True

    def __init__(self) -> None:
        self.threads = Notes()

    def prepare(self, context: Any) -> None:
        self.threads.append(threading.current_thread().name)

    def execute(self, tup: Any, collector: Any) -> None:
        self.threads.append(threading.current_thread().name)
        collector.emit((tup["n"] * 2,))

    def cleanup(self) -> None:
        self.threads.append(threading.current_thread().name)


class BlockingRich(Bolt):
    outputs = "out"
    blocking = True

    def prepare(self, context: Any, collector: Any) -> None:
        self.collector = collector

    def execute(self, tup: Any) -> None:
        rich(tup, self.collector)


class Batch(BasicBolt):
    outputs = "out"

    def execute_batch(self, tuples: Any, collector: Any) -> None:
        for tup in tuples:
            collector.emit((tup["n"] * 2,), anchors=tup)


class AsyncBatch(Batch):
    async def execute_batch(self, tuples: Any, collector: Any) -> None:  # type: ignore[override]
        for tup in tuples:
            collector.emit((tup["n"] * 2,), anchors=tup)
            await collector.drain()


class BlockingBatch(Batch):
    blocking = True


class RichBatch(Bolt):
    outputs = "out"

    def prepare(self, context: Any, collector: Any) -> None:
        self.collector = collector

    def execute_batch(self, tuples: Any) -> None:
        for tup in tuples:
            rich(tup, self.collector)


@bolt(outputs="out")
def function(n: int) -> int:
    return n * 2


@bolt(outputs="out")
def generator(n: int) -> Any:
    yield n * 2


@bolt(outputs="out")
async def async_function(n: int) -> int:
    await asyncio.sleep(0.001)
    return n * 2


@bolt(outputs="out")
async def async_generator(n: int) -> Any:
    await asyncio.sleep(0.001)
    yield n * 2


@bolt(outputs="out", blocking=True)
def blocking_function(n: int) -> int:
    return n * 2


@bolt(outputs="out", blocking=True)
def blocking_generator(n: int) -> Any:
    yield n * 2


KINDS: dict[str, Any] = {
    "basic": lambda: Does(double),
    "async basic": lambda: Does(double_later),
    "rich": lambda: DoesRich(rich),
    "async rich": lambda: DoesRich(rich_later),
    "blocking": Blocking,
    "blocking rich": BlockingRich,
    "batch": Batch,
    "async batch": AsyncBatch,
    "blocking batch": BlockingBatch,
    "rich batch": RichBatch,
    "function": lambda: function,
    "generator": lambda: generator,
    "async function": lambda: async_function,
    "async generator": lambda: async_generator,
    "blocking function": lambda: blocking_function,
    "blocking generator": lambda: blocking_generator,
}
CONFIGS: list[dict[str, Any]] = [
    {},
    {"mailbox_capacity_tuples": 1},
    {"turn_max_tuples": 1, "acker_tree_max_messages": 3},
    {"acker_executors": 3, "max_spout_pending": 7},
]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("config", CONFIGS)
async def test_every_kind_of_bolt_processes_all_in_order(
    local_cluster: LocalCluster, kind: str, config: dict[str, Any]
) -> None:
    source, sink = FixedSpout(rows(VALUES), "n"), Recorder()
    running = await local_cluster.submit("t", line(source, bolt=KINDS[kind](), sink=sink), Config(**config))
    await running.wait_finished()
    assert sink.values == rows(n * 2 for n in VALUES)
    assert len(source.acked) == len(VALUES)
    metrics = running.metrics()["bolt"]
    assert (metrics.executed, metrics.acked, metrics.failed, metrics.emitted) == (200, 200, 0, 200)


async def test_blocking_bolts_run_in_a_thread_each(local_cluster: LocalCluster) -> None:
    source, bolts = FixedSpout(rows(VALUES), "n"), Blocking()
    builder = TopologyBuilder()
    builder.set_spout("spout", source)
    builder.set_bolt("bolt", bolts, 3).shuffle_grouping("spout")
    running = await local_cluster.submit("t", builder.create_topology())
    await running.wait_finished()
    await running.kill()
    assert len(bolts.threads) == len(VALUES) + 6
    assert {name.partition("_")[0] for name in bolts.threads} == {f"aiostorm-bolt[{task}]" for task in (2, 3, 4)}


@pytest.mark.sockets
async def test_a_blocking_bolt_does_not_block_the_loop() -> None:
    @bolt(blocking=True)
    def slow(n: int) -> None:
        time.sleep(0.1)

    source, ticks = FixedSpout(rows(range(4)), "n"), 0
    async with LocalCluster() as cluster:
        running = await cluster.submit("t", line(source, bolt=slow))
        waiting = asyncio.ensure_future(running.wait_finished())
        while not waiting.done():
            await asyncio.sleep(0.01)
            ticks += 1
        await waiting
    assert len(source.acked) == 4
    assert ticks > 10


class Raises(BasicBolt):
    """Each kind of execute, in one place: `bad` raises."""

    outputs = "out"

    def execute(self, tup: Any, collector: Any) -> None:
        collector.emit((tup["n"],))
        if tup["n"] == 3:
            raise LookupError("three is bad")


@bolt(outputs="out")
def raising_function(n: int) -> int:
    if n == 3:
        raise LookupError("three is bad")
    return n


@bolt(outputs="out")
def raising_generator(n: int) -> Any:
    yield n
    if n == 3:
        raise LookupError("three is bad")


@bolt(outputs="out")
async def raising_async(n: int) -> int:
    await asyncio.sleep(0)
    return raising_function.fn(n)  # type: ignore[no-any-return]


@bolt(outputs="out", blocking=True)
def raising_blocking(n: int) -> int:
    return raising_function.fn(n)  # type: ignore[no-any-return]


class RaisingBlocking(Raises):
    blocking = True


@pytest.mark.parametrize(
    "make",
    [
        Raises,
        RaisingBlocking,
        lambda: raising_function,
        lambda: raising_generator,
        lambda: raising_async,
        lambda: raising_blocking,
    ],
)
async def test_a_bolt_that_acks_by_itself_goes_on_after_an_exception(local_cluster: LocalCluster, make: Any) -> None:
    component = make() if not isinstance(make, type) else make
    source, sink = FixedSpout(rows(range(8)), "n"), Recorder()
    running = await local_cluster.submit("t", line(source, bolt=component, sink=sink))
    await running.wait_finished()
    assert sorted(source.acked) == [0, 1, 2, 4, 5, 6, 7]
    failure = source.failed[3]
    assert (failure.component, failure.task, failure.error) == ("bolt", 2, "LookupError: three is bad")
    assert {row[0] for row in sink.values} >= {0, 1, 2, 4, 5, 6, 7}
    [report] = running.errors()
    assert (report.topology, report.component, report.task, report.where) == ("t", "bolt", 2, "execute")
    assert "Tuple(n=3; from spout[1] on 'default')" in str(report)
    assert running.metrics()["bolt"].restarts == 0
    assert (running.metrics()["bolt"].acked, running.metrics()["bolt"].failed) == (7, 1)


async def test_an_execute_that_is_cancelled_by_what_it_awaits_fails_its_tuple(local_cluster: LocalCluster) -> None:
    """For every kind of bolt: the actor was not cancelled, so the others are executed as ever."""

    async def lost(n: int) -> None:
        if n == 3:
            other = asyncio.get_running_loop().create_future()
            other.cancel()
            await other

    async def act(tup: Any, collector: Any) -> None:
        await lost(tup["n"])

    async def act_rich(tup: Any, collector: Any) -> None:
        await lost(tup["n"])
        collector.ack(tup)

    for name, component in (("basic", Does(act)), ("rich", DoesRich(act_rich)), ("function", bolt(lost))):
        source = FixedSpout(rows(range(8)), "n")
        running = await local_cluster.submit(name, line(source, bolt=component))
        await running.wait_finished(20)
        assert sorted(source.acked) == [0, 1, 2, 4, 5, 6, 7], name
        assert "cancelled" in str(source.failed[3].error), name
        assert running.metrics()["bolt"].restarts == (1 if name == "rich" else 0)


async def test_tuples_emitted_before_a_suspension_are_sent_meanwhile(local_cluster: LocalCluster) -> None:
    for name, anchored in (("basic", False), ("rich", True)):
        gate, sink, source = Gate(), Recorder(), FixedSpout(rows([1]), "n")

        async def act(tup: Any, collector: Any, gate: Gate = gate, anchored: bool = anchored) -> None:
            collector.emit((1,), tup) if anchored else collector.emit((1,))
            await gate.wait()
            collector.emit((2,), tup) if anchored else collector.emit((2,))
            if anchored:
                collector.ack(tup)

        component = DoesRich(act) if anchored else Does(act)
        running = await local_cluster.submit(name, line(source, bolt=component, sink=sink))
        await sink.wait(1)
        await asyncio.sleep(1)
        assert sink.values == [(1,)]
        gate.open()
        await running.wait_finished()
        assert sink.values == [(1,), (2,)]
        assert source.acked == [0]
