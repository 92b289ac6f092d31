"""ParquetSinkBolt in topologies: exactly once with an identity, at least once without, errors that fail tuples only."""

from __future__ import annotations

import asyncio
import errno
import logging
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, ClassVar

import pytest

from aiostorm import BasicBolt, Config, Fields, LocalCluster, Spout, TopologyBuilder, Tumbling, WindowedBolt
from aiostorm.spark import ParquetSinkBolt
from aiostorm.spark.sinks.parquet_store import FileStore, LocalFileStore
from aiostorm.windows import Count

from .parquet_parts import Chunks, chunk, ds, files, pa, read, rows_of, run


def built(source: Any, sink: Any, *, tasks: int = 2, key: str | None = None) -> TopologyBuilder:
    builder = TopologyBuilder()
    builder.set_spout("source", source)
    declarer = builder.set_bolt("sink", sink, parallelism=tasks)
    declarer.fields_grouping("source", key) if key else declarer.shuffle_grouping("source")
    return builder


@pytest.mark.parametrize("key", [None, "k"])
@pytest.mark.parametrize("by", [(), "word"])
async def test_chunks_that_come_twice_are_there_once(tmp_path: Path, key: str | None, by: Any) -> None:
    path = tmp_path / "out"
    builder = built(Chunks(4, twice=(0, 2, 2, 3)), ParquetSinkBolt(str(path), partition_by=by), tasks=3, key=key)
    results, errors = await run(builder)
    assert not errors
    assert results["source"][0]["acked"] == [0, 0, 1, 2, 2, 2, 3, 3]
    assert read(path) == rows_of(0, 1, 2, 3)
    assert all(name.rpartition("/")[2].startswith("part-s-0-") for name in files(path)), "nothing else is left there"
    if not key and not by:
        assert len(files(path)) == 4


async def test_a_second_run_of_the_same_chunks_adds_nothing_and_of_others_only_those(tmp_path: Path) -> None:
    for _ in range(2):
        await run(built(Chunks(3), ParquetSinkBolt(str(tmp_path))))
    before = files(tmp_path)
    assert read(tmp_path) == rows_of(0, 1, 2)
    await run(built(Chunks(4), ParquetSinkBolt(str(tmp_path))))
    assert read(tmp_path) == rows_of(0, 1, 2, 3)
    assert set(before) < set(files(tmp_path))


class Sorter(BasicBolt):
    """Fails each chunk the first time, behind the sink and beside it; gives two equal outputs."""

    outputs = Fields("k", "word", "one")
    failed: ClassVar[set[str]] = set()

    def execute_arrow(self, batch: Any, collector: Any) -> None:
        collector.emit_arrow(batch)
        collector.emit_arrow(batch)
        name = str(batch.column("k")[0])
        if name not in self.failed:
            self.failed.add(name)
            raise ValueError("once more")


async def test_equal_outputs_of_a_bolt_that_fails_at_first_are_both_there_once(tmp_path: Path) -> None:
    Sorter.failed = set()
    builder = TopologyBuilder()
    builder.set_spout("source", Chunks(3))
    builder.set_bolt("sorter", Sorter(), parallelism=2).shuffle_grouping("source")
    builder.set_bolt("sink", ParquetSinkBolt(str(tmp_path)), parallelism=2).shuffle_grouping("sorter")
    results, _ = await run(builder)
    assert len(results["source"][0]["failed"]) == 3
    assert read(tmp_path) == sorted(rows_of(0, 1, 2) * 2, key=lambda row: row["k"])


class Paths(BasicBolt):
    def prepare(self, context: Any) -> None:
        self.seen: list[tuple[str, int]] = []

    def execute(self, tup: Any, collector: Any) -> None:
        self.seen.append((tup["path"], tup["rows"]))

    def result(self) -> Any:
        return self.seen


@pytest.mark.parametrize("named", [True, False])
async def test_a_bolt_behind_it_gets_each_file(tmp_path: Path, named: bool) -> None:
    builder = built(Chunks(3) if named else Unnamed(3), ParquetSinkBolt(str(tmp_path)), tasks=1)
    builder.set_bolt("paths", Paths()).shuffle_grouping("sink")
    results, _ = await run(builder)
    assert sorted(path for path, _ in results["paths"][0]) == [str(tmp_path / name) for name in files(tmp_path)]
    assert sum(rows for _, rows in results["paths"][0]) == 60
    assert results["sink"] == [{"path": str(tmp_path), "files": len(files(tmp_path)), "rows": 60}]


class Unnamed(Chunks):
    """Batches without an identity."""

    def batch(self, number: int) -> Any:
        return chunk(number).replace_schema_metadata(None)


class Rows(Chunks):
    """Rows, one at a time; tracked, or not."""

    tracked = True

    def next_tuple(self) -> None:
        if self.waiting:
            number = self.waiting.pop(0)
            for row in chunk(number).to_pylist():
                self.collector.emit(tuple(row.values()), message_id=(row["k"], 0) if self.tracked else None)
                if self.tracked:
                    self.open_ids.add(row["k"])
        elif not self.open_ids:
            self.collector.finish()


class Untracked(Rows):
    tracked = False


@pytest.mark.parametrize("source", [Unnamed, Rows, Untracked])
async def test_rows_without_identity_wait_and_are_written_together(
    tmp_path: Path, source: Any, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO, "aiostorm.spark"):
        results, errors = await run(built(source(4), ParquetSinkBolt(str(tmp_path), flush_s=0.5), tasks=1))
    assert not errors
    assert read(tmp_path) == rows_of(0, 1, 2, 3)
    assert len(files(tmp_path)) == 1
    assert files(tmp_path)[0].startswith("rows-sink-")
    assert len(results["source"][0]["acked"]) == {Unnamed: 4, Rows: 80, Untracked: 0}[source]
    assert sum("at least once" in record.message for record in caplog.records) == 1


async def test_a_full_buffer_is_written_without_a_tick(tmp_path: Path) -> None:
    await run(built(Unnamed(4), ParquetSinkBolt(str(tmp_path), max_rows=25, flush_s=500), tasks=1))
    assert read(tmp_path) == rows_of(0, 1, 2, 3)
    assert len(files(tmp_path)) == 2


class Changes(Chunks):
    """Chunk 1 has another schema."""

    def batch(self, number: int) -> Any:
        made = chunk(number)
        return made if number != 1 else made.set_column(2, "one", pa.array(["x"] * 20))


async def test_another_schema_in_the_middle_fails_that_chunk_and_no_other(tmp_path: Path) -> None:
    results, errors = await run(built(Changes(3, retries=2), ParquetSinkBolt(str(tmp_path)), tasks=1))
    assert set(results["source"][0]["acked"]) == {0, 2}
    assert len(results["source"][0]["failed"]) == 3
    assert "column 'one' came as string, and is int64 in this dataset" in results["source"][0]["failed"][0]
    assert errors[0].component == "sink"
    assert read(tmp_path) == rows_of(0, 2)


async def test_a_path_that_cannot_be_written_holds_the_source_and_fails_nothing(tmp_path: Path) -> None:
    """For longer than messages may take, and more often than they may fail."""
    blocked = tmp_path / "file"
    blocked.write_text("in the way")
    builder = built(Chunks(6), ParquetSinkBolt(str(blocked / "out")), tasks=1)
    async with LocalCluster() as cluster:
        config = Config(max_spout_pending=2, max_retries=0, message_timeout_s=10)
        running = await cluster.submit("parquet", builder.create_topology(), config)
        await asyncio.sleep(100)
        assert running.metrics()["source"].pending == 2
        blocked.unlink()
        await running.wait_idle(timeout_s=600)
        results, errors = await running.results(), running.errors()
        assert running.metrics()["source"].dead_lettered == 0
    assert results["source"][0] == {"acked": [0, 1, 2, 3, 4, 5], "failed": []}
    assert "a part of the path is a file: change the path" in str(errors[0].error)
    assert "held, and tried again in 0." in str(errors[1].error)
    # 0.1 s, doubling to 30 s, each between its half and its whole, looked at once a second: 10 to 15 attempts in
    # 100 s, and what came second is reported as well.
    assert 9 <= len(errors) <= 17
    assert read(blocked / "out") == rows_of(0, 1, 2, 3, 4, 5)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full here")
async def test_a_disk_that_is_full_to_the_end_fails_tuples_then(tmp_path: Path) -> None:
    async with LocalCluster() as cluster:
        builder = built(Chunks(1, retries=0), OnFull(str(tmp_path)), tasks=1)
        running = await cluster.submit("parquet", builder.create_topology())
        await asyncio.sleep(50)
        assert (await running.results())["source"][0] == {"acked": [], "failed": []}
        assert "No space left on device" in str(running.errors()[0].error)
        assert "the disk is full: free some space" in str(running.errors()[0].error)
        await running.kill(wait_s=0)


class TooLong(Chunks):
    """Chunk 1 has a name that no file can have."""

    def batch(self, number: int) -> Any:
        return chunk(number, source="s" * (1 if number != 1 else 2))


class RefusesOne(ParquetSinkBolt):
    def _open_store(self) -> FileStore:
        return PickyStore(self.path, "token")


class PickyStore(LocalFileStore):
    def put(self, name: str, data: Any) -> str:
        if "ss" in name:
            raise OSError(errno.ENAMETOOLONG, "File name too long")
        return super().put(name, data)


async def test_a_row_that_can_never_be_written_fails_alone(tmp_path: Path) -> None:
    results, _ = await run(built(TooLong(3, retries=0), RefusesOne(str(tmp_path)), tasks=1))
    assert results["source"][0]["acked"] == [0, 2]
    assert "the path is too long" in results["source"][0]["failed"][0]


class OnFull(ParquetSinkBolt):
    """Writes to a device that is always full."""

    def _open_store(self) -> FileStore:
        return FullStore(self.path, "token")


class FullStore(LocalFileStore):
    def put(self, name: str, data: Any) -> str:
        with open("/dev/full", "wb") as file:
            file.write(data)
            file.flush()
        return name


async def test_killed_without_waiting_it_writes_the_rest(tmp_path: Path) -> None:
    async with LocalCluster() as cluster:
        running = await cluster.submit(
            "p", built(Untracked(2), ParquetSinkBolt(str(tmp_path), flush_s=500), tasks=1).create_topology()
        )
        await running.wait_idle(timeout_s=600)
        assert not files(tmp_path)
    assert read(tmp_path) == rows_of(0, 1)


@pytest.mark.parametrize("bad", [{"max_rows": 0}, {"flush_s": 0}, {"max_partitions": 0}, {"max_bytes": -1}])
def test_settings_are_checked(bad: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="at least 1, flush_s is more than 0"):
        ParquetSinkBolt("x", **bad)
    with pytest.raises(ValueError, match="needs a path"):
        ParquetSinkBolt("")


class At(Spout):
    outputs = Fields("word", "at")

    def open(self, context: Any, collector: Any) -> None:
        self.collector, self.left = collector, 3

    def next_tuple(self) -> None:
        if self.left:
            self.left -= 1
            self.collector.emit(("a", 1_700_000_000_000 + self.left))
        else:
            self.collector.finish()


async def test_times_of_windows_are_timestamps_in_the_files(tmp_path: Path) -> None:
    builder = TopologyBuilder()
    builder.set_spout("source", At())
    windows = WindowedBolt(Tumbling(1_000), Count(), key="word", timestamp="at", times="datetime")
    builder.set_bolt("windows", windows).fields_grouping("source", "word")
    builder.set_bolt("sink", ParquetSinkBolt(str(tmp_path), flush_s=500)).shuffle_grouping("windows")
    async with LocalCluster() as cluster:
        running = await cluster.submit("parquet", builder.create_topology())
        await running.wait_finished(600)
    table = ds.dataset(str(tmp_path)).to_table()
    assert str(table.schema.field("start").type) == str(table.schema.field("end").type) == "timestamp[us, tz=UTC]"
    assert table.column("end").to_pylist() == [datetime(2023, 11, 14, 22, 13, 21, tzinfo=UTC)]
    assert table.column("result").to_pylist() == [3]
