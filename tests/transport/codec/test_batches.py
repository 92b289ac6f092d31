"""Arrow batches: what is sent, and each way in which received bytes are refused before Arrow makes rows of them."""

from __future__ import annotations

import struct
from typing import Any

import pyarrow as _pyarrow  # noqa: ICN001 - pyarrow has no types of its own
import pytest

from aiostorm.transport.codec import batches
from aiostorm.transport.codec.batches import decode_batch, encode_batch
from aiostorm.transport.codec.extensions import UnfitError

pa: Any = _pyarrow

NUMBERS = pa.record_batch({"a": [1, 2, 3]})
DICTIONARY = pa.record_batch({"a": pa.array(["x", "yy", "x"]).dictionary_encode()})
END = struct.pack("<Ii", 0xFFFFFFFF, 0)


def stream(*found: Any, **options: Any) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, found[0].schema, options=pa.ipc.IpcWriteOptions(**options)) as writer:
        for batch in found:
            writer.write_batch(batch)
    data: bytes = sink.getvalue().to_pybytes()
    return data


def messages(data: bytes) -> list[bytes]:
    """The messages of a stream, without its end."""
    found: list[bytes] = []
    reader = pa.ipc.MessageReader.open_stream(pa.BufferReader(data))
    try:
        while True:
            found.append(reader.read_next_message().serialize().to_pybytes())
    except StopIteration:
        return found


def nested(depth: int, kind: Any) -> Any:
    for _ in range(depth):
        kind = pa.list_(kind)
    return kind


def empty(kind: Any) -> Any:
    if pa.types.is_dictionary(kind):
        column = pa.DictionaryArray.from_arrays(pa.array([], kind.index_type), pa.array([], kind.value_type))
    else:
        column = pa.array([], kind)
    return pa.record_batch([column], ["a"])


# -- types -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "kind",
    [
        *(pa.null(), pa.bool_(), pa.int8(), pa.uint64(), pa.float16(), pa.decimal128(9, 2), pa.decimal256(50)),
        *(pa.date32(), pa.time64("us"), pa.duration("s"), pa.month_day_nano_interval(), pa.string(), pa.large_string()),
        *(pa.binary(), pa.large_binary(), pa.binary(4), pa.timestamp("s"), pa.timestamp("us", "+02:00")),
        *(pa.timestamp("ns", "Europe/Vienna"), pa.timestamp("ms", "UTC"), pa.dictionary(pa.int8(), pa.string())),
        *(pa.struct([("x", pa.int8()), ("y", pa.list_(pa.string()))]), pa.map_(pa.string(), pa.int8())),
        *(
            pa.large_list(pa.int8()),
            pa.list_(pa.int8(), 2),
            nested(15, pa.int8()),
            pa.dictionary(pa.int8(), pa.int64()),
        ),
    ],
    ids=lambda kind: str(kind)[:30],
)
def test_types_that_are_sent(kind: Any) -> None:
    assert decode_batch(encode_batch(empty(kind))).equals(empty(kind))
    assert decode_batch(stream(empty(kind))).schema == empty(kind).schema


@pytest.mark.parametrize(
    ("kind", "problem"),
    [
        (pa.string_view(), "this type is not sent"),
        (pa.list_view(pa.int8()), "this type is not sent"),
        (pa.timestamp("us", "Atlantis/Capital"), "no time zone 'Atlantis/Capital'"),
        (pa.timestamp("us", "+2:00"), "'\\+2:00' is no key of a time zone"),
        (pa.timestamp("us", "+02:00:00"), "is no key of a time zone"),
        (pa.dictionary(pa.int8(), pa.list_(pa.int8())), "a dictionary of containers"),
        (pa.dictionary(pa.int8(), pa.timestamp("us", "../x")), "is no key of a time zone"),
        (pa.dictionary(pa.int8(), pa.string_view()), "this type is not sent"),
        (pa.struct([("x", pa.int8()), ("y", pa.string_view())]), "this type is not sent"),
        (pa.map_(pa.string(), pa.binary_view()), "this type is not sent"),
        (pa.list_(pa.string_view()), "this type is not sent"),
        (nested(16, pa.int8()), "types nested more than 16 deep"),
        (nested(15, pa.dictionary(pa.int8(), pa.string())), "types nested more than 16 deep"),
    ],
    ids=lambda part: str(part)[:30],
)
def test_types_that_are_not_sent_are_named_with_their_column(kind: Any, problem: str) -> None:
    batch = empty(kind)
    for refused, error in (
        (lambda: encode_batch(batch), UnfitError),
        (lambda: decode_batch(stream(batch)), ValueError),
    ):
        with pytest.raises(error, match=rf"column 'a' is .*: .*{problem}"):
            refused()


def test_an_extension_type_is_refused_on_both_sides() -> None:
    uuids = pa.ExtensionArray.from_storage(pa.uuid(), pa.array([bytes(16)], pa.binary(16)))
    batch = pa.record_batch([uuids], ["a"])
    with pytest.raises(UnfitError, match="an extension type: cast it to its storage type"):
        encode_batch(batch)
    with pytest.raises(ValueError, match="an extension type"):
        decode_batch(stream(batch))


def test_a_text_that_looks_like_an_extension_is_only_a_text() -> None:
    batch = pa.record_batch({"a": ["ARROW:extension:name"]})
    assert decode_batch(encode_batch(batch)).equals(batch)


# -- messages ----------------------------------------------------------------------------------------------------------


SCHEMA, RECORDS = messages(stream(NUMBERS))
WITH_DICTIONARY = messages(stream(DICTIONARY))


def test_a_stream_is_put_together_of_its_messages() -> None:
    assert decode_batch(SCHEMA + RECORDS + END).equals(NUMBERS)
    assert len(WITH_DICTIONARY) == 3
    assert decode_batch(b"".join(WITH_DICTIONARY) + END).equals(DICTIONARY)


@pytest.mark.parametrize(
    ("parts", "problem"),
    [
        ([], "messages $"),
        ([SCHEMA], "messages schema$"),
        ([RECORDS], "messages record batch$"),
        ([SCHEMA, SCHEMA, RECORDS], "messages schema, schema, record batch$"),
        ([SCHEMA, RECORDS, RECORDS], "messages schema, record batch, record batch$"),
        ([RECORDS, SCHEMA], "messages record batch, schema$"),
        ([WITH_DICTIONARY[1], *WITH_DICTIONARY], "messages dictionary, schema, dictionary, record batch$"),
        ([*WITH_DICTIONARY[:2]], "messages schema, dictionary$"),
    ],
    ids=lambda part: str(len(part)),
)
def test_only_a_schema_dictionaries_and_one_batch_are_accepted(parts: list[bytes], problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        decode_batch(b"".join(parts) + END)


def test_there_are_at_most_256_dictionaries() -> None:
    schema, dictionary, records = WITH_DICTIONARY
    with pytest.raises(ValueError, match="more than so many dictionaries"):
        decode_batch(schema + dictionary * 257 + records + END)
    columns = {f"c{n}": pa.array(["x"]).dictionary_encode() for n in range(256)}
    assert decode_batch(encode_batch(pa.record_batch(columns))).num_columns == 256
    columns["more"] = columns["c0"]
    with pytest.raises(ValueError, match="more than so many dictionaries"):
        decode_batch(encode_batch(pa.record_batch(columns)))


def test_bytes_behind_the_batch_are_counted() -> None:
    with pytest.raises(ValueError, match="3 bytes behind the batch"):
        decode_batch(stream(NUMBERS) + b"abc")


@pytest.mark.parametrize("how", ["zstd", "lz4"])
@pytest.mark.parametrize("large", [{"a": ["x" * 1000] * 100}, {"a": pa.array(["x" * 9000] * 9).dictionary_encode()}])
def test_a_compressed_batch_and_a_compressed_dictionary_are_refused(how: str, large: Any) -> None:
    batch = pa.record_batch(large)
    assert decode_batch(stream(batch)).equals(batch)
    with pytest.raises(ValueError, match="a compressed batch"):
        decode_batch(stream(batch, compression=how))


# -- flatbuffers -------------------------------------------------------------------------------------------------------


def table(*fields: bytes) -> bytes:
    """A flatbuffer with one table at its root. A field is 4 bytes; an empty one is missing."""
    offsets, at = [], 4
    for content in fields:
        offsets.append(at if content else 0)
        at += len(content)
    vtable = struct.pack(f"<HH{len(fields)}H", 4 + 2 * len(fields), at, *offsets)
    vtable += bytes(-len(vtable) % 4)
    root = 4 + len(vtable)
    return struct.pack("<I", root) + vtable + struct.pack("<i", len(vtable)) + b"".join(fields)


def message(kind: int, header: bytes, *, body: bytes = b"") -> bytes:
    """A Message (version, type of the header, header, …) whose header is the table at the root of another buffer."""
    head = table(b"\4\0\0\0", struct.pack("<I", kind) if kind else b"", b"\0\0\0\0" if header else b"", body)
    if not header:
        return head
    field = len(head) - len(body) - 4
    target = len(head) + struct.unpack_from("<I", header)[0]
    return head[:field] + struct.pack("<I", target - field) + head[field + 4 :] + header


BATCH = table(b"\1\0\0\0", b"\0\0\0\0", b"\0\0\0\0")
COMPRESSED = table(b"\1\0\0\0", b"\0\0\0\0", b"\0\0\0\0", b"\1\0\0\0")
compressed = batches._is_compressed  # pyright: ignore[reportPrivateUsage]


def test_the_field_of_the_compression_is_found() -> None:
    assert not compressed(message(3, BATCH))
    assert not compressed(message(3, table(b"\1\0\0\0", b"\0\0\0\0", b"\0\0\0\0", b"")))
    assert compressed(message(3, COMPRESSED))
    assert compressed(message(3, table(b"", b"", b"", b"\1\0\0\0")))
    for inner, found in ((BATCH, False), (COMPRESSED, True)):
        outer = table(b"\7\0\0\0", b"\0\0\0\0")
        target = len(outer) + struct.unpack_from("<I", inner)[0]
        dictionary = outer[:-4] + struct.pack("<I", target - (len(outer) - 4)) + inner
        assert compressed(message(2, dictionary)) is found


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        (message(0, BATCH), "a message without a header"),
        (message(3, b""), "a message without a header"),
        (message(2, table(b"\7\0\0\0", b"")), "a dictionary without data"),
        (message(2, table(b"\7\0\0\0")), "a dictionary without data"),
        (message(1, BATCH), "a message of kind 1"),
        (message(4, BATCH), "a message of kind 4"),
        (struct.pack("<Ii", 4, 5), "a flatbuffer that points out of itself"),
    ],
)  # fmt: skip
def test_another_flatbuffer_is_refused(data: bytes, problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        compressed(data)


def test_a_flatbuffer_that_is_cut_is_never_one_without_compression() -> None:
    data = message(3, COMPRESSED)
    refused = 0
    for end in range(len(data)):
        try:
            assert compressed(data[:end])
        except (ValueError, struct.error):
            refused += 1
    assert refused > len(data) // 2


def test_malformed_metadata_is_an_error_of_the_batch() -> None:
    data = bytearray(SCHEMA + RECORDS + END)
    struct.pack_into("<I", data, len(SCHEMA) + 8, 1 << 20)  # the root of the flatbuffer is outside
    with pytest.raises(ValueError, match="no RecordBatch"):
        decode_batch(bytes(data))


# -- contents ----------------------------------------------------------------------------------------------------------


def test_what_arrow_would_read_without_a_look_is_validated() -> None:
    wrong = stream(pa.record_batch({"a": ["ab", "cd"]})).replace(b"abcd", b"\xff\xfecd")
    with pytest.raises(ValueError, match=r"no RecordBatch: .*UTF"):
        decode_batch(wrong)
    outside = pa.DictionaryArray.from_arrays(pa.array([0, 5]), ["x"], safe=False)
    with pytest.raises(ValueError, match=r"no RecordBatch: .*bounds"):
        decode_batch(stream(pa.record_batch([outside], ["a"])))


def test_there_are_no_more_rows_than_bits() -> None:
    size = len(stream(pa.record_batch({"a": pa.nulls(1)})))
    most = pa.record_batch({"a": pa.nulls(8 * size)})
    assert decode_batch(encode_batch(most)).num_rows == 8 * size
    batch = pa.record_batch({"a": pa.nulls(8 * size + 1)})
    assert len(stream(batch)) == size, "nulls have no bytes"
    with pytest.raises(UnfitError, match=f"{8 * size + 1} rows in {size} bytes"):
        encode_batch(batch)
    with pytest.raises(ValueError, match=f"{8 * size + 1} rows in {size} bytes"):
        decode_batch(stream(batch))


@pytest.mark.parametrize(
    "column",
    [
        pa.ListArray.from_arrays([0, 10**6], pa.nulls(10**6)),
        pa.LargeListArray.from_arrays([0, 10**6], pa.nulls(10**6)),
        pa.FixedSizeListArray.from_arrays(pa.nulls(10**6), 10**6),
        pa.StructArray.from_arrays([pa.array([1]), pa.ListArray.from_arrays([0, 10**6], pa.nulls(10**6))], ["x", "y"]),
        pa.MapArray.from_arrays([0, 1], pa.array(["k"]), pa.ListArray.from_arrays([0, 10**6], pa.nulls(10**6))),
    ],
    ids=lambda column: str(column.type)[:12],
)  # fmt: skip
def test_inner_columns_are_counted(column: Any) -> None:
    batch = pa.record_batch([column], ["a"])
    with pytest.raises(UnfitError, match="1000000 values in a frame of"):
        encode_batch(batch)
    with pytest.raises(ValueError, match="1000000 values in a frame of"):
        decode_batch(stream(batch))


@pytest.mark.parametrize(
    "column",
    [
        pa.array([[1, 2, 3]] * 20_000),
        pa.array([[1, 2, 3]] * 20_000, pa.large_list(pa.int64())),
        pa.array([[1, 2, 3]] * 20_000, pa.list_(pa.int64(), 3)),
        pa.array([{"k": 1}] * 20_000, pa.map_(pa.string(), pa.int64())),
        pa.array([{"x": [1, 2, 3]}] * 20_000),
    ],
    ids=lambda column: str(column.type)[:20],
)
def test_a_slice_of_a_large_batch_counts_its_own_rows(column: Any) -> None:
    batch = pa.record_batch([column, pa.array(range(20_000))], ["a", "n"])
    for part in (batch.slice(0, 0), batch.slice(5, 10), batch.slice(19_990)):
        assert decode_batch(encode_batch(part)).equals(part)


def repeated(text: Any, n_rows: int) -> Any:
    return pa.DictionaryArray.from_arrays(pa.array([0] * n_rows, pa.int8()), pa.array([text, text + text]))


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string(), pa.binary(), pa.large_binary()], ids=str)
def test_the_values_of_a_dictionary_are_counted_for_each_row(kind: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    text = b"x" * 100 if "binary" in str(kind) else "x" * 100
    column = pa.DictionaryArray.from_arrays(pa.array([0, 1, 0, None], pa.int8()), pa.array([text, text * 2], kind))
    batch = pa.record_batch([column, column], ["a", "b"])
    monkeypatch.setattr(batches, "MAX_EXPANDED_BYTES", 800)
    assert decode_batch(encode_batch(batch)).equals(batch)
    monkeypatch.setattr(batches, "MAX_EXPANDED_BYTES", 799)
    for refused, error in (
        (lambda: encode_batch(batch), UnfitError),
        (lambda: decode_batch(stream(batch)), ValueError),
    ):
        with pytest.raises(error, match="its dictionaries' values are 800 bytes when each row has its own; send fewer"):
            refused()


@pytest.mark.parametrize("values", [["x", "y"], [1, 2], [None, None]])
def test_dictionaries_of_other_values_and_of_nulls_are_small(values: list[Any]) -> None:
    column = pa.DictionaryArray.from_arrays(pa.array([0, 1, None], pa.int8()), pa.array(values))
    batch = pa.record_batch([column], ["a"])
    assert decode_batch(encode_batch(batch)).equals(batch)
    column = pa.DictionaryArray.from_arrays(pa.array([None], pa.int8()), pa.array(values))
    assert decode_batch(encode_batch(pa.record_batch([column], ["a"]))).num_rows == 1


@pytest.mark.parametrize("how", ["struct", "list", "map keys", "map items"])
def test_dictionaries_inside_of_containers_are_counted_too(how: str, monkeypatch: pytest.MonkeyPatch) -> None:
    inner = repeated("x" * 100, 3)
    plain = pa.array([1, 2, 3])
    column = {
        "struct": lambda: pa.StructArray.from_arrays([plain, inner], ["n", "d"]),
        "list": lambda: pa.ListArray.from_arrays([0, 1, 3], inner),
        "map keys": lambda: pa.MapArray.from_arrays([0, 1, 2, 3], inner, plain),
        "map items": lambda: pa.MapArray.from_arrays([0, 1, 2, 3], plain, inner),
    }[how]()
    batch = pa.record_batch([column], ["a"])
    monkeypatch.setattr(batches, "MAX_EXPANDED_BYTES", 300)
    assert decode_batch(encode_batch(batch)).equals(batch)
    monkeypatch.setattr(batches, "MAX_EXPANDED_BYTES", 299)
    with pytest.raises(UnfitError, match="are 300 bytes"):
        encode_batch(batch)
