"""Bolts that hold rows, or forget them: their neighbours do not wait, and what is forgotten fails alone.

Found by trial: with a tree for each turn all stood still until the message timeout (30 s, here virtual).
benchmarks/held_rows.py measures the same in real time.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from aiostorm import Bolt, Config, LocalCluster, Spout, TopologyBuilder
from aiostorm.testing import SimClock
from aiostorm.windows import BufferedWindowBolt, Counts, JoinBolt, Time, Tumbling, WindowRows

from ..tasks.parts import Notes

WINDOW_MS = 100


class Source(Spout):
    """Emits 0, 1, … as fast as it may; `outcomes`: (message id, failure or None)."""

    outputs = ("n", "key")

    def __init__(self, count: int, *, each_call: int = 1) -> None:
        self.count, self.each_call, self.outcomes = count, each_call, Notes()

    def open(self, context: Any, collector: Any) -> None:
        self.collector, self.next = collector, 0

    def next_tuple(self) -> None:
        for _ in range(self.each_call):
            if self.next == self.count:
                self.collector.finish()
                return
            self.collector.emit((self.next, self.next // 2), message_id=self.next)
            self.next += 1

    def ack(self, message_id: Any) -> None:
        self.outcomes.append((message_id, None))

    def fail(self, message_id: Any, failure: Any) -> None:
        self.outcomes.append((message_id, failure.reason))


class ByThrees(Bolt):
    """Acks three when it has three; emits one row for them if there is a consumer."""

    outputs = "n"

    def prepare(self, context: Any, collector: Any) -> None:
        self.collector, self.held = collector, []

    def execute(self, tup: Any) -> None:
        self.held.append(tup)
        if len(self.held) == 3:
            self.collector.emit((tup["n"],), anchors=self.held)
            for held in self.held:
                self.collector.ack(held)
            self.held = []


class LaterByThrees(ByThrees):
    """The same, each three of them in an asyncio task, some time later."""

    def execute(self, tup: Any) -> None:
        self.held.append(tup)
        if len(self.held) == 3:
            held, self.held = self.held, []
            asyncio.get_running_loop().call_later(0.001, self.release, held)

    def release(self, held: list[Any]) -> None:
        for tup in held:
            self.collector.ack(tup)


class Sums(BufferedWindowBolt):
    windows = Counts(10, 5)
    outputs = "n"
    anchored = True

    def execute(self, window: WindowRows) -> Any:
        return (sum(tup["n"] for tup in window.get()),)


class Sink(Bolt):
    def prepare(self, context: Any, collector: Any) -> None:
        self.collector = collector

    def execute(self, tup: Any) -> None:
        self.collector.ack(tup)


async def life(cluster: LocalCluster, source: Source, made: Any, **config: Any) -> tuple[dict[Any, Any], float]:
    """What became of each message, and how long it took."""
    builder = TopologyBuilder()
    builder.set_spout("source", source)
    builder.set_bolt("holds", made).fields_grouping("source", "key")
    builder.set_bolt("sink", Sink).shuffle_grouping("holds")
    begun_s = asyncio.get_running_loop().time()
    running = await cluster.submit("t", builder.create_topology(), Config(**config))
    await running.wait_finished(600)
    assert len(source.outcomes) == source.count
    return dict(source.outcomes), asyncio.get_running_loop().time() - begun_s


@pytest.mark.parametrize("pending", [10, 11, 30, 100, 1_000])
@pytest.mark.parametrize("tree", [1, 3, 256])
@pytest.mark.parametrize("made", [ByThrees, LaterByThrees, Sums])
async def test_a_row_that_waits_for_others_does_not_delay_its_stream(
    local_cluster: LocalCluster, sim_clock: SimClock, made: Callable[[], Any], pending: int, tree: int
) -> None:
    source = Source(3_000)
    outcomes, took_s = await life(
        local_cluster, source, made(), max_spout_pending=pending, acker_tree_max_messages=tree, acker_executors=2
    )
    assert set(outcomes.values()) == {None}
    cycles = 3_000 / (pending - 2)
    # No wait but the bolt's own 1 ms, and none at the end of a mailbox for what comes 20 ms later.
    assert took_s < 0.5 + (0.0022 * cycles if made is LaterByThrees else 0)


@pytest.mark.parametrize("pending", [10, 100, 1_000])
async def test_windows_and_joins_of_windows_go_on(
    local_cluster: LocalCluster, sim_clock: SimClock, pending: int
) -> None:
    windows = 10
    tumbling = type("Tumbles", (Sums,), {"windows": Tumbling(WINDOW_MS, time=Time.PROCESSING)})
    source = Source(pending * windows)
    outcomes, took_s = await life(local_cluster, source, tumbling(), max_spout_pending=pending)
    assert set(outcomes.values()) == {None}
    assert took_s < (windows + 2) * WINDOW_MS / 1000

    builder = TopologyBuilder()
    left, right = Source(pending * windows), Source(pending * windows)
    builder.set_spout("left", left)
    builder.set_spout("right", right)
    join = JoinBolt("left", "key", windows=Tumbling(WINDOW_MS, time=Time.PROCESSING)).join("right", "key")
    declarer = builder.set_bolt("join", join.select("left:n as a, right:n as b"))
    declarer.fields_grouping("left", "key").fields_grouping("right", "key")
    builder.set_bolt("sink", Sink).shuffle_grouping("join")
    begun_s = sim_clock.monotonic()
    running = await local_cluster.submit("join", builder.create_topology(), Config(max_spout_pending=pending))
    await running.wait_finished(600)
    assert {failure for _, failure in [*left.outcomes, *right.outcomes]} == {None}
    assert len(left.outcomes) == len(right.outcomes) == pending * windows
    assert sim_clock.monotonic() - begun_s < (windows + 2) * WINDOW_MS / 1000


@pytest.mark.parametrize("one_in", [1_000, 100])
@pytest.mark.parametrize("rows", [1, 3])
async def test_a_tuple_without_an_ack_fails_alone(
    local_cluster: LocalCluster, sim_clock: SimClock, one_in: int, rows: int
) -> None:
    forgotten = set()

    class Fans(Bolt):
        outputs = ("n", "key")

        def prepare(self, context: Any, collector: Any) -> None:
            self.collector = collector

        def execute(self, tup: Any) -> None:
            for row in range(rows):
                self.collector.emit((tup["n"], row), anchors=tup)
            self.collector.ack(tup)

    class Forgets(Sink):
        def prepare(self, context: Any, collector: Any) -> None:
            super().prepare(context, collector)
            self.count = 0

        def execute(self, tup: Any) -> None:
            self.count += 1
            if self.count % one_in:
                super().execute(tup)
            else:
                forgotten.add(tup["n"])

    source = Source(10_000, each_call=50)
    builder = TopologyBuilder()
    builder.set_spout("source", source)
    builder.set_bolt("fans", Fans, 2).shuffle_grouping("source")
    builder.set_bolt("forgets", Forgets, 2).shuffle_grouping("fans")
    begun_s = sim_clock.monotonic()
    running = await local_cluster.submit("t", builder.create_topology(), Config(max_spout_pending=1_000))
    await running.wait_finished(600)
    assert forgotten
    assert {message for message, failure in source.outcomes if failure} == forgotten
    assert len(source.outcomes) == 10_000
    assert {failure for _, failure in source.outcomes} == {None, "timeout"}
    assert sim_clock.monotonic() - begun_s < 33.1  # one timeout and a tenth, from the last one's emit
