"""SparkTableSinkBolt on a real Spark: appended once with an identity, errors that fail tuples, sessions that end."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiostorm import TopologyBuilder
from aiostorm.spark import SinkError, SparkTableSinkBolt
from aiostorm.spark.sinks.parquet_files import identity_of
from aiostorm.spark.sinks.spark_table import chunk_key
from aiostorm.spark.sinks.table_ledger import TableLedger

from .parquet_parts import Chunks, chunk, pa, rows_of, run


def marked(test: Any) -> Any:
    # The test looks into the table from the loop's own thread.
    return pytest.mark.spark(pytest.mark.sockets(pytest.mark.blocks_loop(test)))


def built(source: Any, sink: Any, tasks: int = 1) -> TopologyBuilder:
    builder = TopologyBuilder()
    builder.set_spout("source", source)
    builder.set_bolt("sink", sink, parallelism=tasks).shuffle_grouping("source")
    return builder


@pytest.fixture
def table(spark: Any, request: pytest.FixtureRequest) -> Iterator[str]:
    name = "sink_" + "".join(c for c in request.node.name if c.isalnum())[:60]
    yield name
    spark.sql(f"DROP TABLE IF EXISTS {name}")


def rows_in(spark: Any, table: str) -> list[dict[str, Any]]:
    found = spark.table(table).drop("_aiostorm_chunk").toArrow().to_pylist()
    return sorted(found, key=lambda row: row["k"])


@marked
async def test_chunks_are_appended_once_by_two_runs(spark: Any, table: str) -> None:
    for retries in ((0, 2, 2), (1,)):
        results, errors = await run(built(Chunks(3, twice=retries), SparkTableSinkBolt(table, flush_s=0.2)))
        assert not errors
        assert set(results["source"][0]["acked"]) == {0, 1, 2}
    assert rows_in(spark, table) == rows_of(0, 1, 2)
    keys = {row[0] for row in spark.table(table).select("_aiostorm_chunk").distinct().collect()}
    assert {key.partition("#")[0] for key in keys} == {"s/0/0", "s/0/1", "s/0/2"}
    assert results["sink"] == [{"table": table, "rows": 0, "appends": 0}]


@marked
async def test_a_table_without_the_column_is_written_at_least_once_and_others_are_refused(
    spark: Any, table: str
) -> None:
    spark.sql(f"CREATE TABLE {table} (word STRING, k BIGINT, one BIGINT) USING parquet")
    await run(built(Chunks(2, twice=(0,)), SparkTableSinkBolt(table, flush_s=0.2)))
    counts = Counter(row["k"] for row in rows_in(spark, table))
    assert counts == {k: 2 if k < 20 else 1 for k in range(40)}
    spark.sql(f"ALTER TABLE {table} ADD COLUMN more STRING")
    results, _ = await run(built(Chunks(1, retries=0), SparkTableSinkBolt(table, flush_s=0.2)))
    assert results["source"][0]["acked"] == []
    assert "they must be the same" in results["source"][0]["failed"][0]


@marked
async def test_a_chunk_that_is_there_in_part_and_a_table_that_cannot_be_are_errors(spark: Any, table: str) -> None:
    sink = SparkTableSinkBolt(table, flush_s=0.2, partition_by="word")
    await run(built(Chunks(1), sink))
    key = spark.table(table).select("_aiostorm_chunk").first()[0]
    spark.sql(f"CREATE TABLE {table}_b USING parquet AS SELECT * FROM {table} WHERE word <> 'w1'")  # noqa: S608 - ours
    try:
        results, _ = await run(built(Chunks(1, retries=0), SparkTableSinkBolt(f"{table}_b", flush_s=0.2)))
        assert f"has 16 of the 20 rows of chunk {key}" in results["source"][0]["failed"][0]
    finally:
        spark.sql(f"DROP TABLE {table}_b")
    results, _ = await run(built(Chunks(1, retries=0), SparkTableSinkBolt("no_such_schema.t", flush_s=0.2)))
    assert "cannot append to table no_such_schema.t" in results["source"][0]["failed"][0]
    assert "\tat " not in results["source"][0]["failed"][0]


async def test_two_tasks_are_refused() -> None:
    with pytest.raises(Exception, match="a table has one writer"):
        await run(built(Chunks(1), SparkTableSinkBolt("t"), tasks=2))


def test_settings_are_checked() -> None:
    with pytest.raises(ValueError, match="needs a table"):
        SparkTableSinkBolt("")
    with pytest.raises(ValueError, match="flush_s is more than 0"):
        SparkTableSinkBolt("t", flush_s=0)


@given(st.lists(st.tuples(st.lists(st.integers(0, 5), max_size=6), st.sampled_from(["done", "lost", "hidden", "new"]))))
def test_any_order_of_appends_failures_and_restarts_is_once(steps: list[Any]) -> None:
    """`lost`: the append failed; `hidden`: it was done, without an answer; `new`: the process was started again."""
    table: Counter[str] = Counter()
    ledger = TableLedger("t", "c")
    asked = set()
    for keys, outcome in [*steps, ([0, 1, 2, 3, 4, 5], "done")]:
        if outcome == "new":
            ledger = TableLedger("t", "c")
        if not ledger.known:
            ledger.set_rows(table)
        chunks = [(str(key), key + 1) for key in keys]
        fresh = [one for one, missing in zip(chunks, ledger.missing(chunks), strict=True) if missing]
        if outcome != "lost":
            table.update(dict(fresh))
        if outcome in ("done", "new"):
            ledger.wrote(fresh)
            asked |= {key for key, _ in chunks}
        else:
            ledger.forget()
    assert {key: rows for key, rows in table.items() if key in asked} == {str(key): key + 1 for key in range(6)}


def test_a_chunk_in_part_is_named() -> None:
    ledger = TableLedger("t", "c")
    with pytest.raises(RuntimeError):
        ledger.missing([])
    ledger.set_rows({"a": 3})
    assert ledger.missing([("a", 3), ("b", 1), ("b", 1)]) == [False, True, False]
    assert ledger.missing([(None, 4), ("a", 3)]) == [True, False]  # rows without a key are always appended
    with pytest.raises(SinkError, match=r"t has 3 of the 4 rows of chunk a: .* Delete the rows with c = 'a'"):
        ledger.missing([("a", 4)])


def test_keys_are_found_by_their_begin() -> None:
    ledger = TableLedger("t", "c")
    assert not ledger.has_prefix("")
    ledger.set_rows({"flights/7": 3})
    assert ledger.has_prefix("flights/")
    assert not ledger.has_prefix("lights/")


def test_a_chunk_of_the_same_name_with_other_rows_is_another() -> None:
    one, other = chunk(0), chunk(0).set_column(2, "one", pa.array([2] * 20))
    keys = [chunk_key(batch.replace_schema_metadata(None), identity_of(batch)) for batch in (one, other)]
    assert keys[0] != keys[1]


def test_a_chunk_with_a_column_that_has_no_form_in_parquet_is_an_error_of_its_rows() -> None:
    intervals = pa.record_batch({"i": pa.array([(1, 2, 3)], pa.month_day_nano_interval())})
    with pytest.raises(SinkError, match="cannot be written as Parquet: Arrow") as raised:
        chunk_key(intervals, identity_of(chunk(0)))
    assert not raised.value.temporary
