"""Digests of the contents of record batches.

    batch ─► for each column: name, type, how many rows; which are null; lengths; values ─► 128 bits

1. A digest depends only on the values of the rows: bytes under nulls, offsets, padding and the order of a dictionary
   may differ between two runs that give the same rows.
2. Types with the same values are equal: the name of a timestamp's zone and the size of offsets make no difference.

This file also runs in Spark's Python workers, where aiostorm need not be installed: it imports nothing of aiostorm.
"""

from __future__ import annotations

import hashlib
from typing import Any

DIGEST_BYTES = 16


def digest_of(batch: Any) -> bytes:
    """The digest of names, types and values."""
    made = hashlib.blake2b(digest_size=DIGEST_BYTES)
    for field, column in zip(batch.schema, batch.columns, strict=True):
        made.update(f"{field.name}\0{plain_type(field.type)}\0{len(column)}\0".encode())
        _add(made, column)
    return made.digest()


def plain_type(kind: Any) -> str:
    """The name of a type; the same for types with the same values."""
    import pyarrow as pa

    is_ = pa.types
    if is_.is_timestamp(kind):
        return f"timestamp[{kind.unit}{', zone' if kind.tz is not None else ''}]"
    if is_.is_dictionary(kind):
        return plain_type(kind.value_type)
    if is_.is_large_string(kind) or is_.is_string(kind):
        return "string"
    if is_.is_large_binary(kind) or is_.is_binary(kind):
        return "binary"
    if is_.is_map(kind):
        return f"map<{plain_type(kind.key_type)}, {plain_type(kind.item_type)}>"
    if is_.is_list(kind) or is_.is_large_list(kind):
        return f"list<{plain_type(kind.value_type)}>"
    if is_.is_struct(kind):
        inner = (kind.field(at) for at in range(kind.num_fields))
        return "struct<" + ", ".join(f"{field.name}: {plain_type(field.type)}" for field in inner) + ">"
    return str(kind)


def _add(made: Any, column: Any) -> None:
    import pyarrow as pa
    import pyarrow.compute

    pc: Any = pyarrow.compute  # whose functions are made at run time
    is_ = pa.types
    kind = column.type
    if is_.is_null(kind):
        return
    if is_.is_dictionary(kind):
        column, kind = column.dictionary_decode(), kind.value_type
    made.update(b"\1" if column.null_count else b"\0")
    if column.null_count:
        _add(made, pc.is_valid(column))
        column = column.drop_null()
    if is_.is_boolean(kind):
        _add(made, column.cast(pa.uint8()))
    elif is_.is_struct(kind):
        for inner in column.flatten():
            _add(made, inner)
    elif is_.is_map(kind):
        _add(made, pc.list_value_length(column.cast(pa.list_(pa.struct([kind.key_field, kind.item_field])))))
        _add(made, _within(column, column.keys))
        _add(made, _within(column, column.items))
    elif is_.is_nested(kind):
        _add(made, pc.list_value_length(column))
        _add(made, column.flatten())
    elif any(test(kind) for test in (is_.is_string, is_.is_large_string, is_.is_binary, is_.is_large_binary)):
        _add(made, pc.binary_length(column).cast(pa.int64()))
        large = is_.is_large_string(kind) or is_.is_large_binary(kind)
        offsets = pa.Array.from_buffers(
            pa.int64() if large else pa.int32(), len(column) + 1, [None, column.buffers()[1]], 0, column.offset
        )
        data = column.buffers()[2]
        if len(column) and data is not None:
            made.update(memoryview(data)[offsets[0].as_py() : offsets[-1].as_py()])
    else:
        width = kind.bit_width // 8
        data = column.buffers()[1]
        if len(column) and data is not None:
            made.update(memoryview(data)[column.offset * width : (column.offset + len(column)) * width])


def _within(column: Any, inner: Any) -> Any:
    """The part of a map's inner column that belongs to its rows: a slice of a map returns the whole column."""
    offsets = column.offsets
    begin, end = (offsets[0].as_py(), offsets[len(column)].as_py()) if len(column) else (0, 0)
    return inner if len(inner) == end - begin else inner.slice(begin, end - begin)
