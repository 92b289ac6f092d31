"""The shrinking of fault scripts: what it finds fails, and nothing of it can be left out."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from aiostorm.testing.simulation.shrink import Shrunk, shrink


def test_nothing_is_needed() -> None:
    assert shrink(range(10), lambda _: True) == Shrunk((), 1, minimal=True)


def test_nothing_to_leave_out() -> None:
    assert shrink([], lambda _: False) == Shrunk((), 1, minimal=True)
    assert shrink([3], lambda part: bool(part)).indices == (3,)
    assert shrink([1, 2], lambda part: len(part) == 2).indices == (1, 2)


def test_the_order_is_kept() -> None:
    assert shrink([5, 3, 9, 1], lambda part: {9, 5} <= set(part)).indices == (5, 9)


@given(st.integers(0, 24).flatmap(lambda n: st.tuples(st.just(n), st.sets(st.integers(0, n)))))
def test_a_set_of_culprits_is_found(drawn: tuple[int, set[int]]) -> None:
    last, culprits = drawn
    tried: list[tuple[int, ...]] = []

    def fails(part: tuple[int, ...]) -> bool:
        tried.append(part)
        return culprits <= set(part)

    shrunk = shrink(range(last + 1), fails)
    assert set(shrunk.indices) == culprits
    assert shrunk.minimal
    assert shrunk.tries == len(tried) == len(set(tried)), "nothing is tried twice"


@given(st.integers(1, 9), st.sets(st.frozensets(st.integers(0, 8)), min_size=1, max_size=20))
def test_a_shrunk_script_fails_and_each_of_its_faults_is_needed(count: int, failing: set[frozenset[int]]) -> None:
    """Also where less may pass and still less fail: no law holds for fault scripts."""
    everything = tuple(range(count))
    fails = {frozenset(everything), *failing}
    shrunk = shrink(everything, lambda part: frozenset(part) in fails)
    assert frozenset(shrunk.indices) in fails
    assert shrunk.minimal
    for left_out in shrunk.indices:
        assert frozenset(shrunk.indices) - {left_out} not in fails


@given(st.integers(0, 30))
def test_the_number_of_tries_is_bounded(bound: int) -> None:
    shrunk = shrink(range(100), lambda part: {1, 50, 98} <= set(part), max_tries=bound)
    assert shrunk.tries <= bound
    assert {1, 50, 98} <= set(shrunk.indices)
    assert not shrunk.minimal


def test_a_few_of_many_take_few_tries() -> None:
    shrunk = shrink(range(64), lambda part: {13, 40} <= set(part))
    assert shrunk.indices == (13, 40)
    assert shrunk.tries < 60
