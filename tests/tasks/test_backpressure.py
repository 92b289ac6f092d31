"""Mailboxes never pass their capacity, control gets through all the while, and whatever is blocked goes on in the end."""  # noqa: E501

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from aiostorm import BasicBolt, Config, LocalCluster, RunningTopology, TopologyBuilder, bolt
from aiostorm.testing import FixedSpout, Recorder, SimClock

from .parts import Does, DoesRich, Gate, Notes, Numbers, line, rows

CAPACITIES = [1, 10, 1024]


def fills(running: RunningTopology) -> dict[str, float]:
    """The fullest mailbox of each component, as a share of its capacity.

    What `metrics()[component].fill_ratio` says, without the rest: it is looked at for each tuple, and reading all
    metrics each time took half of the time of these tests.
    """
    found: dict[str, float] = {}
    for task in running._task_set.tasks:
        gate = task.env.mailboxes[task.task.task_id].gate
        component = task.task.component
        found[component] = max(found.get(component, 0.0), gate.fill / gate.capacity if gate.capacity else 0.0)
    return found


class Watch:
    """The most that each mailbox was ever seen to hold. Components call `look` wherever something may have changed."""

    def __init__(self) -> None:
        self.running: RunningTopology | None = None
        self.most: dict[str, float] = {}

    def look(self) -> None:
        if self.running is not None:
            for component, fill in fills(self.running).items():
                self.most[component] = max(self.most.get(component, 0), fill)


@pytest.mark.parametrize("capacity", CAPACITIES)
@pytest.mark.parametrize("tree", [1, 64])
@pytest.mark.parametrize("target_ms", [None, 0])
async def test_a_slow_bolt_fills_its_mailbox_and_never_more(
    local_cluster: LocalCluster, sim_clock: SimClock, capacity: int, tree: int, target_ms: int | None
) -> None:
    """By default a mailbox holds 200 ms of its bolt's work, 200 tuples of a millisecond; with 0 what it can."""
    watch = Watch()

    async def slow(tup: Any, collector: Any) -> None:
        watch.look()
        await asyncio.sleep(0.001)
        watch.look()

    def three(tup: Any, collector: Any) -> None:
        watch.look()
        for n in range(3):
            collector.emit((n,))

    source = Numbers(1000, each_call=7)
    config = Config(mailbox_capacity_tuples=capacity, acker_tree_max_messages=tree)
    if target_ms is not None:
        config = config.updated({"mailbox_target_ms": target_ms})
    running = watch.running = await local_cluster.submit("t", line(source, three=Does(three), slow=Does(slow)), config)
    await running.wait_finished()
    assert len(source.acked) == 1000
    assert running.metrics()["slow"].executed == 3000
    assert watch.most["three"] <= 1
    holds = capacity if target_ms == 0 else min(capacity, 200)
    assert 0.8 * holds <= watch.most["slow"] * capacity <= holds


@pytest.mark.parametrize("capacity", CAPACITIES)
async def test_a_stuck_bolt_stops_the_spout_hop_by_hop(
    local_cluster: LocalCluster, sim_clock: SimClock, capacity: int
) -> None:
    gate, source = Gate(), Numbers(8_000, each_call=10)

    async def stuck(tup: Any, collector: Any) -> None:
        await gate.wait()

    def on(tup: Any, collector: Any) -> None:
        collector.emit(tup.values)

    config = Config(mailbox_capacity_tuples=capacity, message_timeout_s=1e6)
    running = await local_cluster.submit("t", line(source, a=Does(on, "n"), b=Does(on, "n"), c=Does(stuck)), config)
    await sim_clock.advance(10)
    emitted = running.metrics()["spout"].emitted
    # Three mailboxes, and what each task has in hand: a batch that it took, and what it has made of one.
    assert emitted <= 3 * capacity + 5 * 256
    await sim_clock.advance(1000)
    assert running.metrics()["spout"].emitted == emitted
    assert all(fill <= 1 for fill in fills(running).values())
    gate.open()
    await running.wait_finished()
    assert len(source.acked) == 8_000


@pytest.mark.parametrize("capacity", CAPACITIES)
@pytest.mark.parametrize("kind", ["basic", "rich", "own task"])
async def test_drain_bounds_one_huge_execute(local_cluster: LocalCluster, capacity: int, kind: str) -> None:
    made, buffered, watch = 3000, Notes([0]), Watch()
    tasks: set[Any] = set()

    async def huge(tup: Any, collector: Any) -> None:
        for n in range(made):
            collector.emit((n,)) if kind == "basic" else collector.emit((n,), tup)
            buffered[0] = max(buffered[0], n + 1 - running.metrics()["sink"].executed)
            await collector.drain()
            watch.look()
        if kind != "basic":
            collector.ack(tup)

    async def slow(tup: Any, collector: Any) -> None:
        if tup["out"] % 10 == 0:
            await asyncio.sleep(0.001)

    def start(tup: Any, collector: Any) -> None:
        task = asyncio.ensure_future(huge(tup, collector))
        tasks.add(task)
        task.add_done_callback(tasks.discard)

    source = FixedSpout(rows([0]), "n")
    component = {"basic": Does(huge), "rich": DoesRich(huge), "own task": DoesRich(start)}[kind]
    running = watch.running = await local_cluster.submit(
        "t", line(source, huge=component, sink=Does(slow)), Config(mailbox_capacity_tuples=capacity)
    )
    await running.wait_finished()
    assert source.acked == [0]
    assert running.metrics()["sink"].executed == made
    assert watch.most["sink"] <= 1
    assert buffered[0] <= capacity + 256 + 2


@pytest.mark.parametrize("capacity", [1, 1024])
@pytest.mark.parametrize("asynchronous", [False, True])
@pytest.mark.parametrize("hooks", [[], ["aiostorm:TaskHook"]])
async def test_a_generator_of_very_many_is_held_back(
    local_cluster: LocalCluster, capacity: int, asynchronous: bool, hooks: list[str]
) -> None:
    count = 30_000 if capacity == 1024 else 10_000
    made = Notes([0])
    ahead = Notes([0])

    def note() -> int:
        made[0] += 1
        ahead[0] = max(ahead[0], made[0] - running.metrics()["sink"].executed if made[0] % 97 == 0 else 0)
        return int(made[0])

    @bolt(outputs="out")
    def many(n: int) -> Any:
        for _ in range(count):
            yield note()

    @bolt(outputs="out")
    async def many_later(n: int) -> Any:
        for _ in range(count):
            yield note()

    @bolt
    def sink(n: int) -> None:
        assert n

    source = FixedSpout(rows([0, 1]), "n")
    topology = line(source, many=many_later if asynchronous else many, sink=sink)
    config = Config(mailbox_capacity_tuples=capacity, auto_task_hooks=hooks)
    running = await local_cluster.submit("t", topology, config)
    await running.wait_finished()
    assert sorted(source.acked) == [0, 1]
    assert running.metrics()["sink"].executed == 2 * count
    assert running.metrics()["sink"].fill_ratio == 0
    assert ahead[0] <= 2 * 4096 + capacity + 256


@pytest.mark.slow
async def test_a_generator_of_a_whole_million(local_cluster: LocalCluster) -> None:
    @bolt(outputs="out")
    def many(n: int) -> Any:
        yield from range(1_000_000)

    total = Notes([0])

    class Sum(BasicBolt):
        def execute_batch(self, tuples: Any, collector: Any) -> None:
            total[0] += len(tuples)

    source = FixedSpout(rows([0]), "n")
    running = await local_cluster.submit("t", line(source, many=many, sum=Sum))
    await running.wait_finished()
    assert source.acked == [0]
    assert total[0] == 1_000_000


@pytest.mark.parametrize("capacity", [1, 3, 64])
@pytest.mark.parametrize("pending", [1, 50])
async def test_cycles_make_progress(local_cluster: LocalCluster, capacity: int, pending: int) -> None:
    """Collatz: each number goes round until it is 1. Two bolts in the cycle, so that both mailboxes may be full."""
    ended = Notes()
    source = Numbers(40)

    def step(tup: Any, collector: Any) -> None:
        n = tup[0]
        if n <= 1:
            ended.append(n)
        elif n % 2:
            collector.emit((3 * n + 1,))
        else:
            collector.emit((n // 2,))

    builder = TopologyBuilder()
    builder.set_spout("spout", source)
    builder.set_bolt("step", Does(step, "n")).shuffle_grouping("spout").shuffle_grouping("back")
    builder.set_bolt("back", Does(lambda tup, c: c.emit(tup.values), "n")).shuffle_grouping("step")
    config = Config(mailbox_capacity_tuples=capacity, max_spout_pending=pending)
    running = await local_cluster.submit("t", builder.create_topology(), config)
    await running.wait_finished(1000)
    assert sorted(source.acked) == list(range(40))
    assert sorted(ended) == [0] + [1] * 39


async def test_acks_get_through_while_data_is_blocked(local_cluster: LocalCluster, sim_clock: SimClock) -> None:
    """The way to `stuck` is blocked; what goes the other way is acked, failed and timed out as ever."""
    gate = Gate()
    outcomes = Notes()

    class Two(Numbers):
        outputs = {"default": "n", "side": "n"}  # noqa: RUF012

        def next_tuple(self) -> None:
            if self.next == 0:
                self.collector.emit((0,), message_id="side", stream="side")
                self.collector.emit((0,), message_id="bad", stream="side")
            super().next_tuple()

        def ack(self, message_id: Any) -> None:
            outcomes.append(("ack", message_id))

        def fail(self, message_id: Any, failure: Any) -> None:
            outcomes.append((failure.reason, message_id))

    async def stuck(tup: Any, collector: Any) -> None:
        await gate.wait()

    kept = Notes()
    builder = TopologyBuilder()
    builder.set_spout("spout", Two(1000))
    builder.set_bolt("stuck", Does(stuck)).shuffle_grouping("spout")
    builder.set_bolt("side", DoesRich(lambda tup, c: kept.append((tup, c)))).shuffle_grouping("spout", stream="side")
    config = Config(mailbox_capacity_tuples=5, acker_tree_max_messages=1)
    running = await local_cluster.submit("t", builder.create_topology(), config)
    await sim_clock.advance(5)
    assert outcomes == []
    (good, collector), (bad, _) = kept
    collector.ack(good)
    collector.fail(bad)
    await sim_clock.settle()
    assert sorted(outcomes) == [("ack", "side"), ("failed", "bad")]
    await sim_clock.advance(32)
    assert ("timeout", 0) in outcomes
    assert running.metrics()["spout"].emitted < 1000
    await running.kill(0)


async def test_two_senders_take_turns_at_a_small_mailbox(local_cluster: LocalCluster) -> None:
    sink = Recorder()
    builder = TopologyBuilder()
    builder.set_spout("left", Numbers(500, each_call=50))
    builder.set_spout("right", Numbers(500, each_call=50))
    builder.set_bolt("sink", sink).shuffle_grouping("left").shuffle_grouping("right")
    running = await local_cluster.submit("t", builder.create_topology(), Config(mailbox_capacity_tuples=1))
    await running.wait_finished()
    order = [tup.source_component for tup in sink.tuples]
    assert len(order) == 1000
    assert abs(order[:500].count("left") - 250) < 60


@pytest.mark.parametrize("capacity", [1, 10])
async def test_a_slow_task_among_several_gets_less(local_cluster: LocalCluster, capacity: int) -> None:
    """Shuffle leaves out a target over its high mark while another is not (it looks once a batch: here, each tuple)."""

    class Uneven(BasicBolt):
        def prepare(self, context: Any) -> None:
            self.slow = context.task_index == 0

        async def execute(self, tup: Any, collector: Any) -> None:
            await asyncio.sleep(0.1 if self.slow else 0.001)

    source = Numbers(500)
    builder = TopologyBuilder()
    builder.set_spout("spout", source)
    builder.set_bolt("bolt", Uneven, 3).shuffle_grouping("spout")
    config = Config(mailbox_capacity_tuples=capacity, max_spout_pending=2 * capacity + 2, turn_max_tuples=1)
    running = await local_cluster.submit("t", builder.create_topology(), config)
    await running.wait_finished()
    executed = [task.executed for task in running.metrics()["bolt"].tasks]
    assert sum(executed) == 500
    assert executed[0] < 50


async def test_stop_gets_through_while_data_is_blocked(sim_clock: SimClock) -> None:
    """Draining gives up after its time, then every task ends, the blocked ones included."""
    gate = Gate()

    async def stuck(tup: Any, collector: Any) -> None:
        await gate.wait()

    def on(tup: Any, collector: Any) -> None:
        collector.emit(tup.values)

    begun_s = sim_clock.monotonic()
    async with LocalCluster() as cluster:
        config = Config(mailbox_capacity_tuples=1, graceful_stop_s=2)
        running = await cluster.submit("t", line(Numbers(100), a=Does(on, "n"), b=Does(on, "n"), c=Does(stuck)), config)
        await sim_clock.advance(1)
        await running.kill(5)
        # 5 s of draining, then 2 s for all of them to stop in order.
        assert sim_clock.monotonic() - begun_s <= 1 + 5 + 2 + 0.1
        assert cluster.dead_letters > 0
