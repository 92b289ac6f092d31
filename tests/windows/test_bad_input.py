"""Rows that no window can take, against every machine: each fails alone, with an error that says what to do."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta, timezone
from decimal import Decimal
from enum import IntEnum
from fractions import Fraction
from typing import Any

import pytest

from aiostorm.windows import (
    Aggregate,
    BufferedCounts,
    BufferedWindows,
    Collect,
    Count,
    Counts,
    Fold,
    Periodic,
    PlainWindows,
    Session,
    SessionWindows,
    SharedWindows,
    Sliding,
    TimestampError,
    Tumbling,
    WindowError,
    count_windows,
    time_windows,
)
from aiostorm.windows.timestamps import RANGE_MS


class Liar:
    """Says that it is a number, and is none."""

    def __index__(self) -> int:
        raise OverflowError("too much")


class Level(IntEnum):
    FIVE = 5


NO_TIMES = (
    None,
    True,
    "5",
    b"5",
    "2026-11-22T02:00:00Z",
    math.nan,
    math.inf,
    -math.inf,
    1j,
    Decimal(5),
    Fraction(5),
    datetime(2026, 11, 22, 2),
    datetime(2026, 11, 22).date(),
    timedelta(5),
    [5],
    {},
    object(),
    int,
    RANGE_MS + 1,
    -RANGE_MS - 1,
    10**30,
    1e30,
    1_700_000_000_000_000_000,
    Liar(),
)

BY_TIME: dict[str, Callable[[], Any]] = {
    "plain": lambda: PlainWindows(Tumbling(10), Collect()),
    "sliding": lambda: PlainWindows(Sliding(10, 5), Collect()),
    "shared": lambda: SharedWindows(Sliding(10, 5), Collect()),
    "session": lambda: SessionWindows(Session(10), Collect()),
    "buffered": lambda: BufferedWindows(Sliding(10, 5)),
}


def rows_of(fired: Any) -> Sequence[Any]:
    return list(fired.get() if hasattr(fired, "get") else fired.result)


@pytest.mark.parametrize("kind", BY_TIME)
@pytest.mark.parametrize("first", [True, False], ids=["first", "in the middle"])
def test_a_row_with_an_invalid_timestamp_fails_alone(kind: str, first: bool) -> None:
    windows = BY_TIME[kind]()
    begin = [] if first else [6]
    timestamps = [*begin, *NO_TIMES, 7]
    taken = windows.add([None] * len(timestamps), timestamps, timestamps)
    assert taken.late == []
    assert [place for place, _ in taken.failed] == list(range(len(begin), len(begin) + len(NO_TIMES)))
    for place, error in taken.failed[:-1]:
        assert isinstance(error, TimestampError), timestamps[place]
        assert any(word in str(error) for word in ("give", "leave", "say")), str(error)
        assert len(str(error)) < 300
    assert all(rows_of(one) == [*begin, 7] for one in windows.advance(30))


@pytest.mark.parametrize("kind", BY_TIME)
def test_a_batch_of_invalid_timestamps_only(kind: str) -> None:
    windows = BY_TIME[kind]()
    assert len(windows.add([None] * len(NO_TIMES), NO_TIMES, NO_TIMES).failed) == len(NO_TIMES)
    assert windows.next_fire_ms is None
    assert list(windows.advance(RANGE_MS)) == []
    assert windows.add([], [], []).failed == []


@pytest.mark.parametrize("kind", BY_TIME)
def test_times_of_other_kinds(kind: str) -> None:
    zone = timezone(timedelta(hours=-5))
    five = (5, 5.0, 5.999, Level.FIVE, datetime(1969, 12, 31, 19, 0, 0, 5_999, zone))
    windows = BY_TIME[kind]()
    assert windows.add([None] * len(five), five, five).failed == []
    fired = list(windows.advance(30))
    assert {(one.window.start, one.window.end) for one in fired} <= {(0, 10), (5, 15)}
    assert all(rows_of(one) == list(five) for one in fired)


@pytest.mark.parametrize("kind", BY_TIME)
def test_before_1970(kind: str) -> None:
    """Windows are aligned there as anywhere; -1 is in no window that begins at 0."""
    windows = BY_TIME[kind]()
    timestamps = (-1, -10, -11, 0, -RANGE_MS)
    assert windows.add([None] * len(timestamps), timestamps, timestamps).failed == []
    fired = list(windows.advance(100))
    for one in fired:
        assert sorted(rows_of(one)) == sorted(at for at in timestamps if at in one.window)
    spans = [(one.window.start, one.window.end) for one in fired[-2:]]
    assert spans == {"plain": [(-10, 0), (0, 10)], "session": [(-RANGE_MS, -RANGE_MS + 10), (-11, 10)]}.get(
        kind, [(-5, 5), (0, 10)]
    )


@pytest.mark.parametrize("kind", BY_TIME)
def test_a_key_without_a_hash_fails_alone(kind: str) -> None:
    windows = BY_TIME[kind]()
    taken = windows.add(["a", [], "a", {}], [1, 2, 3, 4], [1, 2, 3, 4])
    assert [(place, type(error)) for place, error in taken.failed] == [(1, TypeError), (3, TypeError)]
    assert rows_of(next(iter(windows.advance(30)))) == [1, 3]


def test_a_key_without_a_hash_is_not_counted() -> None:
    for windows in (BufferedCounts(Counts(2)), count_windows(Counts(2), Collect())):
        taken = windows.add(["a", [], "a"], [1, 2, 3])
        assert [(place, type(error)) for place, error in taken.failed] == [(1, TypeError)]
        assert [rows_of(one) for one in windows.fire()] == [[1, 3]]


@pytest.mark.parametrize("kind", BY_TIME)
def test_one_clock_far_ahead_closes_nothing(kind: str) -> None:
    """The row waits in a window of its own; the others are as if it had not come."""
    windows, generator = BY_TIME[kind](), Periodic(interval_ms=1, max_advance_ms=100)
    generator.tick(0)
    fired = []
    for now, at in enumerate((1, 2, RANGE_MS, 3, 8, 12, 13), 1):
        assert windows.add([None], [at], [at]).late == []
        generator.observe((at,), (at,))
        said = generator.tick(now)
        if at == RANGE_MS:
            assert said == 2 + 100
        elif said is not None and said < 100:
            fired += list(windows.advance(said))
    assert fired == []
    assert rows_of(list(windows.advance(200))[-1])[-1] == 13
    assert windows.next_fire_ms > 1_000_000
    assert {tuple(rows_of(one)) for one in windows.advance(2 * RANGE_MS)} == {(RANGE_MS,)}


def test_many_windows_at_once_cost_a_row_nothing() -> None:
    """A day each millisecond: what a row is in is counted, not listed."""
    windows = BufferedWindows(Sliding(86_400_000, 1))
    rows = range(10_000)
    assert windows.add([None] * len(rows), rows, rows).failed == []
    assert windows.next_fire_ms == 1


@pytest.mark.parametrize(
    "aggregate", [Count(), Collect(), Fold(int, max, merge=max)], ids=lambda one: type(one).__name__
)
@pytest.mark.parametrize("kind", [PlainWindows, SharedWindows])
def test_rows_beyond_the_limit_leave_nothing(kind: Any, aggregate: Aggregate) -> None:
    """Each would have been in a window of its own: there are never more windows than states."""
    windows = kind(Tumbling(10), aggregate, max_states=3)
    for at in range(100, 1_100, 10):
        windows.add([None, None], [at, at + 1], [1, 1])
    assert windows.states == 3
    assert len(windows._open if kind is PlainWindows else windows._slices.starts) == 3
    assert windows.add([None], [95], [1]).failed != []
    assert windows.next_fire_ms == 110
    assert len(list(windows.advance(2_000))) == 3
    assert windows.states == 0
    assert not windows._open if kind is PlainWindows else not windows._slices.starts
    assert windows.add([None], [2_000], [1]).failed == []


def test_more_windows_in_a_row_than_there_may_be_states() -> None:
    own = Fold(list, max)
    for build in (
        lambda: time_windows(Sliding(86_400_000, 1), own),
        lambda: count_windows(Counts(2_000_000, 1), own),
        lambda: PlainWindows(Sliding(10, 5), own, max_states=1),
    ):
        with pytest.raises(WindowError, match=r"each row is in \d+ windows, with a state of Fold.*merge"):
            build()
    time_windows(Sliding(86_400_000, 1), Count())
    PlainWindows(Sliding(10, 5), own, max_states=2)
