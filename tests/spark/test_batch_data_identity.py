"""Progress of one day's data is never taken for that of another day's; a run that was complete says so."""

from __future__ import annotations

import asyncio
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from aiostorm import LocalCluster, TopologyFailedError
from aiostorm.spark import SparkBatchSpout
from aiostorm.spark.batch.data_identity import DataIdentity, identify_data
from tests.spark.conftest import in_thread
from tests.spark.test_batch_spout import Chunks, counting, eventually, finished, made, off_loop

pytestmark = [pytest.mark.spark, pytest.mark.sockets]

FIELDS = ("id", "text", "double")


def day(spark: Any, path: str, shift: int, rows: int = 400) -> None:
    """Write the data of a day: two files."""
    shutil.rmtree(path, ignore_errors=True)
    made(spark, rows, 2).selectExpr(f"id + {shift} as id", "text", "double").write.parquet(path)


SOURCES: dict[str, Callable[[str], dict[str, Any]]] = {
    "path": lambda path: {"path": path},
    "sql": lambda path: {"sql": f"select * from parquet.`{path}`"},  # noqa: S608
    "function": lambda path: {"source": lambda spark: spark.read.parquet(path).where("id >= 0")},
}


@pytest.mark.parametrize("kind", SOURCES)
async def test_another_days_files_are_not_skipped(spark: Any, tmp_path: Path, kind: str) -> None:
    data, progress = str(tmp_path / "data"), str(tmp_path / "progress")

    def spout() -> SparkBatchSpout:
        return SparkBatchSpout(**SOURCES[kind](data), fields=FIELDS, chunk_rows=50, progress=progress)

    await asyncio.to_thread(day, spark, data, 0)
    bolt = Chunks()
    assert (await finished(counting(spout(), bolt)))["numbers"].progress.note == ""
    assert sorted(bolt.ids) == list(range(400))
    again = Chunks()
    report = (await finished(counting(spout(), again, 2)))["numbers"].progress  # the same day: all was done
    assert again.ids == []
    assert (report.done, report.total, report.before) == (2, 2, 2)
    assert report.note.startswith("done by an earlier run (20")
    assert report.note.endswith(f"); remove {progress} to run again")
    await asyncio.to_thread(day, spark, data, 1_000)  # as many files, rows and bytes
    with pytest.raises(TopologyFailedError, match=r"or of other data: its data was .2 files of .* and is .2 files of"):
        await finished(counting(spout(), again))
    assert again.ids == []


async def test_a_run_that_was_half_done_is_not_mixed_with_the_next_day(spark: Any, tmp_path: Path) -> None:
    data, progress = str(tmp_path / "data"), str(tmp_path / "progress")
    hold = asyncio.Event()

    class Some(Chunks):
        async def execute_arrow(self, batch: Any, collector: Any) -> None:
            if len(self.ids) >= 300:
                await hold.wait()
            await super().execute_arrow(batch, collector)

    def spout() -> SparkBatchSpout:
        return SparkBatchSpout(path=data, fields=FIELDS, chunk_rows=50, progress=progress, ahead=1, max_pending=2)

    await asyncio.to_thread(day, spark, data, 0)
    first = Some()
    async with LocalCluster() as cluster:
        running = await cluster.submit("t", counting(spout(), first))
        await eventually(lambda: len(first.ids) == 300)
        await running.kill(wait_s=0)
    one = sorted(path for path in await asyncio.to_thread(os.listdir, data) if path.endswith(".parquet"))[0]
    kept = await asyncio.to_thread((Path(data) / one).stat)
    await asyncio.to_thread(os.utime, Path(data) / one, ns=(kept.st_atime_ns, kept.st_mtime_ns + 10**9))
    with pytest.raises(TopologyFailedError, match="or of other data"):  # one file was written again
        await finished(counting(spout(), first))
    await asyncio.to_thread(os.utime, Path(data) / one, ns=(kept.st_atime_ns, kept.st_mtime_ns))
    second = Chunks()
    report = (await finished(counting(spout(), second)))["numbers"].progress
    assert set(first.ids) | set(second.ids) == set(range(400))
    assert (report.before, report.note) == (1, "")


async def test_rows_without_an_identity_are_compared_by_a_chunk_of_each_partition(spark: Any, tmp_path: Path) -> None:
    def rows(shift: int) -> Any:
        return spark.sparkContext.parallelize([(n + shift,) for n in range(100)], 4).toDF("id bigint")

    def spout(frame: Any) -> SparkBatchSpout:
        return SparkBatchSpout(frame, chunk_rows=10, progress=str(tmp_path / "progress"))

    first, again = Chunks(), Chunks()
    await finished(counting(spout(await off_loop(lambda: rows(0))), first))
    assert sorted(first.ids) == list(range(100))
    report = (await finished(counting(spout(await off_loop(lambda: rows(0))), again, 2)))["numbers"].progress
    assert (report.before, again.ids) == (4, [])
    with pytest.raises(TopologyFailedError, match="partition 0 was finished by an earlier run, and its first chunk is"):
        await finished(counting(spout(await off_loop(lambda: rows(1))), again))
    assert again.ids == []


def test_the_files_that_a_plan_reads(spark: Any, tmp_path: Path) -> None:
    path = str(tmp_path / "data")

    def work() -> None:
        day(spark, path, 0)

        def read() -> DataIdentity:
            return identify_data(spark.read.parquet(path).where("id > 3").groupBy("text").count())

        assert read() == read()  # whatever numbers Spark gives to columns
        assert read().is_known
        assert read().text.startswith("2 files of ")
        assert identify_data(spark.read.parquet(path).where("id > 4").groupBy("text").count()).plan != read().plan
        nested = identify_data(spark.sql(f"select (select max(id) from parquet.`{path}`) as most"))  # noqa: S608
        assert nested.text.startswith("2 files of ")
        assert identify_data(spark.range(7)) == DataIdentity(
            identify_data(spark.range(7)).plan, "what the query says", is_known=True
        )
        assert not identify_data(spark.createDataFrame([(1,)], "a int")).is_known
        spark.conf.set("spark.sql.sources.useV1SourceList", "")
        try:
            assert read().text.startswith("2 files of ")
        finally:
            spark.conf.unset("spark.sql.sources.useV1SourceList")

    in_thread(work)
