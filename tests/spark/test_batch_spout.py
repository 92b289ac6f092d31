"""A DataFrame through a topology: all rows, once; bounded; held back; ended by itself."""

from __future__ import annotations

import asyncio
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from aiostorm import BasicBolt, BasicCollector, LocalCluster, Topology, TopologyBuilder, TopologyFailedError
from aiostorm.spark import SparkBatchSpout, SparkSourceError

pytestmark = [pytest.mark.spark, pytest.mark.sockets]


class Chunks(BasicBolt):
    """Keeps what came, for the test: chunk identity → rows. `hold`: wait here before each batch."""

    def __init__(self, fail_first: int = 0, hold: asyncio.Event | None = None) -> None:
        self.seen: Counter[str] = Counter()
        self.ids: list[int] = []
        self.batches: list[Any] = []
        self.fails = fail_first
        self.hold = hold

    def __deepcopy__(self, memo: object) -> Chunks:
        return self

    async def execute_arrow(self, batch: Any, collector: BasicCollector) -> None:
        if self.hold is not None:
            await self.hold.wait()
        if self.fails:
            self.fails -= 1
            raise ValueError("not yet")
        self.seen[batch.schema.metadata[b"aiostorm.chunk"].decode()] += batch.num_rows
        self.ids += batch.column(0).to_pylist()
        self.batches.append(batch)


class Rows(BasicBolt):
    """Keeps rows."""

    def __init__(self) -> None:
        self.rows: list[tuple[Any, ...]] = []

    def __deepcopy__(self, memo: object) -> Rows:
        return self

    def execute(self, tup: Any, collector: BasicCollector) -> None:
        self.rows.append(tup.values)


async def eventually(condition: Callable[[], bool]) -> None:
    for _ in range(6_000):
        if condition():
            return
        await asyncio.sleep(0.01)
    raise AssertionError("it did not come to be")


def counting(spout: SparkBatchSpout, bolt: BasicBolt, parallelism: int = 1, **config: Any) -> Topology:
    builder = TopologyBuilder()
    builder.set_spout("numbers", spout, parallelism, **config)
    builder.set_bolt("seen", bolt).shuffle_grouping("numbers")
    return builder.create_topology()


async def ids(spark: Any, rows: int, partitions: int) -> Any:
    return await off_loop(lambda: made(spark, rows, partitions))


async def off_loop(make: Callable[[], Any]) -> Any:
    """A DataFrame, made in a thread, its columns known: Spark may take its time."""

    def work() -> Any:
        frame = make()
        assert frame.columns
        return frame

    return await asyncio.to_thread(work)


async def finished(topology: Topology, timeout_s: float = 60) -> Any:
    async with LocalCluster() as cluster:
        running = await cluster.submit("t", topology)
        async with asyncio.timeout(timeout_s):
            await running.wait_finished()
        return running.metrics()


def made(spark: Any, rows: int, partitions: int) -> Any:
    return spark.range(0, rows, 1, partitions).selectExpr("id", "cast(id as string) as text", "id * 2 as double")


@pytest.mark.parametrize(("rows", "partitions", "tasks"), [(10_000, 4, 1), (5_001, 7, 3), (10, 32, 2), (0, 0, 1)])
async def test_every_row_comes_once_in_chunks_of_one_size(spark: Any, rows: int, partitions: int, tasks: int) -> None:
    bolt = Chunks()
    spout = SparkBatchSpout(await ids(spark, rows, partitions), chunk_rows=1_000)
    metrics = await finished(counting(spout, bolt, tasks))
    assert sorted(bolt.ids) == list(range(rows))
    assert max(bolt.seen.values(), default=0) <= 1_000
    assert all(name.startswith("numbers/") and name.count("/") == 2 for name in bolt.seen)
    progress = metrics["numbers"].progress
    assert (progress.done, progress.total, progress.rows, progress.unit) == (partitions, partitions, rows, "partitions")


@pytest.mark.parametrize("tasks", [1, 2])
async def test_executors_push(spark: Any, tasks: int) -> None:
    bolt = Chunks(fail_first=1)
    spout = SparkBatchSpout(await ids(spark, 7_001, 5), chunk_rows=500, way="push", ahead=1)
    metrics = await finished(counting(spout, bolt, tasks))
    assert sorted(bolt.ids) == list(range(7_001))
    assert metrics["numbers"].progress.done == 5
    assert metrics["numbers"].errors == 0


async def test_a_row_bolt_sees_tuples(spark: Any) -> None:
    bolt = Rows()
    await finished(counting(SparkBatchSpout(await ids(spark, 300, 2), chunk_rows=100), bolt))
    assert sorted(bolt.rows) == [(n, str(n), n * 2) for n in range(300)]


async def test_failed_chunks_are_emitted_again(spark: Any) -> None:
    bolt = Chunks(fail_first=2)
    metrics = await finished(counting(SparkBatchSpout(await ids(spark, 1_000, 2), chunk_rows=250), bolt))
    assert sorted(bolt.ids) == list(range(1_000))
    assert metrics["numbers"].failed == 2


async def test_a_failed_chunk_does_not_delay_the_end(spark: Any) -> None:
    class Never(Chunks):
        async def execute_arrow(self, batch: Any, collector: BasicCollector) -> None:
            if 3 in batch.column(0).to_pylist():
                raise ValueError("never")
            await super().execute_arrow(batch, collector)

    bolt = Never()
    metrics = await finished(counting(SparkBatchSpout(await ids(spark, 100, 2), chunk_rows=10), bolt))
    assert sorted(bolt.ids) == list(range(10, 100))
    assert metrics["numbers"].dead_lettered == 1
    assert metrics["numbers"].progress.done == 1


@pytest.mark.parametrize(
    ("chunk_rows", "pending"),
    [
        pytest.param(10, 4, id="by max_pending"),
        pytest.param(100, 3, id="by the mailbox of a bolt that does not come back"),
    ],
)
async def test_a_slow_topology_holds_spark_back(spark: Any, chunk_rows: int, pending: int) -> None:
    """A mailbox begins at 64 rows. Of chunks of a hundred one is held, one in the mailbox, one waits for capacity."""
    held = asyncio.Event()
    bolt = Chunks(hold=held)
    rows = 200 * chunk_rows
    spout = SparkBatchSpout(await ids(spark, rows, 20), chunk_rows=chunk_rows, max_pending=4, ahead=1)
    async with LocalCluster() as cluster:
        running = await cluster.submit("t", counting(spout, bolt))
        async with asyncio.timeout(60):
            await eventually(lambda: running.metrics()["numbers"].pending == pending)
            for _ in range(30):  # and it stays so
                await asyncio.sleep(0.01)
                assert running.metrics()["numbers"].pending == pending
            held.set()
            await running.wait_finished()
    assert sorted(bolt.ids) == list(range(rows))


async def test_partitions_come_in_order_while_the_next_ones_are_computed(spark: Any) -> None:
    """Those with an even number take longer, and the job of the next one ends before theirs."""

    def source() -> Any:
        from pyspark.sql.functions import udf

        def late(n):  # without hints: PySpark would read them
            import time

            time.sleep(0.2 if n % 200 == 0 else 0)
            return n

        return spark.range(0, 600, 1, 6).select(udf(late, "long")("id").alias("id"))

    bolt = Chunks()
    spout = SparkBatchSpout(await off_loop(source), chunk_rows=40, ahead=3, in_order=True)
    await finished(counting(spout, bolt))
    assert bolt.ids == list(range(600))


async def test_a_function_sql_and_a_path_are_sources_as_well(spark: Any, tmp_path: Path) -> None:
    path = str(tmp_path / "numbers")
    await asyncio.to_thread(lambda: made(spark, 500, 2).write.parquet(path))
    for spout in (
        SparkBatchSpout(lambda session: made(session, 500, 2), fields=("id", "text", "double")),
        SparkBatchSpout(lambda: made(spark, 500, 2), fields=("id", "text", "double")),
        SparkBatchSpout(
            sql="select id, cast(id as string) text, id * 2 double from range(500)", fields=("id", "text", "double")
        ),
        SparkBatchSpout(path=path, fields=("text", "double", "id")),
    ):
        bolt = Rows()
        await finished(counting(spout, bolt, 2))
        assert len(bolt.rows) == 500
        names = spout.all_outputs()
        found = {tuple(sorted(zip(names, row, strict=True))) for row in bolt.rows}
        assert found == {(("double", n * 2), ("id", n), ("text", str(n))) for n in range(500)}


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"sql": "selec 1", "fields": "a"}, "SYNTAX"),
        ({"sql": "select * from nowhere", "fields": "a"}, "nowhere"),
        ({"path": "/nowhere/at/all", "fields": "a"}, "PATH_NOT_FOUND"),
        ({"path": "/nowhere/at/all", "format": "foo", "fields": "a"}, "Failed to find the data source: foo"),
        ({"sql": "select 1 a", "fields": "a", "session": {"spark.master": "local[7]"}}, r"(it has local[2])"),
        ({"sql": "select 1 as a, 2 as b", "fields": "a"}, "has the columns a, b, but fields= declares a"),
        ({"sql": "select 1 as a, 2 as a", "fields": ("a", "b")}, "has the columns a, a"),
        ({"sql": "select interval '1' year as a", "fields": "a"}, "column 'a' is interval year"),
        ({"source": lambda session: 3, "fields": "a"}, "not a DataFrame"),
    ],
)
async def test_an_error_that_the_user_must_mend_fails_at_once(spark: Any, given: dict[str, Any], says: str) -> None:
    async with LocalCluster() as cluster:
        with pytest.raises(TopologyFailedError, match="given up") as caught:
            async with asyncio.timeout(30):
                await (await cluster.submit("t", counting(SparkBatchSpout(**given), Rows()))).wait_finished()
    errors: list[str] = []
    cause: BaseException | None = caught.value
    while cause is not None:
        errors.append(str(cause))
        cause = cause.__cause__
    assert says in "\n".join(errors), errors
    assert "\tat " not in str(caught.value)  # Java's stack


async def test_a_running_session_knows_the_columns(spark: Any, tmp_path: Path) -> None:
    path = str(tmp_path / "numbers")
    await asyncio.to_thread(lambda: made(spark, 20, 2).write.parquet(path))
    for given in (
        {"source": lambda session: made(session, 20, 2)},
        {"source": lambda: made(spark, 20, 2)},
        {"sql": "select id, cast(id as string) text, id * 2 double from range(20)"},
        {"path": path, "session": {"spark.sql.shuffle.partitions": "3"}},
    ):
        spout = await asyncio.to_thread(lambda given=given: SparkBatchSpout(**given))  # type: ignore[misc]
        assert sorted(spout.all_outputs()) == ["double", "id", "text"]
        bolt = Rows()
        await finished(counting(spout, bolt))
        assert len(bolt.rows) == 20
    for given, says in (({"sql": "selec 1"}, "SYNTAX"), ({"source": lambda: 3}, "not a DataFrame")):
        with pytest.raises(SparkSourceError, match=says):
            await asyncio.to_thread(lambda given=given: SparkBatchSpout(**given))  # type: ignore[misc]


def test_without_a_session_fields_name_the_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "pyspark.sql", raising=False)
    for given in ({"sql": "select 1"}, {"path": "x"}, {"source": lambda: 3}):
        with pytest.raises(SparkSourceError, match=r"not known before Spark runs: name them, fields="):
            SparkBatchSpout(**given)


def test_wrong_arguments_are_reported_without_spark() -> None:
    for given in (
        {},
        {"sql": "select 1", "path": "x", "fields": "a"},
        {"source": 3, "fields": "a"},
        {"sql": "select 1", "fields": "a", "chunk_rows": 0},
        {"sql": "select 1", "fields": "a", "way": "fast"},
        {"sql": "select 1", "fields": "a", "way": "push", "in_order": True},
    ):
        with pytest.raises(SparkSourceError):
            SparkBatchSpout(**given)
