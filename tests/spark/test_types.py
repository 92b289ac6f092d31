"""Each type of Spark: what it becomes as Arrow and in a row, that it travels, or how it is refused."""

from __future__ import annotations

import asyncio
import datetime as dt
import math
from decimal import Decimal
from typing import Any
from zoneinfo import ZoneInfo

import pyarrow as pa
import pytest

from aiostorm.spark import SparkBatchSpout, SparkSourceError
from aiostorm.spark.types import MAX_NESTED, arrow_schema, check_fields
from aiostorm.transport.codec.batches import decode_batch, encode_batch
from aiostorm.transport.codec.values import pack_value, unpack_value
from tests.spark.test_batch_spout import Chunks, Rows, counting, finished, off_loop

pytestmark = [pytest.mark.spark, pytest.mark.sockets]

UTC = ZoneInfo("UTC")
DAY = dt.date(2026, 11, 22)

TABLE: dict[str, tuple[str, Any]] = {
    # SQL of the value: Arrow's type, the value in a row
    "true": ("bool", True),
    "1Y": ("int8", 1),
    "2S": ("int16", 2),
    "3": ("int32", 3),
    "4L": ("int64", 4),
    "cast(1.5 as float)": ("float", 1.5),
    "2.5D": ("double", 2.5),
    "cast('NaN' as double)": ("double", math.nan),
    "1.50BD": ("decimal128(3, 2)", Decimal("1.50")),
    "cast(-1 as decimal(38, 10))": ("decimal128(38, 10)", Decimal("-1.0000000000")),
    "'Grüße'": ("string", "Grüße"),
    "cast('x' as char(3))": ("string", "x"),
    "cast('x' as varchar(3))": ("string", "x"),
    "X'00FF'": ("binary", b"\0\xff"),
    "date'2026-11-22'": ("date32[day]", DAY),
    "timestamp'2026-11-22 06:00:00.000001+02:00'": (
        "timestamp[us, tz=UTC]",
        dt.datetime(2026, 11, 22, 4, 0, 0, 1, UTC),
    ),
    "timestamp_ntz'2026-11-22 06:00:00'": ("timestamp[us]", dt.datetime(2026, 11, 22, 6)),
    "interval '1 02:03:04.000005' day to second": (
        "duration[us]",
        dt.timedelta(days=1, hours=2, minutes=3, seconds=4, microseconds=5),
    ),
    "null": ("null", None),
    "cast(null as string)": ("string", None),
    "cast(null as timestamp)": ("timestamp[us, tz=UTC]", None),
    "array(1, null)": ("list<element: int32>", [1, None]),
    "array(array('a'))": (
        "list<element: list<element: string not null> not null>",
        [["a"]],
    ),
    "named_struct('a', 1, 'b', array(timestamp'2026-01-01 00:00:00Z'))": (
        "struct<a: int32 not null, b: list<element: timestamp[us, tz=UTC] not null> not null>",
        {"a": 1, "b": [dt.datetime(2026, 1, 1, tzinfo=UTC)]},
    ),
    "map('k', 1.5BD)": ("map<string, decimal128(2, 1)>", [("k", Decimal("1.5"))]),
}


async def read(frame: Any, **how: Any) -> tuple[Any, tuple[Any, ...]]:
    """The batch and the row of a DataFrame of one row."""
    batches, rows = Chunks(), Rows()
    await finished(counting(SparkBatchSpout(frame, **how), batches))
    await finished(counting(SparkBatchSpout(frame, **how), rows))
    return batches.batches[0], rows.rows[0]


@pytest.mark.parametrize("way", ["fetch", "push"])
async def test_each_type_comes_as_the_table_says_and_travels(spark: Any, way: str) -> None:
    if way == "push" and asyncio.get_running_loop().__class__.__module__.startswith("uvloop"):
        pytest.skip("once is enough: the loop is not concerned")
    columns = [f"{sql} as c{n}" for n, sql in enumerate(TABLE)]
    frame = await off_loop(lambda: spark.range(1).selectExpr(*columns, "time'12:00:00.123456' as t"))
    batch, row = await read(frame, way=way)
    for n, (sql, (arrow, value)) in enumerate(TABLE.items()):
        assert str(batch.schema.field(n).type) == arrow, sql
        assert row[n] == value or (value != value and row[n] != row[n]), sql
    assert (str(batch.schema.field(len(TABLE)).type), row[-1]) == ("time64[ns]", dt.time(12, 0, 0, 123456))
    assert repr(decode_batch(encode_batch(batch)).to_pylist()) == repr(batch.to_pylist())  # NaN is not NaN
    assert repr(unpack_value(pack_value(row))) == repr(row)


async def test_the_zone_of_the_session_changes_nothing(spark: Any) -> None:
    def frame() -> Any:
        other = spark.newSession()
        other.conf.set("spark.sql.session.timeZone", "Asia/Tokyo")
        return other.sql("select timestamp'2026-01-01 00:00:00Z' as t, array(timestamp'2026-01-01 00:00:00Z') as l")

    _, row = await read(await off_loop(frame))
    moment = dt.datetime(2026, 1, 1, tzinfo=UTC)
    assert row == (moment, [moment])


@pytest.mark.parametrize(
    ("sql", "says"),
    [
        ("interval '1' year as a", "cast(a as int) gives months"),
        ("make_interval(1, 2) as a", "interval day to second"),
        ("parse_json('1') as a", "to_json(a)"),
        ("array(interval '1' year) as a", "interval year in it"),
        ("named_struct('x', 1, 'x', 2) as a", "same name"),
        ("1 as a, 2 as a", "2 columns are called 'a'"),
    ],
)
async def test_a_refused_type_is_an_error_with_the_remedy(spark: Any, sql: str, says: str) -> None:
    schema = await asyncio.to_thread(lambda: spark.sql(f"select {sql}, 1 as fine").schema)
    with pytest.raises(SparkSourceError) as caught:
        arrow_schema(schema, "the DataFrame")
    assert says in str(caught.value)
    assert "fine" not in str(caught.value)


def test_types_nested_too_deep_and_no_columns_are_refused(java: None) -> None:
    from pyspark.sql.types import ArrayType, LongType, StructType

    kind: Any = LongType()
    for _ in range(MAX_NESTED - 1):
        kind = ArrayType(kind)
    deep = arrow_schema(StructType().add("a", kind), "x")
    batch = pa.RecordBatch.from_arrays([pa.nulls(1, deep.field(0).type)], schema=deep)
    assert decode_batch(encode_batch(batch)).equals(batch)
    for schema, says in ((StructType().add("a", ArrayType(kind)), "deep"), (StructType(), "no columns")):
        with pytest.raises(SparkSourceError, match=says):
            arrow_schema(schema, "x")
    with pytest.raises(SparkSourceError, match="has the columns b, c, but fields= declares a"):
        check_fields(["b", "c"], ["a"], "x")
