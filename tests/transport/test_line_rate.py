"""LineRate: the size of frames follows what the line carries, and no line is taken for a slow one."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiostorm.transport.link.line_rate import FIRST_BYTES, LEAST_BYTES, MOST_BYTES, SLOW_BYTES_S, LineRate

rates = st.floats(100, 1e9)


def carry(line: LineRate, rate_bytes_s: float, frames: int, round_trip_s: float = 0.0) -> None:
    """It has always a frame to carry, or two."""
    for _ in range(frames):
        size = line.frame_bytes
        line.acked(size, size / rate_bytes_s + round_trip_s, 2 * size)


@given(rate=rates)
def test_a_frame_takes_about_a_second(rate: float) -> None:
    line = LineRate()
    carry(line, rate, 20)
    assert line.frame_bytes == pytest.approx(min(max(rate, LEAST_BYTES), MOST_BYTES), rel=0.01)
    assert line.is_slow == (line.bytes_s < SLOW_BYTES_S)


@given(before=rates, after=rates)
def test_it_follows_a_line_that_changes(before: float, after: float) -> None:
    line = LineRate()
    carry(line, before, 20)
    carry(line, after, 20)
    assert line.frame_bytes == pytest.approx(min(max(after, LEAST_BYTES), MOST_BYTES), rel=0.01)


@given(
    acks=st.lists(st.tuples(st.integers(0, 10**6), st.floats(0, 100), st.integers(0, 10**7)), max_size=100),
    restarts=st.booleans(),
)
def test_the_size_has_its_bounds_whatever_is_measured(acks: list[tuple[int, float, int]], restarts: bool) -> None:
    line = LineRate()
    for size, busy_s, under_way in acks:
        before = line.frame_bytes
        line.acked(size, busy_s, under_way)
        assert LEAST_BYTES <= line.frame_bytes <= MOST_BYTES
        assert before // 2 <= line.frame_bytes <= 2 * before
        if restarts:
            line.restarted()
            assert line.frame_bytes <= FIRST_BYTES
        limit = line.under_way_bytes
        assert (limit is None) == (line.frame_bytes == MOST_BYTES)


def test_a_fast_line_far_away_is_fast_after_a_few_round_trips() -> None:
    line = LineRate()
    carry(line, 10e6, 4, round_trip_s=0.25)
    assert line.frame_bytes == MOST_BYTES
    assert not line.is_slow


def test_little_to_do_says_nothing_of_the_line() -> None:
    line = LineRate()
    for _ in range(1000):
        line.acked(100, 0.2, 200)
    assert line.frame_bytes == FIRST_BYTES
    assert not line.is_slow


def test_a_stall_halves_the_size_and_is_soon_forgotten() -> None:
    line = LineRate()
    carry(line, 10e6, 4)
    line.acked(1000, 30.0, MOST_BYTES)
    assert line.frame_bytes == MOST_BYTES / 2
    carry(line, 10e6, 1)
    assert line.frame_bytes == MOST_BYTES
    assert not line.is_slow
