"""Timestamps: numbers and datetimes → whole milliseconds since 1970, or an error that says what to do.

1. Internally a timestamp is an int. Before 1970 it is negative.
2. Nothing is guessed: text, bool, a time without a zone, and NaN are refused.
3. A time further from 1970 than RANGE_MS is refused: it is in a wrong unit (nanoseconds).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import datetime, timedelta, timezone
from operator import index
from typing import TYPE_CHECKING, Final

from .errors import TimestampError

if TYPE_CHECKING:
    from .values import Value

RANGE_MS: Final = 250_000_000_000_000
"""About 7,900 years before and after 1970: all that a datetime can express, but not today in nanoseconds."""

TIMES: Final = ("ms", "datetime")
"""The forms of times in rows: whole milliseconds since 1970, or datetimes in UTC."""

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=timezone.utc)  # noqa: UP017 - the standard library's name
_MS: Final = timedelta(milliseconds=1)
_INT: Final = frozenset({int})


def to_ms(value: Value) -> int:
    """Milliseconds since 1970 of an int or a float (milliseconds, rounded down) or a datetime with a zone.

    TimestampError if it is anything else.
    """
    if type(value) is int:
        at_ms = value
    elif isinstance(value, bool) or value is None:
        raise TimestampError(f"the timestamp is {value!r}; give milliseconds since 1970, or a datetime with a zone")
    elif isinstance(value, float):
        if not math.isfinite(value):
            raise TimestampError(
                f"the timestamp is {value}; leave such tuples out, or give them a time, before windows"
            )
        at_ms = math.floor(value)
    elif isinstance(value, datetime):
        if value.tzinfo is None:
            raise TimestampError(f"the timestamp {value} has no zone; give it one: value.replace(tzinfo=timezone.utc)")
        at_ms = (value - _EPOCH) // _MS
    else:
        try:
            at_ms = index(value)  # NumPy's integers
        except TypeError:
            kind = type(value).__qualname__
            raise TimestampError(
                f"the timestamp is a {kind}; give milliseconds since 1970, or a datetime with a zone"
            ) from None
    if not -RANGE_MS <= at_ms <= RANGE_MS:
        raise TimestampError(
            f"the timestamp {at_ms} is thousands of years away; is it in nanoseconds? give milliseconds"
        )
    return at_ms


def bounds_ms(values: Sequence[Value]) -> tuple[int, int] | None:
    """The least and greatest of a column of ints that are valid timestamps; None if it contains anything else.

    The column must not be empty. Without a loop in Python.
    """
    if not _INT.issuperset(map(type, values)):
        return None
    least, greatest = min(values), max(values)
    return (least, greatest) if least >= -RANGE_MS and greatest <= RANGE_MS else None


def all_ms(values: Sequence[Value]) -> Sequence[int]:
    """A column as whole milliseconds: itself if all values are ints. TimestampError like `to_ms`."""
    return values if _INT.issuperset(map(type, values)) else [to_ms(value) for value in values]


def to_datetime(at_ms: int) -> datetime:
    """The same time as a datetime in UTC. TimestampError before the year 1 and after 9999."""
    try:
        return _EPOCH + timedelta(milliseconds=at_ms)
    except OverflowError as error:
        raise TimestampError(f"{at_ms} ms since 1970 is no datetime: those go from the year 1 to 9999") from error
