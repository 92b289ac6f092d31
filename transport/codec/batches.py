"""Batches: an Arrow RecordBatch as bytes, in Arrow's IPC stream format, checked. Imported when there is one.

    schema message, dictionary messages, one record batch message, end of stream

1. Received bytes are inspected before Arrow reads them: no compression (a small frame may become gigabytes), no
   extension types (their classes may run code), one batch, and no bytes after it.
2. Then Arrow validates everything: offsets, UTF-8, indices into dictionaries.
3. The memory of its rows is limited by the bytes: no more rows, and no more values of an inner column, than the frame
   has bits; a dictionary's values have at most MAX_EXPANDED_BYTES if written out for each row. Types whose rows may
   share memory in other ways (views, run-end encoding, unions) are refused.
4. The sender makes the same checks: what is refused here is an UnsendableError there. Types are checked before anything
   is copied; the sender that splits a batch checks its size (see sizes, and segments).
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

import pyarrow as _pyarrow  # noqa: ICN001 - see below

from .extensions import UnfitError, zone_of

if TYPE_CHECKING:
    from .names import ArrowBuffer, Column, DataType, PyArrow, RecordBatch

# pyarrow has no types of its own.
pa: PyArrow = _pyarrow
is_: PyArrow = pa.types

MAX_EXPANDED_BYTES: Final = 64 * 1024 * 1024
MAX_NESTED: Final = 16
MAX_DICTIONARIES: Final = 256

_EXTENSION: Final = b"ARROW:extension"
_OFFSET: Final = re.compile(r"[+-]\d{2}:\d{2}", re.ASCII)
_DICTIONARY_BATCH, _RECORD_BATCH = 2, 3


def encode_batch(batch: RecordBatch) -> bytes:
    """Encode a batch. UnfitError for types that are refused."""
    try:
        if _EXTENSION in batch.schema.serialize().to_pybytes():
            raise ValueError("an extension type: cast it to its storage type")
        _check_schema(batch.schema)
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, batch.schema) as stream:
            stream.write_batch(batch)
        data: bytes = sink.getvalue().to_pybytes()
        _check_counts(_as_sent(batch, data), len(data))
    except (ValueError, pa.ArrowException) as error:
        raise UnfitError(f"this RecordBatch cannot be sent: {error}") from error
    return data


def _as_sent(batch: RecordBatch, data: bytes) -> RecordBatch:
    """The batch as the receiver counts it: the inner columns of a slice are whole, but only its rows are encoded."""
    if not any(is_.is_nested(field.type) for field in batch.schema):
        return batch
    with pa.ipc.open_stream(data) as stream:  # its columns are views of the bytes
        found: RecordBatch = stream.read_next_batch()
    return found


def decode_batch(data: bytes) -> RecordBatch:
    """Decode a batch. ValueError if it is malformed."""
    try:
        return _decode(pa.py_buffer(data))
    except (pa.ArrowException, OSError, StopIteration, NotImplementedError, struct.error) as error:
        raise ValueError(f"no RecordBatch: {error!r:.200}") from error


def _decode(buffer: ArrowBuffer) -> RecordBatch:
    _inspect(buffer)
    with pa.ipc.open_stream(buffer) as stream:
        _check_schema(stream.schema)
        batch = stream.read_next_batch()
    batch.validate(full=True)
    _check_counts(batch, buffer.size)
    return batch


# -- before Arrow reads it ---------------------------------------------------------------------------------------------


def _inspect(buffer: ArrowBuffer) -> None:
    source = pa.BufferReader(buffer)
    kinds = []
    for kind, metadata in _messages(source):
        if kind == "schema" and _EXTENSION in metadata:
            raise ValueError("an extension type")
        if kind != "schema" and _is_compressed(metadata):
            raise ValueError("a compressed batch")
        kinds.append(kind)
        if len(kinds) > MAX_DICTIONARIES + 2:
            raise ValueError("more than so many dictionaries")
    if kinds[:1] != ["schema"] or kinds[-1:] != ["record batch"] or set(kinds[1:-1]) - {"dictionary"}:
        raise ValueError(f"messages {', '.join(map(str, kinds[:9]))}")
    if source.tell() != buffer.size:
        raise ValueError(f"{buffer.size - source.tell()} bytes behind the batch")


def _messages(source: ArrowBuffer) -> Iterator[tuple[str, bytes]]:
    reader = pa.ipc.MessageReader.open_stream(source)
    while True:
        try:
            message = reader.read_next_message()
        except StopIteration:
            return
        yield message.type, message.metadata.to_pybytes()


def _is_compressed(message: bytes) -> bool:
    """Does the flatbuffer `Message` contain a record batch with a `compression`?

    Message: field 1 type of the header, 2 header. DictionaryBatch: field 1 data. RecordBatch: field 3 compression.
    """
    table = struct.unpack_from("<I", message)[0]
    kind_at, header_at = _field(message, table, 1), _field(message, table, 2)
    if not kind_at or not header_at:
        raise ValueError("a message without a header")
    kind = struct.unpack_from("<B", message, kind_at)[0]
    batch = _follow(message, header_at)
    if kind == _DICTIONARY_BATCH:
        data_at = _field(message, batch, 1)
        if not data_at:
            raise ValueError("a dictionary without data")
        batch = _follow(message, data_at)
    elif kind != _RECORD_BATCH:
        raise ValueError(f"a message of kind {kind}")
    return _field(message, batch, 3) != 0


def _field(message: bytes, table: int, index: int) -> int:
    """The position of a field of a flatbuffer's table; 0 if it is missing."""
    vtable = table - struct.unpack_from("<i", message, table)[0]
    if vtable < 0:
        raise ValueError("a flatbuffer that points out of itself")
    if 4 + 2 * index >= struct.unpack_from("<H", message, vtable)[0]:
        return 0
    offset: int = struct.unpack_from("<H", message, vtable + 4 + 2 * index)[0]
    return table + offset if offset else 0


def _follow(message: bytes, at: int) -> int:
    offset: int = struct.unpack_from("<I", message, at)[0]
    return at + offset


# -- what it holds -----------------------------------------------------------------------------------------------------


def _check_counts(batch: RecordBatch, size: int) -> None:
    limit = 8 * size
    if batch.num_rows > limit:
        raise ValueError(f"{batch.num_rows} rows in {size} bytes")
    expanded = sum(_expanded(column, limit) for column in batch.columns)
    if expanded > MAX_EXPANDED_BYTES:
        raise ValueError(f"its dictionaries' values are {expanded} bytes when each row has its own; send fewer rows")


def _check_schema(schema: DataType) -> None:
    for field in schema:
        try:
            _check_type(field.type, MAX_NESTED)
        except ValueError as error:
            raise ValueError(f"column {field.name!r:.100} is {field.type!s:.100}: {error}") from error


def _check_type(kind: DataType, depth: int) -> None:
    if not depth:
        raise ValueError(f"types nested more than {MAX_NESTED} deep")
    if is_.is_timestamp(kind):
        if kind.tz is not None and not _OFFSET.fullmatch(kind.tz):
            zone_of(kind.tz)
    elif is_.is_dictionary(kind):
        if is_.is_nested(kind.value_type) or is_.is_dictionary(kind.value_type):
            raise ValueError("a dictionary of containers: cast it")
        _check_type(kind.value_type, depth - 1)
    elif any(test(kind) for test in _CONTAINERS):
        for at in range(kind.num_fields):
            _check_type(kind.field(at).type, depth - 1)
    elif not any(test(kind) for test in _FLAT):
        raise ValueError("this type is not sent: cast it to a plain one")


_CONTAINERS: Final = (is_.is_struct, is_.is_list, is_.is_large_list, is_.is_fixed_size_list, is_.is_map)
_FLAT: Final = (
    *(is_.is_null, is_.is_boolean, is_.is_integer, is_.is_floating, is_.is_decimal),
    *(is_.is_date, is_.is_time, is_.is_duration, is_.is_interval),
    *(is_.is_string, is_.is_large_string, is_.is_binary, is_.is_large_binary, is_.is_fixed_size_binary),
)


def _expanded(column: Column, limit: int) -> int:
    """The bytes of its dictionaries' values, written out by row. ValueError for more than `limit` values."""
    if len(column) > limit:
        raise ValueError(f"{len(column)} values in a frame of {limit // 8} bytes")
    kind = column.type
    if is_.is_dictionary(kind):
        return _dictionary_bytes(column)
    if is_.is_struct(kind):
        return sum(_expanded(column.field(at), limit) for at in range(kind.num_fields))
    if is_.is_map(kind):
        return _expanded(column.keys, limit) + _expanded(column.items, limit)
    if any(test(kind) for test in (is_.is_list, is_.is_large_list, is_.is_fixed_size_list)):
        return _expanded(column.values, limit)
    return 0


def _dictionary_bytes(column: Column) -> int:
    import pyarrow.compute as compute  # slow to import, and few batches have dictionaries

    functions: PyArrow = compute
    kind = column.type.value_type
    if not any(test(kind) for test in (is_.is_string, is_.is_large_string, is_.is_binary, is_.is_large_binary)):
        return 0
    lengths = functions.binary_length(column.dictionary)
    return functions.sum(lengths.take(column.indices).cast(pa.int64())).as_py() or 0
