"""Schemas: whether the columns of a batch fit the declared ones.

    declared: names, or a pyarrow.Schema        actual: a batch's schema        ─► nothing, or what is wrong

1. Names must be the same, in any order; types too, where they are declared. Types with the same values are equal: the
   name of a timestamp's zone, the size of offsets, and nullability make no difference.
2. A batch is fitted to the declaration: columns in its order, types as declared.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from ..digests import plain_type
from ..errors import SparkSourceError
from ..needs import require

CHUNK: Final = b"aiostorm.chunk"
BATCH: Final = b"aiostorm.batch"


def names_of(declared: Any) -> tuple[str, ...]:
    """The field names of a declaration: names, or a pyarrow.Schema."""
    names = getattr(declared, "names", None)
    if names is not None:
        return tuple(names)
    if isinstance(declared, str):
        return tuple(name.strip() for name in declared.split(",") if name.strip())
    return tuple(declared)


def schema_of(declared: Any) -> Any:
    """The pyarrow.Schema of a declaration; None: names only."""
    return declared if hasattr(declared, "names") else None


def problem(names: Sequence[str], schema: Any, came: Any) -> str | None:
    """What is wrong with a batch's schema; None: nothing."""
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
    wrong = [name for name in names if plain_type(schema.field(name).type) != plain_type(came.field(name).type)]
    if wrong:
        each = ", ".join(f"{name} is {came.field(name).type}, declared {schema.field(name).type}" for name in wrong)
        return f"columns of other types than declared: {each}; cast them: df.withColumn(name, col(name).cast(...))"
    return None


def fitted(batch: Any, names: Sequence[str], schema: Any) -> Any:
    """The batch fitted to the declaration. SparkSourceError if it does not fit."""
    wrong = problem(names, schema, batch.schema)
    if wrong is not None:
        raise SparkSourceError(wrong)
    if batch.schema.names != list(names):
        batch = batch.select(list(names))
    if schema is None or batch.schema.equals(schema):
        return batch
    arrow = require("pyarrow")
    columns = [column.cast(schema.field(at).type) for at, column in enumerate(batch.columns)]
    plain = arrow.schema([arrow.field(name, schema.field(name).type) for name in names])
    return arrow.RecordBatch.from_arrays(columns, schema=plain)


def chosen(batch: Any, names: Sequence[str]) -> Any:
    """The batch with only these columns, in this order; all if none is named. SparkSourceError if one is missing."""
    if not names:
        return batch
    missing = [name for name in names if name not in batch.schema.names]
    if missing or len(set(names)) != len(names):
        wrong = f"not there: {', '.join(missing)}" if missing else "a name twice"
        raise SparkSourceError(
            f"option fields={', '.join(names)} ({wrong}): the topology's output has {', '.join(batch.schema.names)}"
        )
    return batch.select(list(names))


def cast(batch: Any, schema: Any) -> Any:
    """The batch with these columns, cast without loss. SparkSourceError if that is not possible."""
    wrong = problem(schema.names, None, batch.schema)
    if wrong is not None:
        raise SparkSourceError(wrong)
    if batch.schema.equals(schema):
        return batch.replace_schema_metadata(None)
    arrow = require("pyarrow")
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
    """The batch with its identity. `number`: of the stream's batch; -1: none."""
    kept = {key: value for key, value in (batch.schema.metadata or {}).items() if key.startswith(b"aiostorm.")}
    kept[CHUNK] = chunk.encode()
    if number >= 0:
        kept[BATCH] = str(number).encode()
    return batch.replace_schema_metadata(kept)
