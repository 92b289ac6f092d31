"""On one stream a task's tuples arrive in the order in which it emitted them, whatever they are anchored to."""

from __future__ import annotations

from typing import Any

import pytest

from aiostorm import BasicBolt, Bolt, Component, Config, Spout, TopologyBuilder, bolt, running

COUNT = 600


class Numbers(Spout):
    """Tracked and untracked tuples by turns, several in one call."""

    outputs = "n"

    def open(self, context: Any, collector: Any) -> None:
        self.collector = collector
        self.next = 0

    def next_tuple(self) -> None:
        for _ in range(3):
            self.collector.emit((self.next,), message_id=self.next if self.next % 3 else None)
            self.next += 1
        if self.next >= COUNT:
            self.collector.finish()


class Joining(Bolt):
    """Emits with one anchor and with several by turns: rows of many roots in one turn."""

    outputs = "n"

    def prepare(self, context: Any, collector: Any) -> None:
        self.collector = collector
        self.held: list[Any] = []

    def execute(self, tup: Any) -> None:
        self.held.append(tup)
        if len(self.held) == 4:
            for held in self.held:
                self.collector.emit((held["n"],), anchors=held if held["n"] % 2 else self.held)
            for held in self.held:
                self.collector.ack(held)
            self.held = []


class Batches(BasicBolt):
    outputs = "n"

    def execute_batch(self, tuples: Any, collector: Any) -> None:
        for tup in tuples:
            if tup["n"] % 2:
                collector.emit((tup["n"],))
            else:
                collector.emit((tup["n"],), anchors=tup)


@bolt(outputs="n")
def same(n: int) -> int:
    return n


class Sink(BasicBolt):
    def __init__(self) -> None:
        self.seen: list[int] = []

    def execute(self, tup: Any, collector: Any) -> None:
        self.seen.append(tup["n"])

    def result(self) -> list[int]:
        return self.seen


@pytest.mark.parametrize("middle", [Joining, Batches, same], ids=["joining", "batches", "function"])
@pytest.mark.parametrize("tree", [1, 5, 64])
async def test_order_is_kept_from_task_to_task(middle: type[Component], tree: int) -> None:
    builder = TopologyBuilder()
    builder.set_spout("numbers", Numbers)
    builder.set_bolt("first", same).shuffle_grouping("numbers")
    builder.set_bolt("middle", middle).shuffle_grouping("first")
    builder.set_bolt("sink", Sink).shuffle_grouping("middle")
    async with running(
        builder.create_topology(), Config(acker_tree_max_messages=tree, mailbox_capacity_tuples=50)
    ) as job:
        await job.wait_finished()
        assert (await job.results())["sink"] == [list(range(COUNT))]
        assert job.metrics()["numbers"].acked == COUNT - COUNT // 3
