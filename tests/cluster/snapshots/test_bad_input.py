"""What goes wrong around snapshots: values that cannot be saved, damaged files, full disks, folders of others."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar

import pytest

from aiostorm import BasicBolt, LocalCluster, TopologyBuilder
from aiostorm.cluster import TopologyFailedError
from aiostorm.runtime import DirectoryStore, StoreError
from aiostorm.state import ForeignError, KeyedState, RepeatedOutputError, StateError, ValueState

from .parts import (
    CountByKey,
    Database,
    Failing,
    Keyed,
    Numbers,
    SlowNumbers,
    Store,
    check_counting,
    counting,
    exactly_once,
)
from .test_exactly_once import finish, kill_after


def with_bolt(bolt: Any, count: int = 1000) -> Any:
    builder = TopologyBuilder()
    builder.set_spout("numbers", SlowNumbers(count, each=10))
    builder.set_bolt("keyed", Keyed(17)).shuffle_grouping("numbers")
    builder.set_bolt("bolt", bolt, 2).fields_grouping("keyed", "key")
    return builder.create_topology()


class KeepsObjects(BasicBolt):
    state = KeyedState(key="key")

    def prepare(self, context: Any) -> None:
        self.values = context.state

    def execute(self, tup: Any, collector: Any) -> None:
        self.values[tup["key"]] = object()


class KeepsObject(BasicBolt):
    state = ValueState()

    def prepare(self, context: Any) -> None:
        self.value = context.state

    def execute(self, tup: Any, collector: Any) -> None:
        self.value.value = {"of": [object()]}


class ChangesOtherKeys(BasicBolt):
    state = KeyedState(key="key")

    def prepare(self, context: Any) -> None:
        self.values = context.state

    def execute(self, tup: Any, collector: Any) -> None:
        self.values[tup["key"]] = tup["n"]
        self.values["k3" if tup["key"] != "k3" else "k4"] = tup["n"]


@pytest.mark.parametrize(
    ("bolt", "text"),
    [
        (KeepsObjects, r"component 'bolt', task \d: the state of key 'k\d+' cannot be saved \(builtins.object\)"),
        (KeepsObject, r"component 'bolt', task \d: the state of key None cannot be saved"),
        (ChangesOtherKeys, r"component 'bolt', task \d: key 'k\d+' changed and was not marked"),
    ],
)
async def test_state_that_cannot_be_saved_fails_the_topology_by_name(tmp_path: Path, bolt: type, text: str) -> None:
    with pytest.raises(TopologyFailedError, match=text):
        await finish(with_bolt(bolt()), tmp_path)


@pytest.mark.parametrize(
    ("bolt", "text"),
    [
        (KeepsObjects, r"component 'bolt', task \d: the state of key 'k\d+' cannot be saved \(builtins.object\)"),
        (KeepsObject, r"component 'bolt', task \d: the state of key None cannot be saved \(builtins.dict\): .*object"),
    ],
)
async def test_a_value_that_cannot_be_saved_is_found_within_the_first_rows(
    tmp_path: Path, bolt: type, text: str
) -> None:
    # The first snapshot would come after an hour.
    config = exactly_once(tmp_path, snapshot_interval_ms=3_600_000.0)
    async with LocalCluster() as cluster:
        running = await cluster.submit("job", with_bolt(bolt(), 10_000), config)
        with pytest.raises(TopologyFailedError, match=text):
            await running.wait_finished(600)
        assert 0 < running.metrics()["bolt"].executed < 1000


async def test_the_folder_of_another_topology_is_refused(tmp_path: Path) -> None:
    database = Database()
    await finish(counting(database), tmp_path)
    async with LocalCluster() as cluster:
        with pytest.raises(StateError, match="contains the state of topology 'job', and not of 'other'"):
            await cluster.submit("other", counting(database), exactly_once(tmp_path))


async def test_two_topologies_with_one_folder_are_refused(tmp_path: Path) -> None:
    first, second = Database(), Database()
    async with LocalCluster() as one, LocalCluster() as other:
        running = await one.submit(
            "job", counting(first, spout=SlowNumbers(500, each=5), count=500), exactly_once(tmp_path)
        )
        with pytest.raises(StoreError, match="in use"):
            await other.submit("job", counting(second), exactly_once(tmp_path))
        await running.wait_finished(600)
    check_counting(first, 500)
    assert not second.rows


async def test_on_a_url_a_second_run_takes_over_and_the_first_one_fails(tmp_path: Path) -> None:
    """There is no lock: the topology of a node that is lost must be able to go on."""
    database = Database()
    config = exactly_once(f"memory://{tmp_path.name}")
    async with LocalCluster() as one, LocalCluster() as other:
        before = await one.submit("job", counting(database, spout=SlowNumbers(1000, each=1)), config)
        await asyncio.sleep(0.5)
        committed = len(database.rows)
        after = await other.submit("job", counting(database, spout=SlowNumbers(1000, each=1)), config)
        with pytest.raises(TopologyFailedError, match="another process runs topology 'job' with the same folder"):
            await before.wait_finished(600)
        await after.wait_finished(600)
        assert 0 < committed < 1000
        assert after.metrics()["keyed"].executed <= 1000 - committed, "it goes on from the first one's snapshot"
    check_counting(database)  # each row is of one of them, and counts of the second follow those of the first


async def test_on_a_url_another_topology_is_refused(tmp_path: Path) -> None:
    database = Database()
    place = f"memory://{tmp_path.name}"
    async with LocalCluster() as one, LocalCluster() as other:
        running = await one.submit("job", counting(database, spout=SlowNumbers(1000, each=1)), exactly_once(place))
        await asyncio.sleep(0.5)
        with pytest.raises(StateError, match="contains the state of topology 'job', and not of 'other'"):
            await other.submit("other", counting(Database()), exactly_once(place))
        await running.wait_finished(600)
    check_counting(database)


class CountsOtherwise(CountByKey):
    state = KeyedState(key="key", version=2)


async def test_a_snapshot_of_another_version_of_the_state_is_refused(tmp_path: Path) -> None:
    def topology(bolt: Any) -> Any:
        builder = TopologyBuilder()
        builder.set_spout("numbers", Numbers(100))
        builder.set_bolt("keyed", Keyed(17)).shuffle_grouping("numbers")
        builder.set_bolt("count", bolt).fields_grouping("keyed", "key")
        return builder.create_topology()

    await finish(topology(CountByKey()), tmp_path)
    with pytest.raises(ForeignError, match="the snapshot has version 1 of its state, and 2 is declared"):
        await finish(topology(CountsOtherwise()), tmp_path)


def newest(folder: Path, pattern: str) -> Path:
    """A file of the newest snapshot. `{}` in the pattern is its number."""
    number = max(int(path.name[2:-5]) for path in folder.glob("m-*.blob"))
    return min(folder.glob(pattern.format(number)))


def flip(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


@pytest.mark.parametrize("damage", [flip, Path.unlink, lambda path: path.write_bytes(path.read_bytes()[:-9])])
@pytest.mark.parametrize("pattern", ["m-{}.blob", "t*-{}-*.blob"])
async def test_a_damaged_snapshot_is_left_out_with_a_warning(
    tmp_path: Path, damage: Callable[[Path], None], pattern: str, caplog: pytest.LogCaptureFixture
) -> None:
    database = Database()
    await kill_after(counting(database, spout=SlowNumbers(1000, each=2)), tmp_path, 1.0)
    damage(newest(tmp_path, pattern))
    with caplog.at_level(logging.WARNING):
        await finish(counting(database), tmp_path)
    # The database is ahead of the snapshot by one: its rows of that snapshot are there already, and come again.
    if not (pattern.startswith("m") and damage is Path.unlink):  # then the snapshot does not exist
        assert "going back to snapshot" in caplog.text
    assert sorted({n for _, n, _ in database.rows}) == list(range(1000))


class UnreliableStore(DirectoryStore):
    """A folder whose disk is full, or fails at sync, between two times."""

    broken = ""
    attempts = 0

    async def write(self, name: str, data: bytes) -> None:
        if type(self).broken == "full":
            type(self).attempts += 1
            raise StoreError(f"{name}: no space left on the device")
        await super().write(name, data)

    async def sync(self) -> None:
        if type(self).broken == "sync":
            type(self).attempts += 1
            raise StoreError("the disk fails")
        await super().sync()


@pytest.mark.parametrize("broken", ["full", "sync"])
async def test_a_disk_that_fails_stops_snapshots_and_not_the_data(
    tmp_path: Path, broken: str, caplog: pytest.LogCaptureFixture
) -> None:
    database = Database()
    UnreliableStore.broken, UnreliableStore.attempts = "", 0
    async with LocalCluster(open_store=lambda where: UnreliableStore(where)) as cluster:
        topology = counting(database, spout=SlowNumbers(3000, each=1), count=3000)
        running = await cluster.submit("job", topology, exactly_once(tmp_path))
        await asyncio.sleep(1)
        UnreliableStore.broken = broken
        await asyncio.sleep(1)
        committed, executed = len(database.rows), running.metrics()["store"].executed
        await asyncio.sleep(1)
        assert running.metrics()["store"].executed > executed, "data goes on"
        assert len(database.rows) == committed, "nothing is committed"
        assert 2 < UnreliableStore.attempts < 200, "again and again, and ever less often"
        assert "snapshot" in caplog.text
        UnreliableStore.broken = ""
        await running.wait_finished(600)
    check_counting(database, 3000)


async def test_a_sink_that_cannot_commit_is_tried_again_from_the_snapshot(tmp_path: Path) -> None:
    database = Database(fail_commits=3)
    await finish(counting(database), tmp_path, restart_max=10)
    check_counting(database)


async def test_a_sink_that_stays_away_fails_the_topology_and_the_next_run_goes_on(tmp_path: Path) -> None:
    database = Database(fail_commits=1_000)
    with pytest.raises(TopologyFailedError, match="the database does not answer"):
        await finish(counting(database), tmp_path)
    assert 0 < 1_000 - database.fail_commits < 100, "not for ever"
    assert not database.rows
    database.fail_commits = 0
    await finish(counting(database), tmp_path)
    check_counting(database)


async def test_a_savepoint_is_kept_and_can_be_restored(tmp_path: Path) -> None:
    database = Database()
    async with LocalCluster() as cluster:
        running = await cluster.submit(
            "job", counting(database, spout=SlowNumbers(1000, each=2)), exactly_once(tmp_path)
        )
        await asyncio.sleep(0.3)
        number = await running.snapshot()
        committed = list(database.rows)
        await running.wait_finished(600)
    assert (tmp_path / f"m-{number}.blob").exists()
    check_counting(database)
    again = Database(rows=committed)
    async with LocalCluster() as cluster:
        begin: dict[str, Any] = {"restore": number, "repeat_output": True}
        running = await cluster.submit("job", counting(again), exactly_once(tmp_path), **begin)
        await running.wait_finished(600)
    check_counting(again)
    fresh = Database()
    async with LocalCluster() as cluster:
        begin = {"restore": None, "repeat_output": True}
        running = await cluster.submit("job", counting(fresh), exactly_once(tmp_path), **begin)
        await running.wait_finished(600)
    check_counting(fresh)
    async with LocalCluster() as cluster:
        with pytest.raises(StateError, match=f"there is no snapshot 77777; there are: .*{number}"):
            await cluster.submit("job", counting(fresh), exactly_once(tmp_path), restore=77777)


@pytest.mark.parametrize("from_start", [True, False])
async def test_an_older_snapshot_than_the_output_is_refused(tmp_path: Path, from_start: bool) -> None:
    database = Database()
    topology = counting(database, spout=SlowNumbers(1000, each=2))
    async with LocalCluster() as cluster:
        running = await cluster.submit("job", topology, exactly_once(tmp_path), restore=None)
        await asyncio.sleep(0.1)
        number = None if from_start else await running.snapshot()
        await running.wait_finished(600)
    rows = list(database.rows)
    begins = "the start" if from_start else f"snapshot {number}"
    async with LocalCluster() as cluster:
        with pytest.raises(RepeatedOutputError, match=f"would begin from {begins}, and snapshot .*'store' would write"):
            await cluster.submit("job", counting(database), exactly_once(tmp_path), restore=number)
        running = await cluster.submit("job", counting(database), exactly_once(tmp_path))
        await running.wait_finished(600)
    assert database.rows == rows


async def test_the_newest_snapshot_may_be_named(tmp_path: Path) -> None:
    database = Database()
    async with LocalCluster() as cluster:
        running = await cluster.submit("job", counting(database, spout=SlowNumbers(1000)), exactly_once(tmp_path))
        await asyncio.sleep(0.1)
        await running.kill()
        assert running.snapshot_metrics is not None
        number = running.snapshot_metrics.number
    async with LocalCluster() as cluster:
        running = await cluster.submit("job", counting(database), exactly_once(tmp_path), restore=number)
        await running.wait_finished(600)
    check_counting(database)


async def test_without_exactly_once_there_is_no_savepoint() -> None:
    async with LocalCluster() as cluster:
        running = await cluster.submit("job", with_bolt(CountByKey(), 10))
        with pytest.raises(TypeError, match="runs at-least-once: only exactly-once has snapshots"):
            await running.snapshot()


@pytest.mark.parametrize(("before", "after"), [(3, 5), (5, 2), (1, 7)])
async def test_the_state_continues_at_another_parallelism(tmp_path: Path, before: int, after: int) -> None:
    database = Database()

    def topology(tasks: int) -> Any:
        builder = TopologyBuilder()
        builder.set_spout("numbers", SlowNumbers(1000, each=2), 2)
        builder.set_bolt("keyed", Keyed(17)).shuffle_grouping("numbers")
        builder.set_bolt("count", CountByKey(), tasks).fields_grouping("keyed", "key")
        builder.set_bolt("store", Store(database), tasks).shuffle_grouping("count")
        return builder.create_topology()

    await kill_after(topology(before), tmp_path, 0.5)
    await kill_after(topology(after), tmp_path, 0.5)
    await finish(topology(before), tmp_path)
    check_counting(database)


async def test_a_removed_component_is_named_and_a_new_one_begins_without_state(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    def topology(counter: str) -> Any:
        builder = TopologyBuilder()
        builder.set_spout("numbers", SlowNumbers(1000, each=2))
        builder.set_bolt("keyed", Keyed(17)).shuffle_grouping("numbers")
        builder.set_bolt(counter, CountByKey()).fields_grouping("keyed", "key")
        builder.set_bolt("store", Store(database)).shuffle_grouping(counter)
        return builder.create_topology()

    database = Database()
    await kill_after(topology("count"), tmp_path, 0.5)
    so_far = len(database.rows)
    assert 0 < so_far < 1000
    with caplog.at_level(logging.WARNING):
        await finish(topology("count_again"), tmp_path)
    assert "has no 'count' any more" in caplog.text
    assert sorted(n for _, n, _ in database.rows) == list(range(1000))
    assert max(count for _, _, count in database.rows[so_far:]) < 1000 // 17, "counted from 0"


async def test_a_row_that_fails_can_be_skipped(tmp_path: Path) -> None:
    database = Database()
    topology = counting(database, failing=Failing([5, 700]))
    metrics = await finish(topology, tmp_path, state_on_error="skip")
    assert sorted(n for _, n, _ in database.rows) == [n for n in range(1000) if n not in (5, 700)]
    assert metrics["keyed"].failed == 2


@pytest.mark.parametrize("broken", ["full", "sync"])
async def test_a_rollback_while_the_disk_fails_goes_on(tmp_path: Path, broken: str) -> None:
    database, failing = Database(), Failing()
    UnreliableStore.broken, UnreliableStore.attempts = "", 0
    async with LocalCluster(open_store=lambda where: UnreliableStore(where)) as cluster:
        topology = counting(database, spout=SlowNumbers(3000, each=1), count=3000, failing=failing)
        running = await cluster.submit("job", topology, exactly_once(tmp_path))
        await asyncio.sleep(1)
        UnreliableStore.broken = broken
        await asyncio.sleep(0.3)
        number = running.metrics()["keyed"].executed + 100
        failing.left.add(number)
        await asyncio.sleep(1)
        assert not failing.left
        UnreliableStore.broken = ""
        await running.wait_finished(600)
    check_counting(database, 3000)


class FailsAtAbort(Store):
    """Its `abort` fails once, and its rows are lost."""

    left: ClassVar[int] = 0

    def abort(self, handle: dict[str, Any]) -> None:
        if type(self).left:
            type(self).left -= 1
            raise ConnectionError("the database does not answer")
        super().abort(handle)


@pytest.mark.parametrize("on_error", ["rollback", "skip"])
async def test_rows_of_a_sink_that_fails_at_abort_come_again(tmp_path: Path, on_error: str) -> None:
    database = Database()
    UnreliableStore.broken, UnreliableStore.attempts, FailsAtAbort.left = "", 0, 1
    builder = TopologyBuilder()
    builder.set_spout("numbers", SlowNumbers(1000, each=1))
    builder.set_bolt("keyed", Keyed(17)).shuffle_grouping("numbers")
    builder.set_bolt("count", CountByKey(), 2).fields_grouping("keyed", "key")
    builder.set_bolt("store", FailsAtAbort(database)).shuffle_grouping("count")
    async with LocalCluster(open_store=lambda where: UnreliableStore(where)) as cluster:
        settings = exactly_once(tmp_path, state_on_error=on_error)
        running = await cluster.submit("job", builder.create_topology(), settings)
        await asyncio.sleep(0.5)
        UnreliableStore.broken = "full"
        await asyncio.sleep(0.5)
        assert not FailsAtAbort.left
        UnreliableStore.broken = ""
        await running.wait_finished(600)
    check_counting(database)
