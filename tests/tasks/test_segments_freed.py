"""What a bolt has executed is freed at once: no cycle keeps segments until the garbage collector comes."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator
from typing import Any

import pytest

from aiostorm import BasicBolt, Bolt, Config, LocalCluster, Spout, bolt

from .parts import Notes, line


class Value:
    """Something that weak references can point to."""


class Values(Spout):
    outputs = "value"

    def __init__(self) -> None:
        self.alive = Notes()

    def open(self, context: Any, collector: Any) -> None:
        self.collector = collector

    def next_tuple(self) -> None:
        for n in range(20):
            value = Value()
            self.alive.append(weakref.ref(value))
            self.collector.emit((value,), message_id=n)
        self.collector.finish()


@bolt
def sink(value: Value) -> None:
    raise LookupError


@bolt(outputs="out")
def function(value: Value) -> int:
    raise LookupError


@bolt(outputs="out")
def generator(value: Value) -> Iterator[int]:
    yield 1
    raise LookupError


class Basic(BasicBolt):
    def execute(self, tup: Any, collector: Any) -> None:
        raise LookupError


class Batch(BasicBolt):
    def execute_batch(self, tuples: Any, collector: Any) -> None:
        raise LookupError


class Acks(Bolt):
    def prepare(self, context: Any, collector: Any) -> None:
        self.collector = collector

    def execute(self, tup: Any) -> None:
        self.collector.ack(tup)


@pytest.mark.parametrize("kind", [sink, function, generator, Basic, Batch, Acks], ids=lambda kind: str(kind)[:30])
async def test_executed_tuples_are_freed(local_cluster: LocalCluster, kind: Any) -> None:
    source = Values()
    gc.collect()
    gc.disable()
    try:
        running = await local_cluster.submit("t", line(source, bolt=kind), Config(restart_backoff_s=(0,)))
        await running.wait_finished()
        metrics = running.metrics()["bolt"]
        assert metrics.executed == 20
        assert [ref for ref in source.alive if ref() is not None] == []
    finally:
        gc.enable()


class NeverAcks(Bolt):
    def execute(self, tup: Any) -> None:
        pass


class NeverAcksABatch(Bolt):
    def execute_batch(self, tuples: Any) -> None:
        pass


@pytest.mark.parametrize("kind", [NeverAcks, NeverAcksABatch])
async def test_an_untracked_tuple_that_a_rich_bolt_does_not_ack_is_freed(
    local_cluster: LocalCluster, kind: type[Bolt]
) -> None:
    source = Values()
    running = await local_cluster.submit("t", line(source, bolt=kind()), Config(acker_executors=0))
    await running.wait_finished()
    assert running.metrics()["bolt"].executed == 20
    gc.collect()
    assert [ref for ref in source.alive if ref() is not None] == []
