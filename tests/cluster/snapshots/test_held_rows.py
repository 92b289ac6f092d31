"""A sink holds rows while snapshots fail: up to a limit; then the spouts wait, and nothing is lost or twice."""

from __future__ import annotations

import asyncio
import json
import operator
from collections import Counter
from collections.abc import AsyncIterator, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

import pytest

from aiostorm import LocalCluster, RunningTopology, TopologyBuilder, spout
from aiostorm.cluster.snapshots.agent import Agent
from aiostorm.runtime import DirectoryStore, StoreError
from aiostorm.state import FileSink, MapSink
from aiostorm.state.sinks.file_sink import LocalFolder
from aiostorm.tasks import HoldSpouts
from aiostorm.testing.simulation import World

from ..sim_workers import SimBackend, with_workers
from .exact import HERE, KEYS, Committed, expected
from .parts import (
    BlockingNumbers,
    Database,
    Numbers,
    SlowNumbers,
    check_counting,
    counting,
    exactly_once,
)

LIMIT = 300
ON_THE_WAY = 400
"""More rows than mailboxes and tasks hold."""


class Full(DirectoryStore):
    """A folder for snapshots whose disk is full for a while, but for who uses it."""

    is_full = False

    async def write(self, name: str, data: bytes) -> None:
        if type(self).is_full and name != "owner":
            raise StoreError(f"{name}: no space left on the device")
        await super().write(name, data)


@pytest.fixture(autouse=True)
def _full() -> None:
    Full.is_full = True
    FullFolder.is_full = True


def settings(folder: Path, **more: Any) -> Any:
    small = {"mailbox_capacity_tuples": 16, "turn_max_tuples": 16, "sink_held_max_rows": LIMIT}
    return exactly_once(folder, **{**small, **more})


def opened() -> LocalCluster:
    return LocalCluster(open_store=lambda where: Full(where))


def waiting(running: RunningTopology) -> str:
    assert running.snapshot_metrics is not None
    return running.snapshot_metrics.waiting


def rollbacks(running: RunningTopology) -> int:
    assert running.snapshot_metrics is not None
    return running.snapshot_metrics.rolled_back


async def until_waiting(running: RunningTopology, seconds: float = 60) -> None:
    for _ in range(int(seconds * 100)):
        if waiting(running):
            await asyncio.sleep(1)
            return
        await asyncio.sleep(0.01)
    pytest.fail("the spouts do not wait")


@pytest.mark.parametrize("kind", [Numbers, SlowNumbers, BlockingNumbers])
@pytest.mark.parametrize("counter", ["basic", "rich"])
async def test_rows_are_held_up_to_a_limit_however_often_a_snapshot_is_tried(
    tmp_path: Path, kind: type[Numbers], counter: str, caplog: pytest.LogCaptureFixture
) -> None:
    database, count = Database(), 1000 if kind is SlowNumbers else 5000
    async with opened() as cluster:
        topology = counting(database, spout=kind(count), counter=counter, count=count, tasks=(2, 2, 3, 1))
        running = await cluster.submit("job", topology, settings(tmp_path))
        await until_waiting(running)
        held = running.metrics()["store"].executed
        assert LIMIT <= held < LIMIT + ON_THE_WAY
        await asyncio.sleep(100)
        status = running.snapshot_metrics
        assert status is not None
        assert status.failed > 7, "barriers have passed: it was the store that refused"
        assert "no space left" in status.problem
        assert running.metrics()["store"].executed == held, "not one more with each attempt"
        assert "the spouts wait, because sink 'store'" in status.waiting
        assert caplog.text.count("free some space") == 1
        Full.is_full = False
        await running.wait_finished(600)
        assert not waiting(running)
        assert rollbacks(running) == 0
    check_counting(database, count)


async def test_the_limit_in_bytes(tmp_path: Path) -> None:
    database = Database()
    async with opened() as cluster:
        topology = counting(database, spout=Numbers(5000), count=5000, tasks=(2, 2, 3, 1))
        small = settings(tmp_path, sink_held_max_rows=1 << 30, sink_held_max_bytes=20_000)
        running = await cluster.submit("job", topology, small)
        await until_waiting(running)
        assert running.metrics()["store"].executed < 1500
        Full.is_full = False
        await running.wait_finished(600)
    check_counting(database, 5000)


async def test_data_goes_on_until_the_limit(tmp_path: Path) -> None:
    database = Database()
    async with opened() as cluster:
        topology = counting(database, spout=SlowNumbers(2000), count=2000)
        running = await cluster.submit("job", topology, settings(tmp_path, sink_held_max_rows=2000))
        await asyncio.sleep(60)
        assert running.metrics()["store"].executed == 2000
        assert not waiting(running)
        Full.is_full = False
        await running.wait_finished(600)
    check_counting(database, 2000)


async def test_a_snapshot_comes_before_the_limit_whatever_the_interval(tmp_path: Path) -> None:
    Full.is_full = False
    database = Database()
    async with opened() as cluster:
        topology = counting(database, spout=SlowNumbers(2000), count=2000)
        running = await cluster.submit("job", topology, settings(tmp_path, snapshot_interval_ms=3_600_000))
        async with asyncio.timeout(600):
            await running.wait_finished()
        assert running.snapshot_metrics is not None
        assert running.snapshot_metrics.taken >= 4
    check_counting(database, 2000)


class FullFolder(LocalFolder):
    """A folder of a sink whose disk is full for a while."""

    is_full: ClassVar[bool] = True

    def write(self, name: str, data: Sequence[bytes]) -> None:
        if self.is_full:
            raise OSError(28, "No space left on device")
        super().write(name, data)


class Files(FileSink):
    def open_folder(self) -> LocalFolder:
        return FullFolder(self._path)


async def test_files_that_cannot_be_written(tmp_path: Path) -> None:
    Full.is_full = False
    builder = TopologyBuilder()
    builder.set_spout("numbers", Numbers(3000))
    builder.set_bolt("files", Files(tmp_path / "out"), 2).shuffle_grouping("numbers")
    async with opened() as cluster:
        running = await cluster.submit("job", builder.create_topology(), settings(tmp_path / "state"))
        await until_waiting(running)
        held = running.metrics()["files"].executed
        await asyncio.sleep(100)
        assert running.metrics()["files"].executed == held < 2 * LIMIT + ON_THE_WAY
        FullFolder.is_full = False
        await running.wait_finished(600)
        assert rollbacks(running) == 0
    lines = [line for path in (tmp_path / "out").iterdir() for line in path.read_text().splitlines()]
    assert sorted(json.loads(line)["n"] for line in lines) == list(range(3000))


async def test_rows_that_are_in_files_are_not_held(tmp_path: Path) -> None:
    """The place of the snapshots is full, and that of the files is not: they need no memory."""
    FullFolder.is_full = False
    builder = TopologyBuilder()
    builder.set_spout("numbers", SlowNumbers(1500))
    builder.set_bolt("files", Files(tmp_path / "out"), 2).shuffle_grouping("numbers")
    async with opened() as cluster:
        short = settings(tmp_path / "state", snapshot_timeout_ms=200)
        running = await cluster.submit("job", builder.create_topology(), short)
        await asyncio.sleep(60)
        assert running.metrics()["files"].executed == 1500
        assert not waiting(running)
        Full.is_full = False
        await running.wait_finished(600)
    lines = [line for path in (tmp_path / "out").iterdir() for line in path.read_text().splitlines()]
    assert sorted(json.loads(line)["n"] for line in lines) == list(range(1500))


class Values(dict[Any, Any]):
    """A store of keys and values."""

    def __deepcopy__(self, memo: object) -> Values:
        return self

    def multi_get(self, keys: Sequence[Any]) -> list[Any]:
        return [self.get(key) for key in keys]

    def multi_put(self, values: Mapping[Any, Any]) -> None:
        self.update(values)


@pytest.mark.parametrize("keys", [10, 10_000])
async def test_a_sink_with_a_value_for_each_key_holds_so_many(tmp_path: Path, keys: int) -> None:
    values = Values()

    @spout(outputs=("key", "n"), repeatable=True)
    async def numbers() -> AsyncIterator[tuple[int, int]]:
        for n in range(3000):
            yield n % keys, 1

    builder = TopologyBuilder()
    builder.set_spout("numbers", numbers)
    builder.set_bolt("sums", MapSink(values, key="key", value="n", combine=operator.add)).global_grouping("numbers")
    async with opened() as cluster:
        running = await cluster.submit("job", builder.create_topology(), settings(tmp_path))
        await asyncio.sleep(60)
        assert bool(waiting(running)) is (keys > LIMIT)
        Full.is_full = False
        await running.wait_finished(600)
    assert sum(total for _, total in values.values()) == 3000


async def test_a_sink_with_a_value_for_each_key_gets_no_more_with_each_attempt(tmp_path: Path) -> None:
    values, emitted = Values(), 0

    @spout(outputs=("key", "n"), repeatable=True)
    async def numbers() -> AsyncIterator[tuple[int, int]]:
        nonlocal emitted
        for n in range(20_000):
            emitted = n
            yield n, 1

    builder = TopologyBuilder()
    builder.set_spout("numbers", numbers)
    builder.set_bolt("sums", MapSink(values, key="key", value="n", combine=operator.add)).global_grouping("numbers")
    async with opened() as cluster:
        running = await cluster.submit("job", builder.create_topology(), settings(tmp_path, snapshot_failures_max=1000))
        await asyncio.sleep(1800)
        assert running.snapshot_metrics is not None
        assert running.snapshot_metrics.failed > 10
        assert LIMIT <= emitted < LIMIT + ON_THE_WAY
        await running.kill(0)


async def test_a_topology_whose_spouts_wait_is_not_idle_and_can_be_drained(tmp_path: Path) -> None:
    database = Database()
    async with opened() as cluster:
        topology = counting(database, spout=Numbers(5000), count=5000)
        running = await cluster.submit("job", topology, settings(tmp_path))
        await until_waiting(running)
        with pytest.raises(TimeoutError):
            await running.wait_idle(30)
        drained = asyncio.ensure_future(running.drain(600))
        await asyncio.sleep(10)
        Full.is_full = False
        await drained
    first = len(database.rows)
    assert LIMIT <= first < 5000
    async with opened() as cluster:
        running = await cluster.submit("job", topology, settings(tmp_path))
        await running.wait_finished(600)
    check_counting(database, 5000)


async def test_it_can_be_killed_and_the_next_run_goes_on(tmp_path: Path) -> None:
    database = Database()
    topology = counting(database, spout=Numbers(5000), count=5000)
    for _ in range(2):
        async with opened() as cluster:
            Full.is_full = False
            running = await cluster.submit("job", topology, settings(tmp_path))
            Full.is_full = True
            await until_waiting(running)
            await running.kill(0)
    Full.is_full = False
    async with opened() as cluster:
        running = await cluster.submit("job", topology, settings(tmp_path))
        await running.wait_finished(600)
    check_counting(database, 5000)


PLACE = "memory://held"


async def on_workers(world: World, cluster: LocalCluster, count: int) -> RunningTopology:
    """A topology whose spouts wait: the disk is full."""
    given = {"topology.state.dir": PLACE, "topology.sink.held.max.rows": LIMIT, "topology.mailbox.capacity": 16}
    running = await cluster.submit("exact", f"{HERE}:counted", given, arguments=("", str(count)))
    world.disk(PLACE).full = True
    await world.until(lambda: bool(waiting(running)), 60, "the spouts wait")
    await asyncio.sleep(2)
    return running


async def is_right(running: RunningTopology, count: int) -> None:
    await running.wait_finished(300)
    found = (await running.results())["count"]
    assert {key: n for part in found for key, n in part.items()} == dict.fromkeys(range(KEYS), 2 * count // KEYS)


def written() -> Counter[tuple[int, int]]:
    return Counter(row for rows in Committed.rows.values() for row in rows)


def test_the_spouts_of_all_workers_wait() -> None:
    Committed.rows.clear()

    async def story(world: World, cluster: LocalCluster, backend: SimBackend) -> None:
        running = await on_workers(world, cluster, 5000)
        executed = running.metrics()["committed"].executed
        assert executed < 2 * LIMIT + 2 * ON_THE_WAY
        await asyncio.sleep(60)
        assert running.metrics()["committed"].executed == executed
        world.disk(PLACE).full = False
        await is_right(running, 5000)

    with_workers(story, workers=3)
    assert written() == expected(5000)


def test_a_worker_ends_meanwhile() -> None:
    """The sinks that held the rows are no more: the spouts go on from the start, and wait again."""
    Committed.rows.clear()

    async def story(world: World, cluster: LocalCluster, backend: SimBackend) -> None:
        running = await on_workers(world, cluster, 5000)
        for times, name in enumerate(("worker-2", "worker-1"), 1):
            world.processes[name].kill("is killed by the test")
            await world.until(lambda times=times: rollbacks(running) == times and bool(waiting(running)), 60, "again")  # type: ignore[misc]
            await asyncio.sleep(5)
            assert waiting(running)
        world.disk(PLACE).full = False
        await is_right(running, 5000)

    with_workers(story, workers=3)
    assert written() == expected(5000)


@pytest.mark.parametrize("hold", [True, False])
def test_a_command_that_is_lost_is_repeated(hold: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    Committed.rows.clear()
    real, lost = Agent.command, list[HoldSpouts]()

    def command(self: Agent, command: Any) -> None:
        if isinstance(command, HoldSpouts) and command.hold is hold and len(lost) < 3:
            lost.append(command)
        else:
            real(self, command)

    monkeypatch.setattr(Agent, "command", command)

    async def story(world: World, cluster: LocalCluster, backend: SimBackend) -> None:
        running = await on_workers(world, cluster, 5000)
        world.disk(PLACE).full = False
        await is_right(running, 5000)

    with_workers(story, workers=3)
    assert len(lost) == 3
    assert written() == expected(5000)
