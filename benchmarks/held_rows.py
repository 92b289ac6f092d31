"""Bolts that hold rows, and bolts that forget them: do the others go on?

    python -m benchmarks.held_rows [--seconds 2] [--messages 200000]

    source (as fast as max_spout_pending lets it) ─► holds ─► acked

First table: messages acked per second of processor time, and how many times what the same bolt reaches at Storm's grain
(`acker_tree_max_messages=1`, where no message waits for another's tuples), with the same max_spout_pending. Windows by
time ack max_spout_pending a window, or what the processor can do: their share is of the less. Second table: of a bolt
that forgets a share of its tuples, how many messages fail for each that was forgotten. Exit code 1 if a message of the
first table fails, or if more than 1.1 fail for one forgotten.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import time
from collections.abc import Callable
from typing import Any, Final

from aiostorm import Bolt, Config, Fields, LocalCluster, Spout, Topology, TopologyBuilder
from aiostorm.runtime import loop_factory
from aiostorm.windows import BufferedWindowBolt, Counts, JoinBolt, Time, Tumbling, WindowRows

PENDING: Final = (10, 30, 100, 300, 1_000)
WINDOW_MS: Final = 50
SHARES: Final = (0.001, 0.01)
TIMEOUT_S: Final = 3.0
MOST: Final = 1.1


class Source(Spout):
    """Emits numbers, two of each key; `count` of them, or for ever."""

    outputs = Fields("n", "key")

    def __init__(self, count: int | None = None) -> None:
        self.count = count
        self.acked = 0
        self.failed = 0

    def __deepcopy__(self, memo: Any) -> Source:
        return self

    def open(self, context: Any, collector: Any) -> None:
        self.collector, self.next = collector, 0

    def next_tuple(self) -> None:
        if self.next == self.count:
            self.collector.finish()
            return
        self.collector.emit((self.next, self.next // 2), message_id=self.next)
        self.next += 1

    def ack(self, message_id: Any) -> None:
        self.acked += 1

    def fail(self, message_id: Any, failure: Any) -> None:
        self.failed += 1


class AcksEach(Bolt):
    def prepare(self, context: Any, collector: Any) -> None:
        self.collector = collector

    def execute(self, tup: Any) -> None:
        self.collector.ack(tup)


class ByThrees(AcksEach):
    held: Any = ()

    def execute(self, tup: Any) -> None:
        self.held = [*self.held, tup]
        if len(self.held) == 3:
            for held in self.held:
                self.collector.ack(held)
            self.held = ()


class Forgets(AcksEach):
    """Every n-th."""

    def __init__(self, one_in: int) -> None:
        self.one_in = one_in
        self.count = 0

    def execute(self, tup: Any) -> None:
        self.count += 1
        if self.count % self.one_in:
            self.collector.ack(tup)


class Counted(BufferedWindowBolt):
    windows = Counts(10, 5)

    def execute(self, window: WindowRows) -> None:
        pass


class Timed(Counted):
    windows = Tumbling(WINDOW_MS, time=Time.PROCESSING)


def line(source: Source, bolt: Any) -> Topology:
    """source ─► bolt."""
    builder = TopologyBuilder()
    builder.set_spout("source", source)
    builder.set_bolt("bolt", bolt).shuffle_grouping("source")
    return builder.create_topology()


def joined(source: Source, _: Any) -> Topology:
    """source joined with itself, on two streams' worth of rows: each has a partner."""
    builder = TopologyBuilder()
    builder.set_spout("source", source)
    builder.set_bolt("other", _Same).shuffle_grouping("source")
    join = JoinBolt("source", "key", windows=Tumbling(WINDOW_MS, time=Time.PROCESSING)).join("other", "key")
    bolt = builder.set_bolt("bolt", join.select("source:n as a, other:n as b"))
    bolt.fields_grouping("source", "key").fields_grouping("other", "key")
    return builder.create_topology()


class _Same(AcksEach):
    outputs = Fields("n", "key")

    def execute(self, tup: Any) -> None:
        self.collector.emit(tup.values, anchors=tup)
        self.collector.ack(tup)


KINDS: Final[dict[str, tuple[Callable[[Source, Any], Topology], Any, bool]]] = {
    "acks each": (line, AcksEach, False),
    "acks by threes": (line, ByThrees, False),
    "`Counts(10, 5)`": (line, Counted, False),
    f"`Tumbling({WINDOW_MS})`": (line, Timed, True),
    f"`JoinBolt`, `Tumbling({WINDOW_MS})`": (joined, None, True),
}


async def rate(kind: str, pending: int, seconds: float, tree: int = 256) -> tuple[float, float, int]:
    """Messages acked a second of the clock and of the processor, and messages that failed."""
    make, bolt, _ = KINDS[kind]
    source = Source()
    async with LocalCluster() as cluster:
        running = await cluster.submit(
            "held", make(source, bolt), Config(max_spout_pending=pending, acker_tree_max_messages=tree)
        )
        await asyncio.sleep(0.3)
        acked, wall_s, cpu_s = source.acked, time.monotonic(), time.process_time()
        await asyncio.sleep(seconds)
        acked, wall_s, cpu_s = source.acked - acked, time.monotonic() - wall_s, time.process_time() - cpu_s
        await running.kill(0)
    return acked / wall_s, acked / cpu_s, source.failed


async def forgets(share: float, messages: int) -> tuple[int, int]:
    """Messages that were forgotten, and that failed."""
    source, one_in = Source(messages), round(1 / share)
    async with LocalCluster() as cluster:
        config = Config(message_timeout_s=TIMEOUT_S)
        running = await cluster.submit("forgets", line(source, Forgets(one_in)), config)
        await running.wait_finished()
    return messages // one_in, source.failed


def measured(seconds: float) -> bool:
    """Print the first table. Did nothing fail?"""
    print("| bolt | " + " | ".join(f"pending {pending:,}" for pending in PENDING) + " |")
    print("|---" * (len(PENDING) + 1) + "|")
    good = True
    for kind, (_, _, by_time) in KINDS.items():
        cells = []
        for pending in PENDING:
            found = []
            for tree in (256, 1):
                with asyncio.Runner(loop_factory=loop_factory()) as runner:
                    found.append(runner.run(rate(kind, pending, seconds, tree)))
            (by_wall, by_cpu, failed), (alone_by_wall, alone_by_cpu, _) = found
            good &= not failed
            share, unit = by_cpu / alone_by_cpu, f"{by_cpu:,.0f} a CPU second"
            if by_time:
                share, unit = by_wall / min(pending * 1_000 / WINDOW_MS, alone_by_wall), f"{by_wall:,.0f}/s"
            cells.append(f"**{share:.2f}** ({unit}{f', {failed} failed' if failed else ''})")
        print(f"| {kind} | " + " | ".join(cells) + " |", flush=True)
    return good


def main() -> int:
    parser = argparse.ArgumentParser(description="Bolts that hold rows, and bolts that forget them.")
    parser.add_argument("--seconds", type=float, default=2.0, help="of each cell of the first table (default 2)")
    parser.add_argument("--messages", type=int, default=200_000, help="of each line of the second (default 200,000)")
    given = parser.parse_args()
    good = measured(given.seconds)
    print("\n| forgotten | messages forgotten | messages that failed | failed for one forgotten |\n|---|---|---|---|")
    for share in SHARES:
        with asyncio.Runner(loop_factory=loop_factory()) as runner:
            forgotten, failed = runner.run(forgets(share, given.messages))
        good &= failed <= MOST * forgotten
        print(f"| {share:.1%} | {forgotten:,} | {failed:,} | **{failed / forgotten:.3f}** |")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
