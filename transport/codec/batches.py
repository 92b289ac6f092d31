"""Batches: an Arrow RecordBatch as bytes: Arrow's IPC stream format, checked. Loaded when there is one.

    schema message, dictionary messages, one record batch message, end of stream

1. What comes is inspected before Arrow reads it: nothing compressed (a small frame may become gigabytes), no extension
   types (their classes may run code), one batch, nothing behind it.
2. Then Arrow validates all of it: offsets, UTF-8, indices into dictionaries.
3. What its rows may need is bounded by what came: no more rows, and no more values of an inner column, than the frame
   has bits; a dictionary's values are at most MAX_EXPANDED_BYTES when each row has its own. Types whose rows may share
   memory in other ways (views, run-end encoding, unions) are not of the table.
4. Who sends asks the same questions: what is refused here is an UnsendableError there. Types are looked at before
   anything is copied; how much it is, by who cuts it (see sizes, and segments).
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator
from typing import Any, Final

import pyarrow as _pyarrow  # noqa: ICN001 - see below

from .extensions import UnfitError, zone_of

# pyarrow has no types of its own.
pa: Any = _pyarrow
is_: Any = pa.types

MAX_EXPANDED_BYTES: Final = 64 * 1024 * 1024
MAX_NESTED: Final = 16
MAX_DICTIONARIES: Final = 256

_EXTENSION: Final = b"ARROW:extension"
_OFFSET: Final = re.compile(r"[+-]\d{2}:\d{2}", re.ASCII)
_DICTIONARY_BATCH, _RECORD_BATCH = 2, 3


def encode_batch(batch: Any) -> bytes:
    """A batch. UnfitError for types that are not of the table."""
    try:
        if _EXTENSION in batch.schema.serialize().to_pybytes():
            raise ValueError("an extension type: cast it to its storage type")
        _check_schema(batch.schema)
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, batch.schema) as stream:
            stream.write_batch(batch)
        data: bytes = sink.getvalue().to_pybytes()
        _check_counts(batch, len(data))
    except (ValueError, pa.ArrowException) as error:
        raise UnfitError(f"this RecordBatch cannot be sent: {error}") from error
    return data


def decode_batch(data: bytes) -> Any:
    """A batch that came. ValueError and the like if it is none."""
    try:
        return _decode(pa.py_buffer(data))
    except (pa.ArrowException, OSError, StopIteration, NotImplementedError, struct.error) as error:
        raise ValueError(f"no RecordBatch: {error!r:.200}") from error


def _decode(buffer: Any) -> Any:
    _inspect(buffer)
    with pa.ipc.open_stream(buffer) as stream:
        _check_schema(stream.schema)
        batch = stream.read_next_batch()
    batch.validate(full=True)
    _check_counts(batch, buffer.size)
    return batch


# -- before Arrow reads it ---------------------------------------------------------------------------------------------


def _inspect(buffer: Any) -> None:
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


def _messages(source: Any) -> Iterator[tuple[str, bytes]]:
    reader = pa.ipc.MessageReader.open_stream(source)
    while True:
        try:
            message = reader.read_next_message()
        except StopIteration:
            return
        yield message.type, message.metadata.to_pybytes()


def _is_compressed(message: bytes) -> bool:
    """Does the flatbuffer `Message` hold a record batch with a `compression`?

    Message: field 1 type of the header, 2 header. DictionaryBatch: field 1 data. RecordBatch: field 3 compression.
    """
    table = struct.unpack_from("<I", message)[0]
    kind_at, header_at = _field(message, table, 1), _field(message, table, 2)
    if not kind_at or not header_at:
        raise ValueError("a message without a header")
    batch = _follow(message, header_at)
    if message[kind_at] == _DICTIONARY_BATCH:
        data_at = _field(message, batch, 1)
        if not data_at:
            raise ValueError("a dictionary without data")
        batch = _follow(message, data_at)
    elif message[kind_at] != _RECORD_BATCH:
        raise ValueError(f"a message of kind {message[kind_at]}")
    return _field(message, batch, 3) != 0


def _field(message: bytes, table: int, index: int) -> int:
    """Where a field of a flatbuffer's table is; 0 if it is not there."""
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


def _check_counts(batch: Any, size: int) -> None:
    limit = 8 * size
    if batch.num_rows > limit:
        raise ValueError(f"{batch.num_rows} rows in {size} bytes")
    expanded = sum(_expanded(column, limit) for column in batch.columns)
    if expanded > MAX_EXPANDED_BYTES:
        raise ValueError(f"its dictionaries' values are {expanded} bytes when each row has its own; send fewer rows")


def _check_schema(schema: Any) -> None:
    for field in schema:
        try:
            _check_type(field.type, MAX_NESTED)
        except ValueError as error:
            raise ValueError(f"column {field.name!r:.100} is {field.type!s:.100}: {error}") from error


def _check_type(kind: Any, depth: int) -> None:
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


def _expanded(column: Any, limit: int) -> int:
    """How many bytes the values of its dictionaries are, row by row. ValueError if anything has more than `limit`."""
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


def _dictionary_bytes(column: Any) -> int:
    import pyarrow.compute as compute  # takes a while, and few batches have dictionaries

    functions: Any = compute
    kind = column.type.value_type
    if not any(test(kind) for test in (is_.is_string, is_.is_large_string, is_.is_binary, is_.is_large_binary)):
        return 0
    lengths = functions.binary_length(column.dictionary)
    return functions.sum(lengths.take(column.indices).cast(pa.int64())).as_py() or 0
