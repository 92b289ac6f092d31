"""A topology on several workers: every tuple once, whatever its way; what a death costs is replayed."""

from __future__ import annotations

from collections import Counter
from typing import Any, ClassVar

import pytest

from aiostorm import BasicBolt, BasicCollector, Bolt, Config, Fields, Spout, Topology, TopologyBuilder, Tuple
from aiostorm.testing import SimClock

from .hosted import Workers

COUNT = 600


class Numbers(Spout):
    """Emits numbers, each until it is acked; what was acked is kept where a kill does not reach."""

    outputs = Fields("n", "text")
    done: ClassVar[dict[int, Counter[int]]] = {}

    def open(self, context: Any, collector: Any) -> None:
        self.collector = collector
        self.acked = self.done.setdefault(context.task_id, Counter())
        self.failures: list[Any] = []
        self.left = [n for n in range(COUNT) if n not in self.acked]

    def next_tuple(self) -> None:
        if self.left:
            n = self.left.pop(0)
            self.collector.emit((n, f"number {n}"), message_id=n)

    def ack(self, message_id: int) -> None:
        self.acked[message_id] += 1

    def fail(self, message_id: int, failure: Any) -> None:
        self.failures.append(failure)
        self.left.append(message_id)


class Spread(BasicBolt):
    """Three tuples of each."""

    outputs = Fields("key", "n")

    def execute(self, tup: Tuple, collector: BasicCollector) -> None:
        for key in range(3):
            collector.emit((key * 7 + tup["n"] % 5, tup["n"]))


class Add(BasicBolt):
    outputs = Fields("key", "sum")

    def prepare(self, context: Any) -> None:
        self.seen: Counter[tuple[int, int]] = Counter()

    def execute(self, tup: Tuple, collector: BasicCollector) -> None:
        self.seen[tup["key"], tup["n"]] += 1


class Take(BasicBolt):
    def execute(self, tup: Tuple, collector: BasicCollector) -> None:
        pass


class Both(Bolt):
    """Joins two tuples at a time: its own has two anchors."""

    outputs = Fields("n")

    def prepare(self, context: Any, collector: Any) -> None:
        self.collector = collector
        self.held: list[Tuple] = []

    def execute(self, tup: Tuple) -> None:
        self.held.append(tup)
        if len(self.held) == 2:
            self.collector.emit((sum(t["n"] for t in self.held),), self.held)
            for held in self.held:
                self.collector.ack(held)
            self.held.clear()


@pytest.fixture(autouse=True)
def _fresh() -> None:
    Numbers.done = {}


def topology(*, spouts: int = 1, grouping: str = "shuffle") -> Topology:
    builder = TopologyBuilder()
    builder.set_spout("numbers", Numbers, spouts)
    getattr(builder.set_bolt("spread", Spread, 3), f"{grouping}_grouping")("numbers")
    builder.set_bolt("add", Add, 4).fields_grouping("spread", "key")
    return builder.create_topology()


def all_acked(spouts: int = 1) -> bool:
    return sum(len(acked) for acked in Numbers.done.values()) == spouts * COUNT


@pytest.mark.parametrize("count", [2, 3])
async def test_every_tuple_is_executed_once_on_any_worker(count: int) -> None:
    async with Workers(topology(spouts=2), count=count) as workers:
        await workers.wait_quiet(lambda: all_acked(2))
        seen: Counter[tuple[int, int]] = Counter()
        keys: list[set[int]] = []
        for add in workers.component("add"):
            seen += add.seen
            keys.append({key for key, _ in add.seen})
        assert sum(seen.values()) == 2 * 3 * COUNT
        assert set(seen.values()) == {2}, "each of both spouts"
        assert sum(map(len, keys)) == len(set().union(*keys)), "a key belongs to one task, whichever spout sends it"
        assert workers.carried > 4
        assert workers.rows == 0, "the ackers have nothing left"
        assert all(set(acked.values()) == {1} for acked in Numbers.done.values())


@pytest.mark.parametrize("capacity", [1, 2, 16])
async def test_the_smallest_mailboxes_are_enough(capacity: int, sim_clock: SimClock) -> None:
    config = Config(mailbox_capacity_tuples=capacity, max_spout_pending=50)
    async with Workers(topology(), config) as workers:
        await workers.wait_quiet(all_acked)
        assert sum(sum(add.seen.values()) for add in workers.component("add")) == 3 * COUNT


async def test_several_anchors_are_sent_between_workers() -> None:
    builder = TopologyBuilder()
    builder.set_spout("numbers", Numbers, 2)
    builder.set_bolt("both", Both, 2).shuffle_grouping("numbers")
    builder.set_bolt("take", Take, 2).shuffle_grouping("both")
    async with Workers(builder.create_topology()) as workers:
        await workers.wait_quiet(lambda: all_acked(2))
        assert workers.rows == 0


async def test_local_or_shuffle_sends_no_tuple_to_another_worker(sim_clock: SimClock) -> None:
    builder = TopologyBuilder()
    builder.set_spout("numbers", Numbers, 2)
    builder.set_bolt("spread", Spread, 4).local_or_shuffle_grouping("numbers")
    async with Workers(builder.create_topology()) as workers:
        before = workers.carried
        await workers.wait_quiet(lambda: all_acked(2))
        assert all(
            task.metrics().executed > 0
            for worker in workers.living.values()
            for task in worker.task_set.tasks
            if task.task.component == "spread"
        )
        sent = [worker.task_set.tasks.exchange.sent for worker in workers.living.values()]  # type: ignore[union-attr]
        assert all(counts.keys() == {"w0", "w1"} - {name} for name, counts in zip(workers.names, sent, strict=True))
        assert workers.carried - before < 200, "acks only, and few of them"


@pytest.mark.parametrize("victim", ["w0", "w1"])
async def test_messages_that_a_dead_worker_had_are_replayed_at_once(victim: str, sim_clock: SimClock) -> None:
    config = Config(max_spout_pending=40, message_timeout_s=1000.0)
    async with Workers(topology(spouts=2), config) as workers:
        await sim_clock.run_until(lambda: sum(map(len, Numbers.done.values())) > 100)
        began_s = sim_clock.now()
        await workers.kill(victim)
        await workers.revive(victim)
        await workers.wait_quiet(lambda: all_acked(2), timeout_s=100)
        assert sim_clock.now() - began_s < 50, "no message waited for the timeout"
        [survivor] = [name for name in workers.names if name != victim]
        [spout] = [task.user.component for task in workers.living[survivor].task_set.tasks.spouts]
        assert spout.failures, "what was open when it died"
        assert all(failure.reason == "failed" and victim in failure.error for failure in spout.failures)


@pytest.mark.parametrize("victim", ["w0", "w1"])
async def test_trees_that_failed_with_a_worker_leave_no_rows_in_ackers_without_timeouts(
    victim: str, sim_clock: SimClock
) -> None:
    config = Config(max_spout_pending=40, enable_message_timeouts=False)
    async with Workers(topology(spouts=2), config) as workers:
        await sim_clock.run_until(lambda: sum(map(len, Numbers.done.values())) > 100)
        for _ in range(2):
            await workers.kill(victim)
            await workers.revive(victim)
        await workers.wait_quiet(lambda: all_acked(2), timeout_s=100)
        assert [row for ledger in workers.ledgers for row in ledger._rows] == []


class Once(Numbers):
    """What fails is not emitted again."""

    def fail(self, message_id: int, failure: Any) -> None:
        self.failures.append(failure)
        self.acked[message_id] -= 1


class Strange(BasicBolt):
    """Emits what cannot be sent to another process, now and then."""

    outputs = Fields("n", "thing")

    def execute(self, tup: Tuple, collector: BasicCollector) -> None:
        collector.emit((tup["n"], object() if tup["n"] % 100 == 7 else {"fine": [tup["n"]]}))


class Keep(BasicBolt):
    def prepare(self, context: Any) -> None:
        self.things: list[Any] = []

    def execute(self, tup: Tuple, collector: BasicCollector) -> None:
        self.things.append(tup["thing"])


async def test_a_value_that_cannot_be_sent_fails_its_message_with_type_and_place(sim_clock: SimClock) -> None:
    builder = TopologyBuilder()
    builder.set_spout("numbers", Once)
    builder.set_bolt("strange", Strange, 1).shuffle_grouping("numbers")
    builder.set_bolt("keep", Keep, 2).fields_grouping("strange", "n")
    async with Workers(builder.create_topology()) as workers:
        await workers.wait_quiet(all_acked)
        [spout] = workers.component("numbers")
        assert 0 < len(spout.failures) <= 6
        assert all(failure.component == "strange" for failure in spout.failures)
        kept = [thing for keep in workers.component("keep") for thing in keep.things]
        assert all(type(thing) is dict or type(thing) is object for thing in kept)
        [worker] = [w for w in workers.living.values() if any(t.task.component == "strange" for t in w.task_set.tasks)]
        shown = [report.error for report in worker.task_set.tasks.errors.last]
        assert shown, "some went to the other worker"
        for text in shown:
            assert "'strange'" in text, text
            assert "thing" in text, text
            assert "object" in text, text
