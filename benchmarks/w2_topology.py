"""W2's topology, as worker processes load it: two halves of W1's sentences, two tasks that split, four that count.

Each half has a spout of its own, and a split task takes from the one in its own process. Words are counted by key, so
half of them go to the other process.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any, Final

from aiostorm import (
    BasicBolt,
    BasicCollector,
    BatchCollector,
    Component,
    Topology,
    TopologyBuilder,
    Tuple,
    TupleBatch,
    spout,
)

from .adapters.ours_w1 import BatchSplit, Split, split
from .w1 import corpus

HALVES: Final = 2
COUNT_TASKS: Final = 4

_began: list[tuple[float, float]] = []
"""When the spout of this process emitted its first: monotonic and processor seconds."""


class Count(BasicBolt):
    """Counts words, and says at the end when this process began and how much processor time it has used since."""

    def prepare(self, context: Any) -> None:
        self.counts: dict[str, int] = {}

    def execute(self, tup: Tuple, collector: BasicCollector) -> None:
        word = tup["word"]
        self.counts[word] = self.counts.get(word, 0) + 1

    def result(self) -> dict[str, Any]:
        began_s, cpu_s = _began[0] if _began else (float("inf"), time.process_time())
        return {"counts": self.counts, "began_s": began_s, "cpu_s": time.process_time() - cpu_s}


class BatchCount(Count):
    def execute_batch(self, tuples: TupleBatch, collector: BatchCollector) -> None:
        counts = self.counts
        for word in tuples.column("word"):
            counts[word] = counts.get(word, 0) + 1


STYLES: Final[dict[str, tuple[Any, type[Count]]]] = {
    "functions": (split, BatchCount),
    "classes": (Split, Count),
    "batches": (BatchSplit, BatchCount),
}


def topology(size: str, style: str = "batches", tracked: str = "yes") -> Topology:
    """`size`: sentences in all. (Arguments are text, as of the command line.)"""
    sentences = corpus(int(size)).sentences
    split_bolt, count = STYLES[style]
    builder = TopologyBuilder()
    declared = builder.set_bolt("split", split_bolt, HALVES)
    for half in range(HALVES):
        builder.set_spout(f"sentences-{half}", _half(sentences[half::HALVES], tracked == "yes"))
        declared.local_or_shuffle_grouping(f"sentences-{half}")
    builder.set_bolt("count", count, COUNT_TASKS).fields_grouping("split", "word")
    return builder.create_topology("w2")


def _half(sentences: list[str], tracked: bool) -> Component | Callable[[], Component]:
    @spout(outputs="sentence", tracked=tracked)
    def generated() -> Iterator[str]:
        _began.append((time.monotonic(), time.process_time()))
        yield from sentences

    return generated
