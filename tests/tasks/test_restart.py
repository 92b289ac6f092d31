"""A rich bolt that raises: a fresh instance goes on where it stopped, and what it held fails at once."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from aiostorm import Bolt, Config, EmitError, LocalCluster, State, TopologyFailedError
from aiostorm.testing import FixedSpout, Recorder, SimClock

from .parts import Notes, Numbers, line, rows


class Crashes(Bolt):
    """Raises on the given values, once each; acks the others, or holds them."""

    outputs = "out"

    def __init__(self, *crash_on: int, hold: tuple[int, ...] = (), always: bool = False) -> None:
        self.crash_on, self.hold, self.always = crash_on, hold, always
        self.crashed, self.seen, self.instances, self.cleaned = Notes(), Notes(), Notes(), Notes()

    def prepare(self, context: Any, collector: Any) -> None:
        self.collector = collector
        self.instances.append(self)

    def execute(self, tup: Any) -> None:
        n = tup["n"]
        self.seen.append((len(self.instances), n))
        if n in self.crash_on and (self.always or n not in self.crashed):
            self.crashed.append(n)
            raise LookupError(f"{n} crashes it")
        if n not in self.hold:
            self.collector.emit((n,), anchors=tup)
            self.collector.ack(tup)

    def cleanup(self) -> None:
        self.cleaned.append(self)


@pytest.mark.parametrize("tree", [1, 3, 64])
@pytest.mark.parametrize("capacity", [1, 5, 1024])
@pytest.mark.parametrize("turn", [1, 4, 256])
async def test_the_next_instance_goes_on_behind_the_tuple_that_raised(
    local_cluster: LocalCluster, tree: int, capacity: int, turn: int
) -> None:
    source, bolt, sink = Numbers(50), Crashes(7, 8, 30), Recorder()
    config = Config(acker_tree_max_messages=tree, mailbox_capacity_tuples=capacity, turn_max_tuples=turn)
    running = await local_cluster.submit("t", line(source, bolt=bolt, sink=sink), config)
    await running.wait_finished()
    assert [n for _, n in bolt.seen] == list(range(50))  # each once: none is lost, none executed again
    assert sorted(source.failed) == [7, 8, 30]
    assert source.failed[7].error == "LookupError: 7 crashes it"
    assert sorted(source.acked) == [n for n in range(50) if n not in (7, 8, 30)]
    assert len({id(instance) for instance in bolt.instances}) == 4
    metrics = running.metrics()["bolt"]
    assert (metrics.restarts, metrics.errors, metrics.executed) == (3, 3, 50)
    assert (metrics.acked, metrics.failed) == (47, 3)
    await running.kill()
    assert bolt.cleaned == [bolt.instances[-1]]


@pytest.mark.parametrize("tree", [1, 3, 64])
@pytest.mark.parametrize("turn", [1, 4, 256])
async def test_held_tuples_fail_at_once(local_cluster: LocalCluster, sim_clock: SimClock, tree: int, turn: int) -> None:
    held = (1, 2, 5, 9)
    source, bolt, sink = Numbers(12), Crashes(9, hold=held), Recorder()
    begun_s = sim_clock.monotonic()
    config = Config(acker_tree_max_messages=tree, turn_max_tuples=turn)
    running = await local_cluster.submit("t", line(source, bolt=bolt, sink=sink), config)
    await running.wait_finished()
    assert sim_clock.monotonic() - begun_s < 1
    assert sorted(source.failed) == [1, 2, 5, 9]
    assert source.failed[1].error == "held by an instance that failed: LookupError: 9 crashes it"
    assert sorted(source.acked) == [n for n in range(12) if n not in held]
    metrics = running.metrics()["bolt"]
    assert metrics.acked + metrics.failed == metrics.executed == 12


async def test_an_old_instances_late_ack_changes_nothing(local_cluster: LocalCluster) -> None:
    source, bolt = Numbers(4), Crashes(2, hold=(0, 1))
    running = await local_cluster.submit("t", line(source, bolt=bolt, sink=Recorder()))
    await running.wait_finished()
    assert sorted(source.failed) == [0, 1, 2]
    first = bolt.instances[0]
    with pytest.raises(EmitError, match="emits after it was closed"):
        first.collector.emit((1,))
    await running.wait_idle()
    assert len(source.outcomes) == 4


async def test_a_replayed_message_reaches_the_next_instance(local_cluster: LocalCluster) -> None:
    source, bolt, sink = FixedSpout(rows(range(5)), "n"), Crashes(3), Recorder()
    running = await local_cluster.submit("t", line(source, bolt=bolt, sink=sink), Config(max_retries=3))
    await running.wait_finished()
    assert sorted(sink.values) == rows(range(5))
    assert len(source.acked) == 5
    assert bolt.seen[-1] == (2, 3)


async def test_backoff_grows_and_too_many_restarts_fail_the_topology(
    local_cluster: LocalCluster, sim_clock: SimClock
) -> None:
    source, bolt = Numbers(100), Crashes(*range(100), always=True)
    begun_s = sim_clock.monotonic()
    running = await local_cluster.submit("t", line(source, bolt=bolt, sink=Recorder()))
    with pytest.raises(TopologyFailedError, match=r"bolt\[2\] was given up.*5 crashes it") as raised:
        await running.wait_finished()
    assert isinstance(raised.value.__cause__, LookupError)
    assert running.state is State.FAILED
    assert [n for _, n in bolt.seen] == [0, 1, 2, 3, 4, 5]
    assert round(sim_clock.monotonic() - begun_s, 1) == 0 + 0.2 + 1 + 5 + 5
    assert running.metrics()["bolt"].restarts == 5


async def test_restarts_are_forgotten_after_the_window(local_cluster: LocalCluster) -> None:
    source, bolt = Numbers(20), Crashes(*range(20), always=True)
    config = Config(restart_max=2, restart_period_s=1, restart_backoff_s=(0.6,))
    running = await local_cluster.submit("t", line(source, bolt=bolt, sink=Recorder()), config)
    await running.wait_finished()
    assert len(bolt.seen) == 20


async def test_the_mailbox_is_kept_during_the_backoff(local_cluster: LocalCluster, sim_clock: SimClock) -> None:
    source, bolt = Numbers(2000), Crashes(0)
    config = Config(restart_backoff_s=(10,), mailbox_capacity_tuples=64)
    running = await local_cluster.submit("t", line(source, bolt=bolt, sink=Recorder()), config)
    await sim_clock.advance(5)
    assert len(bolt.seen) == 1
    assert 0 < running.metrics()["bolt"].fill_ratio <= 1
    await running.wait_finished()
    assert len(bolt.seen) == 2000
    assert len(source.acked) == 1999


async def test_an_async_execute_that_raises_after_a_suspension(local_cluster: LocalCluster) -> None:
    class Later(Crashes):
        async def execute(self, tup: Any) -> None:  # type: ignore[override]
            await asyncio.sleep(0.01)
            super().execute(tup)

    source, bolt, sink = Numbers(20), Later(7, 8, hold=(3,)), Recorder()
    running = await local_cluster.submit("t", line(source, bolt=bolt, sink=sink))
    await running.wait_finished()
    assert [n for _, n in bolt.seen] == list(range(20))
    assert sorted(source.failed) == [3, 7, 8]


async def test_a_blocking_rich_bolt_restarts_too(local_cluster: LocalCluster) -> None:
    class InThread(Crashes):
        blocking = True

    source, bolt, sink = Numbers(20), InThread(7, 8, hold=(3,)), Recorder()
    running = await local_cluster.submit("t", line(source, bolt=bolt, sink=sink))
    await running.wait_finished()
    assert [n for _, n in bolt.seen] == list(range(20))
    assert sorted(source.failed) == [3, 7, 8]


class CrashesOnBatch(Crashes):
    """The same over batches."""

    def execute_batch(self, tuples: Any) -> None:
        for tup in tuples:
            Crashes.execute(self, tup)


async def test_a_rich_batch_that_raises_fails_what_it_has_not_acked(local_cluster: LocalCluster) -> None:
    source, bolt, sink = Numbers(30), CrashesOnBatch(12, hold=(2,)), Recorder()
    config = Config(turn_max_tuples=5, acker_tree_max_messages=5, max_spout_pending=10)
    running = await local_cluster.submit("t", line(source, bolt=bolt, sink=sink), config)
    await running.wait_finished()
    assert {2, 12} <= set(source.failed)
    assert len(source.acked) + len(source.failed) == 30
    metrics = running.metrics()["bolt"]
    assert metrics.acked + metrics.failed == metrics.executed == 30
    assert sorted(n for _, n in bolt.seen) == [n for n in range(30) if n not in set(source.failed) - {2, 12}]
    report = running.errors()[0]
    assert (report.where, report.error) == ("execute_batch", "LookupError: 12 crashes it")
    assert len(str(report.tuple)) < 1000
    assert "n=" in str(report.tuple)


async def test_a_tick_that_raises_fails_what_was_held_and_nothing_else(local_cluster: LocalCluster) -> None:
    """Also while a turn was cut short: what the instance has not seen yet is executed by the next one."""
    raised = Notes()

    class Ticked(Crashes):
        def on_tick(self) -> None:
            if not raised and len(self.seen) == 3:
                raised.append(True)
                raise LookupError("tick")

        async def execute(self, tup: Any) -> None:  # type: ignore[override]
            await asyncio.sleep(0.4)
            super().execute(tup)

    source, bolt, sink = Numbers(10, each_call=10), Ticked(hold=(1,)), Recorder()
    config = Config(tick_tuple_freq_s=0.1, turn_max_ms=1)
    running = await local_cluster.submit("t", line(source, bolt=bolt, sink=sink), config)
    await running.wait_finished()
    assert raised
    assert [n for _, n in bolt.seen] == list(range(10))
    assert sorted(source.failed) == [1]
    assert running.errors()[0].where == "a tick"


async def test_a_restart_of_one_task_leaves_the_others_alone(local_cluster: LocalCluster) -> None:
    source, a, b = Numbers(100), Crashes(10, 20), Crashes(15)
    running = await local_cluster.submit("t", line(source, a=a, b=Renamed(b), sink=Recorder()))
    await running.wait_finished()
    assert sorted(source.failed) == [10, 15, 20]
    metrics = running.metrics()
    assert (metrics["a"].restarts, metrics["b"].restarts) == (2, 1)


class Renamed(Bolt):
    """Takes the field "out" for "n"."""

    outputs = "out"

    def __init__(self, inner: Crashes) -> None:
        self.inner = inner

    def prepare(self, context: Any, collector: Any) -> None:
        self.inner.prepare(context, collector)

    def execute(self, tup: Any) -> None:
        n = tup["out"]
        if n in self.inner.crash_on and n not in self.inner.crashed:
            self.inner.crashed.append(n)
            raise LookupError("crash")
        self.inner.collector.ack(tup)
