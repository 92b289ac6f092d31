"""Spark Connect: what works without a JVM in this process, and what is refused by name."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from aiostorm import LocalCluster, TopologyBuilder, TopologyFailedError
from aiostorm.runtime import AiostormError
from aiostorm.spark import (
    SparkBatchSpout,
    SparkStreamSpout,
    SparkTableSinkBolt,
    jvm_watch,
    make_session,
    register,
)
from aiostorm.spark.connect import active, is_connect
from aiostorm.spark.needs import require, version
from aiostorm.spark.sessions import stop_session

from .conftest import REQUIRED, in_thread
from .connect_server import ConnectServer, started
from .lines import Table
from .test_batch_spout import Chunks, counting, eventually, finished, ids, made, off_loop
from .test_datasource import NUMBERS, Job, both, since

# blocks_loop: gRPC's threads and PySpark's, on a machine that also runs the server.
pytestmark = [pytest.mark.spark, pytest.mark.sockets, pytest.mark.blocks_loop]


@pytest.fixture(scope="module")
def server(java: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ConnectServer]:
    """One for all tests of this file. They come last (conftest), and end the session that the others have shared."""
    try:
        if version() < (4, 0):
            pytest.skip("PySpark 3.5 brings no server of Spark Connect")
        require("pyspark.sql.connect.session")
    except (AiostormError, ImportError) as error:
        if os.environ.get(REQUIRED):
            pytest.fail(f"{REQUIRED} is set, and {error}")
        pytest.skip(f"{error}; in a checkout: uv sync --group spark")
    classic = require("pyspark.sql").SparkSession._instantiatedSession
    if classic is not None:
        in_thread(stop_session, classic)
    server = started(tmp_path_factory.mktemp("warehouse"))
    yield server
    server.close()


@pytest.fixture(scope="module")
def connect(server: ConnectServer) -> Iterator[Any]:
    """A session that all tests share. It ends before its server does: a client waits long for one that is away."""
    session = make_session({"spark.remote": server.remote})
    yield session
    stop_session(session)


@pytest.mark.parametrize(("rows", "partitions", "tasks"), [(10_000, 4, 1), (5_001, 7, 2), (10, 16, 2), (0, 1, 1)])
async def test_every_row_comes_once_by_push(connect: Any, rows: int, partitions: int, tasks: int) -> None:
    bolt = Chunks()
    spout = SparkBatchSpout(await ids(connect, rows, partitions), chunk_rows=1_000)
    metrics = await finished(counting(spout, bolt, tasks))
    assert sorted(bolt.ids) == list(range(rows))
    progress = metrics["numbers"].progress
    expected = partitions if rows else 0  # Spark runs nothing for a relation that it knows to be empty
    assert (progress.done, progress.total, progress.rows) == (expected, expected, rows)
    assert metrics["numbers"].errors == 0


async def test_partitions_behind_a_shuffle_are_the_same_for_all_tasks(connect: Any) -> None:
    """Adaptive execution is off, in a clone of the session: the user's has it as it was."""
    before = connect.conf.get("spark.sql.adaptive.enabled")
    bolt = Chunks()
    frame = await off_loop(lambda: connect.sql("select id * 2 div 2 as id from range(1000)").groupBy("id").count())
    metrics = await finished(counting(SparkBatchSpout(frame, chunk_rows=100), bolt, 2))
    assert sorted(bolt.ids) == list(range(1_000))
    assert metrics["numbers"].progress.total == 2  # spark.sql.shuffle.partitions
    assert connect.conf.get("spark.sql.adaptive.enabled") == before == "true"


async def test_sources_make_a_session_of_their_own_from_an_address(
    connect: Any, server: ConnectServer, tmp_path: Path
) -> None:
    path = str(tmp_path / "numbers")
    await asyncio.to_thread(lambda: made(connect, 500, 2).write.parquet(path))
    fields = ("id", "text", "double")
    settings = {"spark.remote": server.remote, "spark.sql.shuffle.partitions": "3"}
    for spout in (
        SparkBatchSpout(lambda session: made(session, 500, 2), fields=fields, session=settings),
        SparkBatchSpout(path=path, fields=fields, session=lambda: make_session(settings)),
        SparkBatchSpout(sql="select id, cast(id as string) text, id * 2 double from range(500)", fields=fields),
    ):
        bolt = Chunks()
        await finished(counting(spout, bolt))
        assert sorted(bolt.ids) == list(range(500))
        assert all(set(batch.schema.names) == set(fields) for batch in bolt.batches)
    assert active() is connect  # it was there before, and is there still


async def test_a_python_worker_that_is_killed_loses_no_row_and_doubles_none(
    connect: Any, server: ConnectServer
) -> None:
    """While it sends, and while what stands before it computes: what is cut off there is not taken for an end."""
    held = asyncio.Event()
    bolt = Chunks(hold=held)
    spout = SparkBatchSpout(await ids(connect, 40_000, 3), chunk_rows=700, max_pending=4)
    async with LocalCluster() as cluster:
        running = await cluster.submit("t", counting(spout, bolt))
        await eventually(lambda: running.metrics()["numbers"].pending >= 3)
        for worker in await asyncio.to_thread(server.python_workers):
            os.kill(worker, signal.SIGKILL)
        held.set()
        async with asyncio.timeout(60):
            await running.wait_finished()
    assert sorted(bolt.ids) == list(range(40_000))
    assert max(bolt.seen.values()) == 700


async def test_input_that_is_cut_off_is_read_again(connect: Any, tmp_path: Path) -> None:
    flag = str(tmp_path / "died")

    def dies_once(batches: Any) -> Any:
        import os
        import pathlib
        import signal
        import time

        for batch in batches:
            if batch.column(0)[0].as_py() >= 20_000 and not pathlib.Path(flag).exists():
                yield batch.slice(0, 500)
                pathlib.Path(flag).touch()
                time.sleep(0.5)  # half a chunk is on its way
                os.kill(os.getpid(), signal.SIGKILL)
            yield batch

    def source() -> Any:
        frame = connect.range(0, 24_000, 1, 4).selectExpr("id", "repeat('x', 200) x")
        return frame.mapInArrow(dies_once, "id long, x string")

    bolt = Chunks()
    await finished(counting(SparkBatchSpout(await off_loop(source), chunk_rows=900), bolt))
    assert await asyncio.to_thread(Path(flag).exists)
    assert sorted(bolt.ids) == list(range(24_000))


async def test_an_error_in_the_users_code_ends_it_at_once(connect: Any) -> None:
    def bad(batches: Any) -> Any:
        for _ in batches:
            raise ValueError("boo")
        yield from batches

    frame = await off_loop(lambda: connect.range(0, 10, 1, 1).mapInArrow(bad, "id long"))
    with pytest.raises(TopologyFailedError, match="boo") as caught:
        await finished(counting(SparkBatchSpout(frame), Chunks()))
    assert "times in a row" not in str(caught.value)
    assert "\tat " not in str(caught.value)


async def test_a_topology_that_is_killed_ends_its_job(connect: Any) -> None:
    """Two tasks of a minute have both cores: a job behind them runs only if they are ended."""

    def slow(batches: Any) -> Any:
        import time

        for batch in batches:
            time.sleep(0 if batch.column(0)[0].as_py() == 0 else 60)
            yield batch

    frame = await off_loop(lambda: connect.range(0, 4, 1, 4).mapInArrow(slow, "id long"))
    bolt = Chunks()
    async with LocalCluster() as cluster:
        running = await cluster.submit("t", counting(SparkBatchSpout(frame, ahead=2), bolt))
        await eventually(lambda: bolt.ids == [0])
        await running.kill(wait_s=0)
    async with asyncio.timeout(30):
        assert await asyncio.to_thread(lambda: connect.range(0, 100, 1, 2).count()) == 100


async def failing(spout: Any) -> str:
    with pytest.raises(TopologyFailedError) as caught:
        await finished(counting(spout, Chunks()))
    said, cause = [], caught.value.__cause__
    while cause is not None:
        said.append(str(cause))
        cause = cause.__cause__
    return "\n".join([str(caught.value), *said])


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"progress": "progress"}, "progress= needs a Spark session with its JVM in this process"),
        ({"way": "fetch"}, 'cannot be fetched.*leave out way="fetch" and in_order=True'),
        ({"in_order": True}, "leave out"),
    ],
)
async def test_options_that_need_the_jvm_are_refused_by_name(
    connect: Any, given: dict[str, Any], says: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    import re

    message = await failing(SparkBatchSpout(await ids(connect, 10, 1), **given))
    assert re.search(says, message), message


async def test_streams_are_refused_with_an_alternative(connect: Any, tmp_path: Path) -> None:
    stream = await off_loop(lambda: connect.readStream.format("rate").load())
    message = await failing(SparkStreamSpout(stream, str(tmp_path)))
    assert "SparkStreamSpout needs a Spark session with its JVM in this process" in message
    assert '.writeStream.format("aiostorm")' in message


async def test_workers_on_executors_are_refused(connect: Any, server: ConnectServer) -> None:
    from aiostorm.spark import SparkUnavailableError, SparkWorkers

    with pytest.raises(SparkUnavailableError, match="over Spark Connect there is none"):
        async with LocalCluster(backend=SparkWorkers(lambda: connect, slots=1)):
            pass
    with pytest.raises(SparkUnavailableError, match=r'not of a master.*session=\{"spark.remote": "sc://'):
        await asyncio.to_thread(make_session, master=server.remote)
    with pytest.raises(SparkUnavailableError, match="is sc://HOST:PORT"):
        await asyncio.to_thread(make_session, {"spark.remote": "local[2]"})


async def test_tables_are_appended_to(connect: Any) -> None:
    for _ in range(2):  # the second run finds its chunks there
        builder = TopologyBuilder()
        builder.set_spout("numbers", SparkBatchSpout(await ids(connect, 300, 2), chunk_rows=100))
        builder.set_bolt("table", SparkTableSinkBolt("over_connect", flush_s=0.2)).shuffle_grouping("numbers")
        await finished(builder.create_topology())
    found = await asyncio.to_thread(lambda: connect.table("over_connect").toArrow())
    assert sorted(found.column("id").to_pylist()) == list(range(300))
    assert is_connect(connect)


# -- format("aiostorm") ------------------------------------------------------------------------------------------------


@pytest.fixture
def job(connect: Any, tmp_path: Path) -> Job:
    register(connect)
    register(connect)  # again is harmless, also where Spark has found it by itself
    return Job(connect, tmp_path)


async def kill_while_it_writes(job: Job, server: ConnectServer, table: Table, work: Any) -> None:
    """Chunks wait in the topology, and the processes that wait for them are killed: Spark tries their tasks again."""
    table.gate.clear()
    writing = asyncio.create_task(job.do(work))
    await eventually(lambda: table.waiting > 0)
    for worker in await asyncio.to_thread(server.python_workers):
        os.kill(worker, signal.SIGKILL)
    table.gate.set()
    await writing


async def test_a_frame_is_written_once_and_read_in_spite_of_kills(job: Job, server: ConnectServer) -> None:
    table, flag = Table(), str(job.path / "died")

    def dies_once(batches: Any) -> Any:
        import os
        import pathlib
        import signal

        for batch in batches:
            yield batch
            if not pathlib.Path(flag).exists():
                pathlib.Path(flag).touch()
                os.kill(os.getpid(), signal.SIGKILL)

    async with both(job, table):
        await kill_while_it_writes(job, server, table, lambda: job.save(job.numbers(0, 25_000), name="w"))
        assert sorted(table.numbers) == list(range(25_000))
        assert set(table.chunks) == {"w/0/0", "w/0/1", "w/1/0", "w/1/1"}
        await job.do(lambda: job.save(job.numbers(0, 25_000), name="w"))  # the same write again: nothing
        assert len(table.numbers) == 25_000

        def read() -> list[int]:
            found = job.spark.read.format("aiostorm").option("endpoints", job.out).load()
            rows = found.mapInArrow(dies_once, "n bigint, s string").collect()
            return sorted(row.n for row in rows)

        assert await job.do(read) == list(range(25_000))
    assert await asyncio.to_thread(Path(flag).exists)


async def test_streams_go_in_and_out_each_row_once(job: Job, server: ConnectServer) -> None:
    since(4, 2)
    table = Table()
    async with both(job, table):
        for number in range(2):
            job.file(number)
        await kill_while_it_writes(
            job, server, table, lambda: job.stream_in("checkpoint", name="clicks").awaitTermination()
        )
        assert table.chunks == {f"clicks/b{number}/0/0": 1 for number in range(2)}
        for end in (20, 30):  # the second query goes on from the checkpoint of the first
            query = await job.do(lambda: job.stream_out("out-checkpoint", maxRowsPerTrigger="10"))
            await job.do(query.awaitTermination)
            assert await job.do(job.read) == list(range(end))
            await job.do(lambda: job.save(job.numbers(20, 30, 1), name="more"))


@pytest.mark.parametrize("killed", ["the reader", "all"])
async def test_a_stream_that_is_read_loses_no_row_when_python_workers_are_killed(
    job: Job, server: ConnectServer, killed: str
) -> None:
    """In the middle of a batch. Spark repeats the task of the reader. Without the worker that plans the query ends, and
    continues from its checkpoint when it is started again."""
    since(4, 2)
    flag = str(job.path / "reached")

    def waits_once(batches: Any) -> Any:
        import os
        import pathlib
        import time

        for batch in batches:
            yield batch.slice(0, 5)
            if not pathlib.Path(flag).exists():
                pathlib.Path(flag + ".new").write_text(str(os.getpid()))
                pathlib.Path(flag + ".new").rename(flag)
                time.sleep(60)  # killed meanwhile
            yield batch.slice(5)

    def start() -> Any:
        stream = job.spark.readStream.format("aiostorm").option("endpoints", job.out)
        read = stream.option("maxRowsPerTrigger", 4_000).load().mapInArrow(waits_once, NUMBERS)
        writer = read.writeStream.format("parquet").option("path", str(job.path / "read"))
        return writer.option("checkpointLocation", str(job.path / "c")).trigger(availableNow=True).start()

    async with both(job, Table()):
        await job.do(lambda: job.save(job.numbers(0, 25_000), name="w"))
        query = await job.do(start)
        await eventually(Path(flag).exists)
        reader = int(await asyncio.to_thread(Path(flag).read_text))
        workers = await asyncio.to_thread(server.python_workers)
        assert reader in workers
        for worker in workers if killed == "all" else [reader]:
            os.kill(worker, signal.SIGKILL)
        try:
            await job.do(query.awaitTermination)
        except Exception:
            assert killed == "all"
            query = await job.do(start)
            await job.do(query.awaitTermination)
        assert await job.do(job.read) == list(range(25_000))


async def test_problems_of_a_write_are_reported_when_it_is_planned(job: Job) -> None:
    async with both(job, Table()):
        with pytest.raises(Exception, match="missing: s"):
            await job.do(lambda: job.save(job.numbers(0, 10).select("n")))


# -- a server that is lost: the last tests of this file, because the session `connect` is lost with it -----------------


def reading(server: ConnectServer) -> SparkBatchSpout:
    return SparkBatchSpout(
        lambda session: made(session, 20_000, 3),
        fields=("id", "text", "double"),
        session=lambda: make_session({"spark.remote": server.remote}),
        chunk_rows=700,
        max_pending=4,
    )


async def all_came_once(server: ConnectServer, lose: Callable[[], Any], restore: Callable[[], Any]) -> None:
    """Lose the server while chunks are in the bolt, and restore it. No chunk times out meanwhile."""
    held = asyncio.Event()
    bolt = Chunks(hold=held)
    async with LocalCluster() as cluster:
        running = await cluster.submit("t", counting(reading(server), bolt), {"message_timeout_s": 300})
        await eventually(lambda: running.metrics()["numbers"].pending >= 3)
        await asyncio.to_thread(lose)
        held.set()
        await asyncio.to_thread(restore)
        async with asyncio.timeout(90):
            await running.wait_finished()
    assert sorted(bolt.ids) == list(range(20_000))


async def test_a_server_that_hangs_is_left_and_found_again(
    server: ConnectServer, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Its connections stay open, and no call is answered: only the watch notices it."""
    monkeypatch.setattr(jvm_watch, "PING_S", 0.5)
    monkeypatch.setattr(jvm_watch, "ANSWER_S", 4.0)

    def restore() -> None:
        until_s = time.monotonic() + 60
        while "the Spark Connect session has ended: a new one is made" not in caplog.text:
            assert time.monotonic() < until_s
            time.sleep(0.1)
        os.kill(server.jvm, signal.SIGCONT)

    with caplog.at_level(logging.WARNING, "aiostorm.spark"):
        await all_came_once(server, lambda: os.kill(server.jvm, signal.SIGSTOP), restore)
    assert "the Spark Connect server has not answered for 4 s" in caplog.text


@pytest.mark.timeout(240)
async def test_a_server_that_is_killed_and_started_again_loses_no_row(server: ConnectServer, tmp_path: Path) -> None:
    await all_came_once(server, server.kill, lambda: server.replace(tmp_path))
