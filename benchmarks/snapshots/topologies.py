"""The topologies that are measured, in one process and on workers."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from aiostorm import BasicBolt, Spout, Topology, TopologyBuilder, bolt, spout
from aiostorm.state import KeyedState, Sink

from ..adapters import ours_w1
from ..w1 import Corpus

COUNT_TASKS = 4


class Sentences(Spout):
    """W1's sentences, without message ids, from a position on."""

    outputs = ("sentence",)

    def __init__(self, sentences: list[str]) -> None:
        self.sentences = sentences
        self.at = 0

    def open(self, context: Any, collector: Any) -> None:
        self.collector = collector

    def next_tuple(self) -> None:
        at = self.at
        if at == len(self.sentences):
            self.collector.finish()
            return
        self.at = at + 1
        self.collector.emit((self.sentences[at],))

    def snapshot(self) -> int:
        return self.at

    def restore(self, position: int) -> None:
        self.at = position


@bolt(state=KeyedState(key="word"))
def count(word: str, *, state: Any) -> None:
    state[word] = state.get(word, 0) + 1


class BatchCount(BasicBolt):
    state = KeyedState(key="word")

    def prepare(self, context: Any) -> None:
        self.counts = context.state

    def execute_batch(self, tuples: Any, collector: Any) -> None:
        counts, get = self.counts, self.counts.get
        for word in tuples.column("word"):
            counts[word] = get(word, 0) + 1


class Count(BasicBolt):
    state = KeyedState(key="word")

    def prepare(self, context: Any) -> None:
        self.counts = context.state

    def execute(self, tup: Any, collector: Any) -> None:
        word = tup["word"]
        self.counts[word] = self.counts.get(word, 0) + 1


STYLES: dict[str, tuple[Any, Any]] = {
    "functions": (ours_w1.split, count),
    "batches": (ours_w1.BatchSplit, BatchCount),
    "classes": (ours_w1.Split, Count),
}


def words(corpus: Corpus, style: str) -> Topology:
    """W1 with the counts in `context.state`."""
    split, counting = STYLES[style]
    builder = TopologyBuilder()
    builder.set_spout("sentences", Sentences(corpus.sentences))
    builder.set_bolt("split", split).shuffle_grouping("sentences")
    builder.set_bolt("count", counting, COUNT_TASKS).fields_grouping("split", "word")
    return builder.create_topology()


def updates(keys: int, rows: int, changed_a_second: float, mark: Callable[[], None]) -> Topology:
    """All keys once, and then updates of so many keys a second in each `rows`, at full speed.

    `mark()` is called before and after the updates, in the process of the spout.
    """

    @spout(outputs="key", tracked=False)
    def numbers(*, start: int = 0) -> Any:
        for at in range(start, keys):
            yield at
        mark()
        began_s, at = time.perf_counter(), 0
        for number in range(max(0, start - keys), rows):
            if number % 1000 == 0:
                at = int((time.perf_counter() - began_s) * changed_a_second)
            yield (at + number % 1000) % keys
        mark()

    builder = TopologyBuilder()
    builder.set_spout("numbers", numbers)
    builder.set_bolt("count", counting_keys, COUNT_TASKS).fields_grouping("numbers", "key")
    return builder.create_topology()


@bolt(state=KeyedState(key="key"))
def counting_keys(key: int, *, state: Any) -> None:
    state[key] = state.get(key, 0) + 1


class Ticks(Spout):
    """All keys once, then `rate` rows a second with the time of their emit, for ever."""

    outputs = ("key", "at")

    def __init__(self, keys: int, rate: float) -> None:
        self.keys, self.rate = keys, rate
        self.at = 0

    def open(self, context: Any, collector: Any) -> None:
        self.collector = collector
        self.began_s = 0.0
        self.emitted = 0

    def next_tuple(self) -> None:
        now_s = time.monotonic()
        if self.at < self.keys:
            for _ in range(500):
                self.collector.emit((self.at % self.keys, now_s))
                self.at += 1
            return
        self.began_s = self.began_s or now_s
        if self.emitted < (now_s - self.began_s) * self.rate:
            self.collector.emit((self.at * 7919 % self.keys, now_s))
            self.at += 1
            self.emitted += 1

    def snapshot(self) -> int:
        return self.at

    def restore(self, position: int) -> None:
        self.at = position


class Seen(BasicBolt):
    outputs = ("key", "at", "count")
    state = KeyedState(key="key")

    def prepare(self, context: Any) -> None:
        self.counts = context.state

    def execute(self, tup: Any, collector: Any) -> None:
        key = tup["key"]
        self.counts[key] = count = self.counts.get(key, 0) + 1
        if count > 1:
            collector.emit((key, tup["at"], count))


class Times(Sink):
    """Appends a line with the first commit of each snapshot: when, its number, and how many rows."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.rows = 0

    def execute(self, tup: Any, collector: Any) -> None:
        self.rows += 1

    def pre_commit(self, number: int) -> tuple[int, int] | None:
        rows, self.rows = self.rows, 0
        return (number, rows) if rows else None

    def commit(self, handle: tuple[int, int]) -> None:
        with open(self.path, "a+", encoding="ascii") as file:
            file.seek(0)
            lines = file.read().splitlines()
            if not lines or int(lines[-1].split()[1]) < handle[0]:
                file.write(f"{time.monotonic()} {handle[0]} {handle[1]}\n")

    def abort(self, handle: tuple[int, int]) -> None:
        self.rows += handle[1]


def ticking(folder: str, keys: str, rate: str, tasks: str) -> Topology:
    builder = TopologyBuilder()
    builder.set_spout("ticks", Ticks(int(keys), float(rate)))
    builder.set_bolt("seen", Seen(), int(tasks)).fields_grouping("ticks", "key")
    builder.set_bolt("times", Times(str(Path(folder) / "times"))).global_grouping("seen")
    return builder.create_topology()
