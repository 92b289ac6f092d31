"""Service time: how long a row takes lately, whatever turns it is measured in."""

from __future__ import annotations

import math

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from aiostorm.backpressure import ServiceTime
from aiostorm.backpressure.service import LEAST_S

turns = st.lists(st.tuples(st.integers(0, 5_000), st.floats(0, 100)), max_size=60)


def test_the_execution_time_is_0_before_the_first_measurement() -> None:
    service = ServiceTime()
    assert service.row_s == 0.0
    assert service.measured(0, 0.0) == 0.0
    assert service.measured(5, 0.0) == 1e-9, "a measured time is never 0"


@given(turns)
def test_the_execution_time_lies_between_the_shortest_and_the_longest_row(given_turns: list[tuple[int, float]]) -> None:
    service = ServiceTime()
    for rows, work_s in given_turns:
        service.measured(rows, work_s)
    rates = [work_s / rows for rows, work_s in given_turns if rows]
    if rates:
        assert min(rates) * (1 - 1e-9) <= service.row_s <= max(LEAST_S, *rates) * (1 + 1e-9)
        assert service.row_s >= LEAST_S
    else:
        assert service.row_s == 0.0


@given(before=turns, turn_s=st.floats(0.01, 2_560), rows=st.integers(1, 256))
@example(before=[(1, 100.0)], turn_s=5e-4, rows=1)  # not shorter: it would be tried with millions of turns
def test_old_measurements_are_forgotten_after_some_seconds_of_work(
    before: list[tuple[int, float]], turn_s: float, rows: int
) -> None:
    service = ServiceTime()
    row_s = turn_s / rows
    for turn in before:
        service.measured(*turn)
    work_s = 0.0
    while work_s < 30:
        service.measured(rows, rows * row_s)
        work_s += rows * row_s
    assert service.row_s == pytest.approx(row_s, rel=0.01)


@given(rows=st.integers(2, 1_000), work_s=st.floats(0, 10), share=st.floats(0, 1))
def test_the_execution_time_does_not_depend_on_the_size_of_turns(rows: int, work_s: float, share: float) -> None:
    """But for what fades within a turn: of even work that changes nothing."""
    whole, cut = ServiceTime(), ServiceTime()
    first = max(1, min(rows - 1, int(rows * share)))
    for _ in range(3):
        whole.measured(rows, work_s)
        cut.measured(first, work_s * first / rows)
        cut.measured(rows - first, work_s * (rows - first) / rows)
    assert cut.row_s == pytest.approx(whole.row_s)


def test_a_slow_row_is_known_at_once_though_a_million_were_fast() -> None:
    service = ServiceTime()
    for _ in range(4_000):
        service.measured(250, 250 * 1e-5)
    service.measured(1, 60.0)
    assert service.row_s == pytest.approx(60.0)
    for _ in range(200):
        service.measured(1, 0.05)
    assert service.row_s == pytest.approx(0.05, rel=0.1)


def test_a_pause_of_the_process_hardly_counts_while_there_is_work() -> None:
    service = ServiceTime()
    for _ in range(1_000):
        service.measured(256, 256 * 5e-6)
    service.measured(256, 0.05 + 256 * 5e-6)
    assert service.row_s == pytest.approx(5e-6, rel=0.1)


def test_a_bolt_that_became_fast_is_seen_to_be_within_some_turns() -> None:
    service = ServiceTime()
    for _ in range(100):
        service.measured(1, 0.05)
    for _ in range(10):
        service.measured(16, 16 * 1e-5)
    assert service.row_s < 0.01


def test_a_second_of_work_later_a_measurement_counts_one_third() -> None:
    service = ServiceTime()
    service.measured(1, 1.0)
    third = math.exp(-1)
    assert service.measured(3, 1.0) == pytest.approx((third + 1.0) / (third + 3))
    service.measured(0, 5.0)
    assert service.row_s == pytest.approx((third + 1.0) / (third + 3))
