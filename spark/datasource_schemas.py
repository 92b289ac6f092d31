"""Schemas: do the columns that come fit those that are declared? What is the digest of what they hold?

    declared: names, or a pyarrow.Schema        what comes: a batch's schema        ─► nothing, or what is wrong

1. Names must be the same, in any order; types too, where they are declared. Types that hold the same values are one:
   the name of a timestamp's zone, large and small offsets, whether there may be nulls make no difference.
2. A batch is fitted to the declaration: columns in its order, types as declared.
3. A digest is of what the rows hold, and of nothing else: bytes under nulls, offsets and padding may differ between two
   runs that give the same rows.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any, Final

from .errors import SparkSourceError
from .needs import load

CHUNK: Final = b"aiostorm.chunk"
BATCH: Final = b"aiostorm.batch"

DIGEST_BYTES: Final = 16


def names_of(declared: Any) -> tuple[str, ...]:
    """Field names of what a user declares: names, or a pyarrow.Schema."""
    names = getattr(declared, "names", None)
    if names is not None:
        return tuple(names)
    if isinstance(declared, str):
        return tuple(name.strip() for name in declared.split(",") if name.strip())
    return tuple(declared)


def schema_of(declared: Any) -> Any:
    """The pyarrow.Schema that a user declares; None: names only."""
    return declared if hasattr(declared, "names") else None


def problem(names: Sequence[str], schema: Any, came: Any) -> str | None:
    """What is wrong with the schema that came; None: nothing."""
    missing = [name for name in names if name not in came.names]
    further = [name for name in came.names if name not in names]
    if missing or further or len(came.names) != len(names):
        said = "; ".join(
            part
            for part, there in (
                (f"missing: {', '.join(missing)}", missing),
                (f"not declared: {', '.join(further)}", further),
                ("a name twice", len(set(came.names)) != len(came.names)),
            )
            if there
        )
        return (
            f"the columns are {', '.join(came.names)}, and those declared are {', '.join(names)} ({said}): "
            "df.select(...) them"
        )
    if schema is None:
        return None
    wrong = [name for name in names if _plain(schema.field(name).type) != _plain(came.field(name).type)]
    if wrong:
        each = ", ".join(f"{name} is {came.field(name).type}, declared {schema.field(name).type}" for name in wrong)
        return f"columns of other types than declared: {each}; cast them: df.withColumn(name, col(name).cast(...))"
    return None


def fitted(batch: Any, names: Sequence[str], schema: Any) -> Any:
    """The batch as it is declared. SparkSourceError if it does not fit."""
    wrong = problem(names, schema, batch.schema)
    if wrong is not None:
        raise SparkSourceError(wrong)
    if batch.schema.names != list(names):
        batch = batch.select(list(names))
    if schema is None or batch.schema.equals(schema):
        return batch
    arrow = load("pyarrow")
    columns = [column.cast(schema.field(at).type) for at, column in enumerate(batch.columns)]
    plain = arrow.schema([arrow.field(name, schema.field(name).type) for name in names])
    return arrow.RecordBatch.from_arrays(columns, schema=plain)


def cast(batch: Any, schema: Any) -> Any:
    """The batch with these columns, cast where that loses nothing. SparkSourceError where it would."""
    wrong = problem(schema.names, None, batch.schema)
    if wrong is not None:
        raise SparkSourceError(wrong)
    if batch.schema.equals(schema):
        return batch.replace_schema_metadata(None)
    arrow = load("pyarrow")
    columns = []
    for field in schema:
        column = batch.column(field.name)
        try:
            columns.append(column if column.type.equals(field.type) else column.cast(field.type))
        except (arrow.ArrowInvalid, arrow.ArrowNotImplementedError) as error:
            raise SparkSourceError(
                f"column {field.name} is {column.type}, and {field.type} is kept for Spark: {error}. Give the bolt "
                "schema=pyarrow.schema(...), or cast it before"
            ) from error
    return arrow.RecordBatch.from_arrays(columns, schema=arrow.schema([f.with_nullable(True) for f in schema]))


def named(batch: Any, chunk: str, number: int) -> Any:
    """The batch with its identity. `number`: of its stream's batch; -1: none."""
    kept = {key: value for key, value in (batch.schema.metadata or {}).items() if key.startswith(b"aiostorm.")}
    kept[CHUNK] = chunk.encode()
    if number >= 0:
        kept[BATCH] = str(number).encode()
    return batch.replace_schema_metadata(kept)


def digest_of(batch: Any) -> bytes:
    """Of names, types and values."""
    made = hashlib.blake2b(digest_size=DIGEST_BYTES)
    for field, column in zip(batch.schema, batch.columns, strict=True):
        made.update(f"{field.name}\0{_plain(field.type)}\0{len(column)}\0".encode())
        _add(made, column)
    return made.digest()


def _plain(kind: Any) -> str:
    """A type's text, in which types of the same values are the same."""
    arrow = load("pyarrow")
    is_ = arrow.types
    if is_.is_timestamp(kind):
        return f"timestamp[{kind.unit}{', zone' if kind.tz is not None else ''}]"
    if is_.is_dictionary(kind):
        return _plain(kind.value_type)
    if is_.is_large_string(kind) or is_.is_string(kind):
        return "string"
    if is_.is_large_binary(kind) or is_.is_binary(kind):
        return "binary"
    if is_.is_map(kind):
        return f"map<{_plain(kind.key_type)}, {_plain(kind.item_type)}>"
    if is_.is_list(kind) or is_.is_large_list(kind):
        return f"list<{_plain(kind.value_type)}>"
    if is_.is_struct(kind):
        inner = (kind.field(at) for at in range(kind.num_fields))
        return "struct<" + ", ".join(f"{field.name}: {_plain(field.type)}" for field in inner) + ">"
    return str(kind)


def _add(made: Any, column: Any) -> None:
    arrow, compute = load("pyarrow"), load("pyarrow.compute")
    is_ = arrow.types
    kind = column.type
    if is_.is_null(kind):
        return
    if is_.is_dictionary(kind):
        column, kind = column.dictionary_decode(), kind.value_type
    if column.null_count:
        _add(made, compute.is_valid(column))
        column = column.drop_null()
    if is_.is_boolean(kind):
        _add(made, column.cast(arrow.uint8()))
    elif is_.is_struct(kind):
        for inner in column.flatten():
            _add(made, inner)
    elif is_.is_map(kind):
        _add(made, compute.list_value_length(column.cast(arrow.list_(arrow.struct([kind.key_field, kind.item_field])))))
        _add(made, _within(column, column.keys))
        _add(made, _within(column, column.items))
    elif is_.is_nested(kind):
        _add(made, compute.list_value_length(column))
        _add(made, column.flatten())
    elif any(test(kind) for test in (is_.is_string, is_.is_large_string, is_.is_binary, is_.is_large_binary)):
        _add(made, compute.binary_length(column).cast(arrow.int64()))
        large = is_.is_large_string(kind) or is_.is_large_binary(kind)
        offsets = arrow.Array.from_buffers(
            arrow.int64() if large else arrow.int32(), len(column) + 1, [None, column.buffers()[1]], 0, column.offset
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
    """Of a map's inner column, what its rows hold: a slice of a map gives all of it."""
    offsets = column.offsets
    begin, end = (offsets[0].as_py(), offsets[len(column)].as_py()) if len(column) else (0, 0)
    return inner if len(inner) == end - begin else inner.slice(begin, end - begin)
