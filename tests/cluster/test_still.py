"""When is a running topology still? When nothing moves: then, and not before; messages may be pending."""

from __future__ import annotations

import asyncio
import random
from dataclasses import replace
from typing import Any

import pytest

from aiostorm import Bolt, LocalCluster, RunningTopology, Spout, TopologyBuilder, TopologyFailedError, bolt, spout
from aiostorm.testing import FeederSpout, Recorder, SimClock

from ..tasks.parts import DoesRich, Gate, Notes, Numbers, line


async def test_still_is_not_idle(local_cluster: LocalCluster, sim_clock: SimClock) -> None:
    running = await local_cluster.submit("t", line(Numbers(3), hold=DoesRich()), {"message_timeout_s": 100})
    await running.wait_still()
    assert running.metrics()["hold"].executed == 3
    now_s = sim_clock.monotonic()
    await running.wait_still()
    assert sim_clock.monotonic() == now_s
    with pytest.raises(TimeoutError):
        await running.wait_idle(10)
    await running.wait_idle()
    assert sim_clock.monotonic() - now_s > 90


async def test_until_is_asked_when_something_comes_to_rest(local_cluster: LocalCluster, sim_clock: SimClock) -> None:
    feeder, seen = FeederSpout("n"), Recorder()
    running = await local_cluster.submit("t", line(feeder, sink=seen))
    begun_s = sim_clock.monotonic()
    with pytest.raises(TimeoutError):
        await running.wait_still(10, until=lambda: len(seen.values) == 2)
    waiting = asyncio.ensure_future(running.wait_still(until=lambda: len(seen.values) == 2))
    for n in range(2):
        await sim_clock.advance(1)
        assert not waiting.done()
        await feeder.feed(n)
    await waiting
    assert sim_clock.monotonic() - begun_s == pytest.approx(12)


async def test_a_working_topology_is_not_still(local_cluster: LocalCluster, sim_clock: SimClock) -> None:
    gate, feeder = Gate(), FeederSpout("n")

    @bolt(outputs="n")
    async def waits(n: int) -> int:
        await gate.wait()
        return n

    running = await local_cluster.submit("t", line(feeder, waits=waits, hold=DoesRich()))
    await feeder.feed(1)
    waiting = asyncio.ensure_future(running.wait_still())
    await sim_clock.advance(10)
    assert not waiting.done()
    gate.open()
    await waiting
    assert running.metrics()["hold"].executed == 1


async def test_a_spout_that_waits_with_messages_pending(local_cluster: LocalCluster, sim_clock: SimClock) -> None:
    gate = Gate()

    class Waits(Spout):
        outputs = "n"

        def open(self, context: Any, collector: Any) -> None:
            self.collector = collector

        async def next_tuple(self) -> None:
            self.collector.emit((1,), message_id=1)
            await gate.wait()

    running = await local_cluster.submit("t", line(Waits, hold=DoesRich()))
    begun_s = sim_clock.monotonic()
    await running.wait_still(quiet_s=3)
    assert sim_clock.monotonic() - begun_s == pytest.approx(3, abs=0.01)
    assert running.metrics()["hold"].executed == 1


async def test_a_thread_that_emits_is_not_still(local_cluster: LocalCluster) -> None:
    class Blocks(Spout):
        outputs = "n"
        blocking = True

        def open(self, context: Any, collector: Any) -> None:
            self.collector, self.left = collector, 300

        def next_tuple(self) -> None:
            if self.left:
                self.left -= 1
                self.collector.emit((self.left,), message_id=self.left)

    running = await local_cluster.submit("t", line(Blocks, hold=DoesRich()))
    await running.wait_still(until=lambda: running.metrics()["spout"].emitted == 300)
    assert running.metrics()["hold"].executed == 300


async def test_a_waiting_caller_gets_the_failure(local_cluster: LocalCluster) -> None:
    class Bad(Bolt):
        def execute(self, tup: Any) -> None:
            raise OSError("broken")

    config = {"restart_max": 0}
    running = await local_cluster.submit("t", line(Numbers(1), bad=Bad), config)
    with pytest.raises(TopologyFailedError, match="broken"):
        await running.wait_still(until=lambda: False)


# -- nothing moves: seen in topologies of chance -----------------------------------------------------------------------


class Mixed(Bolt):
    """Acks, fails, holds, forwards, branches, waits or sends on from a task of its own, as chance has it."""

    outputs = "n"

    def __init__(self, seed: int, held: Notes) -> None:
        self.rng, self.held = random.Random(seed), held

    def prepare(self, context: Any, collector: Any) -> None:
        self.collector = collector

    async def execute(self, tup: Any) -> None:
        what = self.rng.choice(["ack", "ack", "ack", "forward", "branch", "fail", "hold", "wait", "untracked"])
        if what == "wait":
            await asyncio.sleep(self.rng.choice([0, 0.01, 3]))
        if what in ("forward", "branch", "wait"):
            for _ in range(3 if what == "branch" else 1):
                self.collector.emit(tup.values, tup)
        if what == "untracked":
            self.collector.emit(tup.values)
        if what == "hold":
            self.held.append((self.collector, tup))
        elif what == "fail":
            self.collector.fail(tup)
        else:
            self.collector.ack(tup)


def of_chance(rng: random.Random, held: Notes) -> Any:
    count = rng.randrange(5, 200)

    @spout(outputs="n")
    async def generated() -> Any:
        for n in range(count):
            yield n
            if rng.random() < 0.1:
                await asyncio.sleep(0.5)

    builder = TopologyBuilder()
    builder.set_spout("numbers", Numbers(count, each_call=rng.randrange(1, 5)), max_spout_pending=rng.choice([3, None]))
    builder.set_spout("generated", generated, max_retries=rng.choice([0, 2]))
    sources = ["numbers", "generated"]
    for level in range(rng.randrange(1, 4)):
        declarer = builder.set_bolt(f"bolt{level}", Mixed(rng.randrange(1000), held), rng.randrange(1, 4))
        for source in rng.sample(sources, rng.randrange(1, len(sources) + 1)):
            rng.choice([declarer.shuffle_grouping, declarer.all_grouping, declarer.none_grouping])(source)
        sources.append(f"bolt{level}")
    return builder.create_topology()


def counts(running: RunningTopology) -> Any:
    """All but times: being idle takes time, too."""
    times = dict.fromkeys(("execute_s", "complete_s", "busy_s", "blocked_s", "idle_s", "throttled_s"), 0)
    return {
        component: [replace(task, **times) for task in metrics.tasks]
        for component, metrics in running.metrics().items()
    }


@pytest.mark.parametrize("seed", range(25))
async def test_still_means_that_nothing_changes(local_cluster: LocalCluster, sim_clock: SimClock, seed: int) -> None:
    rng, held = random.Random(seed), Notes()
    config = {"mailbox_capacity_tuples": rng.choice([2, 16, 1024]), "acker_executors": rng.choice([1, 3, 0])}
    running = await local_cluster.submit("t", of_chance(rng, held), {**config, "message_timeout_s": 1000})
    for _ in range(6):
        await running.wait_still()
        before = counts(running)
        await sim_clock.advance(100)
        assert counts(running) == before
        for _ in range(min(len(held), rng.randrange(1, 20))):
            collector, tup = held.pop(rng.randrange(len(held)))
            rng.choice([collector.ack, collector.ack, collector.fail])(tup)
    await running.wait_still()
    while held:
        collector, tup = held.pop()
        collector.ack(tup)
        await running.wait_still()
    await running.wait_idle()
    assert running.pending() == {"numbers": [], "generated": []}
