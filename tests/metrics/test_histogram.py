"""Histogram: quantiles within the stated error, weights, and merging in any order."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiostorm.metrics import RELATIVE_ERROR, Histogram, Timings
from aiostorm.metrics.histogram import (
    BOUNDS,
    EMPTY,
    LEAST,
    LEAST_INDEX,
    MOST_INDEX,
    ZERO_INDEX,
    index_of,
    lower,
    merged,
)

values = st.floats(min_value=0, max_value=2.0**42)
timed = st.floats(min_value=0, max_value=896)
entries = st.lists(st.tuples(timed, st.integers(1, 300)), max_size=40)


def of(pairs: Any) -> Histogram:
    timings, total = Timings(), 0.0
    for value, weight in pairs:
        timings += (value, weight)
        if len(timings) > 6:
            timings.counts()
        total += value * weight
    return Histogram.of(timings.counts(), total)


@given(values)
def test_a_value_is_in_its_bucket(value: float) -> None:
    index = index_of(value)
    assert lower(index) <= value < lower(index + 1)
    assert ZERO_INDEX <= index <= MOST_INDEX


@given(timed)
def test_both_ways_to_add_a_value_find_the_same_bucket(value: float) -> None:
    assert of([(value, 1)]).buckets == ((index_of(value), 1),)


@given(st.lists(st.tuples(timed, st.integers(1, 300)), min_size=65, max_size=200))
def test_of_many_times_each_fourth_stands_for_four(pairs: list[tuple[float, int]]) -> None:
    timings, total = Timings(), 0
    for pair in pairs:
        timings += pair
        total += pair[1]
    fours = [pairs[at : at + 4] for at in range(0, len(pairs) // 4 * 4, 4)]
    expected = of([(four[-1][0], sum(weight for _, weight in four)) for four in fours] + pairs[len(fours) * 4 :])
    assert Histogram.of(timings.counts(), 0.0).buckets == expected.buckets
    assert sum(timings.counts()) == total
    assert not timings


def test_the_ends() -> None:
    assert index_of(0.0) == ZERO_INDEX == LEAST_INDEX - 1
    assert index_of(math.nextafter(LEAST, 0)) == ZERO_INDEX
    assert index_of(LEAST) == LEAST_INDEX
    assert index_of(1e300) == MOST_INDEX
    assert of([(10_000.0, 2), (-1.0, 3)]).buckets == ((ZERO_INDEX, 3), (index_of(896.0), 2))
    assert [lower(index_of(2.0**k)) for k in range(-22, 43)] == [2.0**k for k in range(-22, 43)]
    assert len(BOUNDS) == 128


@given(st.lists(st.tuples(timed, st.integers(1, 300)), min_size=1, max_size=40), st.floats(0, 1))
def test_a_quantile_is_within_the_error(pairs: list[tuple[float, int]], q: float) -> None:
    found = of(pairs).quantile(q)
    count = sum(weight for _, weight in pairs)
    rank, seen, exact = max(1, math.ceil(q * count)), 0, 0.0
    for value, weight in sorted(pairs):
        seen += weight
        if seen >= rank:
            exact = value
            break
    assert abs(found - exact) <= max(RELATIVE_ERROR * exact * (1 + 1e-12), LEAST)


def test_the_error_is_reached() -> None:
    assert of([(1.0, 1)]).quantile(0.5) == pytest.approx(1 + RELATIVE_ERROR)


@given(entries, entries, entries)
def test_merging_is_associative_and_commutative(one: Any, two: Any, three: Any) -> None:
    a, b, c = of(one), of(two), of(three)
    assert ((a + b) + c).buckets == (a + (b + c)).buckets == of([*three, *one, *two]).buckets
    assert ((a + b) + c).total == pytest.approx((c + (b + a)).total)
    assert (a + b).buckets == (b + a).buckets
    assert a + EMPTY == EMPTY + a == a
    assert merged([a, b, c]) == a + b + c


def test_a_sum_without_values_is_not_lost() -> None:
    """A time may be measured in which nothing came."""
    some, none = of([(1.0, 2)]), Histogram(total=0.5)
    assert some + none == none + some == Histogram(some.buckets, 2.5)


@given(entries)
def test_a_weight_is_so_many_values(pairs: list[tuple[float, int]]) -> None:
    found = of(pairs)
    assert found.buckets == of([(value, 1) for value, weight in pairs for _ in range(weight)]).buckets
    assert found.count == sum(weight for _, weight in pairs)
    assert found.mean == pytest.approx(found.total / found.count if pairs else 0.0)


@given(entries, st.lists(st.integers(-10, 5), max_size=6))
def test_how_many_are_below(pairs: list[tuple[float, int]], octaves: list[int]) -> None:
    bounds = sorted(2.0**octave for octave in octaves)
    expected = [sum(weight for value, weight in pairs if value < bound) for bound in bounds]
    assert of(pairs).below(bounds) == expected


def test_nothing() -> None:
    assert (EMPTY.count, EMPTY.mean, EMPTY.quantile(0.5), EMPTY.below([1.0, 2.0])) == (0, 0.0, 0.0, [0, 0])


@pytest.mark.parametrize("q", [-0.1, 1.1, math.nan])
def test_no_quantile(q: float) -> None:
    with pytest.raises(ValueError, match="between 0 and 1"):
        EMPTY.quantile(q)


@given(entries, entries)
def test_what_has_come_since_a_copy(before: Any, after: Any) -> None:
    earlier, later = of(before), of([*before, *after])
    assert later.since(earlier).buckets == of(after).buckets
    assert later.since(earlier).total == pytest.approx(of(after).total, rel=1e-6, abs=1e-6)
    assert later.since(EMPTY) == later
    assert earlier.since(later).buckets == ()
