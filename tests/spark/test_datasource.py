"""`format("aiostorm")` with a real Spark: written rows are processed, what comes out is read, each once."""

from __future__ import annotations

import asyncio
import contextlib
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from aiostorm import BasicBolt, TopologyBuilder, running
from aiostorm.spark import SparkEgressBolt, SparkIngressSpout, SparkSourceError, register
from aiostorm.spark.sessions import activate_session

from .conftest import ROOT, in_thread
from .lines import FIELDS, Table, batch, into, topology, write

# blocks_loop: when a loop ends it joins its threads, and py4j takes its time to let go of one.
pytestmark = [pytest.mark.spark, pytest.mark.sockets, pytest.mark.blocks_loop]

NUMBERS = "n bigint, s string"


class Job:
    """What a user's thread does with Spark."""

    def __init__(self, spark: Any, path: Path) -> None:
        self.spark = spark
        self.path = path
        self.within = str(path / "in")
        self.out = str(path / "out")

    async def do(self, work: Callable[..., Any], *arguments: Any) -> Any:
        def call() -> Any:
            activate_session(self.spark)
            return work(*arguments)

        return await asyncio.to_thread(call)

    def numbers(self, begin: int, end: int, parts: int = 2) -> Any:
        return self.spark.range(begin, end, 1, parts).selectExpr("id n", "cast(id as string) s")

    def save(self, frame: Any, mode: str = "append", **options: Any) -> None:
        frame.write.format("aiostorm").option("endpoints", self.within).options(**options).mode(mode).save()

    def stream_in(self, checkpoint: str, most: int = 1, **options: Any) -> Any:
        """A query that writes the files of folder `files`, one a batch, and ends."""
        stream = self.spark.readStream.schema(NUMBERS).option("maxFilesPerTrigger", most).json(str(self.path / "files"))
        writer = stream.writeStream.format("aiostorm").option("endpoints", self.within).options(**options)
        return writer.option("checkpointLocation", str(self.path / checkpoint)).trigger(availableNow=True).start()

    def stream_out(self, checkpoint: str, **options: Any) -> Any:
        """A query that reads what came out into folder `read`, as much as there is, and ends."""
        stream = self.spark.readStream.format("aiostorm").option("endpoints", self.out).options(**options).load()
        writer = stream.writeStream.format("parquet").option("path", str(self.path / "read"))
        return writer.option("checkpointLocation", str(self.path / checkpoint)).trigger(availableNow=True).start()

    def read(self) -> list[int]:
        return sorted(row.n for row in self.spark.read.parquet(str(self.path / "read")).collect())

    def file(self, number: int, rows: int = 10) -> None:
        """The next file of the stream."""
        (self.path / "files").mkdir(exist_ok=True)
        lines = [f'{{"n": {n}, "s": "{n}"}}' for n in range(number * rows, number * rows + rows)]
        (self.path / f"{number}.tmp").write_text("\n".join(lines))
        (self.path / f"{number}.tmp").rename(self.path / "files" / f"{number}.json")


@pytest.fixture
def data_sources(java: None) -> None:
    """The test is skipped where Spark has none in Python."""
    from aiostorm.spark.needs import version

    if version() < (4, 0):
        pytest.skip("PySpark 3.5 has no data sources in Python")


@pytest.fixture
def job(data_sources: None, spark: Any, tmp_path: Path) -> Job:
    in_thread(register, spark)
    return Job(spark, tmp_path)


def since(*first: int) -> None:
    """The test is skipped where PySpark is older."""
    from aiostorm.spark.needs import version

    if version() < first:
        pytest.skip(f"it needs PySpark {'.'.join(map(str, first))}")


@contextlib.asynccontextmanager
async def both(job: Job, table: Table, **options: Any) -> AsyncIterator[Any]:
    """A topology that Spark writes into and reads from."""
    spout = SparkIngressSpout(pa.schema([("n", pa.int64()), ("s", pa.string())]), endpoints=job.within, retries=0)
    egress = SparkEgressBolt(endpoints=job.out, directory=job.path / "log", **options)
    async with running(topology(table, spout, egress=egress), {"message_timeout_s": 300}) as topo:
        yield topo


async def test_a_frame_is_processed_when_save_returns(job: Job) -> None:
    table = Table()
    async with both(job, table):
        await job.do(lambda: job.save(job.numbers(0, 25_000), name="w"))
        assert sorted(table.numbers) == list(range(25_000))
        assert set(table.chunks) == {"w/0/0", "w/0/1", "w/1/0", "w/1/1"}
        await job.do(lambda: job.save(job.numbers(0, 25_000), name="w"))  # the same write again: nothing
        await job.do(lambda: job.save(job.numbers(0, 25_000).limit(0)))
        assert len(table.numbers) == 25_000
        found = await job.do(lambda: job.spark.read.format("aiostorm").option("endpoints", job.out).load())
        assert found.schema.simpleString() == "struct<n:bigint,s:string>"
        sums = await job.do(lambda: found.selectExpr("count(*)", "sum(n)", "sum(length(s))").collect())
        assert tuple(sums[0]) == (25_000, sum(range(25_000)), sum(len(str(n)) for n in range(25_000)))


async def test_columns_are_chosen_by_the_reader(job: Job) -> None:
    """PySpark tells a reader nothing of the columns that a query needs: an option does."""
    async with both(job, Table()):
        await job.do(lambda: job.save(job.numbers(0, 20), name="w"))

        def read(fields: str) -> Any:
            found = job.spark.read.format("aiostorm").option("endpoints", job.out).option("fields", fields).load()
            return found.schema.simpleString(), sorted(tuple(row) for row in found.collect())

        assert await job.do(read, "s") == ("struct<s:string>", sorted((str(n),) for n in range(20)))
        assert (await job.do(read, "s, n"))[0] == "struct<s:string,n:bigint>"
        with pytest.raises(Exception, match=r"option fields=n, color \(not there: color\).* has n, s"):
            await job.do(read, "n,color")
        since(4, 2)  # the rest: the same of a stream
        query = await job.do(lambda: job.stream_out("checkpoint", fields="n"))
        await job.do(query.awaitTermination)
        assert await job.do(lambda: job.spark.read.parquet(str(job.path / "read")).columns) == ["n"]


def test_spark_finds_it_without_registering(data_sources: None, spark: Any, tmp_path: Path) -> None:
    """Registering it again in such a session is harmless."""

    def load_it(session: Any) -> None:
        with pytest.raises(Exception, match="no address of the topology"):
            session.read.format("aiostorm").load()

    def both_ways() -> None:
        load_it(spark.newSession())
        register(spark)
        register(spark)
        load_it(spark)

    in_thread(both_ways)


def test_the_module_that_spark_imports_is_empty_where_there_is_nothing_to_find() -> None:
    """As with PySpark 3.5: and it raises nothing, since Spark imports it in every application."""
    code = "import sys; sys.modules['pyspark.sql.datasource'] = None; import pyspark_aiostorm as m; print(vars(m))"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)
    assert (done.returncode, "'__all__': []" in done.stdout) == (0, True), done.stderr
    assert "'DefaultSource'" not in done.stdout


WRONG: list[tuple[list[str], dict[str, str], str, str]] = [
    (["n"], {}, "append", "missing: s"),
    (["cast(n as double) n", "s"], {}, "append", "n is double, declared int64"),
    (["n", "s"], {}, "overwrite", "cannot be overwritten"),
    (["n", "s"], {"color": "red"}, "append", "no option color"),
    (["n", "s"], {"patience": "soon"}, "append", "option patience='soon'"),
    (["n", "s"], {"endpoints": "/nowhere", "patience": "0"}, "append", "endpoints=/nowhere"),
]


async def test_types_that_cannot_be_written_are_refused_when_the_query_is_planned(job: Job) -> None:
    table = Table()
    async with both(job, table):
        for change, options, mode, why in WRONG:
            frame = job.numbers(0, 10).selectExpr(*change)
            with pytest.raises(Exception, match=why):
                await job.do(lambda frame=frame, mode=mode, options=options: job.save(frame, mode, **options))
    assert not table.numbers


def test_a_pyspark_without_data_sources_is_an_error_with_the_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    from aiostorm.spark import SparkUnavailableError
    from aiostorm.spark.datasource import format as datasource

    monkeypatch.setattr(datasource, "version", lambda: (3, 5))
    with pytest.raises(SparkUnavailableError, match=r"needs PySpark 4\.0 or newer"):
        register(None)


def test_streams_of_an_older_pyspark_are_refused_by_name(data_sources: None, monkeypatch: pytest.MonkeyPatch) -> None:
    from aiostorm.spark import SparkUnavailableError
    from aiostorm.spark.datasource import api as datasource_api

    source = datasource_api.AiostormDataSource({})
    monkeypatch.setattr(datasource_api, "version", lambda: (4, 0))
    with pytest.raises(
        SparkUnavailableError, match=r"readStream.*needs PySpark 4\.2 or newer, and this is 4\.0.*batches"
    ):
        source.streamReader(None)
    with pytest.raises(SparkUnavailableError, match=r"writeStream.*needs PySpark 4\.1 or newer, and this is 4\.0"):
        source.streamWriter(None, False)


def test_a_type_without_an_arrow_type_is_refused(data_sources: None) -> None:
    from aiostorm.spark.datasource import api as datasource_api
    from aiostorm.spark.needs import require

    types = require("pyspark.sql.types")
    with pytest.raises(SparkSourceError, match="Cast it"):
        datasource_api.arrow_schema(types.StructType().add("a", types.CalendarIntervalType()))
    with pytest.raises(SparkSourceError, match="schema="):
        datasource_api.spark_schema(pa.schema([("a", pa.time64("us")), ("b", pa.month_day_nano_interval())]))


async def test_a_chunk_that_fails_fails_the_write_and_the_next_attempt_writes_the_rest(job: Job) -> None:
    table = Table()
    table.fails["w/1/0"] = 1
    async with both(job, table):
        with pytest.raises(Exception, match=r"w/1/0 in sink: .*is bad"):
            await job.do(lambda: job.save(job.numbers(0, 20), name="w"))
        await job.do(lambda: job.save(job.numbers(0, 20), name="w"))
    assert sorted(table.numbers) == list(range(20))


async def test_a_stream_goes_in_and_a_batch_that_failed_comes_again_once(job: Job) -> None:
    since(4, 1)
    table = Table()
    table.fails["clicks/b1/0/0"] = 1
    async with both(job, table):
        for number in range(3):
            job.file(number)
        query = await job.do(lambda: job.stream_in("checkpoint", name="clicks"))
        with pytest.raises(Exception, match="is bad"):
            await job.do(query.awaitTermination)
        assert table.chunks == {"clicks/b0/0/0": 1}
        query = await job.do(lambda: job.stream_in("checkpoint", name="clicks"))
        await job.do(query.awaitTermination)
        assert table.chunks == {f"clicks/b{number}/0/0": 1 for number in range(3)}
        assert sorted(table.numbers) == list(range(30))


async def test_a_stream_comes_out_each_row_once_over_restarts(job: Job) -> None:
    """Queries end and begin again, and so does the topology: its log is on disk."""
    since(4, 2)
    for life in range(2):
        async with both(job, Table(), keep_rows=100):
            rows = [batch(50 * life + at, 10) for at in range(0, 50, 10)]
            await asyncio.to_thread(lambda rows=rows, name=f"life{life}": write(into(job.path / "in"), rows, name=name))
            query = await job.do(lambda: job.stream_out("checkpoint", maxRowsPerTrigger="20"))
            await job.do(query.awaitTermination)
            assert await job.do(job.read) == list(range(50 * life + 50))


async def test_a_query_that_waits_holds_the_topology_back(job: Job) -> None:
    """The log holds a part of the rows; a running query empties it, batch by batch."""
    since(4, 2)
    async with both(job, Table(), keep_rows=30):
        writing = asyncio.create_task(
            asyncio.to_thread(write, into(job.path / "in"), [batch(at) for at in range(0, 90, 10)])
        )

        def start() -> Any:
            stream = job.spark.readStream.format("aiostorm").option("endpoints", job.out).schema(NUMBERS).load()
            writer = stream.writeStream.format("memory").queryName("held")
            return writer.option("checkpointLocation", str(job.path / "checkpoint")).start()

        query = await job.do(start)
        try:
            assert await writing == 9
            await job.do(query.processAllAvailable)
            rows = await job.do(lambda: job.spark.table("held").collect())
            assert sorted(row.n for row in rows) == list(range(90))
        finally:
            await job.do(query.stop)


async def test_a_log_that_is_lost_is_an_error(job: Job) -> None:
    since(4, 2)
    spout = SparkIngressSpout(FIELDS, endpoints=job.within)
    for life in range(2):
        async with running(topology(Table(), spout, egress=SparkEgressBolt(endpoints=job.out))):
            await asyncio.to_thread(write, into(job.path / "in"), [batch(0)])
            query = await job.do(lambda: job.stream_out("checkpoint"))
            if life == 0:
                await job.do(query.awaitTermination)
            else:
                with pytest.raises(Exception, match="directory= of the bolt"):
                    await job.do(query.awaitTermination)


async def test_a_topology_that_comes_later_is_found_by_a_running_query(job: Job) -> None:
    since(4, 1)
    table = Table()
    job.file(0)
    (job.path / "in").mkdir(mode=0o700)
    query = await job.do(lambda: job.stream_in("checkpoint"))
    async with both(job, table):
        await job.do(query.awaitTermination)
    assert table.numbers == list(range(10))


class Through(BasicBolt):
    """Hands columns on."""

    outputs = ("i", "f", "s", "b", "y", "d", "t", "w", "c", "a", "m", "o")

    async def execute_arrow(self, batch: Any, collector: Any) -> None:
        collector.emit_arrow(batch)


async def test_types_go_in_and_come_out_the_same(job: Job) -> None:
    builder = TopologyBuilder()
    builder.set_spout("in", SparkIngressSpout(Through.outputs, endpoints=job.within))
    builder.set_bolt("through", Through).shuffle_grouping("in")
    builder.set_bolt("out", SparkEgressBolt(endpoints=job.out)).shuffle_grouping("through")

    def exchange() -> tuple[bool, bool]:
        frame = job.spark.sql(
            "select cast(1 as tinyint) i, cast(1.5 as float) f, 'ä' s, true b, x'01ff' y, date'2026-01-02' d,"
            " timestamp'2026-01-02 03:04:05.000006' t, timestamp_ntz'2026-01-02 03:04:05' w,"
            " cast(1.25 as decimal(20, 4)) c, array(1, null) a,"
            " map('k', array(1L)) m, named_struct('x', 1, 'y', null) o"
            " union all select null, null, null, null, null, null, null, null, null, null, null, null"
        )
        job.save(frame)
        found = job.spark.read.format("aiostorm").option("endpoints", job.out).load()
        rows = [sorted(map(repr, one.collect())) for one in (frame, found)]
        return found.schema.simpleString() == frame.schema.simpleString(), rows[0] == rows[1]

    async with running(builder.create_topology()):
        assert await job.do(exchange) == (True, True)
