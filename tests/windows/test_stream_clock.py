"""Stream clocks: watermarks go before the rows that they make late, and no more of them than that."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aiostorm import Config
from aiostorm.windows import Count, Session, Sliding, StreamClock, TimeSettings, Tumbling, WindowedBolt

from ..tries import examples
from . import reference


def clock(windows: Any, *, exact: bool = False, **settings: Any) -> StreamClock:
    settings = {"max_advance_ms": 0} | settings
    return StreamClock(
        TimeSettings.of(WindowedBolt(windows, Count(), timestamp="at", **settings), Config()), windows, exact=exact
    )


def test_ordered_rows_need_one_watermark_a_turn() -> None:
    made = clock(Tumbling(10))
    assert not made.observe([1, 5, 12, 31])
    assert made.due_watermark(0) == 31
    assert made.due_watermark(0) is None


def test_a_watermark_precedes_rows_that_are_late_by_it() -> None:
    made = clock(Tumbling(10))
    assert made.observe([1, 12, 5, 13, 14, 6, 25, 7]) == [(2, 12), (7, 25)]
    assert not made.due


@pytest.mark.parametrize(("windows", "cuts"), [(Tumbling(100), []), (Session(3), [(2, 12), (5, 14), (7, 25)])])
def test_a_watermark_that_ends_no_window_is_not_sent(windows: Any, cuts: list[Any]) -> None:
    made = clock(windows)
    made.observe([1])
    made.due_watermark(0)
    assert list(made.observe([1, 12, 5, 13, 14, 6, 25, 7])) == cuts


def test_lag_and_allowed_lateness_count() -> None:
    assert not clock(Tumbling(10), lag_ms=10, allowed_lateness_ms=10).observe([1, 12, 5, 13, 14, 6, 25, 7])
    assert list(clock(Tumbling(10), lag_ms=10, allowed_lateness_ms=10).observe([1, 33, 5])) == [(2, 33)]


def test_between_two_ends_a_mark_goes_each_interval() -> None:
    made = clock(Tumbling(1_000), interval_ms=50)
    made.observe([1])
    assert made.due_watermark(7) == 1
    made.observe([2])
    assert (made.due, made.due_watermark(56), made.due_watermark(57)) == (False, None, 2)
    assert made.observe_max(9)
    assert (made.ms, made.sent_ms, made.observe_max(1_000)) == (9, 2, False)
    assert (made.due_watermark(200), made.due_watermark(300)) == (9, None)
    made.observe([3])  # it is not silent, though it does not go on
    assert (made.due_watermark(249), made.due_watermark(250), made.due_watermark(300)) == (None, 9, None)
    made.observe([1_000])
    assert made.due


def test_a_followed_stream_clock_counts_each_millisecond() -> None:
    made = clock(Tumbling(1_000), exact=True)
    made.observe([1])
    assert made.due_watermark(0) == 1
    made.observe([2])
    assert made.due


def test_a_jump_of_the_stream_clock_is_accepted_in_steps() -> None:
    made = clock(Tumbling(10), max_advance_ms=100)
    made.observe([5])
    assert (made.ms, made.due) == (None, False)
    assert not made.observe_max(7)
    assert list(made.observe([7, 10**9, 3])) == [(2, 107)]
    assert made.ms == 107


def test_rows_of_unknown_order_are_not_late_for_each_other() -> None:
    made = clock(Tumbling(10))
    made.observe_unordered([50, 1])
    assert made.due_watermark(0) == 50


class ClockedWindows:
    """Plain windows, fed by what a clock says."""

    def __init__(self, kind: str, size: int, slide: int, offset: int, lateness: int) -> None:
        made = reference.Sessions(size, lateness) if kind == "session" else None
        self.windows: Any = made or reference.Aligned(size, slide, offset, lateness)
        self.fired: list[Any] = []

    def add(self, rows: list[reference.Row]) -> None:
        self.windows.add(rows)

    def advance_to(self, watermark: int) -> None:
        self.fired += self.windows.advance(watermark)

    def end(self) -> tuple[list[Any], list[Any]]:
        self.fired += self.windows.advance(10**9)
        return sorted(self.fired), self.windows.late


@settings(max_examples=examples(300))
@given(
    kind=st.sampled_from(["tumbling", "sliding", "session"]),
    size=st.integers(1, 30),
    slide=st.integers(1, 30),
    offset=st.integers(-9, 9),
    lag=st.integers(0, 20),
    lateness=st.sampled_from([0, 0, 5]),
    bound=st.sampled_from([0, 0, 25]),
    batches=st.lists(st.lists(st.tuples(st.sampled_from("ab"), st.integers(0, 150)), max_size=8), max_size=8),
    turns=st.integers(1, 3),
    unchecked=st.booleans(),
)
def test_any_batches_give_what_rows_give_one_by_one(
    kind: str,
    size: int,
    slide: int,
    offset: int,
    lag: int,
    lateness: int,
    bound: int,
    batches: list[list[tuple[str, int]]],
    turns: int,
    unchecked: bool,
) -> None:
    """Fired and late rows are those of windows that get the time before each row."""
    slide = size if kind == "tumbling" else min(slide, size)
    windows: Any = Session(size) if kind == "session" else Sliding(size, slide, offset)
    limits = {"lag_ms": lag, "allowed_lateness_ms": lateness, "max_advance_ms": bound}
    followed, stepped = clock(windows, **limits), clock(windows, exact=True, **limits)
    ours, plain = (ClockedWindows(kind, size, slide, offset, lateness) for _ in range(2))
    value = 0
    for number, batch in enumerate(batches):
        rows: list[reference.Row] = [(key, at, value + n) for n, (key, at) in enumerate(batch)]
        value += len(rows)
        for row in rows:
            if stepped.ms is not None:
                plain.advance_to(stepped.ms - lag)
            plain.add([row])
            stepped.observe([int(row[1])])
        times = [row[1] for row in rows]
        begin = 0
        if not (unchecked and times and followed.observe_max(max(times))):
            for place, watermark in followed.observe(times):
                ours.add(rows[begin:place])
                ours.advance_to(watermark - lag)
                begin = place
        ours.add(rows[begin:])
        if not number % turns and (watermark_ms := followed.due_watermark(0)) is not None:
            ours.advance_to(watermark_ms - lag)
    assert ours.end() == plain.end()
