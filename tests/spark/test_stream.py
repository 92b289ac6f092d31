"""SparkStreamSpout on a real Spark: batches held until they are acked, replays, restarts, ends."""

from __future__ import annotations

import asyncio
import logging
import re
import threading
from pathlib import Path
from typing import Any

import pytest

from aiostorm import TopologyFailedError
from aiostorm.spark import SparkSourceError, SparkStreamSpout

from .stream_parts import LIMIT_S, ROWS, Hold, Keep, Results, StreamFolder, run_all, running
from .test_batch_spout import eventually

pytestmark = [pytest.mark.spark, pytest.mark.sockets]

AT_ONCE = {"restart_backoff_s": [0.0]}


@pytest.fixture
def place(tmp_path: Path) -> StreamFolder:
    return StreamFolder(tmp_path / "stream")


async def test_all_rows_come_once_and_the_next_run_goes_on(place: StreamFolder, spark: Any) -> None:
    place.add(2)
    kept = Results()
    assert await run_all(place, spark, kept, chunk_rows=20) == {"batches": 2, "rows": 2 * ROWS, "last_batch": 1}
    assert kept.numbers == list(range(2 * ROWS))
    assert sorted(kept.ids) == ["clicks/b0/0/0", "clicks/b0/0/1", "clicks/b1/0/0", "clicks/b1/0/1"]
    assert place.commits() == [0, 1]
    place.add()
    again = Results()
    assert await run_all(place, spark, again, chunk_rows=20) == {"batches": 1, "rows": ROWS, "last_batch": 2}
    assert again.numbers == list(range(2 * ROWS, 3 * ROWS))
    assert again.ids[0].startswith("clicks/b2/")
    assert spark.streams.active == []
    assert not [thread.name for thread in threading.enumerate() if thread.name.startswith("spark-clicks")]


async def test_spark_commits_a_batch_when_it_is_acked_and_brings_no_other_before(
    place: StreamFolder, spark: Any
) -> None:
    place.add(2)
    kept = Results()
    hold = Hold(kept)
    async with running(place.spout(spark), hold) as job:
        await kept.until(lambda: len(kept.open) == ROWS)
        [query] = spark.streams.active
        assert query.status["isTriggerActive"]
        assert place.commits() == []
        hold.ack_all()
        await kept.until(lambda: len(kept.open) == ROWS)
        assert place.commits() == [0]
        assert str(job.metrics()["clicks"].progress) == "1 of 2 batches, 30 rows"
        assert {tup.metadata["batch"] for _, tup in kept.open} == {"1"}
        assert {tup.metadata["chunk"] for _, tup in kept.open} == {"clicks/b1/0/0"}
        assert {tup["n"] for _, tup in kept.open} == set(range(ROWS, 2 * ROWS))
        await job.kill(0)
    assert spark.streams.active == []
    assert place.commits() == [0]
    again = Results()  # the batch that was not acked comes again
    await run_all(place, spark, again)
    assert (again.numbers, again.ids) == (list(range(ROWS, 2 * ROWS)), ["clicks/b1/0/0"])


async def test_a_chunk_that_fails_is_emitted_again_until_it_may_not(place: StreamFolder, spark: Any) -> None:
    place.add()
    kept = Results()
    fails = {"clicks/b0/0/1": 2}
    spout = place.spout(spark, trigger={"availableNow": True}, chunk_rows=20, max_batch_attempts=3)
    async with running(spout, Keep(kept, fails)) as job:
        await job.wait_finished(LIMIT_S)
    assert kept.numbers == list(range(ROWS))
    assert place.commits() == [0]


async def test_a_batch_that_fails_comes_again_and_the_topology_fails_at_last(place: StreamFolder, spark: Any) -> None:
    place.add()
    kept = Results()
    fails = {"clicks/b0/0/1": 5}  # two attempts a batch: the third time the query is started it goes
    options = {"trigger": {"availableNow": True}, "chunk_rows": 20, "max_batch_attempts": 2}
    async with running(place.spout(spark, **options), Keep(kept, fails), **AT_ONCE) as job:
        await job.wait_finished(LIMIT_S)
        errors = [report.error for report in job.errors()]
    assert place.commits() == [0]
    assert set(kept.numbers) == set(range(ROWS))
    assert kept.ids.count("clicks/b0/0/0") == 3
    failures = [error for error in errors if "SparkSourceError" in error]
    assert len(failures) == 2
    assert all("chunk clicks/b0/0/1 failed: ValueError: not this one in sink, after 2 attempts" in e for e in failures)


async def test_a_batch_with_a_failed_computation_is_fetched_again(
    place: StreamFolder, spark: Any, tmp_path: Path
) -> None:
    place.add()
    kept = Results()
    flag = str(tmp_path / "failed")

    def once(n):  # without hints: PySpark would read them
        import os

        if n == 25 and not os.path.exists(flag):
            os.close(os.open(flag, os.O_CREAT))
            os._exit(1)  # Spark's Python worker dies
        return n

    def source(spark: Any) -> Any:
        from pyspark.sql.functions import udf

        return place.read(spark).select(udf(once, "long")("n").alias("n"), "text")

    assert (await run_all(place, spark, kept, source=source, chunk_rows=10))["rows"] == ROWS
    assert sorted(kept.ids) == ["clicks/b0/0/0", "clicks/b0/0/1", "clicks/b0/0/2"]
    assert kept.numbers == list(range(ROWS))


@pytest.mark.parametrize("kind", ["python", "sql"])
async def test_an_error_in_the_users_code_runs_a_batch_once(
    place: StreamFolder, spark: Any, tmp_path: Path, kind: str
) -> None:
    place.add()
    calls = tmp_path / "calls"
    path = str(calls)

    def bad(n):  # without hints: PySpark would read them
        if n == 25:
            with open(path, "a") as file:
                file.write("x")
            raise ValueError("boo")
        return n

    def source(spark: Any) -> Any:
        from pyspark.sql.functions import udf

        if kind == "python":
            return place.read(spark).select(udf(bad, "long")("n").alias("n"), "text")
        return place.read(spark).selectExpr("cast(concat('boo', n) as long) as n", "text")

    with pytest.raises(TopologyFailedError, match=r"batch 0 of 'clicks': .*boo"):
        async with running(place.spout(spark, source=source), Keep(Results()), **AT_ONCE) as job:
            await job.wait_ended()
    await eventually(lambda: spark.streams.active == [])
    assert place.commits() == []
    if kind == "python":
        assert await asyncio.to_thread(calls.read_text) == "x"


async def test_a_source_that_is_away_for_a_moment_is_asked_again(
    place: StreamFolder, spark: Any, tmp_path: Path
) -> None:
    """It fails where Spark asks what there is, not in a batch's rows."""
    pytest.importorskip("pyspark.sql.datasource", reason="PySpark 3.5 has no sources in Python")
    from pyspark.sql.datasource import DataSource, SimpleDataSourceStreamReader

    path = str(tmp_path / "calls")

    class Reader(SimpleDataSourceStreamReader):
        def initialOffset(self):  # noqa: N802 - Spark's name
            import os

            if not os.path.exists(path):
                os.close(os.open(path, os.O_CREAT))
                raise ConnectionError("away")
            return {"at": 0}

        def read(self, start):
            return iter([(7,)] if start["at"] == 0 else []), {"at": 1}

        def readBetweenOffsets(self, start, end):  # noqa: N802 - Spark's name
            return iter([(7,)] if start["at"] == 0 else [])

    class Source(DataSource):
        @classmethod
        def name(cls):
            return "away"

        def schema(self):
            return "n long"

        def simpleStreamReader(self, schema):  # noqa: N802 - Spark's name
            return Reader()

    def source(spark: Any) -> Any:
        spark.dataSource.register(Source)
        return spark.readStream.format("away").load()

    kept = Results()
    async with running(place.spout(spark, source=source, fields="n"), Keep(kept), **AT_ONCE) as job:
        await kept.until(lambda: kept.numbers == [7])
        [error] = [str(report.error) for report in job.errors()]
    assert re.search("(initial|latest)Offset:; ConnectionError: away; File", error)  # by version of PySpark


async def test_a_query_that_is_stopped_from_outside_is_restarted(place: StreamFolder, spark: Any) -> None:
    place.add(2)
    kept = Results()
    hold = Hold(kept)
    async with running(place.spout(spark), hold, **AT_ONCE):
        await kept.until(lambda: len(kept.open) == ROWS)
        [query] = spark.streams.active
        stopping = threading.Thread(target=query.stop)
        stopping.start()
        await kept.until(lambda: len(kept.open) == 2 * ROWS)  # the same batch, from a new query
        stopping.join(LIMIT_S)
        hold.ack_all()
        await kept.until(lambda: len(kept.open) == ROWS)
        assert place.commits() == [0]
        hold.ack_all()
        await kept.until(lambda: True)
    assert place.commits() == [0, 1]  # acked in the last moment: the end waits for the commit


async def test_a_deactivated_topology_holds_the_next_batch(place: StreamFolder, spark: Any) -> None:
    place.add()
    kept = Results()
    async with running(place.spout(spark), Keep(kept)) as job:
        await kept.until(lambda: len(kept.chunks) == 1)
        await job.deactivate()
        place.add()
        await job.wait_still(LIMIT_S, quiet_s=0.5)
        assert kept.ids == ["clicks/b0/0/0"]
        await job.activate()
        await kept.until(lambda: len(kept.chunks) == 2)
    assert place.commits() == [0, 1]


async def test_problems_of_a_source_are_reported(place: StreamFolder, spark: Any) -> None:
    place.add()

    async def error(**options: Any) -> str:
        with pytest.raises(TopologyFailedError) as raised:
            async with running(place.spout(spark, **options), Keep(Results())) as job:
                await job.wait_ended()
        return str(raised.value)

    assert "not a stream: read it with spark.readStream" in await error(source=lambda spark: spark.range(3))
    assert "the stream 'clicks' has the columns n, text, but fields= declares n" in await error(fields="n")
    assert "gave str, not a DataFrame" in await error(source=lambda spark: "no")
    assert "PATH_NOT_FOUND" in await error(
        source=lambda spark: spark.readStream.schema("n long, text string").json("/not/there")
    )
    assert "KeyError: 'boom'" in await error(source=lambda spark: {}["boom"])


async def test_a_checkpoint_of_another_query_is_refused(place: StreamFolder, spark: Any, tmp_path: Path) -> None:
    place.add()
    await run_all(place, spark, Results())

    async def error(**options: Any) -> str:
        with pytest.raises(TopologyFailedError) as raised:
            async with running(place.spout(spark, **options), Keep(Results())) as job:
                await job.wait_ended()
        return str(raised.value)

    other = StreamFolder(tmp_path / "other")
    other.add()
    assert "made for the source 'clicks', and this is 'others'" in await error(name="others")
    assert "it was made for columns struct<n:bigint,text:string>, and this has struct<n:bigint>" in await error(
        source=lambda spark: place.read(spark).select("n"), fields="n"
    )
    moved = await error(source=other.read)
    assert f"reads FileSource[{place.input}], and this reads FileSource[{other.input}]" in moved
    assert "delete aiostorm.json there" in moved
    (place.checkpoint / "aiostorm.json").unlink()
    (place.checkpoint / ".aiostorm.json.crc").unlink(missing_ok=True)
    assert "was made by a query that aiostorm did not start" in await error()


async def test_one_task_only(place: StreamFolder, spark: Any) -> None:
    from aiostorm import LocalCluster, TopologyBuilder

    builder = TopologyBuilder()
    builder.set_spout("clicks", place.spout(spark), parallelism=2)
    builder.set_bolt("sink", Keep(Results())).shuffle_grouping("clicks")
    async with LocalCluster() as cluster:
        with pytest.raises(TopologyFailedError, match="a streaming query has one task, since Spark brings one batch"):
            await cluster.submit("job", builder.create_topology())


@pytest.mark.blocks_loop
async def test_a_dataframe_brings_its_columns(place: StreamFolder, spark: Any) -> None:
    place.add()
    kept = Results()
    frame = place.read(spark).selectExpr("n", "n % 2 = 0 AS even")
    spout = SparkStreamSpout(frame, str(place.checkpoint), trigger={"availableNow": True})
    async with running(spout, Keep(kept)) as job:
        await job.wait_finished(LIMIT_S)
    assert kept.numbers == list(range(ROWS))


async def test_partitions_and_types(spark: Any, tmp_path: Path) -> None:
    kept = Results()
    place = StreamFolder(tmp_path / "stream")

    def source(spark: Any) -> Any:
        reader = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 90).option("numPartitions", 3)
        return reader.load().selectExpr("value AS n", "timestamp AS at", "array(value) AS list", "decimal(value) AS d")

    spout = place.spout(spark, source=source, fields=["n", "at", "list", "d"], chunk_rows=20, ahead=2)
    async with running(spout, Keep(kept)):
        await kept.until(lambda: any(chunk.startswith("clicks/b2/") for chunk in kept.ids))
    for batch in (0, 1):
        ids = [chunk for chunk in kept.ids if chunk.startswith(f"clicks/b{batch}/")]
        assert sorted(ids) == [f"clicks/b{batch}/{partition}/{chunk}" for partition in range(3) for chunk in range(2)]
    assert kept.numbers[:180] == list(range(180))


@pytest.mark.blocks_loop  # Python gives objects of the JVM back where they end, and this JVM is busy
@pytest.mark.parametrize("why", ["rows", "bytes"])
async def test_a_partition_that_is_too_large_comes_in_pieces(
    place: StreamFolder, spark: Any, why: str, caplog: pytest.LogCaptureFixture
) -> None:
    """More rows than fit in the heap, or more bytes than the driver accepts."""
    rows = 1_500_000 if why == "rows" else 60_000

    def source(spark: Any) -> Any:
        reader = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", rows).option("numPartitions", 1)
        return reader.load().selectExpr("value AS n", "cast(value AS string) AS text")

    kept = Results()
    conf = spark.sparkContext._jsc.sc().conf()  # read for each job
    before = conf.get("spark.driver.maxResultSize", "1g")
    if why == "bytes":
        conf.set("spark.driver.maxResultSize", "200k")
    try:
        spout = place.spout(spark, source=source, chunk_rows=70_000 if why == "rows" else 7_000)
        with caplog.at_level(logging.INFO, "aiostorm.spark"):
            async with running(spout, Keep(kept)) as job:
                last = f"clicks/b0/0/{21 if why == 'rows' else 8}"
                await kept.until(lambda: last in kept.ids or bool(job.errors()))
    finally:
        conf.set("spark.driver.maxResultSize", before)
    first = [numbers for chunk, numbers in kept.chunks if chunk.startswith("clicks/b0/")]
    assert sorted(n for numbers in first for n in numbers) == list(range(rows))
    assert "it is kept on disk, and read in pieces" in caplog.text


async def test_a_column_that_has_no_form_in_arrow_is_refused(place: StreamFolder, spark: Any) -> None:
    place.add()
    spout = place.spout(
        spark, source=lambda spark: place.read(spark).selectExpr("n", "INTERVAL '1' YEAR AS y"), fields=["n", "y"]
    )
    with pytest.raises(TopologyFailedError, match=r"column 'y' is interval year"):
        async with running(spout, Keep(Results())) as job:
            await job.wait_ended()


def test_settings_are_checked(place: StreamFolder) -> None:
    for options, message in (
        ({"chunk_rows": 0}, "chunk_rows is 1 or more"),
        ({"max_batch_attempts": 0}, "max_batch_attempts is 1 or more"),
        ({"checkpoint": ""}, "checkpoint is the folder"),
        ({"trigger": "1 second"}, "trigger is a mapping"),
        ({"fields": None, "session": lambda: None}, r"name the columns.*make_session"),
    ):
        with pytest.raises(ValueError, match=message):
            place.spout(None, **options)
    with pytest.raises(TypeError, match="a streaming DataFrame or a function"):
        place.spout(None, source=17)


def test_without_a_session_fields_name_the_columns(place: StreamFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("aiostorm.spark.stream.session.running_session", lambda: None)
    with pytest.raises(ValueError, match=r"name the columns of the stream: fields=.*make_session"):
        place.spout(None, fields=None)


async def test_a_running_session_knows_the_columns(place: StreamFolder, spark: Any) -> None:
    place.add()
    kept = Results()
    spout = await asyncio.to_thread(lambda: place.spout(None, fields=None))
    async with running(spout, Keep(kept), **AT_ONCE):
        await kept.until(lambda: len(kept.numbers) == ROWS)
    assert spout.outputs["default"].names == ("n", "text")
    given = await asyncio.to_thread(lambda: place.spout(spark, fields=None))
    assert given.outputs["default"].names == ("n", "text")
    for source, says in ((lambda spark: spark.table("none"), "TABLE_OR_VIEW_NOT_FOUND"), (lambda: 17, "int")):
        with pytest.raises(SparkSourceError, match=says):
            await asyncio.to_thread(lambda source=source: place.spout(None, fields=None, source=source))
