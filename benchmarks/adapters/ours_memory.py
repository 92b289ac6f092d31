"""aiostorm's memory: W1 with a million sentences that no bolt keeps, and what a pending tree takes.

`flight_limited`: sentences are drawn as they are asked for (and counted as they are drawn, which is the oracle), with
`max_spout_pending` set. Nothing of what was emitted is kept, so what the process takes does not depend on how many.

`pending_trees`: many trees are held open by a bolt that acks nothing and keeps nothing, then the memory is taken, then
the topology is killed. `size` is trees. Message ids and values are there before, and do not count. What is held has
left its tree (docs/semantics.md), so a tree of several messages is as many sub-trees then.

* "allocated": what Python's allocator was asked for (tracemalloc; not what it rounds up to). Everything counts: also
  what the bolt's task remembers of the tuples that its bolt holds (a segment, with its rows), to fail them if the
  instance breaks.
* "tracking": the part of that which was allocated for the spout's Pending (a tree, the tuple of its ids), the acker's
  ledger (a row) and the ids (root and edge, which others refer to as well), and the time of the emit. The tables of the
  two count; their size is a power of two, so they take between 1 and 2 times the least for an entry. The numbers of
  trees are chosen to be in the middle.

(What the process grows by says less: some of it goes into memory that was used before and is free.)
"""

from __future__ import annotations

import asyncio
import gc
import random
import tracemalloc
from collections import Counter
from collections.abc import Iterator
from itertools import accumulate
from pathlib import PurePath
from typing import Any

from aiostorm import (
    Bolt,
    BoltCollector,
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
)

from ..cells import Outcome, WrongResultError
from ..clocking import Stopwatch, run_in
from ..resident import peak_rss_mb, rss_mb, ru_maxrss_mb
from ..w1 import SEED, VOCABULARY, WORDS
from .ours_w1 import COUNT_TASKS, Sentences, function_count, split

PENDING = 5_000
DRAWN = 1_000
"""Sentences that are drawn at once."""
NEVER_S = 100_000.0
SETTLE_S = 0.05
"""For the turn that held the last one to end."""
TRACKING = ("acker/", "asyncio/base_events.py")
"""Files: the ledger, Pending and ids; the loop's clock, which made the time of the emit."""
WARM_TREES = 12
"""Kept before it is measured. (With 12, all trees are full: a spout's turn of 256 messages is whole trees.)"""


class Drawn(Sentences):
    """Sentences, drawn and counted a thousand at a time."""

    def __init__(self, size: int) -> None:
        super().__init__([], tracked=True)
        self.size = size
        self.expected: Counter[str] = Counter()
        self._lines = self._draw()

    def next_tuple(self) -> None:
        if self.number == self.size:
            self.collector.finish()
            return
        self.collector.emit((next(self._lines),), self.number)
        self.number += 1

    def _draw(self) -> Iterator[str]:
        rng = random.Random(SEED)
        vocabulary = [f"word{n}" for n in range(VOCABULARY)]
        weights = list(accumulate(1 / (n + 1) for n in range(VOCABULARY)))
        for at in range(0, self.size, DRAWN):
            words = rng.choices(vocabulary, cum_weights=weights, k=min(DRAWN, self.size - at) * WORDS)
            self.expected.update(words)
            yield from (" ".join(words[n : n + WORDS]) for n in range(0, len(words), WORDS))


def flight_limited(size: int, *, loop: str = "uvloop") -> Outcome:
    """W1 with `max_spout_pending`, and the most memory it took."""
    imported_mb = rss_mb()
    sentences = Drawn(size)
    tables: list[dict[str, int]] = []
    watch = run_in(loop, _flight_limited(sentences, tables))
    merged = {word: count for table in tables for word, count in table.items()}
    if merged != sentences.expected or (sentences.acked, sentences.failed) != (size, 0):
        raise WrongResultError(f"{sum(merged.values())} words, {sentences.acked} of {size} acked")
    figures = {"peak": peak_rss_mb(), "after imports": imported_mb}
    seen = {"ru_maxrss_mb": ru_maxrss_mb(), "max_spout_pending": PENDING}
    return Outcome(size * WORDS, watch.wall_s, watch.cpu_s, figures=figures, seen=seen)


async def _flight_limited(sentences: Drawn, tables: list[dict[str, int]]) -> Stopwatch:
    def count() -> Component:
        tables.append({})
        return function_count(tables[-1])

    builder = TopologyBuilder()
    builder.set_spout("sentences", lambda: sentences)
    builder.set_bolt("split", split).shuffle_grouping("sentences")
    builder.set_bolt("count", count, COUNT_TASKS).fields_grouping("split", "word")
    async with LocalCluster() as cluster:
        with Stopwatch() as watch:
            running = await cluster.submit("w1", builder.create_topology(), Config(max_spout_pending=PENDING))
            await running.wait_finished()
    return watch


class Ready(Spout):
    """Emits the messages up to `limit`, whose ids and values are there already; they are never settled."""

    outputs = Fields("value")

    def __init__(self, ids: list[str]) -> None:
        self.ids = ids
        self.values = ("value",)
        self.number = 0
        self.limit = 0

    def open(self, context: TopologyContext, collector: SpoutCollector) -> None:
        self.collector = collector

    def next_tuple(self) -> None:
        if self.number < self.limit:
            self.collector.emit(self.values, self.ids[self.number])
            self.number += 1

    def fail(self, message_id: Any, failure: Failure) -> None:
        raise WrongResultError(f"message {message_id!r} failed: {failure}")


class Hold(Bolt):
    """Neither acks nor keeps anything."""

    def __init__(self) -> None:
        self.count = 0
        self.awaited = 0
        self.reached = asyncio.Event()

    def prepare(self, context: TopologyContext, collector: BoltCollector) -> None:
        self.collector = collector

    def execute(self, tup: Tuple) -> None:
        self.count += 1
        if self.count == self.awaited:
            self.reached.set()


def pending_trees(size: int, *, tree: int, loop: str = "uvloop") -> Outcome:
    """So many trees of so many messages, held open."""
    ids = [f"message {n}" for n in range((size + WARM_TREES) * tree)]
    with Stopwatch() as watch:
        allocated, trees, by_file = run_in(loop, _held(ids, tree))
    if trees != size:
        raise WrongResultError(f"{trees} trees are pending; {size} were to be")
    tracking = sum(taken for name, taken in by_file.items() if name.startswith(TRACKING))
    figures = {
        "tracking": tracking,
        "tracking of a message": tracking / tree,
        "allocated": allocated / size,
    }
    return Outcome(size, watch.wall_s, watch.cpu_s, figures=figures, seen={"allocated_by_file": by_file})


async def _held(ids: list[str], tree: int) -> tuple[int, int, dict[str, float]]:
    """The bytes that holding all of them open took, how many trees that was, and bytes a tree by file of ours."""
    spout, hold = Ready(ids), Hold()
    builder = TopologyBuilder()
    builder.set_spout("ready", lambda: spout)
    builder.set_bolt("hold", lambda: hold).shuffle_grouping("ready")
    config = Config(acker_tree_max_messages=tree, message_timeout_s=NEVER_S, spout_wait_max_ms=1.0)
    async with LocalCluster() as cluster:
        running = await cluster.submit("memory", builder.create_topology(), config)

        async def emit(limit: int) -> int:
            """Wait until so many are held; how many are pending."""
            hold.reached.clear()
            spout.limit = hold.awaited = limit
            await hold.reached.wait()
            await asyncio.sleep(SETTLE_S)
            return running.metrics()["ready"].tasks[0].pending

        before = await emit(WARM_TREES * tree)  # with whatever is made once
        gc.collect()
        tracemalloc.start()
        try:
            trees = (await emit(len(ids)) - before) // tree
            gc.collect()
            taken, by_file = tracemalloc.get_traced_memory()[0], _by_file(trees)
        finally:
            tracemalloc.stop()
        await running.kill(0)
    return taken, trees, by_file


def _by_file(trees: int) -> dict[str, float]:
    """Bytes a tree, of the files that take at least one."""
    found = tracemalloc.take_snapshot().statistics("filename")
    return {
        "/".join(PurePath(stat.traceback[0].filename).parts[-2:]): round(stat.size / trees, 1)
        for stat in found
        if stat.size >= trees
    }
