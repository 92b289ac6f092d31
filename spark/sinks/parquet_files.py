"""Parquet files as bytes: rows in the dataset's one schema, divided by the values of the partition columns.

    RecordBatch ─▶ Shape.fit ─▶ divided: one table per folder ─▶ encoded: the file's bytes

1. A dataset has one schema: the given one, or that of the first batch. Batches that do not fit it without loss are
   refused.
2. Equal rows of one chunk give equal bytes, whether they were sliced, sent or divided.
3. Rows keep their order within a folder. Partition columns are in the folder's name, and not in the file.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ...runtime import AiostormError
from ..errors import SinkError
from ..needs import require
from .parquet_names import folder_of

CHUNK_KEY = b"aiostorm.chunk"
PART_KEY = b"aiostorm.part"
PREFIX = b"aiostorm."


@dataclass(slots=True)
class ParquetFile:
    """A file to be written, or written: `path` is where it is durable, and `data` is dropped then."""

    name: str
    data: Any
    rows: int
    path: str = ""


@dataclass(frozen=True, slots=True)
class ParquetFormat:
    """How rows become files. `options`: more arguments of `pyarrow.parquet.write_table`."""

    partition_by: tuple[str, ...]
    max_partitions: int
    compression: str | None
    options: Mapping[str, Any]

    def files(
        self, batches: Sequence[Any], identity: Mapping[bytes, bytes], name: Callable[[Any], str]
    ) -> list[ParquetFile]:
        """The files of these rows. `name`: the name of a file, from its bytes. SinkError if they cannot be written."""
        made = []
        with parquet_errors():
            table = require("pyarrow").Table.from_batches(batches)
            for folder, part in divided(table, self.partition_by, self.max_partitions):
                data = encoded(part, identity, self.compression, self.options)
                made.append(ParquetFile(f"{folder}/{name(data)}".lstrip("/"), data, part.num_rows))
        return made


@contextlib.contextmanager
def parquet_errors() -> Iterator[None]:
    """Raise Arrow's errors as SinkErrors: these rows cannot be written."""
    try:
        yield
    except AiostormError:
        raise
    except Exception as error:
        raise SinkError(f"cannot be written as Parquet: {type(error).__name__}: {error}") from error


class DatasetSchema:
    """The schema of a dataset, and the columns that become folders."""

    def __init__(self, schema: Any, partition_by: Sequence[str]) -> None:
        self._schema: Any = schema() if callable(schema) else schema
        self._partition_by = tuple(partition_by)
        if self._schema is not None:
            self._check(self._schema)

    def fit(self, batch: Any) -> Any:
        """The batch in the dataset's schema. SinkError names a column that does not fit."""
        if self._schema is None:
            self._check(batch.schema)
            for field in batch.schema:
                if str(field.type) == "null":
                    raise SinkError(
                        f"column {field.name!r} has had only nulls so far, so its type is not known: give the "
                        "sink a schema (schema=pa.schema(…)), or cast the column"
                    )
            self._schema = batch.schema.remove_metadata()
        if batch.schema.equals(self._schema):
            return batch.replace_schema_metadata(None)
        arrow = require("pyarrow")
        columns = [self._column(batch, field) for field in self._schema]
        extra = [name for name in batch.schema.names if name not in self._schema.names]
        if extra:
            raise SinkError(
                f"column {extra[0]!r} is new: the dataset has {', '.join(self._schema.names)}; a dataset has one "
                "schema: drop the column before the sink, or write to another path"
            )
        return arrow.RecordBatch.from_arrays(columns, schema=self._schema)

    def _column(self, batch: Any, field: Any) -> Any:
        if batch.schema.names.count(field.name) != 1:
            raise SinkError(
                f"column {field.name!r} is missing: a batch has {', '.join(batch.schema.names) or 'no columns'}, the "
                f"dataset {', '.join(self._schema.names)}"
            )
        column = batch.column(field.name)
        if column.type == field.type:
            return column
        try:
            kinds = {_kind(column.type), _kind(field.type)}
            if str(column.type) == "null" or len(kinds) == 1 or kinds == {"number", "float"}:
                return column.cast(field.type)
        except require("pyarrow").ArrowException as error:
            raise SinkError(
                f"column {field.name!r} came as {column.type}, and does not fit {field.type}: {error}; a dataset has "
                "one schema: give the sink the wider one (schema=pa.schema(…))"
            ) from error
        raise SinkError(
            f"column {field.name!r} came as {column.type}, and is {field.type} in this dataset: a dataset has one "
            "schema: cast the column before the sink, or give the sink a schema (schema=pa.schema(…))"
        )

    def _check(self, schema: Any) -> None:
        for name in self._partition_by:
            if schema.names.count(name) != 1:
                raise SinkError(f"partition_by names {name!r}; the columns are {', '.join(schema.names)}")
            if _kind(schema.field(name).type) not in _FOLDERS:
                raise SinkError(
                    f"partition_by names {name!r}, which is {schema.field(name).type}: a folder is named by a text, a "
                    "whole number, a date, a time or a truth value; cast it"
                )
        if len(self._partition_by) == len(schema.names):
            raise SinkError("every column is a partition column: nothing would be left for the files")


_FOLDERS = ("number", "text", "bool", "date", "timestamp", "decimal")


def _kind(of: Any) -> str:
    """The kind of a type: types of one kind may be cast without a change of meaning."""
    is_ = require("pyarrow").types
    if is_.is_dictionary(of):
        return _kind(of.value_type)
    for kind, tests in (
        ("number", (is_.is_integer,)),
        ("float", (is_.is_floating,)),
        ("text", (is_.is_string, is_.is_large_string, _named(is_, "is_string_view"))),
        ("bytes", (is_.is_binary, is_.is_large_binary)),
        ("bool", (is_.is_boolean,)),
        ("date", (is_.is_date,)),
        ("decimal", (is_.is_decimal,)),
    ):
        if any(test(of) for test in tests):
            return kind
    if is_.is_timestamp(of):
        return "timestamp" if of.tz is None else f"timestamp {of.tz}"
    return str(of) if not is_.is_nested(of) else f"nested {of.id}"


def _named(types: Any, name: str) -> Callable[[Any], bool]:
    return getattr(types, name, lambda of: False)


def divided(table: Any, partition_by: Sequence[str], most: int) -> Iterator[tuple[str, Any]]:
    """(folder, its rows without the partition columns), one for each folder. SinkError for more than `most` folders."""
    if not partition_by:
        yield "", table
        return
    arrow, compute, numpy = require("pyarrow"), require("pyarrow.compute"), require("numpy")
    codes: Any = None
    texts: list[list[str | None]] = []
    for name in partition_by:
        values = table.column(name).combine_chunks()
        coded = compute.dictionary_encode(_text(arrow, values), null_encoding="encode")
        texts.append(coded.dictionary.to_pylist())
        own = coded.indices.to_numpy(zero_copy_only=False).astype(numpy.int64)
        codes = own if codes is None else codes * len(texts[-1]) + own
    distinct, first = numpy.unique(codes, return_index=True)
    if len(distinct) > most:
        raise SinkError(
            f"{table.num_rows:,} rows have {len(distinct):,} values of {', '.join(partition_by)}: each is a folder, "
            f"and at most {most:,} are written at once (max_partitions); partition by something coarser"
        )
    order = numpy.argsort(codes, kind="stable")
    bounds = [*numpy.searchsorted(codes[order], distinct).tolist(), len(order)]
    rest = table.drop_columns(list(partition_by))
    for at in numpy.argsort(first).tolist():
        names: list[str | None] = []
        code = int(distinct[at])
        for values in reversed(texts):
            code, place = divmod(code, len(values))
            names.insert(0, values[place])
        yield folder_of(partition_by, names), rest.take(arrow.array(order[bounds[at] : bounds[at + 1]]))


def _text(arrow: Any, values: Any) -> Any:
    if arrow.types.is_dictionary(values.type):
        values = values.cast(values.type.value_type)
    texts = values.cast(arrow.string())
    compute = require("pyarrow.compute")
    # Hive and Spark have no folder for an empty text: it shares the folder of null.
    return compute.if_else(compute.equal(texts, ""), arrow.scalar(None, arrow.string()), texts)


def encoded(table: Any, identity: Mapping[bytes, bytes], compression: str | None, options: Mapping[str, Any]) -> Any:
    """The bytes of a Parquet file (a buffer). `identity`: the metadata of the chunk, written into it."""
    arrow, parquet = require("pyarrow"), require("pyarrow.parquet")
    sink = arrow.BufferOutputStream()
    named = table.replace_schema_metadata({**(table.schema.metadata or {}), **identity})
    parquet.write_table(named, sink, compression=compression or "none", **options)
    return sink.getvalue()


def identity_of(batch: Any) -> dict[bytes, bytes]:
    """The `aiostorm.…` metadata of a batch; empty if it belongs to no chunk."""
    found = batch.schema.metadata or {}
    return {key: value for key, value in found.items() if key.startswith(PREFIX)} if CHUNK_KEY in found else {}
