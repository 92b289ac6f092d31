"""What the tests of columns are made of: spouts that emit batches, bolts that count them in every way."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from aiostorm import (
    BasicBolt,
    Bolt,
    Config,
    Fields,
    LocalCluster,
    Spout,
    Topology,
    TopologyBuilder,
    bolt,
)

pa: Any = pytest.importorskip("pyarrow")
pc: Any = pytest.importorskip("pyarrow.compute")

ROWS = 3000
WORDS = [f"w{i % 17}" for i in range(ROWS)]
COUNTS = Counter(WORDS)


def batch(first: int = 0) -> Any:
    return pa.record_batch({"word": WORDS, "n": list(range(first, first + ROWS))})


class Batches(Spout):
    """Emits so many batches of ROWS rows; replays what fails, if the test asks."""

    outputs = Fields("word", "n")

    def __init__(self, count: int = 3, *, again: bool = False) -> None:
        self.count, self.again = count, again

    def open(self, context: Any, collector: Any) -> None:
        self.collector, self.next = collector, 0
        self.acked: list[Any] = []
        self.failed: list[Any] = []

    def next_tuple(self) -> None:
        if self.next < self.count:
            self.collector.emit_arrow(batch(self.next * ROWS), message_id=self.next)
            self.next += 1
        elif len(self.acked) == self.count or not self.again:
            self.collector.finish()

    def ack(self, message_id: Any) -> None:
        self.acked.append(message_id)

    def fail(self, message_id: Any, failure: Any) -> None:
        self.failed.append((message_id, failure.reason, failure.error))
        if self.again:
            self.collector.emit_arrow(batch(message_id * ROWS), message_id=message_id)

    def result(self) -> Any:
        return self.acked, self.failed


class Pass(BasicBolt):
    """Columns in, columns out."""

    outputs = Fields("word", "n")

    def execute_arrow(self, given: Any, collector: Any) -> None:
        collector.emit_arrow(given)


class CountColumns(BasicBolt):
    def prepare(self, context: Any) -> None:
        self.counts: Counter[str] = Counter()

    def execute_arrow(self, given: Any, collector: Any) -> None:
        assert isinstance(given, pa.RecordBatch)
        for found in given.column("word").value_counts().to_pylist():
            self.counts[found["values"]] += found["counts"]

    def result(self) -> Any:
        return dict(self.counts)


class CountRows(BasicBolt):
    def prepare(self, context: Any) -> None:
        self.counts: Counter[str] = Counter()

    def execute(self, tup: Any, collector: Any) -> None:
        self.counts[tup["word"]] += 1

    def result(self) -> Any:
        return dict(self.counts)


class CountBatches(CountRows):
    def execute_batch(self, tuples: Any, collector: Any) -> None:
        self.counts.update(tuples.column("word"))


class CountRich(Bolt):
    def prepare(self, context: Any, collector: Any) -> None:
        self.collector = collector
        self.counts: Counter[str] = Counter()

    def execute(self, tup: Any) -> None:
        self.counts[tup["word"]] += 1
        self.collector.ack(tup)

    def result(self) -> Any:
        return dict(self.counts)


counted: Counter[str] = Counter()


@bolt
def count_function(word: str, n: int) -> None:
    counted[word] += 1


def topology(source: Any, *bolts: Any, grouping: str = "fields", tasks: int = 3) -> Topology:
    """source → pass → each of the bolts."""
    builder = TopologyBuilder()
    builder.set_spout("source", source)
    builder.set_bolt("pass", Pass(), parallelism=2).shuffle_grouping("source")
    for i, component in enumerate(bolts):
        declarer = builder.set_bolt(f"bolt{i}", component, parallelism=tasks)
        if grouping in ("fields", "partial_key"):
            getattr(declarer, f"{grouping}_grouping")("pass", "word")
        else:
            getattr(declarer, f"{grouping}_grouping")("pass")
    return builder.create_topology()


async def run(made: Topology, **config: Any) -> tuple[dict[str, list[Any]], Any, list[Any]]:
    """Results, metrics and errors of a topology that has come to its end."""
    async with LocalCluster() as cluster:
        running = await cluster.submit("columns", made, Config(**config))
        await running.wait_idle(timeout_s=600)
        return await running.results(), running.metrics(), running.errors()


def total(results: list[Any]) -> Counter[str]:
    counts: Counter[str] = Counter()
    for found in results:
        counts.update(found)
    return counts


def times(count: int) -> Counter[str]:
    return Counter({word: found * count for word, found in COUNTS.items()})


class Small(Batches):
    def next_tuple(self) -> None:
        if self.next < 2:
            self.collector.emit_arrow(batch().slice(self.next, 2), message_id=self.next)
            self.next += 1
        elif not self.again or len(self.acked) == 2:
            self.collector.finish()
