"""Throttle: the waits that JStorm's tests have, and what must be true of any wait."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from aiostorm.backpressure import Throttle
from aiostorm.backpressure.throttle import MAX_WAIT, MOST_TRIM, STEP, gain_of, trim

TRACES = {
    "10 10 10 stop stop stop stop": "10 11 12 6 3 1 0",
    "10 stop 10 stop stop stop stop": "10 5 8 6 3 1 0",
    "0 0 0 stop stop": "1 2 3 1 0",
    "20 stop stop 20 8 8": "20 10 5 13 17 19",
    "5 12 12 stop 5 5": "5 12 13 6 10 12",
}

steps = st.one_of(
    st.tuples(st.just("slow"), st.integers(-5, 2 * MAX_WAIT)),
    st.tuples(st.just("relieve"), st.none() | st.floats(0, 1)),
    st.tuples(st.just("follow"), st.integers(0, 2 * MAX_WAIT)),
    st.tuples(st.just("unbound"), st.none()),
)


@pytest.mark.parametrize("calls", TRACES)
def test_the_waits_are_those_of_jstorms_tests(calls: str) -> None:
    throttle, waits = Throttle(), []
    for word in calls.split():
        if word == "stop":
            throttle.relieve()
        else:
            throttle.slow(int(word))
        waits.append(throttle.wait)
    assert " ".join(map(str, waits)) == TRACES[calls]


@given(st.lists(steps))
def test_slow_always_makes_it_longer_and_relieve_shorter(calls: list[tuple[str, float | None]]) -> None:
    throttle = Throttle()
    for what, value in calls:
        before = throttle.wait
        if what == "slow":
            throttle.slow(int(value or 0))
            assert throttle.wait > before or before == MAX_WAIT
            assert throttle.wait >= 1
        elif what == "relieve":
            throttle.relieve(value)
            assert throttle.wait < before or before == throttle.wait == 0
        elif what == "unbound":
            throttle.relieve(bound=False)
            assert throttle.wait == 0
        else:
            throttle.follow(int(value or 0))
            assert (throttle.wait == 0) == (before == 0)
        assert 0 <= throttle.wait <= MAX_WAIT


@given(st.integers(1, MAX_WAIT), st.lists(st.none() | st.floats(0, 1)))
def test_a_throttle_is_released_after_few_reliefs(wait: int, busy: list[float | None]) -> None:
    throttle = Throttle()
    throttle.slow(wait)
    for share in busy:
        throttle.relieve(share)
    for _ in range(wait.bit_length() + 1):  # it is unknown how busy the bolt is: each halves
        throttle.relieve()
    assert throttle.wait == 0


def test_a_relief_that_knows_how_busy_the_bolt_was_goes_there_at_once() -> None:
    throttle = Throttle()
    throttle.slow(10_000)
    throttle.relieve(0.1)
    assert throttle.wait == 1_000
    throttle.relieve(1.0)  # low, and busy all the same: a little faster
    assert throttle.wait == 950
    throttle.relieve(0.0)
    assert throttle.wait == 0


def test_beyond_the_longest_it_goes_in_steps_that_can_be_felt() -> None:
    throttle = Throttle()
    throttle.slow(16_000)
    throttle.slow(16_000)
    assert throttle.wait == 16_000 + 16_000 // STEP


def test_a_throttle_follows_the_execution_time_halfway_at_a_time() -> None:
    throttle = Throttle()
    throttle.follow(500)
    assert throttle.wait == 0  # it does not begin by itself
    throttle.slow(1_000)
    throttle.follow(500)
    throttle.follow(500)
    assert throttle.wait == 625
    throttle.follow(0)
    assert throttle.wait == 312


def test_a_later_task_waits_as_the_others_do() -> None:
    throttle = Throttle()
    throttle.adopt(700)
    throttle.slow(700)
    assert throttle.wait == 700 + 700 // STEP


@given(st.floats(0, 2), st.floats(0, 0.4), st.floats(0.5, 1), st.floats(0, 1e6), st.floats(0.001, 60))
def test_a_trim_is_small_and_slows_the_fuller_it_is(
    fill: float, low: float, high: float, drain_s: float, interval_s: float
) -> None:
    gain = gain_of(drain_s, interval_s)
    bent = trim(fill, low, high, gain)
    assert -MOST_TRIM <= bent <= MOST_TRIM
    assert (bent > 0) <= (fill > (low + high) / 2)
    assert trim(fill + 0.1, low, high, gain) >= bent


@given(st.lists(steps), st.booleans(), st.lists(steps))
@example([("slow", 1000.0)], True, [("slow", 500.0), ("slow", 500.0)])
def test_a_throttle_that_was_released_is_as_a_new_one(
    before: list[tuple[str, float | None]], by_relief: bool, after: list[tuple[str, float | None]]
) -> None:
    used, new = Throttle(), Throttle()
    play(used, before)
    if by_relief:
        used.relieve(bound=False)
    else:
        used.release()
    assert play(used, after) == play(new, after)


def play(throttle: Throttle, calls: list[tuple[str, float | None]]) -> list[int]:
    """The wait after each call."""
    waits = []
    for what, value in calls:
        if what == "slow":
            throttle.slow(int(value or 0))
        elif what == "follow":
            throttle.follow(int(value or 0))
        else:
            throttle.relieve(value, bound=what == "relieve")
        waits.append(throttle.wait)
    return waits


def test_the_longest_wait_counts_those_that_were_followed_or_adopted() -> None:
    followed, adopted = Throttle(), Throttle()
    assert play(followed, [("slow", 1000), ("follow", 3000), ("relieve", None), ("slow", 500)]) == [
        1000,
        2000,
        1000,
        1500,
    ]
    adopted.adopt(2000)
    assert play(adopted, [("relieve", None), ("slow", 500), ("follow", 0), ("follow", 0)]) == [1000, 1500, 750, 375]


@pytest.mark.parametrize(("wait", "adopted"), [(-5, 0), (0, 0), (7, 7), (2 * MAX_WAIT, MAX_WAIT)])
def test_an_adopted_wait_has_the_bounds_of_any(wait: int, adopted: int) -> None:
    throttle = Throttle()
    throttle.adopt(wait)
    assert throttle.wait == adopted


def test_a_wait_that_follows_ends_at_one_and_a_small_one_slows_in_ones() -> None:
    throttle = Throttle()
    assert play(throttle, [("slow", 2), ("follow", 0), ("follow", 0), ("slow", 1), ("slow", 1)]) == [2, 1, 1, 2, 3]
    throttle.slow(32_000)
    throttle.slow(32_000)
    assert throttle.wait == 34_000, "a sixteenth more"
    throttle.slow(MAX_WAIT)
    throttle.slow(MAX_WAIT)
    assert throttle.wait == MAX_WAIT


def test_a_known_share_never_makes_the_wait_longer() -> None:
    throttle = Throttle()
    assert play(throttle, [("slow", 1000), ("relieve", 0.5), ("relieve", 0.3), ("relieve", 7.0)]) == [
        1000,
        500,
        150,
        142,
    ]
    assert play(throttle, [("relieve", -1.0)]) == [0]


@pytest.mark.parametrize(
    ("fill", "gain", "share"),
    [(0.4, 0.1, 0.0), (0.9, 0.1, 0.05), (0.2, 0.1, -0.02), (1.0, 1.0, 0.06), (0.0, 1.0, -0.06)],
)
def test_a_trim_is_by_the_distance_to_the_middle_of_the_marks(fill: float, gain: float, share: float) -> None:
    assert trim(fill, 0.2, 0.6, gain) == pytest.approx(share)


@pytest.mark.parametrize(("drain_s", "interval_s", "gain"), [(0.2, 1.0, 0.05), (0.2, 0.5, 0.1), (8.0, 1.0, 0.16)])
def test_the_gain_is_small_for_a_mailbox_that_is_soon_empty(drain_s: float, interval_s: float, gain: float) -> None:
    assert gain_of(drain_s, interval_s) == pytest.approx(gain)
