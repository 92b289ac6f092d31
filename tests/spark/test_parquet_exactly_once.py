"""ParquetSinkBolt exactly once: files appear with their snapshot, each row once, whatever is killed and repeated."""

from __future__ import annotations

import asyncio
import errno
import os
from collections import Counter
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from aiostorm import Config, Fields, LocalCluster, Topology, TopologyBuilder, TopologyFailedError
from aiostorm.spark import ParquetSinkBolt
from aiostorm.spark.errors import SinkError
from aiostorm.spark.sinks.parquet_manifest import read_manifest
from aiostorm.spark.sinks.parquet_store import FileStore, LocalFileStore, open_store
from aiostorm.spark.sinks.prepared_files import PreparedFiles
from tests.cluster.snapshots.parts import CountByKey, Failing, Keyed, Numbers, SlowNumbers, chances, exactly_once

from .parquet_parts import chunk, ds, files, rows_of

COUNT = 300


class Chunks(Numbers):
    """Emits chunks that know what they are."""

    outputs = Fields("k", "word", "one")

    async def next_tuple(self) -> None:  # type: ignore[override]
        await asyncio.sleep(0.003)
        if self.at >= self.count:
            self.collector.finish()
            return
        self.collector.emit_arrow(chunk(self.at), message_id=self.at)
        self.at += self.step


def counted(path: str, spout: Any = None, failing: Failing | None = None, **given: Any) -> Topology:
    builder = TopologyBuilder()
    builder.set_spout("numbers", spout or SlowNumbers(COUNT, each=1), 2)
    builder.set_bolt("keyed", Keyed(7, failing), 2).shuffle_grouping("numbers")
    builder.set_bolt("count", CountByKey, 2).fields_grouping("keyed", "key")
    sink = ParquetSinkBolt(path, partition_by="key", max_rows=20, **given)
    builder.set_bolt("sink", sink, 2).fields_grouping("count", "key")
    return builder.create_topology()


async def run(topology: Topology, folder: Path, kill_after_s: float | None = None, **settings: Any) -> Any:
    settings = {"snapshot_interval_ms": 30, **settings}
    async with LocalCluster() as cluster:
        running = await cluster.submit("job", topology, exactly_once(folder, **settings))
        if kill_after_s is not None:
            await asyncio.sleep(kill_after_s)
            await running.kill(0)
            return None
        await running.wait_finished(600)
    assert not running.problems
    return None


def read(path: Path) -> list[tuple[str, int, int]]:
    if not files(path):
        return []
    return [
        (row["key"], row["n"], row["count"])
        for row in ds.dataset(str(path), partitioning="hive").to_table().to_pylist()
    ]


def check(rows: list[tuple[str, int, int]], *, whole: bool = True) -> None:
    numbers = Counter(n for _, n, _ in rows)
    assert max(numbers.values(), default=1) == 1
    if whole:
        assert sorted(numbers) == list(range(COUNT))
    for key in {key for key, _, _ in rows}:
        counts = sorted(count for found, _, count in rows if found == key)
        assert counts == list(range(1, len(counts) + 1))


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in (1, 2))])
async def test_a_run_that_is_killed_writes_each_row_once(tmp_path: Path, seed: int) -> None:
    out, rng = tmp_path / "out", chances(seed)
    for _ in range(4):
        await run(counted(str(out)), tmp_path / "state", rng.uniform(0.0, 0.08))
        check(read(out), whole=False)
    failing = Failing([150, 151, 290])
    await run(counted(str(out), failing=failing), tmp_path / "state", restart_max=10)
    check(read(out))
    assert not failing.left
    assert not [name for name in files(out) if name.startswith(".")], "nothing is pending"
    manifest = read_manifest(open_store(str(out), "t"))
    assert manifest is not None
    assert manifest.rows == COUNT
    await run(counted(str(out)), tmp_path / "state")  # all is done
    await run(counted(str(out), SlowNumbers(COUNT + 10, each=1)), tmp_path / "state")  # it continues
    assert len(read(out)) == COUNT + 10


async def test_while_the_store_cannot_be_written_snapshots_wait_and_the_data_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out, put = tmp_path / "out", LocalFileStore.put
    full = [True]

    def refused(store: LocalFileStore, name: str, data: Any) -> str:
        if full[0]:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return put(store, name, data)

    monkeypatch.setattr(LocalFileStore, "put", refused)
    async with LocalCluster() as cluster:
        settings = exactly_once(tmp_path / "state", snapshot_interval_ms=30, restart_max=1)
        running = await cluster.submit("job", counted(str(out), flush_s=0.1), settings)
        await asyncio.sleep(20)
        assert running.snapshot_metrics is not None
        assert running.snapshot_metrics.failed > 3
        assert "cannot be written" in running.snapshot_metrics.problem
        assert running.metrics()["sink"].executed == COUNT
        full[0] = False
        await running.wait_finished(600)
        assert running.snapshot_metrics.rolled_back == 0
    check(read(out))


async def test_a_run_that_begins_from_the_start_in_the_folder_of_another_is_refused(tmp_path: Path) -> None:
    out = str(tmp_path / "out")
    await run(counted(out), tmp_path / "state", 0.15)
    assert read(tmp_path / "out")
    with pytest.raises(TopologyFailedError, match="files of a run of this topology that is not continued"):
        await run(counted(out), tmp_path / "other")


async def test_chunks_with_an_identity_keep_their_names(tmp_path: Path) -> None:
    def copied() -> Topology:
        builder = TopologyBuilder()
        builder.set_spout("source", Chunks(30))
        builder.set_bolt("sink", ParquetSinkBolt(str(tmp_path / "out")), 2).shuffle_grouping("source")
        return builder.create_topology()

    for seconds in (0.02, 0.04, None):
        await run(copied(), tmp_path / "state", seconds)
    names = [name for name in files(tmp_path / "out") if name.endswith(".parquet")]
    assert len(names) == 30
    assert all(name.startswith("part-s-0-") for name in names)
    rows = ds.dataset([str(tmp_path / "out" / name) for name in names]).to_table().to_pylist()
    assert sorted(rows, key=lambda row: row["k"]) == rows_of(*range(30))


async def test_files_appear_when_a_snapshot_is_committed_and_not_before(tmp_path: Path) -> None:
    out = tmp_path / "out"
    async with LocalCluster() as cluster:
        settings = exactly_once(tmp_path / "state", snapshot_interval_ms=3_600_000)
        running = await cluster.submit("job", counted(str(out)), settings)
        await asyncio.sleep(0.2)
        assert files(out)
        assert all(name.startswith(".aiostorm-pending/") for name in files(out))
        await running.snapshot()
        assert len(read(out)) > 100
        await running.kill(0)


# -- the files of one task ---------------------------------------------------------------------------------------------


@pytest.fixture(params=["local", "memory"])
def store(request: Any, tmp_path: Path) -> FileStore:
    return open_store(str(tmp_path / "d") if request.param == "local" else f"memory:/{tmp_path}", "t")


def prepared(store: FileStore, task: int = 0, tasks: int = 1, instance: str = "a") -> PreparedFiles:
    context: Any = SimpleNamespace(component="sink", task_index=task, parallelism=tasks)
    return PreparedFiles(store, context, "0123456789abcdef", instance)


def test_a_commit_is_repeated_by_another_task_and_an_aborted_file_is_in_the_next(store: FileStore) -> None:
    first = prepared(store)
    assert first.pre_commit() is None
    assert first.add("k=1/rows-1.parquet", b"one").endswith("/k=1/rows-1.parquet")
    handle = first.pre_commit()
    assert handle is not None
    assert not first.is_empty
    first.abort(handle)
    first.add("rows-2.parquet", b"two")
    handle = first.pre_commit()
    assert handle is not None
    assert len(handle) == 2
    assert store.names() == []
    prepared(store).commit([list(file) for file in handle[:1]])  # and interrupted
    for each in (first, prepared(store, instance="b")):
        each.commit(handle)
        assert sorted(store.names()) == ["k=1/rows-1.parquet", "rows-2.parquet"]
    assert first.is_empty
    assert store.read("rows-2.parquet", 10) == b"two"
    with pytest.raises(SinkError, match=r"is lost: neither it nor rows-3.parquet is there"):
        first.commit([("missing", "rows-3.parquet")])


def test_what_no_snapshot_has_is_removed_also_of_tasks_that_there_were(store: FileStore) -> None:
    for task in range(3):
        prepared(store, task, 3).add(f"rows-{task}.parquet", b"x")
    assert len(store.pending()) == 3
    prepared(store, 0, 2).restored(from_start=False)
    assert [name.split("-")[2] for name in store.pending()] == ["1"]
    first = prepared(store)
    first.add(first.rows_name(1), b"x")
    first.commit(first.pre_commit() or [])
    prepared(store).restored(from_start=False)
    with pytest.raises(SinkError, match="begins from the start: its rows would be there twice"):
        prepared(store).restored(from_start=True)


def test_the_sink_runs_with_every_guarantee() -> None:
    for guarantee in ("exactly-once", "at-least-once", "at-most-once"):
        builder = TopologyBuilder()
        builder.set_spout("numbers", Numbers(1))
        builder.set_bolt("sink", ParquetSinkBolt("x")).shuffle_grouping("numbers")
        builder.create_topology(config=Config(guarantee=guarantee))  # type: ignore[arg-type]
