"""Windows at their edges: late tuples, ends, silence, limits, results that are none."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from typing import Any, ClassVar

import pytest

from aiostorm import BasicBolt, Config, Fields, LocalCluster, RunningTopology, TopologyBuilder
from aiostorm.testing import FeederSpout, Recorder
from aiostorm.windows import (
    BufferedWindowBolt,
    Collect,
    Combined,
    Count,
    LatePolicy,
    Session,
    Sliding,
    Tumbling,
    Window,
    WindowedBolt,
)

from .window_topology import FIELDS, Retracting, Rig, sums


@pytest.fixture
async def cluster() -> AsyncIterator[LocalCluster]:
    async with LocalCluster() as cluster:
        yield cluster


# -- late tuples -------------------------------------------------------------------------------------------------------


async def late_run(cluster: LocalCluster, windowed: WindowedBolt) -> tuple[Rig, RunningTopology]:
    rig = Rig(windowed)
    running = await cluster.submit("t", rig.topology)
    await rig.feed(("ann", 10, 1), ("ann", 2_500, 1))
    await asyncio.sleep(3)
    assert len(rig.sink.values) == 1
    await rig.feed(("ann", 20, 7), ("ann", 2_000, 1))
    await running.wait_idle()
    assert running.metrics()["windows"].late == 1
    return rig, running


async def test_late_tuples_are_dropped_counted_and_acked(cluster: LocalCluster) -> None:
    rig, running = await late_run(cluster, sums())
    assert (rig.acked, rig.failed) == (4, 0)
    assert running.errors() == []


async def test_late_tuples_go_to_their_stream(cluster: LocalCluster) -> None:
    rig, _ = await late_run(cluster, sums(late=LatePolicy.STREAM))
    assert rig.late.values == [(("ann", 20, 7), 20, "spout0", "default")]
    assert rig.acked == 4


async def test_late_tuples_are_retracted(cluster: LocalCluster) -> None:
    rig, running = await late_run(cluster, Retracting())
    assert rig.sink.values[1:] == [("ann", 7, -1)]
    assert rig.acked == 4
    await rig.feed(("ann", 30, -1))
    await running.wait_idle()
    assert rig.failed == 1
    assert "nothing to take back" in str(running.errors()[0].error)


async def test_a_late_tuple_that_is_passed_on_is_anchored(cluster: LocalCluster) -> None:
    rig = Rig(sums(late=LatePolicy.STREAM))
    rig.late._fail_on = lambda tup: True
    running = await cluster.submit("t", rig.topology)
    await rig.feed(("ann", 10, 1), ("ann", 2_500, 1))
    await asyncio.sleep(3)
    await rig.feed(("ann", 20, 7))
    await running.wait_idle()
    assert rig.failed == 1


async def test_windows_wait_for_late_tuples_as_long_as_they_are_allowed(cluster: LocalCluster) -> None:
    rig = Rig(sums(allowed_lateness_ms=500))
    running = await cluster.submit("t", rig.topology)
    await rig.feed(("ann", 10, 1), ("ann", 1_400, 1))
    await asyncio.sleep(3)
    await rig.feed(("ann", 20, 7))
    await asyncio.sleep(3)
    assert rig.sink.values == []
    await rig.feed(("ann", 1_500, 1))
    await asyncio.sleep(3)
    assert rig.sink.values == [("ann", 8, 0, 1_000)]
    assert running.metrics()["windows"].late == 0


# -- ends, idleness, limits --------------------------------------------------------------------------------------------


async def test_the_end_of_a_stream_waits_for_rows_that_may_be_replayed(cluster: LocalCluster) -> None:
    class Stumbling(BasicBolt):
        outputs = FIELDS
        failures: ClassVar[list[int]] = []

        def execute(self, tup: Any, collector: Any) -> None:
            if tup["amount"] == 2 and len(self.failures) < 3:
                self.failures.append(1)
                raise ValueError("not yet")
            collector.emit(tup.values)

    Stumbling.failures = []
    feeder, sink = FeederSpout(FIELDS), Recorder()
    builder = TopologyBuilder()
    builder.set_spout("spout", feeder)
    builder.set_bolt("stumbling", Stumbling).shuffle_grouping("spout")
    builder.set_bolt("windows", sums()).fields_grouping("stumbling", "user")
    builder.set_bolt("sink", sink).shuffle_grouping("windows")
    running = await cluster.submit("t", builder.create_topology(), Config(max_retries=5))
    for n in range(4):
        await feeder.feed(("ann", n, n))
    feeder.finish()
    await running.wait_idle()
    assert sink.values == [("ann", 6, 0, 1_000)]


async def test_bolts_have_no_timer_without_new_rows(cluster: LocalCluster) -> None:
    rig = Rig(sums(), spouts=2, between=2)
    running = await cluster.submit("t", rig.topology, Config(backpressure_enable=False))
    await rig.feed(("ann", 10, 1))
    await asyncio.sleep(200)  # they are idle by now, all of them
    assert running.metrics()["windows"].live_windows == 1
    bolts = [task for task in running._task_set.tasks.bolts if task.task.component in ("windows", "between")]
    assert all(task.time.wakeup is None for task in bolts)


async def test_a_row_beyond_the_limit_of_states_fails_alone(cluster: LocalCluster) -> None:
    rig = Rig(sums(max_states=2))
    running = await cluster.submit("t", rig.topology)
    await rig.feed(("ann", 0, 1), ("bob", 0, 1), ("cat", 0, 1), ("ann", 1, 1))
    await running.wait_idle()
    assert (rig.acked, rig.failed) == (3, 1)
    assert "may hold no more" in str(running.errors()[0].error)
    rig.finish()
    await running.wait_idle()
    assert rig.sink.values == [("ann", 2, 0, 1_000), ("bob", 1, 0, 1_000)]


async def test_many_windows_fire_in_many_turns(cluster: LocalCluster) -> None:
    rig = Rig(sums(Sliding(1_000, 100)))
    running = await cluster.submit("t", rig.topology, Config(turn_max_tuples=16, mailbox_capacity_tuples=32))
    await rig.feed(*[(f"u{n:03}", 950, 1) for n in range(200)])
    rig.finish()
    await running.wait_idle()
    assert len(rig.sink.values) == 2_000
    starts = [row[2] for row in rig.sink.values]
    assert starts == sorted(starts)


async def test_purge_may_return_none_or_many_or_raise(cluster: LocalCluster) -> None:
    class Own(Retracting):
        late = LatePolicy.DROP
        retract = WindowedBolt.retract

        def purge(self, state: int, window: Window, key: Any = None) -> Any:
            if key == "none":
                return None
            if key == "many":
                return self.several(state)
            if key == "bad":
                raise ValueError("no result")
            if key == "short":
                return (1, 2)
            return [(key, state, window.start)]

        def several(self, state: int) -> Iterator[tuple[Any, ...]]:
            yield from ((f"many{n}", state, 0) for n in range(2))

    rig = Rig(Own())
    running = await cluster.submit("t", rig.topology)
    await rig.feed(*[(user, 1, 1) for user in ("none", "many", "bad", "short", "ann")])
    rig.finish()
    await running.wait_idle()
    assert rig.sink.values == [("ann", 1, 0), ("many0", 1, 0), ("many1", 1, 0)]
    assert rig.acked == 5
    assert len(running.errors()) == 2


async def test_a_single_state_by_default_is_of_the_task(cluster: LocalCluster) -> None:
    rig = Rig(WindowedBolt(Tumbling(1_000), Combined(all=Collect("amount"), n=Count()), timestamp="at"))
    running = await cluster.submit("t", rig.topology)
    await rig.feed(("ann", 0, 1), ("bob", 0, 2))
    rig.finish()
    await running.wait_idle()
    assert rig.sink.values == [([1, 2], 2, 0, 1_000)]


@pytest.mark.parametrize("held_up", ["by those behind", "by user code"])
async def test_an_input_is_not_idle_while_the_task_cannot_receive(cluster: LocalCluster, held_up: str) -> None:
    async def wait(seconds: float, which: str) -> None:
        if which == held_up:
            await asyncio.sleep(seconds)

    class Slow(BasicBolt):
        async def execute(self, tup: Any, collector: Any) -> None:
            await wait(100 if tup["name"] == "0" else 0, "by those behind")

    class Shown(BufferedWindowBolt):
        windows = Tumbling(1_000)
        timestamp = "at"
        idle_timeout_ms = 10_000
        outputs = Fields("name")

        async def execute(self, window: Any) -> Any:
            await wait(100 if window.window.start == 0 else 0, "by user code")
            return [(str(n),) for n in range(100)]

    feeders = [FeederSpout(FIELDS) for _ in range(2)]
    builder = TopologyBuilder()
    for n, feeder in enumerate(feeders):
        builder.set_spout(f"spout{n}", feeder)
    builder.set_bolt("windows", Shown).global_grouping("spout0").global_grouping("spout1")
    builder.set_bolt("slow", Slow).shuffle_grouping("windows")
    config = Config(mailbox_capacity_tuples=32, message_timeout_s=1_000, backpressure_enable=False)
    running = await cluster.submit("t", builder.create_topology(), config)
    for to, last in enumerate((5_000, 1_500)):
        await feeders[to].feed_all([("ann", 0, 1), ("ann", last, 1)])
    await asyncio.sleep(3)
    await feeders[1].feed_all([("ann", 1_600, 1)])
    await asyncio.sleep(110)
    assert running.metrics()["windows"].executed == 5
    assert running.metrics()["windows"].late == 0


@pytest.mark.parametrize(
    ("windows", "waiting", "asked", "late"),
    [(Tumbling(1_000), 5, 7, 1), (Sliding(1_000, 500), 10, 14, 1), (Session(500), 5, 7, 0)],
    ids=["tumbling", "sliding", "session"],
)
async def test_open_windows_fire_on_idle_inputs_if_configured(
    cluster: LocalCluster, windows: Any, waiting: int, asked: int, late: int
) -> None:
    for fire_when_idle, total in ((False, waiting), (True, asked)):
        rig = Rig(sums(windows, fire_when_idle=fire_when_idle, idle_timeout_ms=5_000), spouts=2)
        running = await cluster.submit(f"t{total}", rig.topology)
        await rig.feed(("ann", 100, 1), ("ann", 4_000, 2))
        await rig.feed(("ann", 100, 4), to=1)
        await asyncio.sleep(4.9)
        assert rig.sink.values == []
        await asyncio.sleep(1.2)
        assert sum(row[1] for row in rig.sink.values) == total
        if fire_when_idle:
            assert running.metrics()["windows"].live_windows == 0
            await rig.feed(("ann", 4_100, 1), ("ann", 9_000, 8), ("ann", 9_100, 8))
            await running.wait_idle()
            assert running.metrics()["windows"].late == late
            assert running.metrics()["windows"].live_windows > 0
        await running.kill()
