"""Rows of windows whose start and end are datetimes."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiostorm import BasicBolt, Counts, LocalCluster, Session, Spout, TopologyBuilder, TopologyError, Tumbling
from aiostorm.windows import Combined, Count, Each, Sum, TimestampError, WindowedBolt, to_datetime, to_ms
from aiostorm.windows.timestamps import RANGE_MS

LEAST_MS = to_ms(datetime(1, 1, 1, tzinfo=UTC))
YEAR_10000_MS = 253_402_300_800_000


@given(st.integers(LEAST_MS, RANGE_MS))
def test_a_datetime_is_the_same_moment(at_ms: int) -> None:
    at = to_datetime(at_ms)
    assert at.tzinfo is not None
    assert to_ms(at) == at_ms


@pytest.mark.parametrize("at_ms", [LEAST_MS - 1, YEAR_10000_MS])
def test_times_beyond_datetime_are_an_error(at_ms: int) -> None:
    with pytest.raises(TimestampError, match="is no datetime: those go from the year 1 to 9999"):
        to_datetime(at_ms)


class Orders(Spout):
    outputs = ("user", "at", "amount")

    def __init__(self, rows: Any) -> None:
        self.rows = rows

    def open(self, context: Any, collector: Any) -> None:
        self.left, self.collector = list(self.rows), collector

    def next_tuple(self) -> None:
        if self.left:
            self.collector.emit(self.left.pop(0))
        else:
            self.collector.finish()


class Seen(BasicBolt):
    def prepare(self, context: Any) -> None:
        self.rows: list[Any] = []

    def execute(self, tup: Any, collector: Any) -> None:
        self.rows.append(tup.values)

    def result(self) -> Any:
        return sorted(self.rows)


ROWS = [("a", 0, 1), ("a", 999, 2), ("a", 1_500, 3)]


def built(bolt: Any, rows: Any = ROWS) -> Any:
    builder = TopologyBuilder()
    builder.set_spout("orders", Orders(rows))
    builder.set_bolt("windows", bolt).shuffle_grouping("orders")
    builder.set_bolt("seen", Seen).shuffle_grouping("windows")
    return builder.create_topology()


async def rows_of(bolt: Any, rows: Any = ROWS) -> tuple[list[Any], list[str]]:
    async with LocalCluster() as cluster:
        running = await cluster.submit("job", built(bolt, rows))
        await running.wait_finished(600)
        return (await running.results())["seen"][0], [str(report.error) for report in running.errors()]


def at(second: int, millisecond: int = 0) -> datetime:
    return datetime(1970, 1, 1, 0, 0, second, millisecond * 1000, tzinfo=UTC)


@pytest.mark.parametrize(
    ("aggregate", "key", "early", "expected"),
    [
        (Count(), None, None, [(1, at(1), at(2)), (2, at(0), at(1))]),
        (Sum("amount"), "user", None, [("a", 3, at(0), at(1)), ("a", 3, at(1), at(2))]),
        (Combined(n=Count(), paid=Sum("amount")), "user", None, [("a", 1, 3, at(1), at(2)), ("a", 2, 3, at(0), at(1))]),
        (
            Count(),
            "user",
            Each(2),
            [("a", 1, at(1), at(2), True), ("a", 2, at(0), at(1), False), ("a", 2, at(0), at(1), True)],
        ),
    ],
)
async def test_rows_of_aggregates_say_when_in_utc(aggregate: Any, key: Any, early: Any, expected: list[Any]) -> None:
    bolt = WindowedBolt(Tumbling(1_000), aggregate, key=key, timestamp="at", early=early, times="datetime")
    assert await rows_of(bolt) == (expected, [])


async def test_sessions_too() -> None:
    bolt = WindowedBolt(Session(600), Count(), timestamp="at", times="datetime")
    assert (await rows_of(bolt))[0] == [(1, at(0), at(0, 600)), (2, at(0, 999), at(2, 100))]


async def test_a_window_before_the_year_1_is_lost_and_the_others_are_not() -> None:
    bolt = WindowedBolt(Tumbling(86_400_000), Count(), timestamp="at", times="datetime")
    rows, errors = await rows_of(bolt, [("a", 0, 1), ("a", LEAST_MS - 1, 1)])
    assert rows == [(1, at(0), datetime(1970, 1, 2, tzinfo=UTC))]
    assert len(errors) == 1
    assert "is no datetime" in errors[0]


class Own(WindowedBolt):
    windows = Tumbling(1_000)
    timestamp = "at"
    outputs = "n"
    times = "datetime"

    def init_state(self, window: Any) -> int:
        return 0

    def execute(self, tup: Any, state: int, window: Any) -> int:
        return state + 1

    def purge(self, state: int, window: Any) -> Any:
        return (state,)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: WindowedBolt(Tumbling(1_000), Count(), timestamp="at", times="utc"), 'give "ms"'),  # type: ignore[arg-type]
        (lambda: WindowedBolt(Counts(2), Count(), times="datetime"), "numbers of rows"),
        (Own, r"to_datetime\(window.start\) gives a datetime"),
    ],
)
def test_impossible_times_are_refused_when_the_topology_is_built(make: Any, message: str) -> None:
    with pytest.raises(TopologyError, match=message):
        built(make())
