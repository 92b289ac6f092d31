"""Throttle: the waits that JStorm's tests have, and what must be true of any wait."""

from __future__ import annotations

import pytest
from hypothesis import given
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
