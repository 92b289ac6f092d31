"""How much is replayed for a lost tuple: a bolt forgets one in a thousand, the rest it acks. `size` is messages.

A tuple that a bolt has neither acked nor failed leaves its tree: it alone fails when its time is over, and would be
emitted again, whatever the size of trees.
"""

from __future__ import annotations

from typing import Any

from aiostorm import (
    Bolt,
    BoltCollector,
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

LOST_ONE_IN = 1_000
TIMEOUT_S = 2.0
"""Long enough for all that is not lost."""


class Numbers(Spout):
    """Emits each number once, and counts acks and failures."""

    outputs = Fields("number")

    def __init__(self, size: int) -> None:
        self.size = size
        self.number = 0
        self.acked = 0
        self.failed: set[int] = set()

    def open(self, context: TopologyContext, collector: SpoutCollector) -> None:
        self.collector = collector

    def next_tuple(self) -> None:
        if self.number == self.size:
            self.collector.finish()
            return
        self.collector.emit((self.number,), self.number)
        self.number += 1

    def ack(self, message_id: Any) -> None:
        self.acked += 1

    def fail(self, message_id: Any, failure: Failure) -> None:
        self.failed.add(message_id)


class Forget(Bolt):
    """Acks what it gets, but for one in a thousand."""

    def prepare(self, context: TopologyContext, collector: BoltCollector) -> None:
        self.collector = collector
        self.lost: set[int] = set()

    def execute(self, tup: Tuple) -> None:
        number = tup[0]
        if number % LOST_ONE_IN == LOST_ONE_IN // 2:
            self.lost.add(number)
        else:
            self.collector.ack(tup)


def lost(size: int, *, tree: int, loop: str = "uvloop") -> Outcome:
    """One run: messages that failed for each that was lost."""
    numbers, forget = Numbers(size), Forget()
    watch = run_in(loop, _run(numbers, forget, Config(acker_tree_max_messages=tree, message_timeout_s=TIMEOUT_S)))
    if not forget.lost <= numbers.failed or numbers.acked + len(numbers.failed) != size:
        raise WrongResultError(
            f"{len(forget.lost)} lost, {len(numbers.failed)} failed, {numbers.acked} acked; {size} were emitted"
        )
    figures = {"failed for one lost": len(numbers.failed) / len(forget.lost)}
    return Outcome(size, watch.wall_s, watch.cpu_s, figures=figures)


async def _run(numbers: Numbers, forget: Forget, config: Config) -> Stopwatch:
    builder = TopologyBuilder()
    builder.set_spout("numbers", lambda: numbers)
    builder.set_bolt("forget", lambda: forget).shuffle_grouping("numbers")
    async with LocalCluster() as cluster:
        with Stopwatch() as watch:
            running = await cluster.submit("replay", builder.create_topology(), config)
            await running.wait_finished()
    return watch
