"""Schemas: what fits is taken, what does not is named."""

from __future__ import annotations

import pyarrow as pa
import pytest

from aiostorm.spark import SparkSourceError
from aiostorm.spark.datasource import schemas
from aiostorm.spark.datasource.chunks import batch_of, cut, empty_of
from aiostorm.spark.executors import messages
from aiostorm.transport import ProtocolError, pack_value


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


def test_a_declaration_is_names_or_a_schema() -> None:
    schema = pa.schema([("a", pa.int8()), ("b", pa.string())])
    assert [schemas.names_of(given) for given in (schema, " a, b,, ", ["a", "b"], "")] == [*[("a", "b")] * 3, ()]
    assert (schemas.schema_of(schema) is schema, schemas.schema_of("a,b"), schemas.schema_of(["a"])) == (
        True,
        None,
        None,
    )


def test_columns_are_chosen_by_their_names() -> None:
    batch = pa.record_batch({"a": [1], "b": [2]})
    assert schemas.chosen(batch, ()) is batch
    assert schemas.chosen(batch, ("b",)).schema.names == ["b"]
    for names, wrong in ((("b", "c"), "not there: c"), (("b", "b"), "a name twice")):
        with pytest.raises(SparkSourceError, match=wrong):
            schemas.chosen(batch, names)


def test_the_first_batch_of_a_stream_has_the_number_0() -> None:
    assert schemas.named(pa.record_batch({"a": [1]}), "c", 0).schema.metadata[b"aiostorm.batch"] == b"0"
    assert b"aiostorm.batch" not in schemas.named(pa.record_batch({"a": [1]}), "c", -1).schema.metadata


def test_a_batch_is_cut_by_rows_then_by_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = pa.record_batch({"a": list(range(10))})
    assert [next(iter(cut(whole, most)))[0] is whole for most in (0, 10, 11)] == [True] * 3
    parts = [part for part, _ in cut(whole, 4)]
    assert [part.column("a").to_pylist() for part in parts] == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]]
    monkeypatch.setattr("aiostorm.spark.datasource.chunks.MAX_CHUNK_BYTES", 2000)
    assert [part.num_rows for part, _ in cut(pa.record_batch({"a": ["x" * 1200] * 2}))] == [1, 1]


def test_what_is_no_chunk_is_refused() -> None:
    with pytest.raises(ProtocolError, match="no RecordBatch"):
        batch_of(pack_value("text"))
    with pytest.raises(ProtocolError, match="cannot be read"):
        batch_of(b"noise")
    schema = pa.schema([("a", pa.int8()), ("b", pa.string())], metadata={"x": "y"})
    empty = batch_of(empty_of(schema))
    assert (empty.num_rows, empty.schema.equals(schema.remove_metadata(), check_metadata=True)) == (0, True)


def test_what_executors_send_is_bounded() -> None:
    assert (messages.MAX_CHUNK_BYTES, messages.MAX_MESSAGE_BYTES) == (16_777_216, 524_288)
