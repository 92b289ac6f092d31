"""MailboxLimit: how much is let into a mailbox, so that it is a time and not a number."""

from __future__ import annotations

import random
import statistics

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiostorm.backpressure import MailboxLimit
from aiostorm.backpressure.mailbox_limit import FIRST, FREE_TURNS, LEAST

TARGET_S = 0.2
CAPACITY = 1024
turns = st.lists(st.tuples(st.integers(0, 5_000), st.floats(0, 100), st.floats(0, 100)), max_size=60)


def fed(holding: MailboxLimit, turn: float, row_s: float, *, fixed_s: float = 0.0, most: int = 256) -> int:
    """A turn of a task whose mailbox is as full as it may be."""
    rows = max(1, min(int(0.8 * holding.limit), most)) if most == 256 else most
    return holding.measured(rows, fixed_s + rows * row_s, turn)


@given(st.integers(1, 100_000), st.floats(0, 10), st.integers(0, 256), turns, st.floats(0, 10))
def test_it_is_within_its_bounds_whatever_is_measured(
    capacity: int, target_s: float, batch: int, given_turns: list[tuple[int, float, float]], other_s: float
) -> None:
    holding = MailboxLimit(capacity, target_s)
    holding.batch = batch
    for turn in given_turns:
        assert min(LEAST, capacity) <= holding.measured(*turn) <= capacity
    assert min(LEAST, capacity) <= holding.aim(other_s) <= capacity
    assert holding.aim(0.0) == capacity


@given(st.floats(1e-6, 1), st.integers(16, 100))
def test_after_some_seconds_of_work_it_is_the_target(row_s: float, rows: int) -> None:
    holding = MailboxLimit(CAPACITY, TARGET_S)
    for _ in range(3):
        holding.measured(1, 5.0, 0.0)  # as it was before
    work_s = done = 0.0
    while work_s < 10 and done < 200_000:
        holding.measured(rows, rows * row_s, 0.0)
        work_s += rows * row_s
        done += rows
    assert holding.limit == pytest.approx(min(max(TARGET_S / row_s, LEAST), CAPACITY), rel=0.05, abs=1.5)


def test_it_begins_small_and_a_fast_task_has_all_of_it_after_four_turns() -> None:
    holding = MailboxLimit(CAPACITY, TARGET_S)
    assert holding.limit == FIRST
    assert MailboxLimit(4, TARGET_S).limit == 4
    assert [holding.measured(2, 2 * 5e-6, 0.0) for _ in range(5)] == [128, 256, 512, 1024, 1024]


def test_a_fast_task_that_comes_to_wait_is_held_to_little_until_it_knows_for_how_long() -> None:
    holding = MailboxLimit(CAPACITY, TARGET_S)
    for _ in range(FREE_TURNS):
        holding.measured(10, 1e-5, 0.0)
    assert holding.limit == CAPACITY
    assert holding.blocks() == LEAST
    for _ in range(10):
        holding.measured(10, 1e-5, 1e-4)  # it was for a moment
    assert holding.limit == holding.blocks() == CAPACITY
    assert holding.stuck() == LEAST
    holding.aim(0.0)
    assert holding.stuck() == CAPACITY


def test_a_slow_task_never_holds_more() -> None:
    holding = MailboxLimit(CAPACITY, TARGET_S)
    assert all(holding.measured(1, 0.05, 0.0) == LEAST for _ in range(100))


def test_a_slow_first_row_costs_a_fast_task_some_turns() -> None:
    """It opens a connection, say."""
    holding = MailboxLimit(CAPACITY, TARGET_S)
    assert holding.measured(1, 0.5, 0.0) == LEAST
    turn = 0
    while holding.limit < CAPACITY:
        turn += 1
        fed(holding, 0.0, 5e-6)
    assert turn < 30


@given(st.integers(0, 2**32))
def test_of_times_that_vary_it_is_steady(seed: int) -> None:
    chance = random.Random(seed)
    holding = MailboxLimit(CAPACITY, TARGET_S)
    seen = []
    for turn in range(2_000):
        limit = holding.measured(5, sum(chance.expovariate(500) for _ in range(5)), 0.0)
        if turn > 200:
            seen.append(limit)
    assert 70 <= min(seen) <= max(seen) <= 145  # a hundred rows of 2 ms, more or less


def test_what_waits_for_room_behind_its_task_counts_and_is_no_work() -> None:
    holding = MailboxLimit(CAPACITY, TARGET_S)
    for _ in range(200):
        holding.measured(10, 10 * 1e-6, 0.02)  # 500 rows a second go through
    assert holding.limit == pytest.approx(100, rel=0.05)
    assert holding.row_s == pytest.approx(1e-6, rel=0.01)


def test_another_target_holds_at_once() -> None:
    holding = MailboxLimit(CAPACITY, TARGET_S)
    holding.measured(10, 10 * 1e-3, 0.0)
    for _ in range(5):
        holding.measured(10, 10 * 1e-3, 0.0)
    seen = holding.limit, holding.aim(0.1), holding.aim(0.0), holding.aim(0.05)
    assert seen == pytest.approx((200, 100, CAPACITY, 50), abs=1)


@given(st.floats(0.2, 5), st.floats(0, 1e-5))
def test_batches_that_cost_the_same_whatever_is_in_them_are_not_made_smaller(fixed_s: float, row_s: float) -> None:
    holding = MailboxLimit(CAPACITY, TARGET_S)
    holding.batch = 256
    for _ in range(300):
        fed(holding, 0.0, row_s, fixed_s=fixed_s)
    assert 256 <= 0.8 * holding.limit <= 300


@given(st.floats(2e-3, 8e-3))
def test_batches_that_cost_by_their_rows_are_held_to_the_target(row_s: float) -> None:
    holding = MailboxLimit(CAPACITY, TARGET_S)
    holding.batch = 256
    held_s = []
    for turn in range(400):
        fed(holding, 0.0, row_s, fixed_s=1e-4)
        if turn > 50:
            held_s.append(holding.limit * row_s)
    assert statistics.median(held_s) == pytest.approx(TARGET_S, rel=0.1)
    assert max(held_s) <= 2 * TARGET_S, "now and then it has to find out"
