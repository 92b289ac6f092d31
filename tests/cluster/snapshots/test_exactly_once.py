"""Exactly once in one process: results are those of a run in which nothing has happened."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any, ClassVar

import pytest

from aiostorm import LocalCluster, TopologyBuilder
from aiostorm.cluster import TopologyFailedError
from aiostorm.runtime import AiostormError
from aiostorm.topology import Topology

from .parts import (
    COUNTERS,
    BlockingNumbers,
    CountByKey,
    Database,
    Failing,
    Keyed,
    Numbers,
    SlowNumbers,
    Store,
    chances,
    check_counting,
    counting,
    exactly_once,
)


async def finish(topology: Topology, folder: Path, **settings: Any) -> Any:
    async with LocalCluster() as cluster:
        running = await cluster.submit("job", topology, exactly_once(folder, **settings))
        await running.wait_finished(600)
        return running.metrics()


async def kill_after(topology: Topology, folder: Path, seconds: float, **settings: Any) -> None:
    """Run for a while, and then end at once, as a kill does."""
    async with LocalCluster() as cluster:
        running = await cluster.submit("job", topology, exactly_once(folder, **settings))
        await asyncio.sleep(seconds)
        await running.kill(0)


@pytest.mark.parametrize("counter", COUNTERS)
async def test_each_row_counts_once(tmp_path: Path, counter: str) -> None:
    database = Database()
    await finish(counting(database, counter=counter), tmp_path)
    check_counting(database)


@pytest.mark.parametrize("counter", COUNTERS)
@pytest.mark.parametrize("spout", [Numbers, SlowNumbers, BlockingNumbers])
async def test_a_run_continues_where_the_last_one_was_killed(tmp_path: Path, counter: str, spout: type) -> None:
    database, rng = Database(), chances(7)
    for _ in range(4):
        topology = counting(database, counter=counter, spout=spout(400, each=1), count=400)
        await kill_after(topology, tmp_path, rng.uniform(0.0, 0.2))
    await finish(counting(database, counter=counter, spout=spout(400), count=400), tmp_path)
    check_counting(database, 400)


@pytest.mark.parametrize("counter", COUNTERS)
async def test_rows_that_fail_take_the_topology_back_to_the_last_snapshot(tmp_path: Path, counter: str) -> None:
    database, failing = Database(), Failing([5, 300, 301, 700, 999])
    topology = counting(database, counter=counter, spout=SlowNumbers(1000, each=5), failing=failing)
    await finish(topology, tmp_path, restart_max=10)
    check_counting(database)
    assert not failing.left


async def test_a_sink_that_cannot_commit_when_a_run_begins_is_rolled_back(tmp_path: Path) -> None:
    database = Database()
    await kill_after(counting(database, spout=SlowNumbers(400), count=400), tmp_path, 0.1)
    database.fail_commits = 1
    began_s = asyncio.get_running_loop().time()
    await finish(counting(database, spout=SlowNumbers(400), count=400), tmp_path, restart_backoff_s=(0,))
    assert asyncio.get_running_loop().time() - began_s < 30, "snapshots were given up, each after its timeout"
    assert not database.fail_commits
    check_counting(database, 400)


async def test_a_row_that_always_fails_makes_the_topology_fail(tmp_path: Path) -> None:
    class Always(Failing):
        def check(self, number: int) -> None:
            if number == 500:
                raise ValueError("never")

    database = Database()
    with pytest.raises(TopologyFailedError, match="never"):
        await finish(counting(database, failing=Always()), tmp_path, restart_max=3)
    assert len(database.rows) < 1000
    await finish(counting(database), tmp_path)
    check_counting(database)


class OtherDataError(AiostormError):
    final = True


class Unrestorable(SlowNumbers):
    """Refuses its position."""

    closed: ClassVar[int] = 0

    def restore(self, position: int) -> None:
        raise OtherDataError("of other data")

    def close(self) -> None:
        type(self).closed += 1


async def test_a_spout_that_refuses_its_position_is_closed(tmp_path: Path) -> None:
    Unrestorable.closed = 0
    await kill_after(counting(Database(), spout=SlowNumbers(400, each=1)), tmp_path, 0.1)
    with pytest.raises(TopologyFailedError, match="of other data"):
        await finish(counting(Database(), spout=Unrestorable(400)), tmp_path)
    assert Unrestorable.closed >= 1


class FailsAtRestore(SlowNumbers):
    """Cannot go back to its position, the first few times."""

    failures: ClassVar[int] = 0

    def restore(self, position: int) -> None:
        if type(self).failures:
            type(self).failures -= 1
            raise ConnectionError("the source does not answer")
        super().restore(position)


@pytest.mark.parametrize("on_error", ["rollback", "skip"])
async def test_a_spout_that_fails_at_restore_repeats_nothing(tmp_path: Path, on_error: str) -> None:
    database = Database()
    await kill_after(counting(database, spout=SlowNumbers(400, each=1), count=400), tmp_path, 0.2)
    FailsAtRestore.failures = 2
    topology = counting(database, spout=FailsAtRestore(400, each=1), count=400)
    await finish(topology, tmp_path, state_on_error=on_error, restart_backoff_s=(0,))
    assert not FailsAtRestore.failures
    check_counting(database, 400)


async def test_what_fails_at_restore_is_named_when_the_topology_fails(tmp_path: Path) -> None:
    await kill_after(counting(Database(), spout=SlowNumbers(400, each=1), count=400), tmp_path, 0.1)
    FailsAtRestore.failures = 1_000
    with pytest.raises(TopologyFailedError, match="the source does not answer"):
        await finish(counting(Database(), spout=FailsAtRestore(400)), tmp_path, restart_backoff_s=(0,))


class FailsAtPrepare(Store):
    """Its `pre_commit` fails, the first few times."""

    failures: ClassVar[int] = 0

    def pre_commit(self, number: int) -> dict[str, Any] | None:
        if type(self).failures and self.rows:
            type(self).failures -= 1
            raise ConnectionError("the database does not answer")
        return super().pre_commit(number)


@pytest.mark.parametrize("step", ["pre_commit", "commit"])
async def test_rows_of_a_sink_that_cannot_commit_are_not_skipped(tmp_path: Path, step: str) -> None:
    database = Database(fail_commits=2 if step == "commit" else 0)
    FailsAtPrepare.failures = 2 if step == "pre_commit" else 0
    builder = TopologyBuilder()
    builder.set_spout("numbers", SlowNumbers(400))
    builder.set_bolt("keyed", Keyed(17)).shuffle_grouping("numbers")
    builder.set_bolt("count", CountByKey(), 2).fields_grouping("keyed", "key")
    builder.set_bolt("store", FailsAtPrepare(database), 2).shuffle_grouping("count")
    began_s = asyncio.get_running_loop().time()
    await finish(builder.create_topology(), tmp_path, state_on_error="skip", restart_backoff_s=(0,))
    assert asyncio.get_running_loop().time() - began_s < 30, "snapshots were given up, each after its timeout"
    assert not database.fail_commits
    assert not FailsAtPrepare.failures
    check_counting(database, 400)


async def test_snapshots_are_measured(tmp_path: Path) -> None:
    async with LocalCluster() as cluster:
        running = await cluster.submit("job", counting(Database(), counter="basic"), exactly_once(tmp_path))
        assert running.metrics().snapshots is not None
        first = await running.snapshot()
        found = running.metrics().snapshots
        assert found is not None
        assert (found.number, found.failed) == (first, 0)
        assert found.taken >= 1
        assert found.size_bytes > 0
        assert found.duration_s >= 0
        await running.wait_finished(600)
        states = [component.state_keys for component in running.metrics().values()]
        assert sum(states) > 0
    last = running.metrics().snapshots
    assert last is not None
    assert last.taken > found.taken
    async with LocalCluster() as cluster:
        running = await cluster.submit("job", counting(Database(), counter="basic"), exactly_once(tmp_path))
        again = running.metrics().snapshots
        assert again is not None
        assert (again.number, again.taken) == (last.number, 0)
        await running.kill(0)
