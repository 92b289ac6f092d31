"""Portion: the output of a turn is delayed for no longer than the target, and a turn is no smaller than necessary."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiostorm.backpressure import Portion

TARGET_S = 0.05


@given(st.integers(1, 1_000), st.floats(0, 1), st.lists(st.tuples(st.integers(1, 1_000), st.floats(0, 100))))
def test_a_portion_is_between_one_row_and_the_most(most: int, target_s: float, sent: list[tuple[int, float]]) -> None:
    portion = Portion(most, target_s)
    for rows, delayed_s in sent:
        portion.sent(rows, delayed_s)
        assert 1 <= portion.rows <= most
        assert target_s or portion.rows == most


def test_a_portion_begins_small_and_grows_as_it_is_used() -> None:
    portion = Portion(256, TARGET_S)
    portions = []
    for rows in (1, 16, 30, 64, 100, 10, 256, 256):
        portion.sent(rows, 0.0)
        portions.append(portion.rows)
    assert portions == [16, 32, 64, 128, 256, 256, 256, 256]


@given(st.floats(1e-6, 1), st.integers(1, 256))
def test_rows_that_take_long_behind_it_go_in_small_turns_and_others_in_large_ones(row_s: float, start: int) -> None:
    portion = Portion(256, TARGET_S)
    portion.rows = start
    delays = []
    for turn in range(100):
        rows = portion.rows
        portion.sent(rows, rows * row_s)
        if turn > 20:
            delays.append(rows * row_s)
    assert max(delays) <= max(TARGET_S, row_s) * 1.01
    assert min(delays) >= min(TARGET_S / 4, 256 * row_s) * 0.9 or row_s > TARGET_S / 8


def test_without_a_target_it_is_the_most() -> None:
    portion = Portion(256, TARGET_S)
    portion.sent(256, 10.0)
    assert portion.rows == 1
    assert Portion(256, 0.0).rows == 256
    portion.aim(0.0)
    assert portion.rows == 256
    portion.sent(256, 10.0)
    assert portion.rows == 256


def test_a_portion_grows_only_while_it_is_used_and_the_delay_is_short() -> None:
    portion = Portion(100, 0.1)
    found = []
    for rows, delayed_s in ((16, 0.051), (7, 0.0), (8, 0.05), (32, 0.1), (32, 0.2), (16, 0.0), (16, 0.0), (64, 0.0)):
        portion.sent(rows, delayed_s)
        found.append(portion.rows)
    assert found == [16, 16, 32, 32, 16, 32, 64, 100]
    assert portion.is_whole
    portion.sent(100, 0.0)
    assert portion.rows == 100
    portion.sent(10, 0.2)
    assert (portion.rows, portion.is_whole) == (5, False)
    portion.aim(0.4)
    assert portion.rows == 5, "another target changes the next portions"
    portion.sent(5, 0.2)
    assert portion.rows == 10
    portion.sent(100, 0.8)
    assert portion.rows == 10, "a delay never makes it larger"


@pytest.mark.parametrize("most", [1, 2, 16, 17, 100, 256])
@pytest.mark.parametrize("target_s", [0.0, TARGET_S])
def test_a_turn_that_was_not_delayed_changes_the_portion_from_the_least_rows_on(most: int, target_s: float) -> None:
    for start in range(1, most + 1):
        portion = Portion(most, target_s)
        portion.rows = start
        least = portion.grows_from
        for rows in {1, least - 1, least, most}:
            portion.rows = start
            if 1 <= rows <= most:
                portion.sent(rows, 0.0)
                assert (portion.rows != start) == (rows >= least)


def test_a_delay_of_just_the_target_and_one_of_hours() -> None:
    portion = Portion(256, TARGET_S)
    portion.sent(3, TARGET_S)
    assert portion.rows == 16, "not beyond the target"
    portion.sent(16, 10_000.0)
    assert portion.rows == 1
