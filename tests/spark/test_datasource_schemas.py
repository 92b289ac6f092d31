"""Schemas and digests: what fits is taken, what does not is named; a digest is of the rows and nothing else."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiostorm.spark import SparkSourceError
from aiostorm.spark import datasource_schemas as schemas
from aiostorm.spark.datasource_chunks import batch_of, bytes_of, cut

ROWS: list[dict[str, Any]] = [
    {"i": 1, "s": "a", "l": [1, 2], "m": [("a", 1)], "t": {"x": 1, "y": "p"}, "b": True, "f": 1.5, "n": None},
    {"i": None, "s": None, "l": None, "m": None, "t": None, "b": None, "f": None, "n": None},
    {"i": 3, "s": "", "l": [], "m": [], "t": {"x": None, "y": ""}, "b": False, "f": -0.0, "n": None},
    {
        "i": 4,
        "s": "zz",
        "l": [None],
        "m": [("b", None), ("c", 3)],
        "t": {"x": 2, "y": None},
        "b": True,
        "f": 2.0,
        "n": None,
    },
]
TYPES = {
    "i": pa.int32(),
    "s": pa.string(),
    "l": pa.list_(pa.int64()),
    "m": pa.map_(pa.string(), pa.int64()),
    "t": pa.struct([("x", pa.int16()), ("y", pa.string())]),
    "b": pa.bool_(),
    "f": pa.float64(),
    "n": pa.null(),
}


def made(rows: list[dict[str, Any]]) -> Any:
    return pa.record_batch({name: pa.array([row[name] for row in rows], kind) for name, kind in TYPES.items()})


def sliced(rows: list[dict[str, Any]]) -> Any:
    """The same rows, within a larger batch."""
    return made([ROWS[3], ROWS[0], *rows, ROWS[1], ROWS[3]]).slice(2, len(rows))


@given(st.lists(st.sampled_from(ROWS), max_size=9))
def test_a_digest_is_of_the_rows(rows: list[dict[str, Any]]) -> None:
    digest = schemas.digest_of(made(rows))
    assert schemas.digest_of(sliced(rows)) == digest
    assert schemas.digest_of(batch_of(bytes_of(made(rows)))) == digest


@given(st.lists(st.sampled_from(range(4)), min_size=1, max_size=4), st.lists(st.sampled_from(range(4)), max_size=4))
def test_other_rows_have_another_digest(first: list[int], second: list[int]) -> None:
    one, other = ([ROWS[at] for at in rows] for rows in (first, second))
    assert (schemas.digest_of(made(one)) == schemas.digest_of(made(other))) == (first == second)


def test_what_is_under_a_null_is_no_difference() -> None:
    valid = pa.py_buffer(b"\x05")
    first = pa.Array.from_buffers(pa.int32(), 3, [valid, pa.py_buffer(b"\1\0\0\0\2\0\0\0\3\0\0\0")])
    second = pa.Array.from_buffers(pa.int32(), 3, [valid, pa.py_buffer(b"\1\0\0\0\7\7\7\7\3\0\0\0")])
    assert schemas.digest_of(pa.record_batch({"a": first})) == schemas.digest_of(pa.record_batch({"a": second}))
    names = pa.array(["x", "y", "x"])
    assert schemas.digest_of(pa.record_batch({"a": names})) == schemas.digest_of(
        pa.record_batch({"a": names.dictionary_encode()})
    )


@pytest.mark.parametrize(
    "column",
    [
        pa.array([1], pa.timestamp("us", "UTC")),
        pa.array([1], pa.timestamp("us")),
        pa.array([1], pa.date32()),
        pa.array([b"x"], pa.binary(1)),
        pa.array([b"xy"], pa.large_binary()),
        pa.array(["xy"], pa.large_string()),
        pa.array([1], pa.decimal128(20, 3)),
        pa.array([1], pa.duration("us")),
        pa.array([[1, 2]], pa.list_(pa.int8(), 2)),
        pa.array([[[("k", [1])]]], pa.list_(pa.map_(pa.string(), pa.list_(pa.int8())))),
        pa.array([(1, 2, 3)], pa.month_day_nano_interval()),
    ],
    ids=lambda column: str(column.type),
)
def test_every_type_has_a_digest(column: Any) -> None:
    digest = schemas.digest_of(pa.record_batch({"a": column}))
    assert schemas.digest_of(pa.record_batch({"a": pa.concat_arrays([column, column]).slice(1)})) == digest
    assert schemas.digest_of(pa.record_batch({"a": column.slice(1)})) != digest


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


def test_what_is_too_large_is_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("aiostorm.spark.datasource_chunks.MAX_CHUNK_BYTES", 1000)
    whole = pa.record_batch({"a": list(range(1000))})
    parts = list(cut(whole))
    assert all(len(data) <= 1000 for _, data in parts)
    assert pa.Table.from_batches([part for part, _ in parts]).column("a").to_pylist() == list(range(1000))
    assert [part.num_rows for part, _ in cut(whole, 100)][:2] == [50, 50]
    with pytest.raises(SparkSourceError, match="a row of"):
        list(cut(pa.record_batch({"a": ["x" * 2000]})))


def test_a_column_that_cannot_travel_is_named() -> None:
    with pytest.raises(SparkSourceError, match="a"):
        list(cut(pa.record_batch({"a": pa.array(["x"], pa.string_view())})))
