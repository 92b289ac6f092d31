"""Pacer: an even rate, whatever the turns are."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiostorm.backpressure.pacer import TURN_S, Pacer


def emitted(pacer: Pacer, lasting_s: float, late_s: float = 0.0, a_call: int = 1) -> list[tuple[float, int]]:
    """(when, how many) of a spout that always has tuples, and whose timers are late."""
    now_s, went = 100.0, []
    end_s = now_s + lasting_s
    while now_s < end_s:
        delay_s = pacer.delay_s(now_s)
        if delay_s:
            now_s += delay_s + late_s
            continue
        count = max(a_call, min(256, pacer.turn()) // a_call * a_call)
        went.append((now_s, count))
        pacer.sent(count, now_s)
        now_s += 1e-7 * count
    return went


@given(st.floats(1e-5, 0.5), st.floats(0, 0.001))
def test_the_rate_is_what_was_asked_for_though_timers_are_late(wait_s: float, late_s: float) -> None:
    pacer = Pacer()
    pacer.pace(wait_s, 100.0)
    lasting_s = max(5.0, 200 * wait_s)
    total = sum(count for _, count in emitted(pacer, lasting_s, late_s))
    assert total == pytest.approx(lasting_s / wait_s, rel=0.02, abs=2)


@given(st.floats(1e-5, 0.5))
def test_emits_are_even_within_a_tenth_of_a_second(wait_s: float) -> None:
    pacer = Pacer()
    pacer.pace(wait_s, 100.0)
    went = emitted(pacer, max(1.0, 20 * wait_s))
    gaps = [later - sooner for (sooner, _), (later, _) in pairwise(went)]
    assert max(gaps) <= max(wait_s, TURN_S) * 1.01 + 1e-4


def test_a_call_that_emits_many_is_waited_for_as_a_whole() -> None:
    pacer = Pacer()
    pacer.pace(0.01, 100.0)
    assert sum(count for _, count in emitted(pacer, 10, a_call=50)) == pytest.approx(1_000, abs=50)


def test_delays_are_made_up_for_only_in_part() -> None:
    pacer = Pacer()
    pacer.slack_s = 0.1
    pacer.pace(0.01, 0.0)
    pacer.sent(1, 60.0)  # nothing could go for a minute
    at_once = 1
    while not pacer.delay_s(60.0):
        pacer.sent(1, 60.0)
        at_once += 1
    assert at_once == 11  # its own, and those of 0.1 s


def test_a_shorter_wait_applies_at_once() -> None:
    pacer = Pacer()
    pacer.pace(10.0, 0.0)
    pacer.sent(1, 0.0)
    pacer.pace(0.1, 1.0)
    assert pacer.delay_s(1.0) == pytest.approx(0.09)
    pacer.pace(0.0, 1.0)
    assert pacer.delay_s(1.0) == 0
    assert pacer.turn() > 1_000_000


@pytest.mark.parametrize(
    ("begun_at_s", "ordered_s", "waits_s"), [(0.0, 4.0, 0.0), (0.01, 4.0, 0.14), (4.0, 0.01, 0.14)]
)
def test_tuples_emitted_before_a_slower_order_count_at_the_earlier_pace(
    begun_at_s: float, ordered_s: float, waits_s: float
) -> None:
    pacer = Pacer()
    pacer.pace(begun_at_s, 100.0)
    pacer.pace(ordered_s, 100.0)
    pacer.sent(14, 100.0, begun_at_s)
    assert pacer.delay_s(100.0) == pytest.approx(waits_s)


def test_a_longer_wait_applies_to_the_tuples_after_the_next() -> None:
    pacer = Pacer()
    pacer.pace(1.0, 0.0)
    pacer.sent(1, 0.0)
    pacer.pace(10.0, 0.25)
    assert pacer.delay_s(0.25) == 0.75
    pacer.sent(1, 1.0)
    assert pacer.delay_s(1.0) == 10.0


def test_a_wait_that_begins_does_not_count_what_was_before() -> None:
    pacer = Pacer()
    pacer.sent(1000, 5.0)
    assert pacer.delay_s(5.0) == 0.0
    pacer.pace(1.0, 60.0)
    pacer.sent(1, 60.0)
    assert pacer.delay_s(60.0) == 1.0
    pacer.pace(0.5, 61.5)  # a tuple may go already: a shorter wait gives it no other time
    pacer.sent(1, 61.5)
    assert pacer.delay_s(61.5) == pytest.approx(0.45)


@pytest.mark.parametrize(
    ("wait_s", "count"), [(3.9e-5, 256), (0.0009, 11), (0.001, 10), (0.009, 1), (0.5, 1), (0.0, 1 << 30)]
)
def test_a_turn_is_a_hundredth_of_a_second(wait_s: float, count: int) -> None:
    pacer = Pacer()
    pacer.pace(wait_s, 0.0)
    assert pacer.turn() == count


def test_a_spout_may_make_up_for_a_twentieth_of_a_second_if_it_was_not_given_more() -> None:
    pacer = Pacer()
    pacer.pace(0.01, 0.0)
    pacer.sent(1, 60.0)
    assert pacer.delay_s(60.0) == 0.0
    pacer.sent(6, 60.0)
    assert pacer.delay_s(60.0) == pytest.approx(0.02)
