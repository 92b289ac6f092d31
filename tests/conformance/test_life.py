"""Lifecycle: submit, activate, deactivate, kill."""

from __future__ import annotations

import asyncio
from itertools import pairwise
from typing import Any

import pytest

from aiostorm import LocalCluster, Spout, State, TopologyBuilder, TopologyKilledError, Tuple
from aiostorm.testing import FeederSpout, SimClock

from .parts import Acks, Notes, Rich, straight
from .scenario import scenario


class Holds(Rich):
    """Holds every tuple."""

    def execute(self, tup: Tuple) -> None:
        pass


class Asked(Spout):
    """Notes each call, and when `next_tuple` is called; emits nothing."""

    outputs = "val"

    def __init__(self, notes: Notes) -> None:
        self.notes = notes

    def open(self, context: Any, collector: Any) -> None:
        self.notes.append("open")

    def activate(self) -> None:
        self.notes.append("activate")

    def deactivate(self) -> None:
        self.notes.append("deactivate")

    def next_tuple(self) -> None:
        if self.notes[-1] != "next_tuple":
            self.notes.append("next_tuple")

    def close(self) -> None:
        self.notes.append("close")


@scenario(
    "A topology that is submitted inactive emits nothing until it is activated",
    "TopologyIntegrationTest#testSubmitInactiveTopology",
    "There is no such option: it is deactivated right after submit, when components are already open. In "
    "Storm they open when it is activated",
)
async def test_submit_inactive(local_cluster: LocalCluster, sim_clock: SimClock) -> None:
    feeder, notes = FeederSpout("field1"), Notes()
    builder = TopologyBuilder()
    builder.set_spout("1", feeder)
    builder.set_spout("2", Asked(notes))
    builder.set_bolt("3", Acks).global_grouping("1")
    running = await local_cluster.submit("test", builder.create_topology(), {"message_timeout_s": 10})
    await running.deactivate()
    await feeder.feed("a", 1)
    await sim_clock.advance(20)
    assert running.state is State.INACTIVE
    assert (feeder.acked, feeder.failed) == ([], {})
    assert "next_tuple" not in notes
    await running.activate()
    await sim_clock.advance(12)
    assert feeder.acked == [1]
    assert notes == ["open", "activate", "deactivate", "activate", "next_tuple"]


@scenario(
    "Submit, deactivate, activate, kill: the spouts are notified of each",
    "NimbusClojurePortTest#testTopologyActionNotifier",
    "The spouts and `running.state` show each action; there is no notifier plugin. Only a cluster rebalances",
)
async def test_actions(local_cluster: LocalCluster, sim_clock: SimClock) -> None:
    notes = Notes()
    running = await local_cluster.submit("test-notification", straight(Asked(notes), acks=Acks))
    await sim_clock.settle()
    assert running.state is State.ACTIVE
    await running.deactivate()
    await sim_clock.settle()
    assert running.state is State.INACTIVE
    await running.activate()
    await sim_clock.settle()
    assert running.state is State.ACTIVE
    await running.kill(wait_s=0)
    assert running.state is State.KILLED
    assert notes[:6] == ["open", "activate", "next_tuple", "deactivate", "activate", "next_tuple"]
    with pytest.raises(TopologyKilledError):
        await running.activate()


@scenario(
    "A killed topology waits before it ends, and its name stays in use until then",
    "NimbusClojurePortTest#testKillStorm",
    "It waits only while messages are pending; Storm waits the whole message timeout. A handle instead of a name",
)
async def test_kill(local_cluster: LocalCluster, sim_clock: SimClock) -> None:
    feeder = FeederSpout("n")
    topology = straight(feeder, holds=Holds)
    running = await local_cluster.submit("test", topology, {"message_timeout_s": 20})
    await feeder.feed(1)
    await running.wait_still()
    with pytest.raises(ValueError, match="a topology named 'test' is running"):
        await local_cluster.submit("test", topology)
    begun_s = sim_clock.monotonic()
    killing = asyncio.ensure_future(running.kill())
    await sim_clock.advance(18)
    assert (running.state, killing.done()) == (State.KILLED, False)
    with pytest.raises(ValueError, match="a topology named 'test' is running"):
        await local_cluster.submit("test", topology)
    await killing
    assert sim_clock.monotonic() - begun_s == pytest.approx(20, abs=1.1)
    assert not local_cluster.topologies
    idle = await local_cluster.submit("test", straight(FeederSpout("n"), acks=Acks), {"message_timeout_s": 20})
    begun_s = sim_clock.monotonic()
    await idle.kill()
    assert sim_clock.monotonic() - begun_s < 0.1


@scenario(
    "A topology is killed with a given wait",
    "NimbusClojurePortTest#testKillStorm",
    note="Messages that are then pending are neither acked nor failed; they are listed",
)
async def test_kill_with_a_wait(local_cluster: LocalCluster, sim_clock: SimClock) -> None:
    feeder = FeederSpout("n")
    running = await local_cluster.submit("test4", straight(feeder, holds=Holds), {"message_timeout_s": 100})
    await feeder.feed(1, "held")
    await running.wait_still()
    begun_s = sim_clock.monotonic()
    await running.kill(wait_s=10)
    assert sim_clock.monotonic() - begun_s == pytest.approx(10, abs=0.1)
    assert running.pending() == {"spout": ["held"]}
    assert (feeder.acked, feeder.failed) == ([], {})


@scenario(
    "A spout with nothing to emit is called again after a wait",
    "WaitStrategyProgressive (code)#idle",
    "The wait doubles up to spout_wait_max_ms; an ack, a failure or wake() ends it",
)
async def test_the_wait_of_an_idle_spout(local_cluster: LocalCluster, sim_clock: SimClock) -> None:
    asked, collectors = Notes(), Notes()

    class Idle(Spout):
        outputs = "n"

        def open(self, context: Any, collector: Any) -> None:
            collectors.append(collector)

        def next_tuple(self) -> None:
            asked.append(sim_clock.monotonic())

    config = {"topology.sleep.spout.wait.strategy.time.ms": 1000, "spout_wait_max_ms": 4000}
    await local_cluster.submit("t", straight(Idle, acks=Acks), config)
    await sim_clock.advance(20)
    waits = [round(later - earlier, 3) for earlier, later in pairwise(asked)]
    assert waits == [1, 2, 4, 4, 4, 4]
    collectors[0].wake()
    await sim_clock.settle()
    assert asked[-1] == sim_clock.monotonic()


@scenario(
    "At most a given number of messages is pending",
    "JStorm SimpleBatchTopologyTest#testSimpleBatchTopology",
    note="The limit is for messages; JStorm's test runs batches, and asserts nothing",
)
async def test_max_spout_pending(local_cluster: LocalCluster, sim_clock: SimClock) -> None:
    held = Notes()

    class AcksLater(Rich):
        def execute(self, tup: Tuple) -> None:
            held.append(tup["n"])
            asyncio.get_running_loop().call_later(1, self.collector.ack, tup)

    feeder = FeederSpout("n")
    running = await local_cluster.submit("t", straight(feeder, later=AcksLater), {"topology.max.spout.pending": 1})
    await feeder.feed_all(range(5))
    for done in range(5):
        await running.wait_still()
        assert held == list(range(done + 1))
        assert running.metrics().pending == 1
        await sim_clock.advance(1)
    assert feeder.acked == [0, 1, 2, 3, 4]
