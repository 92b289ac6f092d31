"""Paced: real tasks, a bolt that cannot keep up, virtual time. What a spout emits, and when it is free again."""

from __future__ import annotations

import asyncio
import random
import statistics
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, Self, cast

import pytest

from aiostorm import (
    BasicBolt,
    Component,
    Config,
    ConfigError,
    Fields,
    LocalCluster,
    RunningTopology,
    Spout,
    TopologyBuilder,
    bolt,
    spout,
)
from aiostorm.testing import SimClock


@dataclass
class Shop:
    """What the components share with the test: how long a tuple takes, how many were emitted, done, acked, failed."""

    takes_s: float = 0.01
    counts: dict[str, int] = field(default_factory=lambda: dict.fromkeys(("emitted", "done", "acked", "failed"), 0))

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return self

    def __getitem__(self, what: str) -> int:
        return self.counts[what]


class Endless(Spout):
    """One tuple a call, each millisecond."""

    outputs = Fields("n")

    def __init__(self, shop: Shop) -> None:
        self.shop = shop

    def open(self, context: Any, collector: Any) -> None:
        self.collector = collector

    async def next_tuple(self) -> None:
        await asyncio.sleep(0.001)
        number = self.shop.counts["emitted"] = self.shop["emitted"] + 1
        self.collector.emit((number,), message_id=number)

    def ack(self, message_id: Any) -> None:
        self.shop.counts["acked"] += 1

    def fail(self, message_id: Any, failure: Any) -> None:
        self.shop.counts["failed"] += 1


class ManyACall(Endless):
    """Forty tuples a call."""

    async def next_tuple(self) -> None:
        await asyncio.sleep(0.001)
        for _ in range(40):
            number = self.shop.counts["emitted"] = self.shop["emitted"] + 1
            self.collector.emit((number,), message_id=number)


def generator(shop: Shop) -> Component:
    @spout(outputs="n")
    async def numbers() -> Any:
        while True:
            await asyncio.sleep(0.001)
            shop.counts["emitted"] += 1
            yield shop["emitted"]

    return numbers


class Slow(BasicBolt):
    def __init__(self, shop: Shop) -> None:
        self.shop = shop

    async def execute(self, tup: Any, collector: Any) -> None:
        await asyncio.sleep(self.shop.takes_s)
        self.shop.counts["done"] += 1


def batches(shop: Shop) -> Component:
    class Batches(Slow):
        async def execute_batch(self, tuples: Any, collector: Any) -> None:
            await asyncio.sleep(self.shop.takes_s * len(tuples))
            self.shop.counts["done"] += len(tuples)

    return Batches(shop)


def function(shop: Shop) -> Component:
    @bolt
    async def slow(n: int) -> None:
        await asyncio.sleep(shop.takes_s)
        shop.counts["done"] += 1

    return slow


Story = Callable[[Shop, RunningTopology], Awaitable[None]]


async def submit(cluster: LocalCluster, source: Any, slow: Any, config: Config | None = None, *, tasks: int = 1) -> Any:
    builder = TopologyBuilder()
    builder.set_spout("source", source)
    builder.set_bolt("slow", slow, parallelism=tasks).shuffle_grouping("source")
    return await cluster.submit("paced", builder.create_topology(), config)


async def rates(clock: SimClock, shop: Shop, seconds: int) -> list[tuple[int, int]]:
    """(emitted, done) in each of so many seconds."""
    found = []
    for _ in range(seconds):
        before = shop["emitted"], shop["done"]
        await clock.advance(1)
        found.append((shop["emitted"] - before[0], shop["done"] - before[1]))
    return found


@pytest.mark.parametrize("source", [Endless, ManyACall, generator])
@pytest.mark.parametrize("slow", [Slow, function, batches])
async def test_the_spout_settles_at_the_rate_of_its_bolt(
    local_cluster: LocalCluster, sim_clock: SimClock, source: Any, slow: Any
) -> None:
    shop = Shop()
    running = await submit(local_cluster, source(shop), slow(shop))
    await sim_clock.advance(20)
    seen = await rates(sim_clock, shop, 20)
    # A mailbox of 20 rows is empty for a moment between two calls that emit 40; a batch counts as done at its end.
    off = 40 if slow is batches else 10 if source is ManyACall else 2
    assert sum(done for _, done in seen) == pytest.approx(2_000, abs=off)
    lumps = 40 if source is ManyACall else 1  # two or three calls in a second
    assert all(emitted == pytest.approx(100, abs=lumps / 2 + 1) for emitted, _ in seen)
    assert sum(emitted for emitted, _ in seen) == pytest.approx(2_000, abs=lumps)
    view = running.backpressure()
    assert view.state == "THROTTLED"
    ((task,),) = [view.components["slow"].tasks]
    assert (task.blocked, task.execute_s) == (True, pytest.approx(0.01, rel=0.05))
    ((pacing,),) = [view.spouts]
    assert (pacing.component, pacing.why, pacing.wait_s) == ("source", ("slow",), pytest.approx(0.01, rel=0.1))
    assert shop["failed"] == 0
    await running.kill(0)


async def test_a_spout_is_released_when_its_bolt_is_fast_again(
    local_cluster: LocalCluster, sim_clock: SimClock
) -> None:
    shop = Shop()
    running = await submit(local_cluster, Endless(shop), Slow(shop))
    await sim_clock.advance(20)
    shop.takes_s = 0.0001
    await sim_clock.advance(4)
    assert all(emitted > 900 for emitted, _ in await rates(sim_clock, shop, 4))
    await sim_clock.advance(4)
    view = running.backpressure()
    assert (view.state, view.spouts) == ("NORMAL", ())
    assert [event.kind for event in view.events] == [
        "BLOCKED", "THROTTLED", "SLOWED", "RELIEVED", "RELEASED", "NORMAL"
    ]  # fmt: skip
    await running.kill()
    assert shop["acked"] == shop["emitted"] == shop["done"]


async def test_switching_backpressure_off_frees_spouts_and_on_paces_them_again(
    local_cluster: LocalCluster, sim_clock: SimClock
) -> None:
    shop = Shop()
    # A mailbox in which a second of the spout's is nothing: it alone slows no spout in this test.
    running = await submit(
        local_cluster, Endless(shop), Slow(shop), Config(mailbox_capacity_tuples=100_000, mailbox_target_ms=0)
    )
    await running.update({"topology.backpressure.water.mark.high": 0.01, "topology.backpressure.water.mark.low": 0.001})
    await sim_clock.advance(20)
    assert running.backpressure().state == "THROTTLED"
    config = await running.update({"topology.backpressure.enable": False})
    assert (config.backpressure_enable, running.config.backpressure_enable) == (False, False)
    view = running.backpressure()
    assert (view.enabled, view.state, view.spouts) == (False, "NORMAL", ())
    assert all(emitted > 900 for emitted, _ in await rates(sim_clock, shop, 5))
    await running.update({"topology.backpressure.enable": True})
    await sim_clock.advance(10)
    assert running.backpressure().state == "THROTTLED"
    assert (await rates(sim_clock, shop, 1))[0][0] < 120
    await running.kill(0)


async def test_one_slow_task_does_not_starve_the_others(local_cluster: LocalCluster, sim_clock: SimClock) -> None:
    """Hop by hop alone: when all mailboxes are full, a spout waits for a fast task, and not for the slow one."""
    shop = Shop(takes_s=0.005)

    class OneIsSlow(Slow):
        def prepare(self, context: Any) -> None:
            self.takes_s = self.shop.takes_s * (20 if context.task_index == 0 else 1)

        async def execute(self, tup: Any, collector: Any) -> None:
            await asyncio.sleep(self.takes_s)
            self.shop.counts["done"] += 1

    config = Config(backpressure_enable=False, mailbox_capacity_tuples=100)
    running = await submit(local_cluster, ManyACall(shop), OneIsSlow(shop), config, tasks=5)
    await sim_clock.advance(3)
    assert all(done > 0.9 * 810 for _, done in await rates(sim_clock, shop, 20))
    await running.kill(0)


@pytest.mark.parametrize("tasks", [10, *(pytest.param(tasks, marks=pytest.mark.slow) for tasks in (11, 30))])
async def test_one_slow_task_of_many_to_which_rows_go_by_key_paces_its_spout(
    local_cluster: LocalCluster, sim_clock: SimClock, tasks: int
) -> None:
    """However small its share of the tasks is: all the others wait for it. Alone, its mailbox makes it stop and go."""
    shop = Shop(takes_s=0.001)

    class OneIsSlow(Slow):
        def prepare(self, context: Any) -> None:
            self.takes_s = self.shop.takes_s * (50 if context.task_index == 0 else 1)

        async def execute(self, tup: Any, collector: Any) -> None:
            await asyncio.sleep(self.takes_s)
            self.shop.counts["done"] += 1

    builder = TopologyBuilder()
    builder.set_spout("source", Endless(shop))
    builder.set_bolt("slow", OneIsSlow(shop), parallelism=tasks).fields_grouping("source", Fields("n"))
    running = await local_cluster.submit("paced", builder.create_topology(), Config(mailbox_capacity_tuples=20))
    await sim_clock.advance(60)
    assert running.backpressure().state == "THROTTLED"
    emits = [emitted for emitted, _ in await rates(sim_clock, shop, 30)]
    assert statistics.fmean(emits) == pytest.approx(20 * tasks, rel=0.2)  # by chance: of each hundred rows it gets some
    assert statistics.pstdev(emits) < 0.25 * statistics.fmean(emits)
    await running.kill(0)


@pytest.mark.parametrize(("hot", "spouts"), [(1.0, 1), (0.6, 4)])
async def test_two_hot_keys_by_partial_key_do_not_make_their_spouts_stop_and_go(
    local_cluster: LocalCluster, sim_clock: SimClock, hot: float, spouts: int
) -> None:
    """Their four tasks are full, and the six others are not. Mailboxes hold the spouts back where the pace does not."""
    shop, did, chance = Shop(takes_s=0.005), Counter[int](), random.Random(1)

    class Keys(Endless):
        outputs = Fields("key")

        async def next_tuple(self) -> None:
            await asyncio.sleep(0.001)
            for _ in range(4):
                number = self.shop.counts["emitted"] = self.shop["emitted"] + 1
                key = f"hot {chance.randrange(2)}" if chance.random() < hot else f"cold {chance.randrange(1_000)}"
                self.collector.emit((key,), message_id=number)

    class Task(Slow):
        def prepare(self, context: Any) -> None:
            self.index = context.task_index

        async def execute(self, tup: Any, collector: Any) -> None:
            await super().execute(tup, collector)
            did[self.index] += 1

    builder = TopologyBuilder()
    builder.set_spout("keys", Keys(shop), spouts)
    builder.set_bolt("count", Task(shop), parallelism=10).partial_key_grouping("keys", "key")
    running = await local_cluster.submit("hot", builder.create_topology())
    await sim_clock.advance(12)
    did.clear()
    emits = []
    for _ in range(30):
        before = shop["emitted"]
        await sim_clock.advance(0.5)
        emits.append(shop["emitted"] - before)
    assert running.backpressure().state == "THROTTLED"
    assert max(did.values()) > 0.95 * 15 / shop.takes_s, "the most loaded task is busy all the time"
    assert min(emits) > 0.7 * statistics.fmean(emits), "nothing stops"
    assert statistics.pstdev(emits) < 0.15 * statistics.fmean(emits)
    assert shop["failed"] == 0
    await running.kill(0)


async def test_only_backpressure_settings_can_be_changed(local_cluster: LocalCluster) -> None:
    running = await submit(local_cluster, Endless(Shop()), Slow(Shop()))
    before = running.config
    with pytest.raises(ConfigError, match="workers cannot be changed while a topology runs"):
        await running.update({"workers": 3})
    with pytest.raises(ConfigError, match="less than or equal to 1"):
        await running.update({"backpressure_sample_rate": 3})
    with pytest.raises(ConfigError, match=r"settings \(update\) are None; give a Config, or a mapping"):
        await running.update(cast(Any, None))
    assert running.config == before
    await running.kill(0)


async def test_the_end_of_a_stream_is_not_delayed_by_a_pace(local_cluster: LocalCluster, sim_clock: SimClock) -> None:
    shop = Shop(takes_s=2.0)
    running = await submit(local_cluster, Endless(shop), Slow(shop), Config(mailbox_capacity_tuples=4))
    await sim_clock.advance(30)
    assert running.backpressure().spouts[0].wait_s > 1
    begun_s = asyncio.get_running_loop().time()
    await running.kill()
    assert asyncio.get_running_loop().time() - begun_s < 15  # what is in the mailbox, and no more
    assert shop["acked"] == shop["emitted"]


async def test_an_idle_topology_has_no_timer_and_a_slow_trickle_changes_nothing_in_24_hours(
    local_cluster: LocalCluster, sim_clock: SimClock
) -> None:
    shop = Shop(takes_s=0.5)

    class Trickle(Endless):
        async def next_tuple(self) -> None:
            await asyncio.sleep(60)
            self.collector.emit((1,), message_id=1)

    running = await submit(local_cluster, Trickle(shop), Slow(shop))
    await sim_clock.advance(24 * 3600)
    view = running.backpressure()
    assert (view.state, view.events) == ("NORMAL", ())
    assert shop["acked"] == 24 * 60 - 1
    await running.kill()
