"""How often an address may fail."""

from __future__ import annotations

from collections import deque

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiostorm.cluster.access import MOST, PERIOD_S, Failures
from aiostorm.cluster.access.failures import MAX_ADDRESSES, counted_as


def test_ten_a_minute_and_no_more() -> None:
    failures = Failures()
    for second in range(MOST):
        assert not failures.refuses("10.0.0.1", second)
        failures.failed("10.0.0.1", second)
    assert failures.refuses("10.0.0.1", PERIOD_S - 0.1)
    assert not failures.refuses("10.0.0.2", 10)
    assert not failures.refuses("10.0.0.1", PERIOD_S)  # the first of them is a minute old


def test_a_million_addresses_are_a_bounded_amount() -> None:
    failures = Failures()
    for number in range(10 * MAX_ADDRESSES):
        failures.failed(f"10.{number >> 16}.{number >> 8 & 255}.{number & 255}", 0.0)
    assert len(failures) == MAX_ADDRESSES


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("2001:db8::1", "2001:db8::ffff", True),
        ("2001:db8::1", "2001:db8:0:1::1", False),
        ("::ffff:10.0.0.1", "10.0.0.1", True),
        ("10.0.0.1", "10.0.0.2", False),
        ("unix", "unix", True),
    ],
)
def test_what_counts_as_one_address(one: str, other: str, same: bool) -> None:
    assert (counted_as(one) == counted_as(other)) == same


@given(st.lists(st.tuples(st.sampled_from("ab"), st.floats(0, 30)), max_size=60))
def test_never_more_than_ten_are_looked_at_within_a_minute(steps: list[tuple[str, float]]) -> None:
    failures, now_s = Failures(), 0.0
    looked_at: dict[str, deque[float]] = {"a": deque(), "b": deque()}
    for address, pause_s in steps:
        now_s += pause_s
        if failures.refuses(address, now_s):
            continue
        failures.failed(address, now_s)
        times = looked_at[address]
        times.append(now_s)
        while now_s - times[0] >= PERIOD_S:
            times.popleft()
        assert len(times) <= MOST
