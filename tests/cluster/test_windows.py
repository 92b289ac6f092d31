"""Windows over several workers: watermarks and ends arrive, and a restarted worker gets them again."""

from __future__ import annotations

import asyncio
from typing import Any, ClassVar

import pytest

from aiostorm import Bolt, Config, Fields, Spout, Topology, TopologyBuilder, bolt
from aiostorm.tasks.event_time.time_messages import TIME_MESSAGES, WatermarkRequest
from aiostorm.testing import Recorder
from aiostorm.transport import ProtocolError
from aiostorm.windows import END_MS, Combined, Count, Sum, Time, Tumbling, WindowedBolt

from ..flow.any_parallelism import Stream, sorted_results
from .hosted import Workers

ROWS = 400


class Clicks(Spout):
    """Numbers with a time, until they are acked. `after`: those behind it are only emitted when `gate` is open."""

    outputs = Fields("key", "at", "n")
    gate: ClassVar[asyncio.Event]

    def open(self, context: Any, collector: Any) -> None:
        self.collector, self.left = collector, list(range(ROWS))

    def next_tuple(self) -> None:
        if not self.left:
            if self.gate.is_set():
                self.collector.finish()
            return
        n = self.left.pop(0)
        self.collector.emit((n % 7, n * 10, n), message_id=n)

    def fail(self, message_id: int, failure: Any) -> None:
        self.left.append(message_id)


@bolt(outputs=("key", "at", "n"))
def passed(key: int, at: int, n: int) -> tuple[int, int, int]:
    return key, at, n


class Keep(Bolt):
    kept: ClassVar[list[tuple[Any, ...]]] = []

    def prepare(self, context: Any, collector: Any) -> None:
        self.collector = collector

    def execute(self, tup: Any) -> None:
        self.kept.append(tup.values)
        self.collector.ack(tup)


@pytest.fixture(autouse=True)
def nothing_kept() -> None:
    Keep.kept.clear()
    Clicks.gate = asyncio.Event()


def topology(time: Time = Time.EVENT) -> Topology:
    builder = TopologyBuilder()
    builder.set_spout("clicks", Clicks, parallelism=2)
    builder.set_bolt("passed", passed, parallelism=3).shuffle_grouping("clicks")
    windows = WindowedBolt(
        Tumbling(1_000, time=time), Combined(sum=Sum("n"), rows=Count()), key="key", timestamp="at", lag_ms=10_000
    )
    builder.set_bolt("windows", windows, parallelism=2).fields_grouping("passed", "key")
    totals = WindowedBolt(Tumbling(2_000), Combined(sum=Sum("sum"), rows=Sum("rows")), timestamp="end")
    builder.set_bolt("totals", totals).global_grouping("windows")
    builder.set_bolt("keep", Keep).global_grouping("totals")
    return builder.create_topology()


@pytest.mark.parametrize("count", [2, 3])
async def test_ends_reach_every_window_of_every_worker(count: int) -> None:
    Clicks.gate.set()
    async with Workers(topology(), count=count) as workers:
        await workers.wait_quiet(lambda: sum(row[1] for row in Keep.kept) == 2 * ROWS)
        assert sum(row[0] for row in Keep.kept) == 2 * sum(range(ROWS))
        assert [row[3] - row[2] for row in Keep.kept] == [2_000] * len(Keep.kept)
        assert [row[2] for row in Keep.kept] == sorted({row[2] for row in Keep.kept})
        assert all(not task.held for task in timed(workers))


async def test_the_ingestion_time_of_rows_is_sent_with_them() -> None:
    Clicks.gate.set()
    async with Workers(topology(Time.INGESTION)) as workers:
        await workers.wait_quiet(lambda: sum(row[1] for row in Keep.kept) == 2 * ROWS)
        assert sum(row[0] for row in Keep.kept) == 2 * sum(range(ROWS))
        assert min(row[2] for row in Keep.kept) > 1_000_000_000_000


async def test_a_restarted_worker_gets_the_watermarks_again() -> None:
    Clicks.gate.set()
    async with Workers(topology()) as workers:
        await workers.wait_quiet(lambda: sum(row[1] for row in Keep.kept) == 2 * ROWS)
        spouts = {workers.placement[task] for task in (1, 2)}
        victim = workers.names[1]
        await workers.kill(victim)
        await workers.revive(victim)
        # Its spout emits all of it once more; no task that has ended waits for another end, and no window stays open.
        await workers.wait_quiet()
        assert spouts == set(workers.names)
        assert all(side.keeper.watermark == END_MS for side in timed(workers))
        assert all(not side.held for side in timed(workers))


async def test_windows_would_wait_for_ever_without_the_request_for_watermarks(monkeypatch: pytest.MonkeyPatch) -> None:
    """The test above finds it."""
    monkeypatch.setattr("aiostorm.tasks.emit.watermarks.WatermarkEmitter.resend", lambda self, task: None)
    Clicks.gate.set()
    async with Workers(topology()) as workers:
        await workers.wait_quiet(lambda: sum(row[1] for row in Keep.kept) == 2 * ROWS)
        await workers.kill("w1")
        await workers.revive("w1")
        await workers.wait_quiet()
        assert any(side.keeper.watermark != END_MS for side in timed(workers))


def timed(workers: Workers) -> list[Any]:
    return [
        task.time.driver
        for worker in workers.living.values()
        for task in worker.task_set.tasks.bolts
        if task.time.driver is not None
    ]


def test_the_request_for_watermarks_is_sent_to_other_workers() -> None:
    assert TIME_MESSAGES.unpack((3, 8, 5)) == (3, WatermarkRequest(5))
    for wrong in ((3, 8), (3, 7, 5), ("3", 8, 5), (3, 8, None), [3, 8, 5]):
        with pytest.raises(ProtocolError):
            TIME_MESSAGES.unpack(wrong)
    with pytest.raises(TypeError, match="does not travel"):
        TIME_MESSAGES.pack(3, Config())


@pytest.mark.parametrize("seed", [1, 2, 6, 9])
async def test_windows_do_not_depend_on_parallelism_over_workers_either(seed: int) -> None:
    stream = Stream.draw(seed)
    expected = stream.expected()
    for parallelism in (2, 4):
        sink, late = Recorder(), Recorder()
        async with Workers(stream.topology(parallelism, sink, late), Config(message_timeout_s=10_000)) as workers:
            await workers.wait_quiet(
                lambda sink=sink, late=late: (len(sink.values), len(late.values)) == tuple(map(len, expected)),
                timeout_s=1_000,
            )
        assert sorted_results(sink.values, late.values) == expected


async def test_a_restarted_worker_gets_the_time_of_its_streams() -> None:
    def received(workers: Workers) -> list[dict[int, int]]:
        """The watermarks that each task with windows has received from the other worker's tasks."""
        found = [task for worker in workers.living.values() for task in worker.task_set.tasks.bolts]
        stay = {task for task, name in workers.placement.items() if name == "w0"}
        return [
            {source: ms for source, ms in task.time.driver.keeper.by_input().items() if source in stay}
            for task in found
            if task.task.component == "windows"
        ]

    async with Workers(topology()) as workers:
        await workers.wait_quiet(lambda: sum(spout.left == [] for spout in workers.component("clicks")) == 2)
        before = received(workers)
        assert len(before) == 2
        assert all(watermarks and None not in watermarks.values() for watermarks in before)
        await workers.kill("w1")
        await workers.revive("w1")
        await workers.wait_quiet()
        after = received(workers)
        assert len(after) == 2
        assert all(watermarks[task] >= ms for watermarks in after for earlier in before for task, ms in earlier.items())


async def test_the_timestamp_from_a_function_is_sent_with_its_row() -> None:
    asked: list[int] = []

    def when(tup: Any) -> int:
        asked.append(tup["n"])
        if tup["n"] == 7 and asked.count(7) == 1:
            raise ValueError("not now")
        return int(tup["at"])

    builder = TopologyBuilder()
    builder.set_spout("clicks", Clicks)
    windows = WindowedBolt(Tumbling(1_000), Count(), key="key", timestamp=when, lag_ms=10_000)
    builder.set_bolt("windows", windows, parallelism=4).fields_grouping("clicks", "key")
    builder.set_bolt("keep", Keep).global_grouping("windows")
    async with Workers(builder.create_topology()) as workers:
        await workers.wait_quiet(lambda: len(asked) > ROWS)
        Clicks.gate.set()
        await workers.wait_quiet(lambda: sum(row[1] for row in Keep.kept) == ROWS)
    assert sorted(asked) == sorted([*range(ROWS), 7])  # it failed, and came again
