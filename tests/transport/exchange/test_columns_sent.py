"""NumPy arrays and Arrow batches: they come as they were, or are refused before anything large is made of them."""

from __future__ import annotations

import struct
from typing import Any

import msgpack
import numpy as np
import pyarrow as _pyarrow  # noqa: ICN001 - pyarrow has no types of its own
import pytest

from aiostorm.topology import ColumnRows, Fields, Origin, RepeatedAnchor, Segment
from aiostorm.transport import (
    UnreadableError,
    UnsendableError,
    pack_items,
    pack_segment,
    pack_value,
    segments_body,
    split_items,
    unpack_segments,
    unpack_value,
)
from aiostorm.transport.exchange.segments import MAX_ROW_BYTES

pa: Any = _pyarrow


def extension(code: int, data: bytes) -> bytes:
    packed: bytes = msgpack.packb(msgpack.ExtType(code, data))
    return packed


# -- NumPy -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "array",
    [
        *(np.arange(6).reshape(2, 3), np.arange(6.0).reshape(2, 3).T, np.array(5), np.array([]), np.zeros((0, 3))),
        *(np.array([True, False]), np.array(["a", "bcd"]), np.array([b"a", b""]), np.array([1 + 2j], "c8")),
        *(np.array(["2026-01-01"], "M8[s]"), np.array([5], "m8[25us]"), np.array(["NaT"], "M8[us]")),
        *(np.arange(5, dtype=">i2")[::2], np.array([1.5], "f2"), np.arange(3, dtype="u1")),
    ],
    ids=lambda array: f"{array.dtype}{array.shape}",
)
def test_arrays_come_as_they_were(array: Any) -> None:
    found = unpack_value(pack_value([array]))[0]
    assert type(found) is np.ndarray
    assert (found.dtype, found.shape) == (array.dtype, array.shape)
    assert found.tobytes() == array.tobytes()
    assert found.flags.writeable
    assert found.flags.owndata


@pytest.mark.parametrize(
    "scalar",
    [
        *(np.float64(1.5), np.int8(-3), np.bool_(True), np.complex64(1j), np.datetime64("2026-01-01", "us")),
        *(np.str_("é"), np.bytes_(b"x\0"), np.timedelta64(3, "h"), np.uint64(2**64 - 1), np.float16(0.5)),
    ],
    ids=lambda scalar: type(scalar).__name__,
)
def test_scalars_come_as_they_were(scalar: Any) -> None:
    found = unpack_value(pack_value((scalar,)))[0]
    assert (type(found), found, found.dtype) == (type(scalar), scalar, scalar.dtype)


@pytest.mark.parametrize(
    "value",
    [
        *(np.array([object()]), np.zeros(2, [("a", "i4")]), np.longdouble(1), np.zeros(1, "V4")),
        *(np.ma.masked_array([1]), type("Mine", (np.float64,), {})(1), np.void(b"x")),
    ],
    ids=lambda value: type(value).__name__,
)  # fmt: skip
def test_an_array_without_a_plain_dtype_cannot_be_sent(value: Any) -> None:
    with pytest.raises(UnsendableError):
        pack_value(value)


def array(dtype: bytes, shape: tuple[int, ...], data: bytes) -> bytes:
    return bytes((len(dtype),)) + dtype + struct.pack(f"!B{len(shape)}Q", len(shape), *shape) + data


@pytest.mark.parametrize(
    "data",
    [
        *(b"", b"\x03", b"\x03<f8", b"\x03<f8\x01", array(b"<f8", (1,), bytes(7)), array(b"<f8", (2,), bytes(8))),
        *(array(dtype, (1,), bytes(8)) for dtype in (b"|O", b"O", b"<O8", b"f8", b"=f8", b">b1", b"|V8", b"")),
        array(b"<i8,<i8", (1,), bytes(16)),
        *(array(b"<f8", (2**61,), b""), array(b"<f8", (2**32, 2**32), b""), array(b"<f8", (0, 2**40), b"")),
        *(array(b"<f8", (1,) * 33, bytes(8)), array(b"<U0", (1,), b""), array(b"|S0", (9,), b"")),
        *(array(b"|b1", (1,), b"\2"), array(b"<U1", (1,), b"\xff" * 4), array(b">U1", (1,), b"\xff" * 4)),
        *(array(b"<M8[parsec]", (1,), bytes(8)), array(b"<M8[0s]", (1,), bytes(8)), array(b"<M8[", (1,), bytes(8))),
        array(b"<f8\n", (1,), bytes(8)),
    ],
)  # fmt: skip
def test_arrays_that_are_not_right_are_refused(data: bytes) -> None:
    with pytest.raises(UnreadableError):
        unpack_value(extension(17, data))


@pytest.mark.parametrize(
    "data", [b"", b"\1", b"\1U\xff", b"\3<U1aaaa", b"\3<f8" + bytes(7), b"\3|b1\2", b"\2|O" + bytes(8)]
)
def test_scalars_that_are_not_right_are_refused(data: bytes) -> None:
    with pytest.raises(UnreadableError):
        unpack_value(extension(18, data))


# -- Arrow -------------------------------------------------------------------------------------------------------------

ORIGIN = Origin("spout", 3, "default", Fields("a", "b"))

UUIDS = pa.ExtensionArray.from_storage(pa.uuid(), pa.array([bytes(16)], pa.binary(16)))

BATCH = pa.record_batch(
    {
        "n": pa.nulls(3),
        "i": [1, None, 3],
        "s": ["x", None, "yy"],
        "d": pa.array(["u", "v", "u"]).dictionary_encode(),
        "l": [[1], [], None],
        "t": pa.array([1, 2, 3], pa.timestamp("us", "Europe/Vienna")),
        "o": pa.array([1, 2, 3], pa.timestamp("ns", "+02:00")),
        "m": pa.array([{"k": 1}, {}, None], pa.map_(pa.string(), pa.int64())),
        "r": [{"x": 1.5}, {"x": None}, None],
        "f": pa.array([[1, 2]] * 3, pa.list_(pa.int8(), 2)),
    }
)


def test_a_batch_comes_as_it_was() -> None:
    for batch in (BATCH, BATCH.slice(1, 1), BATCH.slice(0, 0), BATCH.replace_schema_metadata({"pandas": "{}"})):
        found = unpack_value(pack_value({"batch": batch}))["batch"]
        assert found.equals(batch, check_metadata=True)


@pytest.mark.parametrize(
    "column",
    [
        pa.array(["x"], pa.string_view()),
        pa.RunEndEncodedArray.from_arrays(pa.array([1], pa.int32()), pa.array(["x"])),
        pa.UnionArray.from_sparse(pa.array([0], pa.int8()), [pa.array([1])]),
        pa.array([[1]], pa.list_view(pa.int8())),
        UUIDS,
        pa.array([1], pa.timestamp("us", "../../etc/passwd")),
    ],
    ids=lambda column: str(column.type)[:20],
)
def test_types_that_are_not_of_the_table_are_named(column: Any) -> None:
    with pytest.raises(UnsendableError, match="this RecordBatch cannot be sent"):
        pack_value(pa.record_batch([column], ["a"]))


def stream(*batches: Any, **options: Any) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batches[0].schema, options=pa.ipc.IpcWriteOptions(**options)) as writer:
        for batch in batches:
            writer.write_batch(batch)
    data: bytes = sink.getvalue().to_pybytes()
    return data


NUMBERS = pa.record_batch({"a": [1, 2, 3]})


@pytest.mark.parametrize(
    "data",
    [
        *(b"", b"noise", stream(NUMBERS)[:-20], stream(NUMBERS) + b"\0", stream(NUMBERS, NUMBERS)),
        stream(pa.record_batch({"a": ["x" * 1000] * 1000}), compression="zstd"),
        stream(pa.record_batch({"a": pa.array(["x" * 1000] * 100).dictionary_encode()}), compression="lz4"),
        stream(pa.record_batch({"a": pa.nulls(10**6)})),
        stream(pa.record_batch([pa.ListArray.from_arrays([0, 10**6], pa.nulls(10**6))], ["a"])),
        stream(pa.record_batch([pa.FixedSizeListArray.from_arrays(pa.nulls(10**6), 10**6)], ["a"])),
        stream(pa.record_batch([pa.DictionaryArray.from_arrays(pa.array([0] * 9000, pa.int8()), ["x" * 9000])], ["a"])),
        stream(pa.record_batch([pa.array(["x"], pa.string_view())], ["a"])),
        stream(pa.record_batch([UUIDS], ["a"])),
        stream(pa.record_batch([pa.array([1], pa.timestamp("us", "/etc/passwd"))], ["a"])),
        stream(pa.record_batch([pa.array(["a"])], ["a"])).replace(b"a" + bytes(7), b"\xff" + bytes(7)),
    ],
    ids=len,
)  # fmt: skip
def test_batches_that_are_not_right_are_refused(data: bytes) -> None:
    with pytest.raises(UnreadableError):
        unpack_value(extension(19, data))


def sent(segment: Segment) -> Segment:
    (found,) = unpack_segments(segments_body([pack_segment(segment)]), lambda task, stream: ORIGIN)
    return found


def rows(count: int, text: str = "x") -> ColumnRows:
    return ColumnRows(pa.record_batch({"a": list(range(count)), "b": [text] * count}), False)


def test_columns_travel_as_columns() -> None:
    segment = Segment(ORIGIN, rows(3), 7, 9, RepeatedAnchor(4, 3))
    found = sent(segment)
    assert type(found.items) is ColumnRows
    assert found.items.batch.equals(segment.items.batch)  # type: ignore[attr-defined]
    assert (found.rows, found.indices is not None and list(found.indices)) == (segment.rows, [4, 4, 4])


def test_columns_must_be_those_of_the_stream() -> None:
    for batch in (rows(3).batch.rename_columns(["b", "a"]), rows(3).batch.select(["a"])):
        with pytest.raises(UnreadableError, match="unexpected rows or columns"):
            sent(Segment(ORIGIN, ColumnRows(batch, False)))


def test_columns_are_cut_by_rows() -> None:
    whole = rows(20_000, "some words")
    pieces = split_items(ORIGIN, whole, RepeatedAnchor(3, 20_000))
    assert [row for piece, _ in pieces for row in piece] == whole.items
    assert all(len(piece.columns) <= 64 * 1024 and len(anchors) == len(piece) for piece, anchors in pieces)
    assert len(pieces) < 14
    assert len(split_items(ORIGIN, rows(9))) == 1


def test_columns_with_lists_are_cut_by_rows() -> None:
    values = {"a": [[n, n + 1] for n in range(5_000)], "b": [{"x": [str(n)]} for n in range(5_000)]}
    whole = ColumnRows(pa.record_batch(values), False)
    pieces = split_items(ORIGIN, whole)
    assert len(pieces) > 3
    assert [row for piece, _ in pieces for row in piece] == whole.items


def test_columns_with_a_third_more_than_a_piece_has_are_not_cut() -> None:
    whole = rows(5_000, "some words")
    size = len(pack_items(ORIGIN, whole).columns)
    enough = -(-3 * size // 4)
    assert enough + enough // 3 >= size > enough - 1 + (enough - 1) // 3
    assert [len(split_items(ORIGIN, whole, None, most)) for most in (enough, enough - 1)] == [1, 2]
    anchors = list(range(5_000))  # they are sent with the rows
    assert len(split_items(ORIGIN, whole, anchors, enough)) == 2


def test_how_small_pieces_can_be_follows_from_the_first_row() -> None:
    """A piece of four first rows, with schema and dictionaries, is not cut further."""
    share = MAX_ROW_BYTES // 100
    texts = ["x" * 5 * share, "y" * 40 * share, *("z" * 3 * share for _ in range(5))]
    batch = pa.record_batch({"a": list(range(7)), "b": texts})
    pieces = split_items(ORIGIN, ColumnRows(batch, False))
    assert [len(piece) for piece, _ in pieces] == [1, 1, 2, 2, 1]
    first = pa.record_batch({"a": list(range(7)), "b": ["x" * 20 * share, *texts[2:], "w"]})
    assert len(split_items(ORIGIN, ColumnRows(first, False))) == 1


def test_columns_that_cannot_be_cut_small_enough_are_named() -> None:
    huge = pa.DictionaryArray.from_arrays(pa.array([0, 1] * 10), ["x" * MAX_ROW_BYTES, "y"])
    batch = pa.record_batch([pa.array(range(20)), huge], ["a", "b"])
    with pytest.raises(UnsendableError, match="'spout' emits on stream 'default', field 'b': a RecordBatch of 20 rows"):
        split_items(ORIGIN, ColumnRows(batch, False))
    with pytest.raises(UnsendableError, match="cannot be split"):
        split_items(ORIGIN, rows(1, "x" * MAX_ROW_BYTES))
    large = pa.DictionaryArray.from_arrays(pa.array([0, 1] * 5000), ["x" * 5_000, "y" * 150_000])
    with pytest.raises(UnsendableError, match="its dictionaries' values are"):
        split_items(ORIGIN, ColumnRows(pa.record_batch([pa.array(range(10_000)), large], ["a", "b"]), False))
    some = pa.DictionaryArray.from_arrays(pa.array([0, 1] * 5000), ["x" * 5_000, "y" * 5_000])
    assert len(split_items(ORIGIN, ColumnRows(pa.record_batch([pa.array(range(10_000)), some], ["a", "b"]), False))) < 9


# -- identity ----------------------------------------------------------------------------------------------------------


def test_a_batch_with_an_identity_travels_whole_with_it() -> None:
    origin = Origin("flights", 1, "default", Fields("a", "b"))
    rows = 30_000
    plain = pa.record_batch({"a": list(range(rows)), "b": [1.5] * rows})
    named = plain.replace_schema_metadata({"aiostorm.chunk": "flights/7/3"})
    assert len(split_items(origin, ColumnRows(plain, False))) > 5
    [(packed, _)] = split_items(origin, ColumnRows(named, False), RepeatedAnchor(0, rows))
    [came] = unpack_segments(
        segments_body([pack_segment(Segment(origin, packed, 5, 6, RepeatedAnchor(0, rows)))]),
        lambda task, stream: origin,
    )
    assert came.tuple_at(7).metadata == {"chunk": "flights/7/3"}
    assert came.items.batch.equals(named, check_metadata=True)


def test_a_batch_with_an_identity_is_not_cut_while_a_link_carries_it() -> None:
    origin = Origin("flights", 1, "default", Fields("a", "b"))
    for share, whole in ((0.72, True), (0.85, True), (1.05, False)):
        batch = pa.record_batch({"a": list(range(10)), "b": ["x" * int(share * MAX_ROW_BYTES / 10)] * 10})
        named = batch.replace_schema_metadata({"aiostorm.chunk": "flights/7/3"})
        assert (len(split_items(origin, ColumnRows(named, False))) == 1) is whole


def test_one_that_no_link_carries_is_split_and_its_pieces_are_distinguished() -> None:
    origin = Origin("flights", 1, "default", Fields("a", "b"))
    rows = 200_000
    named = pa.record_batch({"a": [7] * rows, "b": [1.5] * rows}, metadata={"aiostorm.chunk": "flights/7/3"})
    pieces = [packed.unpacked() for packed, _ in split_items(origin, ColumnRows(named, False), RepeatedAnchor(0, rows))]
    assert sum(map(len, pieces)) == rows
    assert len({piece.metadata["part"] for piece in pieces}) == len(pieces) > 3
    assert max(map(len, pieces)) * 16 <= MAX_ROW_BYTES
