"""aiostorm does W1: one spout, one split task, four count tasks keyed by word, in one process.

Guarantees: "at least once": each sentence has a message id, and every one must be acked exactly once. "at most once":
sentences without message ids. "no ackers": message ids, and `topology.acker.executors` 0, so they are acked at once.

Styles of the bolts: "functions" (`@bolt`), "classes" (`BasicBolt`, a Tuple for each input), "rich" (`Bolt`, which
anchors and acks by itself), "batches" (`BasicBolt`s with `execute_batch`).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

from aiostorm import (
    BasicBolt,
    BasicCollector,
    BatchCollector,
    Bolt,
    BoltCollector,
    Component,
    Config,
    Failure,
    Fields,
    LocalCluster,
    Spout,
    SpoutCollector,
    Topology,
    TopologyBuilder,
    TopologyContext,
    Tuple,
    TupleBatch,
    bolt,
    spout,
)

from ..cells import Outcome, WrongResultError
from ..clocking import Stopwatch, quantiles, run_in
from ..w1 import Corpus, corpus

COUNT_TASKS = 4


class Sentences(Spout):
    """Emits one sentence a call, its number as the message id, and counts acks and failures."""

    outputs = Fields("sentence")

    def __init__(self, sentences: list[str], tracked: bool) -> None:
        self.sentences = sentences
        self.tracked = tracked
        self.acked = 0
        self.failed = 0
        self.number = 0

    def open(self, context: TopologyContext, collector: SpoutCollector) -> None:
        self.collector = collector

    def next_tuple(self) -> None:
        number = self.number
        if number == len(self.sentences):
            self.collector.finish()
            return
        self.number = number + 1
        self.collector.emit((self.sentences[number],), number if self.tracked else None)

    def ack(self, message_id: Any) -> None:
        self.acked += 1

    def fail(self, message_id: Any, failure: Failure) -> None:
        self.failed += 1


class Timed(Sentences):
    """Sentences that know how long each took from its emit to its ack."""

    def __init__(self, sentences: list[str], tracked: bool) -> None:
        super().__init__(sentences, tracked)
        self.emitted_s = [0.0] * len(sentences)
        self.latencies_s = [0.0] * len(sentences)

    def next_tuple(self) -> None:
        if self.number < len(self.sentences):
            self.emitted_s[self.number] = time.perf_counter()
        super().next_tuple()

    def ack(self, message_id: Any) -> None:
        self.acked += 1
        self.latencies_s[message_id] = time.perf_counter() - self.emitted_s[message_id]


@bolt(outputs="word")
def split(sentence: str) -> Iterator[str]:
    yield from sentence.split()


class Split(BasicBolt):
    outputs = Fields("word")

    def execute(self, tup: Tuple, collector: BasicCollector) -> None:
        for word in tup["sentence"].split():
            collector.emit((word,))


class RichSplit(Bolt):
    outputs = Fields("word")

    def prepare(self, context: TopologyContext, collector: BoltCollector) -> None:
        self.collector = collector

    def execute(self, tup: Tuple) -> None:
        for word in tup["sentence"].split():
            self.collector.emit((word,), tup)
        self.collector.ack(tup)


class Count(BasicBolt):
    def __init__(self, counts: dict[str, int]) -> None:
        self.counts = counts

    def execute(self, tup: Tuple, collector: BasicCollector) -> None:
        word = tup["word"]
        self.counts[word] = self.counts.get(word, 0) + 1


class RichCount(Bolt):
    def __init__(self, counts: dict[str, int]) -> None:
        self.counts = counts

    def prepare(self, context: TopologyContext, collector: BoltCollector) -> None:
        self.collector = collector

    def execute(self, tup: Tuple) -> None:
        word = tup["word"]
        self.counts[word] = self.counts.get(word, 0) + 1
        self.collector.ack(tup)


class BatchSplit(BasicBolt):
    outputs = Fields("word")

    def execute_batch(self, tuples: TupleBatch, collector: BatchCollector) -> None:
        collector.emit_column([word for sentence in tuples.column("sentence") for word in sentence.split()])


class BatchCount(BasicBolt):
    def __init__(self, counts: dict[str, int]) -> None:
        self.counts = counts

    def execute_batch(self, tuples: TupleBatch, collector: BatchCollector) -> None:
        counts = self.counts
        for word in tuples.column("word"):
            counts[word] = counts.get(word, 0) + 1


def function_count(counts: dict[str, int]) -> Component:
    """A function bolt with a table of its own."""

    @bolt
    def count(word: str) -> None:
        counts[word] = counts.get(word, 0) + 1

    return count


STYLES: dict[str, tuple[Component | Callable[[], Component], Callable[[dict[str, int]], Component]]] = {
    "functions": (split, function_count),
    "classes": (Split, Count),
    "rich": (RichSplit, RichCount),
    "batches": (BatchSplit, BatchCount),
}


def word_count(
    size: int,
    *,
    style: str = "functions",
    guarantee: str = "at least once",
    source: str = "",
    loop: str = "uvloop",
    config: dict[str, Any] | None = None,
    timed: bool = False,
) -> Outcome:
    """One run. `source` is "class" or "generator" (`@spout`, whose failed messages the framework replays).

    Without one it is a generator for functions and batches, and a class for classes and rich bolts.

    `timed`: with the latencies from emit to ack, under full load: most of them is waiting in mailboxes.
    """
    given = corpus(size)
    source = source or ("class" if timed or style in ("classes", "rich") else "generator")
    tables: list[dict[str, int]] = []
    sentences = (Timed if timed else Sentences)(given.sentences, guarantee != "at most once")
    topology = _topology(style, sentences, source, tables)
    settings = dict(config or {})
    if guarantee == "no ackers":
        settings["acker_executors"] = 0
    watch, spout_metrics = run_in(loop, _run(topology, Config(**settings)))
    _check(given, tables, sentences if source == "class" else None, spout_metrics, guarantee)
    latencies = quantiles(sentences.latencies_s) if isinstance(sentences, Timed) else {}
    return given.outcome(watch, latencies, trees=spout_metrics.trees)


def _topology(style: str, sentences: Sentences, source: str, tables: list[dict[str, int]]) -> Topology:
    split_bolt, make_count = STYLES[style]

    def count() -> Component:
        table: dict[str, int] = {}
        tables.append(table)
        return make_count(table)

    @spout(outputs="sentence", tracked=sentences.tracked)
    def generated() -> Iterator[str]:
        yield from sentences.sentences

    builder = TopologyBuilder()
    builder.set_spout("sentences", generated if source == "generator" else lambda: sentences)
    builder.set_bolt("split", split_bolt).shuffle_grouping("sentences")
    builder.set_bolt("count", count, COUNT_TASKS).fields_grouping("split", "word")
    return builder.create_topology("w1")


async def _run(topology: Topology, config: Config) -> tuple[Stopwatch, Any]:
    """From the submit until every sentence has been emitted and everything that came of it is done."""
    async with LocalCluster() as cluster:
        with Stopwatch() as watch:
            running = await cluster.submit("w1", topology, config)
            await running.wait_finished()
        return watch, running.metrics()["sentences"]


def _check(
    given: Corpus, tables: list[dict[str, int]], sentences: Sentences | None, metrics: Any, guarantee: str
) -> None:
    merged = {word: count for table in tables for word, count in table.items()}
    if len(merged) != sum(map(len, tables)):
        raise WrongResultError("a word was counted by two tasks: the grouping by fields is broken")
    given.check(merged)
    total = len(given.sentences)
    if guarantee == "at most once":
        return
    ended = (sentences.acked, sentences.failed) if sentences is not None else (metrics.acked, metrics.failed)
    if ended != (total, 0) or metrics.pending:
        raise WrongResultError(f"{ended[0]} acked, {ended[1]} failed, {metrics.pending} pending; {total} were emitted")
