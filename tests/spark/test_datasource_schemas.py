"""Schemas: what fits is taken, what does not is named."""

from __future__ import annotations

import pyarrow as pa
import pytest

from aiostorm.spark import SparkSourceError
from aiostorm.spark.datasource import schemas
from aiostorm.spark.datasource.chunks import cut


def test_types_of_the_same_values_are_one() -> None:
    declared = pa.schema(
        [("t", pa.timestamp("us", "UTC")), ("s", pa.string()), ("l", pa.list_(pa.struct([("x", pa.binary())])))]
    )
    came = pa.schema(
        [
            pa.field("l", pa.large_list(pa.struct([pa.field("x", pa.large_binary(), nullable=False)]))),
            pa.field("s", pa.large_string(), nullable=False),
            ("t", pa.timestamp("us", "Europe/Berlin")),
        ]
    )
    assert schemas.problem(declared.names, declared, came) is None
    wrong = came.set(2, pa.field("t", pa.timestamp("us")))
    assert "t is timestamp[us], declared timestamp[us, tz=UTC]" in str(schemas.problem(declared.names, declared, wrong))
    assert "a name twice" in str(schemas.problem(["a"], None, pa.schema([("a", pa.int8()), ("a", pa.int8())])))


def test_a_batch_is_fitted() -> None:
    declared = pa.schema([("t", pa.timestamp("us", "UTC")), ("s", pa.string())])
    came = pa.record_batch({"s": pa.array(["x"], pa.large_string()), "t": pa.array([1], pa.timestamp("us", "+01:00"))})
    assert schemas.fitted(came, declared.names, declared).schema == declared
    assert schemas.fitted(came, ("t", "s"), None).schema.names == ["t", "s"]


def test_a_cast_that_would_lose_something_is_an_error() -> None:
    kept = pa.schema([("n", pa.int32())])
    assert schemas.cast(pa.record_batch({"n": pa.array([1], pa.int64())}), kept).schema == kept
    assert schemas.cast(pa.record_batch({"n": pa.array([None])}), kept).column(0).to_pylist() == [None]
    for column in (pa.array([1 << 40]), pa.array([1.5]), pa.array([[1]])):
        with pytest.raises(SparkSourceError, match=r"n is .* schema="):
            schemas.cast(pa.record_batch({"n": column}), kept)


def test_an_identity_is_metadata() -> None:
    one = schemas.named(pa.record_batch({"a": [1]}), "clicks/b17/7/3", 17)
    assert one.schema.metadata == {b"aiostorm.chunk": b"clicks/b17/7/3", b"aiostorm.batch": b"17"}
    assert schemas.named(one, "w/7/3", -1).schema.metadata[b"aiostorm.chunk"] == b"w/7/3"


def test_a_batch_that_is_too_large_is_split(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("aiostorm.spark.datasource.chunks.MAX_CHUNK_BYTES", 1000)
    whole = pa.record_batch({"a": list(range(1000))})
    parts = list(cut(whole))
    assert all(len(data) <= 1000 for _, data in parts)
    assert pa.Table.from_batches([part for part, _ in parts]).column("a").to_pylist() == list(range(1000))
    assert [part.num_rows for part, _ in cut(whole, 100)][:2] == [50, 50]
    with pytest.raises(SparkSourceError, match="a row has"):
        list(cut(pa.record_batch({"a": ["x" * 2000]})))


def test_a_column_that_cannot_travel_is_named() -> None:
    with pytest.raises(SparkSourceError, match="a"):
        list(cut(pa.record_batch({"a": pa.array(["x"], pa.string_view())})))
