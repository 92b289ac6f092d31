"""The past is kept, to a fixed size."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiostorm.ui.history import COARSE, COARSE_S, FINE, History


@given(st.lists(st.floats(0, 1e9), max_size=60))
def test_seconds_only_grow_whatever_the_clock_does(times):
    history = History(1)
    for at_s in times:
        history.add(history.next_second(at_s), at_s, [at_s])
    seconds = [second for second, _, _ in history.since(0)]
    assert seconds == sorted(set(seconds))
    assert [row[0] for _, _, row in history.since(0)] == times


@given(st.integers(0, 30), st.integers(0, 40))
def test_replays_what_is_after_a_second(count, after):
    history = History(1)
    for second in range(1, count + 1):
        history.add(second, float(second), [second])
    assert [second for second, _, _ in history.since(after)] == list(range(after + 1, count + 1))


def test_is_bounded():
    history = History(2)
    for second in range(1, FINE + 31):
        history.add(second, float(second), [second, 0.5])
    fine = [second for second, _, _ in history.since(0)]
    assert fine == list(range(31, FINE + 31))
    coarse = [second for second, _, _ in history.since(0, coarse=True)]
    assert coarse == [1, *range(COARSE_S, FINE + 31, COARSE_S)]
    assert (FINE, COARSE * COARSE_S) == (15 * 60, 6 * 3600)


def test_refuses_what_does_not_fit():
    history = History(2)
    with pytest.raises(ValueError, match="2 numbers"):
        history.add(1, 1.0, [1.0])
    history.add(5, 1.0, [1.0, 2.0])
    with pytest.raises(ValueError, match="not after 5"):
        history.add(5, 1.0, [1.0, 2.0])
