"""Buffered windows through whole topologies: what a window shows, when its tuples are acked, and when they fail."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any, ClassVar

import pytest

from aiostorm import Config, Fields, LocalCluster, TopologyBuilder, TopologyError
from aiostorm.testing import FeederSpout, Recorder
from aiostorm.windows import BufferedWindowBolt, Counts, LatePolicy, Mixed, Session, Sliding, Time, Tumbling, WindowRows

FIELDS = Fields("at", "name")


class Shown(BufferedWindowBolt):
    """Emits what it sees."""

    windows = Sliding(100, 50)
    timestamp = "at"
    outputs = Fields("all", "new", "expired", "start")

    def execute(self, window: WindowRows) -> Any:
        sides = (window.get(), window.get_new(), window.get_expired())
        return (*("".join(tup["name"] for tup in side) for side in sides), window.window.start)


class Rig:
    def __init__(self, windowed: BufferedWindowBolt, config: Config | None = None) -> None:
        self.feeder, self.sink = FeederSpout(FIELDS), Recorder()
        builder = TopologyBuilder()
        builder.set_spout("spout", self.feeder)
        builder.set_bolt("windows", windowed).shuffle_grouping("spout")
        builder.set_bolt("sink", self.sink).shuffle_grouping("windows")
        self.topology = builder.create_topology(config=config)

    async def feed(self, *rows: tuple[int, str]) -> None:
        await self.feeder.feed_all(rows)

    @property
    def names(self) -> str:
        """Of the tuples that are acked, in the order in which they were emitted: their ids count from 0."""
        return "".join("abcdefgh"[message_id] for message_id in sorted(self.feeder.acked))


@pytest.fixture
async def cluster() -> AsyncIterator[LocalCluster]:
    async with LocalCluster() as cluster:
        yield cluster


async def test_a_tuple_is_acked_when_its_last_window_has_fired(cluster: LocalCluster) -> None:
    rig = Rig(Shown())
    running = await cluster.submit("t", rig.topology)
    await rig.feed((10, "a"))
    await running.wait_still()
    await rig.feed((60, "b"))
    await asyncio.sleep(3)
    assert (rig.sink.values, rig.names) == ([("a", "a", "", -50)], "")
    await rig.feed((110, "c"))
    await asyncio.sleep(2)
    assert (rig.sink.values[1:], rig.names) == ([("ab", "b", "", 0)], "a")
    assert running.metrics()["windows"].live_windows == 3
    rig.feeder.finish()
    await running.wait_idle()
    assert rig.sink.values[2:] == [("bc", "c", "a", 50), ("c", "", "b", 100)]
    assert rig.names == "abc"
    assert running.metrics()["windows"].acked == 3


async def test_a_spout_that_has_finished_need_not_wait_for_acks(cluster: LocalCluster) -> None:
    rig = Rig(Shown())
    running = await cluster.submit("t", rig.topology, Config(max_spout_pending=10))
    await rig.feed(*[(n, "a") for n in range(5)])
    rig.feeder.finish()
    await running.wait_idle(timeout_s=5)
    assert len(rig.feeder.acked) == 5


async def test_windows_by_count_and_by_the_clock(cluster: LocalCluster) -> None:
    rig = Rig(Shown(Counts(3, 2)))
    running = await cluster.submit("counts", rig.topology)
    for name in "abcdef":
        await rig.feed((0, name))
        await running.wait_still()
    assert rig.sink.values == [("ab", "ab", "", 0), ("bcd", "cd", "a", 1), ("def", "ef", "bc", 3)]
    assert rig.names == "abcde"
    rig = Rig(Shown(Tumbling(1_000, time=Time.PROCESSING)))
    running = await cluster.submit("clock", rig.topology)
    await rig.feed((0, "a"), (0, "b"))
    await running.wait_still()
    assert rig.sink.values == []
    await asyncio.sleep(1.01)
    assert [row[0] for row in rig.sink.values] == ["ab"]
    assert rig.names == "ab"


async def test_a_session_is_shown_whole_and_its_tuples_are_acked_then(cluster: LocalCluster) -> None:
    rig = Rig(Shown(Session(100), key="name"))
    running = await cluster.submit("t", rig.topology)
    await rig.feed((0, "a"), (100, "a"), (40, "b"), (90, "b"), (200, "a"), (250, "c"))
    await asyncio.sleep(3)
    assert (rig.sink.values, rig.names) == ([("bb", "bb", "", 40)], "cd")
    assert running.metrics()["windows"].live_windows == 4
    await rig.feed((50, "b"), (301, "c"))
    await asyncio.sleep(3)
    assert rig.sink.values[1:] == [("aaa", "aaa", "", 0)]
    assert rig.names == "abcdeg"  # the second session of b had fired: g was late
    assert running.metrics()["windows"].late == 1
    rig.feeder.finish()
    await running.wait_idle()
    assert rig.sink.values[2:] == [("cc", "cc", "", 250)]
    assert rig.names == "abcdefgh"


@pytest.mark.parametrize("anchored", [False, True])
async def test_tuples_of_a_session_that_raises_fail(cluster: LocalCluster, anchored: bool) -> None:
    class Raises(Shown):
        def execute(self, window: WindowRows) -> Any:
            if window.window.start == 0:
                raise ValueError("a bad session")
            return super().execute(window)

    bolt = Raises(Session(10))
    bolt.anchored = anchored  # type: ignore[misc]
    rig = Rig(bolt)
    running = await cluster.submit("t", rig.topology)
    await rig.feed((0, "a"), (10, "b"), (21, "c"))
    rig.feeder.finish()
    await running.wait_idle()
    assert (rig.names, sorted(rig.feeder.failed)) == ("c", [0, 1])
    assert "a bad session" in str(rig.feeder.failed[0].error)


@pytest.mark.parametrize("time", [Time.EVENT, Time.PROCESSING])
async def test_mixed_windows_are_of_rows_each_milliseconds_or_the_reverse(cluster: LocalCluster, time: Time) -> None:
    """By the clock a row comes each 300 ms, too."""
    of_rows, of_ms = Mixed(size=2, slide_ms=1_000, time=time), Mixed(size_ms=700, slide=2, time=time)
    for name, windows, shown, acked in (
        ("rows", of_rows, ["cd", "ef"], "abcdef"),
        ("ms", of_ms, ["ab", "bcd", "def"], "abcdef"),
    ):
        rig = Rig(Shown(windows))
        running = await cluster.submit(f"{name}{time}", rig.topology)
        if time is Time.PROCESSING:  # begin with a second
            await asyncio.sleep(-asyncio.get_running_loop().time() % 1)
        for n, letter in enumerate("abcdef"):
            await rig.feed((50 + 300 * n, letter))
            await asyncio.sleep(0.3)
        await asyncio.sleep(0 if time is Time.EVENT else 0.5)
        rig.feeder.finish()
        await running.wait_idle()
        assert [row[0] for row in rig.sink.values] == shown
        assert rig.names == acked
        assert running.metrics()["windows"].live_windows == 0


async def test_sessions_by_the_clock_end_when_nothing_has_come(cluster: LocalCluster) -> None:
    rig = Rig(Shown(Session(1_000, time=Time.PROCESSING)))
    running = await cluster.submit("t", rig.topology)
    for name in "abc":
        await rig.feed((0, name))
        await asyncio.sleep(0.9)
    assert (rig.sink.values, rig.names) == ([], "")
    await asyncio.sleep(0.2)
    assert ([row[0] for row in rig.sink.values], rig.names) == (["abc"], "abc")
    await running.wait_idle()


async def test_tuples_of_a_window_that_raises_fail_with_their_last_window(cluster: LocalCluster) -> None:
    class Raises(Shown):
        async def execute(self, window: WindowRows) -> Any:
            await asyncio.sleep(1)
            if window.window.start == 0:
                raise ValueError("a bad window")
            return super().execute(window)

    rig = Rig(Raises())
    running = await cluster.submit("t", rig.topology)
    await rig.feed((10, "a"), (60, "b"), (110, "c"))
    rig.feeder.finish()
    await running.wait_idle()
    assert (rig.names, sorted(rig.feeder.failed)) == ("c", [0, 1])
    assert "a bad window" in str(rig.feeder.failed[0].error)
    (report,) = running.errors()
    assert "a bad window" in str(report.error)
    assert [row[3] for row in rig.sink.values] == [-50, 50, 100]


async def test_results_are_anchored_if_configured(cluster: LocalCluster) -> None:
    class Anchored(Shown):
        windows = Tumbling(100)
        anchored = True

    for windowed, failed in ((Anchored(), 2), (Shown(Tumbling(100)), 0)):
        rig = Rig(windowed)
        rig.sink._fail_on = lambda tup: tup["all"] == "ab"
        running = await cluster.submit(f"t{failed}", rig.topology)
        await rig.feed((10, "a"), (60, "b"), (110, "c"))
        rig.feeder.finish()
        await running.wait_idle()
        assert len(rig.feeder.failed) == failed
        assert len(rig.feeder.acked) == 3 - failed


async def test_a_buffered_bolt_emits_late_tuples_and_fails_bad_ones(cluster: LocalCluster) -> None:
    class Own(BufferedWindowBolt):
        windows = Tumbling(100)
        timestamp = "at"
        key = "name"
        late = LatePolicy.RETRACT
        outputs = Fields("all", "new", "expired", "start")
        seen: ClassVar[list[Any]] = []

        def prepare(self, context: Any, collector: Any) -> None:
            self.collector = collector

        def execute(self, window: WindowRows) -> None:
            self.collector.emit((window.key, len(window.get()), 0, window.window.start), anchors=window.get()[0])

        def retract(self, tup: Any, windows: Any) -> Any:
            return [(tup["name"], -1, 0, window.start) for window in windows]

    rig = Rig(Own())
    running = await cluster.submit("t", rig.topology)
    bad: Any = float("nan")
    await rig.feed((10, "a"), (60, "b"), (bad, "c"), (150, "a"))
    await asyncio.sleep(3)
    assert rig.sink.values == [("a", 1, 0, 0), ("b", 1, 0, 0)]
    assert list(rig.feeder.failed) == [2]
    await rig.feed((20, "a"))
    await running.wait_still()
    assert rig.sink.values[2:] == [("a", -1, 0, 0)]
    assert sorted(rig.feeder.acked) == [0, 1, 4]  # 3 is in a window that is open
    rig.feeder.finish()
    await running.wait_idle()
    assert sorted(rig.feeder.acked) == [0, 1, 3, 4]
    assert running.metrics()["windows"].late == 1


async def test_windows_longer_than_messages_may_take_are_refused() -> None:
    with pytest.raises(
        TopologyError, match=r"bolt 'windows': it keeps tuples .* for at least 60 s, but messages time out after 30 s"
    ):
        Rig(Shown(Sliding(50_000, 10_000)))
    Rig(Shown(Sliding(50_000, 10_000)), Config(message_timeout_s=61))
    Rig(Shown(Sliding(50_000, 10_000)), Config(enable_message_timeouts=False))
    rig = Rig(Shown(Sliding(5_000, 1_000)))
    async with LocalCluster() as cluster:
        with pytest.raises(TopologyError, match="time out after 6 s"):
            await cluster.submit("t", rig.topology, Config(message_timeout_s=6))


async def test_kept_tuples_fail_when_the_task_is_killed(cluster: LocalCluster) -> None:
    rig = Rig(Shown(Tumbling(20_000)), Config(message_timeout_s=50))
    running = await cluster.submit("t", rig.topology, Config(message_timeout_s=50))
    await rig.feed((10, "a"), (60, "b"))
    await asyncio.sleep(1)
    await running.kill()
    assert rig.feeder.acked == []
