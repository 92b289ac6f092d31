"""Timestamps: columns of them, and what is none."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import pytest

from aiostorm.windows import TimestampError, to_ms
from aiostorm.windows.timestamps import all_ms, bounds_ms

FAR_MS = 250_000_000_000_000
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@pytest.mark.parametrize(
    ("value", "at_ms"),
    [
        (FAR_MS, FAR_MS),
        (-FAR_MS, -FAR_MS),
        (2.999, 2),
        (-0.5, -1),
        (np.int32(7), 7),
        (EPOCH - timedelta(microseconds=1), -1),
    ],
)
def test_a_timestamp_in_milliseconds(value: Any, at_ms: int) -> None:
    assert to_ms(value) == at_ms
    assert list(all_ms([value, 5])) == [at_ms, 5]


@pytest.mark.parametrize(
    ("value", "advice"),
    [
        (None, "the timestamp is None; give milliseconds"),
        (False, "the timestamp is False; give milliseconds"),
        ("5", "the timestamp is a str; give milliseconds"),
        (float("nan"), "the timestamp is nan; leave such tuples out"),
        (datetime(2026, 1, 1), "has no zone; give it one"),
        (FAR_MS + 1, "is it in nanoseconds"),
        (-FAR_MS - 1, "is it in nanoseconds"),
        (float(10 * FAR_MS), "is it in nanoseconds"),
    ],
)
def test_what_is_no_timestamp_is_an_error_that_says_what_to_do(value: Any, advice: str) -> None:
    with pytest.raises(TimestampError, match=advice):
        to_ms(value)


@pytest.mark.parametrize(
    ("column", "bounds"),
    [
        ([5], (5, 5)),
        ([3, -7, 9], (-7, 9)),
        ([FAR_MS, -FAR_MS], (-FAR_MS, FAR_MS)),
        ([0, FAR_MS + 1], None),
        ([-FAR_MS - 1, 0], None),
        ([1, 2.0], None),
        ([1, True], None),
        ([None, 1], None),
    ],
)
def test_the_bounds_of_a_column_of_ints(column: list[Any], bounds: tuple[int, int] | None) -> None:
    assert bounds_ms(column) == bounds


def test_a_column_of_ints_is_not_copied() -> None:
    column = [3, 1, 2]
    assert all_ms(column) is column
    with pytest.raises(TimestampError):
        all_ms([3, True])
