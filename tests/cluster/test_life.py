"""Submit, activate, drain: the states of a running topology, and what is asked of it in each."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from aiostorm import (
    BasicBolt,
    Config,
    ConfigError,
    LocalCluster,
    State,
    TopologyKilledError,
)
from aiostorm.testing import FeederSpout, FixedSpout, Recorder, SimClock

from ..tasks.parts import DoesRich, Notes, Numbers, line, rows
from .parts import Endless


async def test_submit_returns_an_active_topology(local_cluster: LocalCluster) -> None:
    running = await local_cluster.submit("t", line(FeederSpout("n"), sink=Recorder()))
    assert running.state is State.ACTIVE
    assert running.name == "t"
    assert dict(local_cluster.topologies) == {"t": running}
    await running.kill()
    assert running.state is State.KILLED
    assert not local_cluster.topologies


async def test_two_topologies_at_once_do_not_mix(local_cluster: LocalCluster) -> None:
    sinks = [Recorder(), Recorder()]
    first = await local_cluster.submit("first", line(FixedSpout(rows(range(50)), "n"), sink=sinks[0]))
    second = await local_cluster.submit("second", line(FixedSpout(rows(range(50, 100)), "n"), sink=sinks[1]))
    await asyncio.gather(first.wait_finished(), second.wait_finished())
    assert [sorted(sink.values) for sink in sinks] == [rows(range(50)), rows(range(50, 100))]
    await first.kill()
    assert second.state is State.ACTIVE
    assert list(local_cluster.topologies) == ["second"]


async def test_one_topology_runs_many_times(local_cluster: LocalCluster) -> None:
    """A Topology is a description: nothing of a run is left in it."""
    source = Numbers(10)
    topology = line(source, sink=Recorder())
    for name in ("a", "b", "a"):
        running = await local_cluster.submit(name, topology)
        await running.wait_finished()
        await running.kill()
    assert len(source.acked) == 30


async def test_a_name_is_taken_until_it_is_killed(local_cluster: LocalCluster) -> None:
    running = await local_cluster.submit("t", line(FeederSpout("n"), sink=Recorder()))
    with pytest.raises(ValueError, match="a topology named 't' is running: kill it first"):
        await local_cluster.submit("t", line(FeederSpout("n"), sink=Recorder()))
    assert local_cluster.topologies["t"] is running
    await running.kill()
    again = await local_cluster.submit("t", line(FeederSpout("n"), sink=Recorder()))
    assert again.state is State.ACTIVE


@pytest.mark.parametrize("name", ["", "a/b"])
async def test_a_name_that_cannot_be_used(local_cluster: LocalCluster, name: str) -> None:
    with pytest.raises(ValueError, match="name"):
        await local_cluster.submit(name, line(FeederSpout("n"), sink=Recorder()))
    assert not local_cluster.topologies


async def test_submit_needs_a_running_cluster() -> None:
    cluster = LocalCluster()
    topology = line(FeederSpout("n"), sink=Recorder())
    with pytest.raises(RuntimeError, match="async with LocalCluster"):
        await cluster.submit("t", topology)
    assert not cluster.topologies
    async with cluster:
        await cluster.submit("t", topology)
    with pytest.raises(RuntimeError, match="has ended"):
        await cluster.submit("t", topology)
    assert not cluster.topologies


async def test_layers_of_configuration() -> None:
    """Cluster < topology < submit."""
    seen = Notes()

    class Looks(BasicBolt):
        def prepare(self, context: Any) -> None:
            seen.append(context.config)

        def execute(self, tup: Any, collector: Any) -> None: ...

    base = Config(max_spout_pending=1, message_timeout_s=5, acker_executors=2)
    async with LocalCluster(base) as cluster:
        import dataclasses

        topology = dataclasses.replace(line(FeederSpout("n"), looks=Looks), config=Config(message_timeout_s=6))
        running = await cluster.submit("t", topology, {"topology.acker.executors": 3})
        assert (running.config.max_spout_pending, running.config.message_timeout_s) == (1, 6)
        assert seen[0].acker_executors == 3
        with pytest.raises(ConfigError, match=r"topology\.max\.spout\.pendin"):
            await cluster.submit("u", topology, {"topology.max.spout.pendin": 3})
        assert list(cluster.topologies) == ["t"]


# -- drain -------------------------------------------------------------------------------------------------------------


async def test_drain_then_results_then_kill(local_cluster: LocalCluster, sim_clock: SimClock) -> None:
    class Counts(BasicBolt):
        def __init__(self) -> None:
            self.count = 0

        async def execute(self, tup: Any, collector: Any) -> None:
            await asyncio.sleep(0.01)
            self.count += 1

        def result(self) -> Any:
            return self.count

    source = Endless()
    running = await local_cluster.submit("t", line(source, counts=Counts()), Config(max_spout_pending=20))
    await sim_clock.advance(1)
    await running.drain()
    assert running.state is State.INACTIVE
    assert await running.results() == {"counts": [len(source.acked)]}
    assert running.metrics().pending == 0
    await running.drain()  # again: nothing to do
    await running.kill()


async def test_drain_has_a_time_limit_and_the_spouts_are_ended_all_the_same(
    local_cluster: LocalCluster, sim_clock: SimClock
) -> None:
    source, hold = Endless(), DoesRich()
    running = await local_cluster.submit("t", line(source, hold=hold), Config(max_spout_pending=5))
    await sim_clock.advance(1)
    with pytest.raises(TimeoutError):
        await running.drain(2)
    for tup in list(hold.held):
        hold.collectors[0].ack(tup)
    await running.wait_idle()
    assert len(source.acked) == 5
    with pytest.raises(TopologyKilledError, match="was drained"):
        await running.activate()
