"""Held: mailboxes that hold a time. How long rows wait for a slow bolt, whatever it is slow at, in virtual time."""

from __future__ import annotations

import asyncio
import statistics
from collections.abc import Mapping
from typing import Any

import pytest

from aiostorm import AckValueSpout, BasicBolt, Config, Fields, LocalCluster, RunningTopology, TopologyBuilder
from aiostorm.testing import SimClock


class Watch:
    """What the components share with the test: latencies in seconds, what was emitted, when, and what failed."""

    def __init__(self) -> None:
        self.latencies: list[float] = []
        self.emitted_s: list[float] = []
        self.failed = 0

    def __deepcopy__(self, memo: dict[int, Any]) -> Watch:
        return self


def now_s() -> float:
    return asyncio.get_running_loop().time()


class Source(AckValueSpout):
    """A row each so many seconds, with the time of its emit; late ones at once."""

    outputs = Fields("n", "emitted_s")

    def __init__(self, watch: Watch, gap_s: float) -> None:
        self.watch, self.gap_s = watch, gap_s

    def open(self, context: Any, collector: Any) -> None:
        self.collector = collector
        self.due_s = now_s()
        self.n = 0

    def next_tuple(self) -> None:
        if now_s() >= self.due_s:
            self.due_s = max(self.due_s + self.gap_s, now_s() - 1)
            self.n += 1
            self.watch.emitted_s.append(now_s())
            self.collector.emit((self.n, now_s()), self.n)

    def ack(self, message_id: Any, values: Any) -> None:
        self.watch.latencies.append(now_s() - values[1])

    def fail(self, message_id: Any, failure: Any) -> None:
        self.watch.failed += 1


class Slow(BasicBolt):
    """So many seconds a row; other tasks than the first one may be faster."""

    def __init__(self, first_s: float, others_s: float | None = None) -> None:
        self.first_s, self.others_s = first_s, first_s if others_s is None else others_s

    def prepare(self, context: Any) -> None:
        self.row_s = self.others_s if context.task_index else self.first_s

    async def execute(self, tup: Any, collector: Any) -> None:
        await asyncio.sleep(self.row_s)


class Pass(BasicBolt):
    outputs = Fields("n", "emitted_s")

    def execute(self, tup: Any, collector: Any) -> None:
        collector.emit(tup.values)


class Batches(Slow):
    async def execute_batch(self, tuples: Any, collector: Any) -> None:
        await asyncio.sleep(self.row_s * len(tuples))


async def submit(
    cluster: LocalCluster, watch: Watch, slow: Any, gap_s: float, tasks: int = 1, *, keyed: bool = False,
    config: Mapping[str, Any] | None = None,
) -> RunningTopology:  # fmt: skip
    builder = TopologyBuilder()
    builder.set_spout("source", Source(watch, gap_s), 2)
    builder.set_bolt("pass", Pass, 2).shuffle_grouping("source")
    slow = builder.set_bolt("slow", slow, tasks)
    slow.fields_grouping("pass", Fields("n")) if keyed else slow.shuffle_grouping("pass")
    settings = {"topology.spout.wait.max.ms": 2.0} | dict(config or {})
    return await cluster.submit("held", builder.create_topology(), Config(**settings))


def waited(latencies: list[float]) -> tuple[float, float]:
    """p50, p99."""
    parts = statistics.quantiles(latencies, n=100)
    return parts[49], parts[98]


@pytest.mark.parametrize(
    "slow", [pytest.param(Slow(0.005), id="rows", marks=pytest.mark.slow), pytest.param(Batches(0.005), id="batches")]
)
async def test_at_a_steady_bottleneck_a_row_waits_for_a_moment_and_the_rate_is_the_bottlenecks(
    local_cluster: LocalCluster, sim_clock: SimClock, slow: Any
) -> None:
    watch = Watch()
    running = await submit(local_cluster, watch, slow, 0.0004, 5)  # 1,000 a second of 5,000
    await sim_clock.advance(15)
    before = len(watch.latencies)
    await sim_clock.advance(30)
    p50_s, p99_s = waited(watch.latencies[before:])
    rate = (len(watch.latencies) - before) / 30
    limit = 0.5 if isinstance(slow, Batches) else 0.25  # a batch is acked as a whole
    assert rate >= 0.99 * 1_000
    assert p50_s <= limit
    assert p99_s <= 2 * limit
    assert watch.failed == 0
    await running.kill(0)


@pytest.mark.parametrize("pressure", [True, False])
async def test_a_mailbox_of_rows_of_60_ms_is_drained_within_a_second_or_two(
    local_cluster: LocalCluster, sim_clock: SimClock, pressure: bool
) -> None:
    """It held 1,024 of them: the spout stood still for a minute, and each row waited for it."""
    watch = Watch()
    config = {"topology.backpressure.enable": pressure}
    running = await submit(local_cluster, watch, Slow(0.06), 0.001, config=config)
    await sim_clock.advance(60)
    (task,) = running._task_set.tasks.env.plan.tasks_of["slow"]
    assert running._task_set.tasks.env.mailboxes[task].gate.fill <= 16 + 4
    assert len(watch.latencies) >= 0.97 * 60 / 0.06 - 50
    pauses = [b - a for a, b in zip(watch.emitted_s[:-1], watch.emitted_s[1:], strict=True)]
    assert max(pauses) < 5
    assert max(watch.latencies) < 8
    begun_s = now_s()
    await running.kill()
    assert now_s() - begun_s < 6


@pytest.mark.slow
async def test_nothing_outlives_its_timeout_behind_one_slow_task_of_ten(
    local_cluster: LocalCluster, sim_clock: SimClock
) -> None:
    watch = Watch()
    config = {"topology.message.timeout.secs": 10}
    running = await submit(local_cluster, watch, Slow(0.05, 0.005), 0.0002, 10, config=config)
    await sim_clock.advance(60)
    assert watch.failed == 0
    assert running.metrics()["source"].failed == 0
    assert max(watch.latencies) < 8
    await running.kill(0)


@pytest.mark.slow
async def test_a_task_that_becomes_slow_soon_holds_less_and_one_that_becomes_fast_more(
    local_cluster: LocalCluster, sim_clock: SimClock
) -> None:
    watch = Watch()
    state = {"row_s": 0.0001}

    class Changing(BasicBolt):
        async def execute(self, tup: Any, collector: Any) -> None:
            await asyncio.sleep(state["row_s"])

    running = await submit(local_cluster, watch, Changing, 0.0005)
    (task,) = running._task_set.tasks.env.plan.tasks_of["slow"]
    box = running._task_set.tasks.env.mailboxes[task]
    await sim_clock.advance(5)
    assert box.gate.limit == box.gate.capacity == 1024
    state["row_s"] = 0.02
    await sim_clock.advance(5)
    assert box.gate.limit <= 32
    await sim_clock.advance(25)  # what came before it was known
    assert box.gate.fill <= 20
    assert box.gate.limit == 16
    state["row_s"] = 0.0001
    await sim_clock.advance(3)
    assert box.gate.limit > 900
    await running.kill(0)


async def test_the_target_can_be_changed_while_a_topology_runs_and_0_is_the_capacity(
    local_cluster: LocalCluster, sim_clock: SimClock
) -> None:
    watch = Watch()
    config = {"topology.backpressure.enable": False}
    running = await submit(local_cluster, watch, Slow(0.002), 0.001, config=config)
    (task,) = running._task_set.tasks.env.plan.tasks_of["slow"]
    box = running._task_set.tasks.env.mailboxes[task]
    await sim_clock.advance(10)
    assert box.gate.limit == pytest.approx(100, abs=2)
    await running.update({"topology.mailbox.target.ms": 100})
    assert box.gate.limit == pytest.approx(50, abs=1)
    await running.update({"topology.mailbox.target.ms": 0})
    assert box.gate.limit == 1024
    await sim_clock.advance(5)
    assert box.gate.fill > 300
    await running.kill(0)
