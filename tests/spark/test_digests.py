"""Digests: of the rows and nothing else, however they were cut; and chunks, which are the same however they came."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiostorm.spark.batch.chunking import Chunker
from aiostorm.spark.batch.chunking import digest_of as chunk_digest
from aiostorm.spark.datasource.chunks import batch_of, bytes_of
from aiostorm.spark.digests import digest_of, plain_type

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
    digest = digest_of(made(rows))
    assert digest_of(sliced(rows)) == digest
    assert digest_of(batch_of(bytes_of(made(rows)))) == digest


@given(st.lists(st.sampled_from(range(4)), min_size=1, max_size=4), st.lists(st.sampled_from(range(4)), max_size=4))
def test_other_rows_have_another_digest(first: list[int], second: list[int]) -> None:
    one, other = ([ROWS[at] for at in rows] for rows in (first, second))
    assert (digest_of(made(one)) == digest_of(made(other))) == (first == second)


def test_values_under_a_null_make_no_difference() -> None:
    valid = pa.py_buffer(b"\x05")
    first = pa.Array.from_buffers(pa.int32(), 3, [valid, pa.py_buffer(b"\1\0\0\0\2\0\0\0\3\0\0\0")])
    second = pa.Array.from_buffers(pa.int32(), 3, [valid, pa.py_buffer(b"\1\0\0\0\7\7\7\7\3\0\0\0")])
    assert digest_of(pa.record_batch({"a": first})) == digest_of(pa.record_batch({"a": second}))
    names = pa.array(["x", "y", "x"])
    assert digest_of(pa.record_batch({"a": names})) == digest_of(pa.record_batch({"a": names.dictionary_encode()}))


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
    digest = digest_of(pa.record_batch({"a": column}))
    assert digest_of(pa.record_batch({"a": pa.concat_arrays([column, column]).slice(1)})) == digest
    assert digest_of(pa.record_batch({"a": column.slice(1)})) != digest


def chunked(rows: list[dict[str, Any]], cuts: list[int], size: int) -> list[tuple[int, int]]:
    """Length and digest of each chunk, when the rows come in batches that end at `cuts`."""
    whole, chunker = made(rows), Chunker(size)
    chunks: list[Any] = []
    for begin, end in zip([0, *cuts], [*cuts, len(rows)], strict=True):
        chunks += chunker.add(whole.slice(begin, end - begin))
    last = chunker.end()
    chunks += [] if last is None else [last]
    return [(chunk.num_rows, chunk_digest(number, chunk)) for number, chunk in enumerate(chunks)]


@given(st.lists(st.sampled_from(ROWS), max_size=40), st.data(), st.integers(1, 13))
def test_chunks_are_the_same_however_spark_cut_its_batches(rows: list[Any], data: st.DataObject, size: int) -> None:
    cuts = sorted(data.draw(st.lists(st.integers(0, len(rows)), max_size=6)))
    chunks = chunked(rows, cuts, size)
    assert chunks == chunked(rows, [], size)
    # A batch of one's own for each chunk, which shares nothing with its neighbours:
    alone = [made(rows[begin : begin + size]) for begin in range(0, len(rows), size)]
    assert chunks == [(batch.num_rows, chunk_digest(number, batch)) for number, batch in enumerate(alone)]
    assert [length for length, _ in chunks[:-1]] == [size] * (len(chunks) - 1)


def test_the_number_of_a_chunk_counts() -> None:
    assert chunk_digest(0, made(ROWS)) != chunk_digest(1, made(ROWS))


def test_digests_stay_what_they_are() -> None:
    """They are kept in the progress of a job, and compared by a later release."""
    assert digest_of(made(ROWS)).hex() == "2027a0aebf2ee89945098fcf0af636e1"
    assert digest_of(made(ROWS[:1])).hex() == "47e864caadede676f2f7a734f9466865"


def test_names_and_types_of_columns_count() -> None:
    batches = [
        pa.record_batch({name: pa.array(values, kind)})
        for name, values, kind in (
            ("a", [1, 2], pa.int32()),
            ("b", [1, 2], pa.int32()),
            ("a", [1, 2], pa.uint32()),
            ("a", ["x"], pa.string()),
            ("a", [b"x"], pa.binary()),
            ("a", [{"x": 1}], pa.struct([("x", pa.int32())])),
            ("a", [{"y": 1}], pa.struct([("y", pa.int32())])),
            ("a", [[("k", 1)]], pa.map_(pa.string(), pa.int32())),
            ("a", [[("k", 2)]], pa.map_(pa.string(), pa.int32())),
        )
    ]
    assert len({digest_of(batch) for batch in batches}) == len(batches)
    assert plain_type(pa.string()) == plain_type(pa.large_string()) == "string"
    assert plain_type(pa.struct([("x", pa.large_string())])) == "struct<x: string>"


def test_a_chunk_comes_with_its_last_row_and_one_of_one_batch_is_no_copy() -> None:
    batch, chunker = made([ROWS[0]] * 3), Chunker(3)
    [chunk] = chunker.add(batch)
    assert chunk.num_rows == 3
    assert chunk.column(0).buffers()[1].address == batch.column(0).buffers()[1].address
    assert chunker.end() is None
