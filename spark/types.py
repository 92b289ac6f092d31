"""Types: the Arrow type and the row value of each Spark type, and which types are refused.

| Spark | Arrow | in a row |
|---|---|---|
| boolean | bool | bool |
| tinyint, smallint, int, bigint | int8, int16, int32, int64 | int |
| float, double | float, double | float |
| decimal(p, s) | decimal128(p, s) | Decimal |
| string, char, varchar | string | str |
| binary | binary | bytes |
| date | date32 | date |
| timestamp (an instant) | timestamp[us, tz=UTC] | datetime in UTC |
| timestamp_ntz | timestamp[us] | datetime without a zone |
| time | time64[ns] | time, to the microsecond |
| interval day to second | duration[us] | timedelta |
| void (null) | null | None |
| array | list | list |
| struct | struct | dict |
| map | map | list of pairs |
| user-defined (ML vectors …) | its storage type | as that |
| interval year to month, variant, geometry, geography, others | refused | |

1. A null is None in a row. The time zone of the session changes nothing.
2. Types without a form in Arrow, in Python or between workers are refused: one error names all such columns, each with
   an alternative.
3. All other types are sent to other workers, as columns and as rows (transport/codec/batches.py has that table): so
   types are nested at most 15 deep.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, Final

from .errors import SparkSourceError

MAX_NESTED: Final = 15
MOST_ROWS: Final = 100_000
LEAST_ROWS: Final = 10_000
CHUNK_BYTES: Final = 32 * 1024 * 1024
TEXT_BYTES: Final = 40
NESTED_BYTES: Final = 200
"""The assumed average size of texts and nested values: it is not known before they are read."""

WIDE: Final = 2
"""A safety factor where memory is at stake."""

_INSTEAD: Final = {
    "YearMonthIntervalType": "cast(%s as int) gives months (of an interval month; of others: extract year and month)",
    "CalendarIntervalType": "extract days and seconds from it, or subtract timestamps to get an interval day to second",
    "VariantType": "to_json(%s), or variant_get(%s, '$.…', 'type')",
    "GeometryType": "st_asbinary(%s)",
    "GeographyType": "st_asbinary(%s)",
}


class _RefusedError(Exception):
    """A type that cannot be read."""

    def __init__(self, kind: Any, advice: str) -> None:
        self.kind, self.advice = kind, advice
        super().__init__(advice)


def arrow_schema(schema: Any, source: str) -> Any:
    """The pyarrow.Schema of a DataFrame's schema. SparkSourceError that names every column that is refused."""
    import pyarrow as pa

    fields = list(schema.fields)
    problems = [] if fields else ["it has no columns"]
    for name, count in Counter(field.name for field in fields).items():
        if count > 1:
            problems.append(f"{count} columns are called {name!r}: rename them, df.toDF('a', 'b', …) names all")
        if not name:
            problems.append("a column has no name: rename it")
    made = []
    for field in fields:
        try:
            made.append(pa.field(field.name, _arrow_type(pa, field.dataType, MAX_NESTED), nullable=field.nullable))
        except _RefusedError as error:
            advice = error.advice.replace("%s", field.name)
            inside = "" if error.kind is field.dataType else f" with {error.kind.simpleString()} in it"
            shown = field.dataType.simpleString()
            problems.append(f"column {field.name!r} is {shown:.200}{inside}: {advice}")
    if problems:
        raise SparkSourceError(f"{source} cannot be read as tuples: {'; '.join(problems)}")
    return pa.schema(made)


def rows_that_fit(schema: Any) -> int:
    """The rows of a chunk with this pyarrow.Schema: MOST_ROWS, or as many as fit in CHUNK_BYTES.

    It depends on the types alone: a resumed run has chunks of the same size.
    """
    width = sum(_width(field.type) for field in schema)
    return max(LEAST_ROWS, min(MOST_ROWS, CHUNK_BYTES // max(1, width)))


def row_bytes(schema: Any) -> int:
    """A high estimate of the bytes of a row of a pyarrow.Schema: too low would end a JVM."""
    return sum(_width(field.type, WIDE) for field in schema)


def _width(kind: Any, times: int = 1) -> int:
    try:
        return max(1, int(kind.bit_width) // 8)
    except ValueError:  # no fixed width
        return times * (NESTED_BYTES if kind.num_fields else TEXT_BYTES)


def check_fields(found: Sequence[str], declared: Sequence[str], source: str) -> None:
    """Check that the columns are the declared ones, in any order. SparkSourceError shows both."""
    if sorted(found) != sorted(declared):
        raise SparkSourceError(
            f"{source} has the columns {', '.join(found) or '(none)'}, but fields= declares {', '.join(declared)}: "
            f"declare what it has, or select those columns"
        )


def _arrow_type(pa: Any, kind: Any, depth: int) -> Any:
    name = type(kind).__name__
    if not depth:
        raise _RefusedError(kind, f"types nested more than {MAX_NESTED} deep do not travel: flatten it")
    flat = _FLAT.get(name)
    if flat is not None:
        return flat(pa)
    match name:
        case "DecimalType":
            return pa.decimal128(kind.precision, kind.scale)
        case "ArrayType":
            inner = _arrow_type(pa, kind.elementType, depth - 1)
            return pa.list_(pa.field("element", inner, nullable=kind.containsNull))
        case "MapType":
            key = pa.field("key", _arrow_type(pa, kind.keyType, depth - 1), nullable=False)
            value = _arrow_type(pa, kind.valueType, depth - 1)
            return pa.map_(key, pa.field("value", value, nullable=kind.valueContainsNull))
        case "StructType":
            return pa.struct(_struct_fields(pa, kind, depth))
    if callable(getattr(kind, "sqlType", None)):  # a user-defined type
        return _arrow_type(pa, kind.sqlType(), depth)
    raise _RefusedError(kind, _INSTEAD.get(name, "cast(%s as string), or leave the column out"))


def _struct_fields(pa: Any, kind: Any, depth: int) -> list[Any]:
    names = [field.name for field in kind.fields]
    if len(set(names)) != len(names):
        raise _RefusedError(kind, "fields of one struct have the same name, and a row shows it as a dict: rename them")
    if not names:
        raise _RefusedError(kind, "a struct without fields: leave the column out")
    return [pa.field(f.name, _arrow_type(pa, f.dataType, depth - 1), nullable=f.nullable) for f in kind.fields]


_FLAT: Final[dict[str, Callable[[Any], Any]]] = {
    "BooleanType": lambda pa: pa.bool_(),
    "ByteType": lambda pa: pa.int8(),
    "ShortType": lambda pa: pa.int16(),
    "IntegerType": lambda pa: pa.int32(),
    "LongType": lambda pa: pa.int64(),
    "FloatType": lambda pa: pa.float32(),
    "DoubleType": lambda pa: pa.float64(),
    "StringType": lambda pa: pa.string(),
    "CharType": lambda pa: pa.string(),
    "VarcharType": lambda pa: pa.string(),
    "BinaryType": lambda pa: pa.binary(),
    "DateType": lambda pa: pa.date32(),
    "TimestampType": lambda pa: pa.timestamp("us", tz="UTC"),
    "TimestampNTZType": lambda pa: pa.timestamp("us"),
    "TimeType": lambda pa: pa.time64("ns"),
    "DayTimeIntervalType": lambda pa: pa.duration("us"),
    "NullType": lambda pa: pa.null(),
}
