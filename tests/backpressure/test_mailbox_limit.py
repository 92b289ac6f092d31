"""MailboxLimit: how many rows a mailbox may contain, as a time and not as a number."""

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


def fed(limit_of: MailboxLimit, turn: float, row_s: float, *, fixed_s: float = 0.0, most: int = 256) -> int:
    """A turn of a task whose mailbox is as full as it may be."""
    rows = max(1, min(int(0.8 * limit_of.limit), most)) if most == 256 else most
    return limit_of.measured(rows, fixed_s + rows * row_s, turn)


@given(st.integers(1, 100_000), st.floats(0, 10), st.integers(0, 256), turns, st.floats(0, 10))
def test_the_limit_is_within_its_bounds_for_any_measurements(
    capacity: int, target_s: float, batch: int, given_turns: list[tuple[int, float, float]], other_s: float
) -> None:
    limit_of = MailboxLimit(capacity, target_s)
    limit_of.batch = batch
    for turn in given_turns:
        assert min(LEAST, capacity) <= limit_of.measured(*turn) <= capacity
    assert min(LEAST, capacity) <= limit_of.aim(other_s) <= capacity
    assert limit_of.aim(0.0) == capacity


@given(st.floats(1e-6, 1), st.integers(16, 100))
def test_after_some_seconds_of_work_it_is_the_target(row_s: float, rows: int) -> None:
    limit_of = MailboxLimit(CAPACITY, TARGET_S)
    for _ in range(3):
        limit_of.measured(1, 5.0, 0.0)  # as it was before
    work_s = done = 0.0
    while work_s < 10 and done < 200_000:
        limit_of.measured(rows, rows * row_s, 0.0)
        work_s += rows * row_s
        done += rows
    assert limit_of.limit == pytest.approx(min(max(TARGET_S / row_s, LEAST), CAPACITY), rel=0.05, abs=1.5)


def test_the_limit_begins_small_and_a_fast_task_has_its_capacity_after_four_turns() -> None:
    limit_of = MailboxLimit(CAPACITY, TARGET_S)
    assert (limit_of.limit, limit_of.batch, limit_of.row_s) == (FIRST, 0, 0.0)
    assert MailboxLimit(4, TARGET_S).limit == 4
    assert [limit_of.measured(2, 2 * 5e-6, 0.0) for _ in range(5)] == [128, 256, 512, 1024, 1024]


def test_a_fast_task_that_becomes_blocked_is_limited_to_little_until_it_knows_for_how_long() -> None:
    limit_of = MailboxLimit(CAPACITY, TARGET_S)
    for _ in range(FREE_TURNS):
        limit_of.measured(10, 1e-5, 0.0)
    assert limit_of.limit == CAPACITY
    assert limit_of.blocks() == LEAST
    for _ in range(10):
        limit_of.measured(10, 1e-5, 1e-4)  # it was for a moment
    assert limit_of.limit == limit_of.blocks() == CAPACITY
    assert limit_of.stuck() == LEAST
    limit_of.aim(0.0)
    assert limit_of.stuck() == CAPACITY


def test_the_limit_of_a_slow_task_is_never_higher() -> None:
    limit_of = MailboxLimit(CAPACITY, TARGET_S)
    assert all(limit_of.measured(1, 0.05, 0.0) == LEAST == 16 for _ in range(100))


def test_a_slow_first_row_costs_a_fast_task_some_turns() -> None:
    """For example, it opens a connection."""
    limit_of = MailboxLimit(CAPACITY, TARGET_S)
    assert limit_of.measured(1, 0.5, 0.0) == LEAST
    turn = 0
    while limit_of.limit < CAPACITY:
        turn += 1
        fed(limit_of, 0.0, 5e-6)
    assert turn < 30


@given(st.integers(0, 2**32))
def test_the_limit_is_steady_for_varying_times(seed: int) -> None:
    chance = random.Random(seed)
    limit_of = MailboxLimit(CAPACITY, TARGET_S)
    limits = []
    for turn in range(2_000):
        limit = limit_of.measured(5, sum(chance.expovariate(500) for _ in range(5)), 0.0)
        if turn > 200:
            limits.append(limit)
    assert 70 <= min(limits) <= max(limits) <= 145  # a hundred rows of 2 ms, more or less


def test_time_blocked_behind_its_task_counts_and_is_no_work() -> None:
    limit_of = MailboxLimit(CAPACITY, TARGET_S)
    for _ in range(200):
        limit_of.measured(10, 10 * 1e-6, 0.02)  # 500 rows a second go through
    assert limit_of.limit == pytest.approx(100, rel=0.05)
    assert limit_of.row_s == pytest.approx(1e-6, rel=0.01)


def test_another_target_applies_at_once() -> None:
    limit_of = MailboxLimit(CAPACITY, TARGET_S)
    limit_of.measured(10, 10 * 1e-3, 0.0)
    for _ in range(5):
        limit_of.measured(10, 10 * 1e-3, 0.0)
    limits = limit_of.limit, limit_of.aim(0.1), limit_of.aim(0.0), limit_of.aim(0.05)
    assert limits == pytest.approx((200, 100, CAPACITY, 50), abs=1)


@given(st.floats(0.2, 5), st.floats(0, 1e-5))
def test_batches_of_constant_cost_are_not_made_smaller(fixed_s: float, row_s: float) -> None:
    limit_of = MailboxLimit(CAPACITY, TARGET_S)
    limit_of.batch = 256
    for _ in range(300):
        fed(limit_of, 0.0, row_s, fixed_s=fixed_s)
    assert 256 <= 0.8 * limit_of.limit <= 300


@given(st.floats(2e-3, 8e-3))
def test_batches_that_cost_by_their_rows_are_limited_to_the_target(row_s: float) -> None:
    limit_of = MailboxLimit(CAPACITY, TARGET_S)
    limit_of.batch = 256
    waits_s = []
    for turn in range(400):
        fed(limit_of, 0.0, row_s, fixed_s=1e-4)
        if turn > 50:
            waits_s.append(limit_of.limit * row_s)
    assert statistics.median(waits_s) == pytest.approx(TARGET_S, rel=0.1)
    assert max(waits_s) <= 2 * TARGET_S, "now and then it has to find out"


def test_a_task_that_was_blocked_lately_knows_for_how_long() -> None:
    limit_of = MailboxLimit(CAPACITY, TARGET_S)
    assert limit_of.blocks() == LEAST, "a new one does not"
    for _ in range(10):
        limit_of.measured(10, 1e-5, 1e-4)
    for turn in range(FREE_TURNS):
        assert limit_of.blocks() == CAPACITY, turn
        limit_of.measured(10, 1e-5, 0.0)
        limit_of.measured(0, 0.0, 0.0)
    assert limit_of.blocks() == LEAST


def test_the_part_of_a_batch_is_unknown_until_batches_differ() -> None:
    """Until then the mailbox may contain twice as much as lately, at most a batch and a quarter."""
    limit_of = MailboxLimit(CAPACITY, TARGET_S)
    limit_of.batch = 100
    limits = [limit_of.measured(rows, 1.0, 0.0) for rows in (30, 30, 30)]
    assert limits == [60, 60, 60]
    limit_of = MailboxLimit(CAPACITY, TARGET_S)
    limit_of.batch = 100
    assert [limit_of.measured(80, 2.0, 0.0) for _ in range(2)] == [125, 125]
    assert limit_of.measured(40, 1.0, 0.0) == LEAST, "by its rows alone"
    limit_of = MailboxLimit(CAPACITY, TARGET_S)
    limit_of.batch = 100
    limit_of.measured(80, 1.0, 0.0)
    assert limit_of.measured(40, 0.75, 0.0) == LEAST, "0.5 s a batch, and 0.625 s for a hundred rows"
    limit_of = MailboxLimit(CAPACITY, TARGET_S)
    limit_of.batch = 100
    limit_of.measured(80, 1.0, 0.0)
    assert limit_of.measured(40, 0.85, 0.0) == 125, "0.7 s a batch, and 0.375 s for a hundred rows"


def test_batches_that_took_less_for_more_rows_cost_by_the_batch() -> None:
    limit_of = MailboxLimit(CAPACITY, TARGET_S)
    limit_of.batch = 100
    limit_of.measured(80, 1.0, 0.0)
    assert limit_of.measured(40, 2.0, 0.0) == 125
    limit_of.batch = 0
    assert limit_of.measured(40, 2.0, 0.0) == LEAST


def test_batches_of_one_size_say_nothing_about_the_part_of_a_batch_however_many_they_are() -> None:
    for rows in range(17, 62):
        limit_of = MailboxLimit(CAPACITY, TARGET_S)
        limit_of.batch = 100
        assert [limit_of.measured(rows, 10.1, 0.0) for _ in range(50)][2:] == [2 * rows] * 48


def test_old_batches_fade() -> None:
    limit_of = MailboxLimit(CAPACITY, TARGET_S)
    limit_of.batch = 100
    for rows in [40, 80] * 20:
        limit = limit_of.measured(rows, 1.0, 0.0)
    assert limit == 125, "they cost the same whatever is in them"
    for rows in [40, 80] * 20:
        limit = limit_of.measured(rows, rows * 0.02, 0.0)
    assert limit == LEAST, "now they cost by their rows"
