"""Windows in topologies: rare cases, each of which was once wrong."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any, ClassVar

import pytest

from aiostorm import Config, Fields, LocalCluster, TopologyBuilder
from aiostorm.testing import FeederSpout, Recorder
from aiostorm.windows import (
    BufferedWindowBolt,
    Count,
    Counts,
    LatePolicy,
    Session,
    Sliding,
    Sum,
    Time,
    Tumbling,
    WindowedBolt,
    WindowRows,
)

from .window_topology import FIELDS, Retracting, Rig, sums


@pytest.fixture
async def cluster() -> AsyncIterator[LocalCluster]:
    async with LocalCluster() as cluster:
        yield cluster


async def test_a_key_of_one_field_in_a_tuple_is_that_field_in_results(cluster: LocalCluster) -> None:
    rig = Rig(WindowedBolt(Tumbling(1_000), Sum("amount"), key=("user",), timestamp="at"))
    running = await cluster.submit("t", rig.topology)
    await rig.feed(("ann", 10, 1), ("bob", 20, 2))
    rig.finish()
    await running.wait_idle()
    assert rig.sink.values == [("ann", 1, 0, 1_000), ("bob", 2, 0, 1_000)]


class Shown(BufferedWindowBolt):
    windows = Counts(3)
    outputs = Fields("users", "new")
    shown: ClassVar[list[Any]] = []

    def execute(self, window: WindowRows) -> tuple[str, int]:
        return "".join(tup["user"] for tup in window.get()), len(window.get_new())


@pytest.mark.parametrize(
    ("windows", "shown"),
    [
        (Counts(3), [("abc", 3), ("def", 3), ("g", 1)]),
        (Counts(4, 3), [("abc", 3), ("cdef", 3), ("fg", 1)]),
        (Counts(9), [("abcdefg", 7)]),
    ],
    ids=str,
)
async def test_rows_that_wait_for_more_are_shown_and_acked_at_the_end(
    cluster: LocalCluster, windows: Counts, shown: list[Any]
) -> None:
    rig = Rig(Shown(windows))
    running = await cluster.submit("t", rig.topology)
    await rig.feed(*[(user, 0, 1) for user in "abcdefg"])
    rig.finish()
    await running.wait_idle(timeout_s=10)
    assert rig.sink.values == shown
    assert (rig.acked, rig.failed) == (7, 0)
    assert running.metrics()["windows"].live_windows == 0


async def test_fired_windows_do_not_fire_again_after_a_restart(cluster: LocalCluster) -> None:
    class Dying(Retracting):
        late = LatePolicy.DROP
        retract = WindowedBolt.retract
        died: ClassVar[list[int]] = []

        def execute(self, tup: Any, state: int, window: Any) -> int:
            if tup["amount"] == 99 and not self.died:
                self.died.append(1)
                raise asyncio.CancelledError  # which ends the instance
            return state + int(tup["amount"])

    Dying.died = []
    rig = Rig(Dying)
    running = await cluster.submit("t", rig.topology)
    await rig.feed(("ann", 10, 1), ("ann", 2_500, 2))
    await asyncio.sleep(3)
    await rig.feed(("ann", 2_600, 99))
    await rig.feed(("ann", 20, 7))
    rig.finish()
    await running.wait_idle()
    assert running.metrics()["windows"].tasks[0].restarts == 1
    assert rig.sink.values == [("ann", 1, 0), ("ann", 99, 2_000)]
    assert running.metrics()["windows"].late == 1
    assert (rig.acked, rig.failed) == (4, 0)


@pytest.mark.parametrize(
    "windows",
    [Tumbling(1_000), Sliding(1_000, 500), Session(1_000), Tumbling(1_000, time=Time.PROCESSING)],
    ids=lambda windows: f"{type(windows).__name__} {windows.time.value}",
)
async def test_a_window_of_many_keys_fires_in_turns(cluster: LocalCluster, windows: Any) -> None:
    """More of them than are sorted in one go."""
    rig = Rig(WindowedBolt(windows, Count(), key="user", timestamp="at"))
    running = await cluster.submit("t", rig.topology, Config(turn_max_tuples=1_000))
    users = [f"u{n * 7_919 % 9_001:04}" for n in range(9_001)]
    await rig.feeders[0].feed_all([(user, 600, 1) for user in users])
    rig.finish()
    await running.wait_idle()
    assert [row[0] for row in rig.sink.values] == sorted(users) * (2 if type(windows) is Sliding else 1)
    assert rig.acked == 9_001


async def test_bad_rows_of_every_kind_fail_and_the_others_count(cluster: LocalCluster) -> None:
    feeder, sink = FeederSpout(FIELDS), Recorder()
    builder = TopologyBuilder()
    builder.set_spout("spout", feeder)
    builder.set_bolt("windows", sums()).global_grouping("spout")
    builder.set_bolt("sink", sink).global_grouping("windows")
    running = await cluster.submit("t", builder.create_topology())
    nan = float("nan")
    bad: list[Any] = [("ann", nan, 1), ("ann", None, 1), ("ann", "5", 1), ("ann", 5, "x"), (nan, 5, 1), ([], 5, 1)]
    for row in (("ann", 1, 1), *bad, ("ann", 2.5, 2), ("ann", 3, 10**400), ("ann", 4, 0.5)):
        await feeder.feed(row)
    feeder.finish()
    await running.wait_idle()
    assert sink.values == [("ann", 3 + 10**400, 0, 1_000)]
    assert sorted(feeder.failed) == [*range(1, 7), 9]
    assert sorted(feeder.acked) == [0, 7, 8]


async def test_windows_that_fire_because_all_is_idle_move_the_time_downstream(cluster: LocalCluster) -> None:
    """A single row does not start the time of its input if `max_advance_ms` is set: no watermark is known."""
    feeder, sink = FeederSpout(FIELDS), Recorder()
    builder = TopologyBuilder()
    builder.set_spout("spout", feeder)
    first = sums(fire_when_idle=True, idle_timeout_ms=5_000, max_advance_ms=1_000)
    builder.set_bolt("windows", first).global_grouping("spout")
    behind = WindowedBolt(Tumbling(100), Count(), key="user", timestamp="start")
    builder.set_bolt("behind", behind).global_grouping("windows")
    builder.set_bolt("sink", sink).global_grouping("behind")
    running = await cluster.submit("t", builder.create_topology())
    await feeder.feed(("ann", 10, 1))
    await asyncio.sleep(20)
    assert running.metrics()["windows"].emitted == 1
    assert sink.values == [("ann", 1, 0, 100)]
