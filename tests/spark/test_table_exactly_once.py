"""SparkTableSinkBolt exactly once: rows are appended with their snapshot, whatever is killed and repeated."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from aiostorm import Topology, TopologyBuilder, TopologyFailedError
from aiostorm.spark import SparkTableSinkBolt
from aiostorm.spark.sinks import table_parts
from aiostorm.spark.sinks.parquet_files import identity_of
from aiostorm.spark.sinks.pending_writes import PendingRows
from aiostorm.spark.sinks.table_parts import TableParts
from tests.cluster.snapshots.parts import CountByKey, Keyed, SlowNumbers

from .parquet_parts import chunk
from .test_parquet_exactly_once import COUNT, check, run

NAME = "sink_exactly_once"


@pytest.fixture
def table(spark: Any) -> Iterator[str]:
    yield NAME
    spark.sql(f"DROP TABLE IF EXISTS {NAME}")


def counted() -> Topology:
    builder = TopologyBuilder()
    builder.set_spout("numbers", SlowNumbers(COUNT, each=1), 2)
    builder.set_bolt("keyed", Keyed(7), 2).shuffle_grouping("numbers")
    builder.set_bolt("count", CountByKey, 2).fields_grouping("keyed", "key")
    builder.set_bolt("sink", SparkTableSinkBolt(NAME, max_rows=20)).global_grouping("count")
    return builder.create_topology()


def rows_in(spark: Any) -> list[tuple[str, int, int]]:
    if not spark.catalog.tableExists(NAME):
        return []
    return [(row["key"], row["n"], row["count"]) for row in spark.table(NAME).collect()]


@pytest.mark.spark
@pytest.mark.sockets
@pytest.mark.slow
async def test_a_run_that_is_killed_appends_each_row_once(spark: Any, table: str, tmp_path: Path) -> None:
    for seconds in (0.2, 1.0, 0.6):
        await run(counted(), tmp_path / "state", seconds, snapshot_interval_ms=100)
        check(await asyncio.to_thread(rows_in, spark), whole=False)
    await run(counted(), tmp_path / "state", snapshot_interval_ms=100)
    check(await asyncio.to_thread(rows_in, spark))
    with pytest.raises(TopologyFailedError, match="has rows of a run of job/sink that is not continued"):
        await run(counted(), tmp_path / "other")
    await asyncio.to_thread(spark.sql, f"ALTER TABLE {NAME} RENAME TO {NAME}_kept")
    try:
        await asyncio.to_thread(spark.sql, f"CREATE TABLE {NAME} (key STRING, n BIGINT, count BIGINT) USING parquet")
        with pytest.raises(TopologyFailedError, match="has no column _aiostorm_chunk, by which a commit"):
            await run(counted(), tmp_path / "third", restart_max=0)
    finally:
        await asyncio.to_thread(spark.sql, f"DROP TABLE {NAME}_kept")


def test_parts_have_keys_and_an_aborted_handle_is_in_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    def rows(number: int, *, named: bool) -> PendingRows:
        batch = chunk(number)
        plain = batch.replace_schema_metadata(None)
        return PendingRows(None, plain, identity_of(batch) if named else {})  # type: ignore[arg-type]

    parts = TableParts("job/sink")
    assert parts.pre_commit(1) is None
    parts.add([rows(0, named=False), rows(1, named=True), rows(2, named=False)])
    handle = parts.pre_commit(2)
    assert handle is not None
    assert [(key.partition("#")[0], batch.num_rows) for key, batch in handle] == [("s/0/1", 20), ("job/sink/2/1", 40)]
    parts.abort(handle)
    parts.add([rows(3, named=True)])
    again = parts.pre_commit(3)
    assert again is not None
    assert [key for key, _ in again[:2]] == [key for key, _ in handle]
    assert again[2][0].startswith("s/0/3#")
    assert parts.pre_commit(4) is None
    monkeypatch.setattr(table_parts, "PART_BYTES", 200)
    parts.add([rows(0, named=False), rows(1, named=True)])
    cut = parts.pre_commit(5)
    assert cut is not None
    assert len({key for key, _ in cut}) == len(cut) > 4
    assert sum(batch.num_rows for _, batch in cut) == 40
