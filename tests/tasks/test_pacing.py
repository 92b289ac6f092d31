"""Pacing: what a spout does when an order makes it wait, and which bolt is named as the reason. Virtual time."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from aiostorm import Config, ConfigError, LocalCluster, RunningTopology, Spout, TopologyBuilder
from aiostorm.backpressure import PRESSURE_MESSAGES, Level, Pace, PaceChange, Sample, Settings, level_of
from aiostorm.backpressure.flows import Flows
from aiostorm.testing import DeadlockError, SimClock, VirtualTimeLoop
from aiostorm.transport import unpack_value

from .parts import Does, Gate, Numbers, line


class Endless(Spout):
    """A tuple each millisecond, or seldom."""

    outputs = "n"

    def __init__(self, each_s: float = 0.001) -> None:
        self.each_s = each_s

    def open(self, context: Any, collector: Any) -> None:
        self.collector = collector

    async def next_tuple(self) -> None:
        await asyncio.sleep(self.each_s)
        self.collector.emit((1,))


def ignore(tup: Any, collector: Any) -> None:
    pass


def forward(tup: Any, collector: Any) -> None:
    collector.emit((tup[0],))


async def slowly(tup: Any, collector: Any) -> None:
    await asyncio.sleep(0.01)


async def hang(tup: Any, collector: Any) -> None:
    await asyncio.Event().wait()


def emitted(running: RunningTopology) -> int:
    return running.metrics()["spout"].emitted


async def test_an_order_under_way_when_all_is_switched_off_paces_no_spout(
    local_cluster: LocalCluster, sim_clock: SimClock
) -> None:
    running = await local_cluster.submit("t", line(Endless(), take=Does(ignore)))
    await sim_clock.advance(1)
    (spout,) = running._task_set.tasks.spouts
    running._task_set.tasks.post(spout, Pace(1, 1, PaceChange.SLOW, 5.0, time_us=10_000_000))
    await running.update({"backpressure_enable": False})
    await sim_clock.advance(20)
    assert spout.pace.wait_us == 0
    before = emitted(running)
    await sim_clock.advance(1)
    assert emitted(running) > before + 900
    await running.kill(0)


async def test_an_order_that_comes_while_next_tuple_waits_is_not_for_what_went_before(
    local_cluster: LocalCluster, sim_clock: SimClock
) -> None:
    class Backlog(Endless):
        """A hundred tuples that waited, then one each second."""

        waiting = 100

        async def next_tuple(self) -> None:
            if not self.waiting:
                await asyncio.sleep(1)
            self.waiting = max(self.waiting - 1, 0)
            self.collector.emit((1,))

    config = Config(backpressure_check_interval_ms=60_000)  # the master says nothing
    running = await local_cluster.submit("t", line(Backlog(), take=Does(ignore)), config)
    await sim_clock.advance(0.5)
    assert emitted(running) == 100
    (spout,) = running._task_set.tasks.spouts
    running._task_set.tasks.post(spout, Pace(1, 1, PaceChange.SLOW, 600.0, time_us=4_000_000))
    await sim_clock.advance(20)
    assert spout.pace.wait_us
    assert emitted(running) >= 104  # one each 4 s, and not one after 400
    await running.kill(0)


async def test_a_bolt_that_waits_for_the_next_one_is_not_the_bottleneck(
    local_cluster: LocalCluster, sim_clock: SimClock
) -> None:
    topology = line(Endless(), one=Does(forward), two=Does(forward), slow=Does(slowly))
    running = await local_cluster.submit("t", topology)
    await sim_clock.advance(10)
    for _ in range(8):  # 3,000 tuples wait on the way, and were emitted too
        before = emitted(running)
        await sim_clock.advance(5)
        assert emitted(running) - before == pytest.approx(500, abs=60)
        assert all(spout.why == ("slow",) for spout in running.backpressure().spouts)
    assert {event.component for event in running.backpressure().events if event.kind == "BLOCKED"} == {"slow"}
    await running.kill(0)


async def test_the_rate_that_a_slow_spout_does_not_use_is_for_the_other(
    local_cluster: LocalCluster, sim_clock: SimClock
) -> None:
    builder = TopologyBuilder()
    builder.set_spout("spout", Endless())
    builder.set_spout("trickle", Endless(each_s=0.05))
    builder.set_bolt("slow", Does(slowly)).shuffle_grouping("spout").shuffle_grouping("trickle")
    running = await local_cluster.submit("t", builder.create_topology())
    await sim_clock.advance(30)
    before = running.metrics()
    await sim_clock.advance(30)
    after = running.metrics()
    assert after["trickle"].emitted - before["trickle"].emitted == pytest.approx(20 * 30, rel=0.02)
    assert after["spout"].emitted - before["spout"].emitted == pytest.approx(80 * 30, rel=0.06)
    assert after["slow"].executed - before["slow"].executed == pytest.approx(100 * 30, rel=0.02)
    await running.kill(0)


async def test_a_shorter_interval_holds_at_once(local_cluster: LocalCluster, sim_clock: SimClock) -> None:
    topology = line(Endless(), slow=Does(slowly))
    running = await local_cluster.submit("t", topology, Config(backpressure_check_interval_ms=3_600_000))
    await sim_clock.advance(10)
    await running.update({"backpressure_check_interval_ms": 100})
    await sim_clock.advance(1)
    assert running.backpressure().state == "THROTTLED"
    for interval_ms in (1000, 10, 1000):
        await running.update({"backpressure_check_interval_ms": interval_ms})
        await sim_clock.advance(10)
    assert [event.kind for event in running.backpressure().events if event.kind != "UPDATED"] == [
        "BLOCKED", "THROTTLED", "SLOWED"
    ]  # fmt: skip
    await running.kill(0)


async def test_a_fill_is_a_share(local_cluster: LocalCluster, sim_clock: SimClock) -> None:
    running = await local_cluster.submit("t", line(Numbers(3000), slow=Does(hang)))
    await sim_clock.advance(10)
    view = running.backpressure().components["slow"]
    assert (view.fill, [task.fill for task in view.tasks]) == (1, [1])  # what is in hand counts too
    await running.kill(0)


def test_a_deadlock_behind_a_full_mailbox_is_one() -> None:
    async def main() -> None:
        async with LocalCluster() as cluster:
            await cluster.submit("t", line(Endless(), slow=Does(hang)), Config(enable_message_timeouts=False))
            await asyncio.Event().wait()

    with pytest.raises(DeadlockError), asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
        runner.run(main())


async def test_a_bolt_that_goes_on_after_an_hour_is_paced_for_again(
    local_cluster: LocalCluster, sim_clock: SimClock
) -> None:
    gate = Gate()

    async def late(tup: Any, collector: Any) -> None:
        await gate.wait()
        await slowly(tup, collector)

    running = await local_cluster.submit("t", line(Endless(), slow=Does(late)))
    await sim_clock.advance(100)
    assert running.backpressure().state == "THROTTLED"
    await sim_clock.advance(3600)
    assert running.backpressure().state == "NORMAL"
    assert running.backpressure().components["slow"].fill > 0.8
    gate.open()
    await sim_clock.advance(20)
    assert running.backpressure().state == "THROTTLED"
    before = emitted(running)
    await sim_clock.advance(5)
    assert emitted(running) - before == pytest.approx(500, abs=60)
    await running.kill(0)


def test_shares_are_compared_as_shares() -> None:
    # 0.29 * 100 is 28.999…, 0.07 * 100 is 7.000…1
    settings = Settings(high=0.29, low=0.07, samples=100, rate=0.29)
    assert level_of(Sample(29, 100, closed=False, executed=0, execute_s=0.0), settings) is Level.BETWEEN
    assert level_of(Sample(7, 100, closed=False, executed=0, execute_s=0.0), settings) is Level.LOW
    assert not settings.are_enough(29)
    assert settings.are_enough(30)


def test_waiting_tuples_were_emitted_too() -> None:
    flows = Flows(4, {"double": ["spout"], "one": ["double"], "last": ["one", "double"]})
    counts = {"spout": 1000, "double": 900, "one": 700, "last": 500}
    fills = {"double": 100, "one": 1100, "last": 2000}
    for task, (component, count) in enumerate(counts.items()):
        flows.count(component, task, 7, 0.0, 0)
        flows.count(component, task, 7, 10.0, count)
    flows.end_interval(10.0, fills)
    assert flows.per_emitted("double", ["spout"]) == 1
    assert flows.per_emitted("one", ["spout"]) == pytest.approx(2)  # 1,800 of 900, and 100 more wait
    coming = 100 + (2000 - 700)
    assert flows.per_emitted("last", ["spout"]) == pytest.approx((2500 + 2500 / 1600 * coming) / 1000)


def test_a_cycle_is_followed_once() -> None:
    flows = Flows(4, {"here": ["spout", "there"], "there": ["here"]})
    for task, component in enumerate(("spout", "here", "there")):
        flows.count(component, task, 7, 0.0, 0)
        flows.count(component, task, 7, 10.0, 100)
    flows.end_interval(10.0, {"here": 50, "there": 20})
    assert 1 <= flows.per_emitted("here", ["spout"]) < 3
    assert 1 <= flows.per_emitted("there", ["spout"]) < 3


def test_the_number_of_samples_of_a_task_is_bounded() -> None:
    with pytest.raises(ConfigError, match="less than or equal to 1000"):
        Config(backpressure_sample_number=10**9)


def test_an_order_of_a_long_interval_can_be_sent() -> None:
    lease_s = Settings.of(Config(backpressure_check_interval_ms=1e9)).lease_s
    order = Pace(1, 1, PaceChange.SLOW, lease_s, time_us=1)
    assert PRESSURE_MESSAGES.unpack(unpack_value(PRESSURE_MESSAGES.pack(7, order))) == (7, order)


def test_a_task_that_reports_again_after_a_pause_is_not_counted_twice() -> None:
    flows = Flows(4, {"bolt": ["spout"]})
    for at_s in range(10):
        flows.count("spout", 1, 7, at_s, 1000 * at_s)
        flows.count("bolt", 2, 7, at_s, 1000 * at_s)
    flows.end_interval(10, {})
    flows.remove_task("spout", 1)
    flows.count("spout", 1, 7, 20, 10_000)
    flows.count("spout", 1, 7, 20, 10_000)  # twice on its way
    flows.count("bolt", 2, 7, 20, 8_990)
    flows.count("bolt", 2, 7, 21, 10_000)
    flows.end_interval(21, {})
    assert flows.per_emitted("bolt", ["spout"]) == 1.0
    assert flows.rate("spout") == 0.0
