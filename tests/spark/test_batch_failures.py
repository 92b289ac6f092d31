"""Batches when Spark fails: jobs, the session, its JVM; partitions that are too large; a topology that is killed."""

from __future__ import annotations

import asyncio
import logging
import threading
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from aiostorm import LocalCluster, TopologyFailedError
from aiostorm.spark import SparkBatchSpout
from aiostorm.spark.batch.fetching import Fetching, TooLargeError, planned
from aiostorm.spark.batch.group_size import GROUP_BYTES, MAX_GROUP, GroupSize
from aiostorm.spark.sessions import brief
from aiostorm.spark.types import arrow_schema, row_bytes, rows_that_fit
from tests.spark.conftest import in_thread
from tests.spark.test_batch_spout import Chunks, counting, eventually, finished, ids, made, off_loop

pytestmark = [pytest.mark.spark, pytest.mark.sockets]

OFF = {"spark.sql.adaptive.enabled": "false", "spark.sql.execution.arrow.maxRecordsPerBatch": 100}


def test_the_installed_spark_gives_partitions_by_number(spark: Any) -> None:
    """What fetching.py relies on."""

    def work() -> None:
        frame = planned(made(spark, 1_000, 4), OFF)
        fetching, schema = Fetching(frame), arrow_schema(frame.schema, "it")
        assert fetching.partitions == 4
        fetched = fetching.fetch([1, 3], "a test")
        assert fetched.sizes == [3, 3]
        batches = [pa.ipc.read_record_batch(pa.py_buffer(fetched.read()), schema) for _ in range(6)]
        assert [b.column(0)[0].as_py() for b in batches] == [250, 350, 450, 750, 850, 950]
        fetched.close()
        fetched.close()
        with pytest.raises(EOFError):
            fetched.read()
        # Adaptive execution makes one partition of these; the number is known, and the same, without it.
        grouped = made(spark, 1_000, 4).groupBy("text").count()
        assert Fetching(planned(grouped, OFF)).partitions == int(spark.conf.get("spark.sql.shuffle.partitions"))
        assert Fetching(planned(grouped, {**OFF, "spark.sql.adaptive.enabled": "true"})).partitions == 1
        assert spark.conf.get("spark.sql.adaptive.enabled") == "true"

    in_thread(work)


def test_groups_grow_while_partitions_are_small() -> None:
    size, sizes = GroupSize(), []
    for _ in range(6):
        sizes.append(size.partitions)
        size.record(size.partitions, 0)
    assert sizes == [1, 4, 16, 64, 256, MAX_GROUP]
    size.record(256, 256 * GROUP_BYTES)
    assert size.partitions == 1
    size.record(1, GROUP_BYTES // 2)
    assert size.partitions == 2
    size.too_large()
    assert size.partitions == 1


async def test_a_thousand_partitions_are_a_few_jobs(spark: Any) -> None:
    bolt = Chunks()
    metrics = await finished(counting(SparkBatchSpout(await ids(spark, 500, 1_000)), bolt), timeout_s=100)
    assert sorted(bolt.ids) == list(range(500))
    assert metrics["numbers"].progress.done == 1_000


async def test_a_partition_that_the_driver_does_not_take_is_pushed(spark: Any) -> None:
    conf = spark.sparkContext._jsc.sc().conf()  # read for each job
    before = conf.get("spark.driver.maxResultSize", "1g")
    await asyncio.to_thread(conf.set, "spark.driver.maxResultSize", "200k")
    try:
        frame = await off_loop(lambda: spark.range(0, 40_000, 1, 3).selectExpr("id", "id * 2 as b", "id * 3 as c"))
        with pytest.raises(TopologyFailedError, match=r"larger than spark\.driver\.maxResultSize"):
            await finished(counting(SparkBatchSpout(frame, way="fetch"), Chunks()))
        bolt = Chunks()
        metrics = await finished(counting(SparkBatchSpout(frame, chunk_rows=1_000), bolt))
    finally:
        await asyncio.to_thread(conf.set, "spark.driver.maxResultSize", before)
    assert sorted(bolt.ids) == list(range(40_000))
    assert metrics["numbers"].errors == 0


def test_an_error_in_python_is_reported_with_its_exception_and_place() -> None:
    frames = '  File "/jobs.py", line 7, in parse\n    return int(text)\n'
    said = f"An exception was thrown from the Python worker:\nTraceback (most recent call last):\n{frames}"
    assert brief(ValueError(f"{said}ValueError: 'x'\n\n")) == (
        "An exception was thrown from the Python worker:; ValueError: 'x'; File \"/jobs.py\", line 7, in parse"
    )
    assert brief(
        ValueError(f"Job aborted: E: Traceback (most recent call last):\n{frames}KeyError: 3\n\tat a.B\n")
    ) == ('Job aborted: E:; KeyError: 3; File "/jobs.py", line 7, in parse')
    assert brief(ValueError("plain\n\tat a.B(C.scala:1)")) == "plain"


def test_the_error_of_too_large_partitions_names_them(spark: Any) -> None:
    error = TooLargeError([3, 4, 5])
    assert error.partitions == 3
    assert "3 to 5" in str(error)


async def test_a_job_that_fails_is_tried_again_and_given_up(spark: Any, tmp_path: Path) -> None:
    """Spark's Python worker dies each time."""

    def crash(batches: Any) -> Any:
        import os

        for batch in batches:
            if 77 in batch.column(0).to_pylist():
                os._exit(1)
            yield batch

    frame = await off_loop(lambda: spark.range(0, 100, 1, 4).mapInArrow(crash, "id long"))
    bolt = Chunks()
    spout = SparkBatchSpout(frame, chunk_rows=10, ahead=1)
    topology = counting(spout, bolt, 1, **{"topology.restart.backoff.secs": [0.0]})
    with pytest.raises(TopologyFailedError, match="exited unexpectedly"):
        await finished(topology)
    assert sorted(bolt.ids) == list(range(75))  # what came before it, once


@pytest.mark.parametrize("kind", ["python", "sql"])
@pytest.mark.parametrize("way", ["fetch", "push"])
async def test_an_error_in_the_users_code_runs_the_job_once(spark: Any, tmp_path: Path, kind: str, way: Any) -> None:
    calls = str(tmp_path / "calls")

    def bad(batches: Any) -> Any:
        for _ in batches:
            with open(calls, "a") as file:
                file.write("x")
            raise ValueError("boo")
        yield from batches

    if kind == "python":
        frame = await off_loop(lambda: spark.range(0, 10, 1, 1).mapInArrow(bad, "id long"))
    else:
        frame = await off_loop(lambda: spark.sql("select cast(concat('boo', id) as int) a from range(0, 10, 1, 1)"))
    with pytest.raises(TopologyFailedError, match="boo"):
        await finished(counting(SparkBatchSpout(frame, way=way), Chunks()))
    if kind == "python":
        assert await asyncio.to_thread(Path(calls).read_text) == "x"


def test_partitions_that_are_large_for_the_heap_are_pushed(spark: Any) -> None:
    """Judged before it runs: a partition of 20 M rows ended the JVM, and one of 8 M."""

    def work() -> None:
        assert Fetching(planned(spark.range(0, 20_000_000, 1, 1), OFF)).is_large
        assert Fetching(planned(spark.range(0, 8_000_000, 1, 1), OFF)).is_large
        assert not Fetching(planned(spark.range(0, 20_000_000, 1, 32), OFF)).is_large
        unknown = spark.createDataFrame(spark.sparkContext.parallelize([(1,)]), "a int")
        assert not Fetching(planned(unknown, OFF)).is_large

    in_thread(work)


@pytest.mark.blocks_loop  # Python gives objects of the JVM back where they end, and this JVM is busy
async def test_a_partition_found_to_be_large_is_pushed_before_it_fills_the_heap(
    spark: Any, caplog: pytest.LogCaptureFixture
) -> None:
    """Nothing says beforehand how many rows an explode makes: the first of them are fetched, and no more."""
    rows = 1_500_000

    def make() -> Any:
        ids = spark.range(0, 150, 1, 1).selectExpr("explode(sequence(id * 10000, id * 10000 + 9999)) as id")
        return ids.selectExpr("id", "cast(id as string) as text")

    def limit() -> int:
        frame = planned(make(), OFF)
        fetching = Fetching(frame, row_bytes(arrow_schema(frame.schema, "it")))
        assert not fetching.is_large
        assert 100_000 < fetching.most_rows < rows
        fetched = fetching.fetch([0], "a test")
        assert fetched.sizes == [(fetching.most_rows + 100) // 100]  # of 100 rows each, and one row is more
        fetched.close()
        return fetching.most_rows

    most = await asyncio.to_thread(limit)
    bolt = Chunks()
    with caplog.at_level(logging.INFO, "aiostorm.spark"):
        metrics = await finished(counting(SparkBatchSpout(await off_loop(make)), bolt))
    assert sorted(bolt.ids) == list(range(rows))
    assert metrics["numbers"].errors == 0
    assert f"larger than what the memory of Spark's JVM allows ({most:,} rows): executors push" in caplog.text


def test_partitions_of_the_same_numbers_are_given_to_a_function(spark: Any) -> None:
    """What fetching.py relies on to push: these partitions alone, also those that adaptive execution has made."""

    def numbers(batches: Any) -> Any:
        from pyspark import TaskContext

        context = TaskContext.get()
        assert context is not None
        for batch in batches:
            rows = batch.num_rows
            yield pa.record_batch({"partition": pa.array([context.partitionId()]), "rows": pa.array([rows])})

    def work() -> None:
        frame = made(spark, 1_000, 4)
        fetching = Fetching(planned(frame, OFF))
        found = fetching.run([1, 3], numbers, arrow_schema(frame.schema, "it"))
        assert [(row["partition"], row["rows"]) for row in found] == [(p, n) for p in (1, 3) for n in (100, 100, 50)]
        grouped = made(spark, 1_000, 4).groupBy("text").count()
        fetching = Fetching(planned(grouped, {**OFF, "spark.sql.adaptive.enabled": "true"}))
        found = fetching.run([0], numbers, arrow_schema(grouped.schema, "it"))
        assert sum(row["rows"] for row in found) == 1_000

    in_thread(work)


def test_the_defaults_depend_on_the_other_options() -> None:
    def adaptive(**given: Any) -> bool | None:
        return SparkBatchSpout(sql="select 1 a", fields="a", **given)._source.adaptive

    assert adaptive() is None  # on, unless it runs exactly once
    assert adaptive(progress="/p") is False
    assert adaptive(way="push") is False
    assert adaptive(progress="/p", adaptive=True)
    assert rows_that_fit(pa.schema([("a", pa.int64())])) == 100_000
    assert rows_that_fit(pa.schema([(f"c{n}", pa.string()) for n in range(20)])) == 41_943
    assert rows_that_fit(pa.schema([(f"c{n}", pa.list_(pa.int64())) for n in range(50)])) == 10_000


async def test_a_topology_that_is_killed_leaves_no_job_and_no_thread(spark: Any) -> None:
    def slow(batches: Any) -> Any:
        import time

        for batch in batches:
            if batch.column(0)[0].as_py():
                time.sleep(60)
            yield batch

    frame = await off_loop(lambda: spark.range(0, 4, 1, 4).mapInArrow(slow, "id long"))
    bolt = Chunks()
    async with LocalCluster() as cluster:
        running = await cluster.submit("t", counting(SparkBatchSpout(frame, ahead=2), bolt))
        await eventually(lambda: bolt.ids == [0])
        await running.kill(wait_s=0)
    tracker = spark.sparkContext.statusTracker()
    for _ in range(600):
        if not await asyncio.to_thread(tracker.getActiveJobsIds):
            break
        await asyncio.sleep(0.1)
    else:
        raise AssertionError("jobs are left")
    await eventually(lambda: not [t for t in threading.enumerate() if t.name.startswith("spark-numbers")])
