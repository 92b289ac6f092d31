"""LineRate: the size of frames follows what the line carries, and no line is taken for a slow one."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiostorm.transport.link.line_rate import FIRST_BYTES, LEAST_BYTES, MOST_BYTES, SLOW_BYTES_S, LineRate
from aiostorm.transport.link.send_buffer import SendBuffer

rates = st.floats(100, 1e9)


def carry(line: LineRate, rate_bytes_s: float, frames: int, round_trip_s: float = 0.0) -> None:
    """It has always a frame to carry, or two."""
    for _ in range(frames):
        size = line.frame_bytes
        line.acked(size, size / rate_bytes_s + round_trip_s)


@given(rate=rates)
def test_a_frame_takes_about_a_second(rate: float) -> None:
    line = LineRate()
    carry(line, rate, 20)
    assert line.frame_bytes == pytest.approx(min(max(rate, LEAST_BYTES), MOST_BYTES), rel=0.01)
    assert line.is_slow == (line.bytes_s < SLOW_BYTES_S)


@given(before=rates, after=rates)
def test_the_frame_size_follows_a_line_that_changes(before: float, after: float) -> None:
    line = LineRate()
    carry(line, before, 20)
    carry(line, after, 20)
    assert line.frame_bytes == pytest.approx(min(max(after, LEAST_BYTES), MOST_BYTES), rel=0.01)


@given(
    acks=st.lists(st.tuples(st.integers(0, 10**6), st.floats(0, 100)), max_size=100),
    restarts=st.booleans(),
)
def test_the_size_stays_in_its_bounds_for_any_measurement(acks: list[tuple[int, float]], restarts: bool) -> None:
    line = LineRate()
    for size, busy_s in acks:
        before = line.frame_bytes
        line.acked(size, busy_s)
        assert LEAST_BYTES <= line.frame_bytes <= MOST_BYTES
        assert before // 2 <= line.frame_bytes <= 2 * before
        if restarts:
            line.restarted()
            assert line.frame_bytes <= FIRST_BYTES
        limit = line.in_flight_bytes
        assert (limit is None) == (line.frame_bytes == MOST_BYTES)


def test_a_fast_line_far_away_is_fast_after_a_few_round_trips() -> None:
    line = LineRate()
    carry(line, 10e6, 4, round_trip_s=0.25)
    assert line.frame_bytes == MOST_BYTES
    assert not line.is_slow


def test_a_line_with_little_to_do_is_not_measured() -> None:
    """Each answer arrives before the next question: the line was not busy in between."""
    send = SendBuffer(256, 2**21)
    for number in range(1000):
        send.add(bytes(100))
        send.ask_due = True
        assert send.next()[2]
        send.acked(number + 1, 0.2 * number)
    assert send.line.frame_bytes == FIRST_BYTES
    assert not send.line.is_slow


def test_a_line_is_measured_between_two_answers() -> None:
    send = SendBuffer(256, 2**21)
    now_s = 0.0
    for number in range(12):
        send.add(bytes(send.line.frame_bytes))
        assert send.next()[2]
        if number:
            now_s += len(send.frames[0]) / 30_000
            send.acked(number, now_s)
    assert send.line.frame_bytes == pytest.approx(30_000, rel=0.05)


def test_a_stall_halves_the_size_and_is_soon_forgotten() -> None:
    line = LineRate()
    carry(line, 10e6, 4)
    line.acked(1000, 30.0)
    assert line.frame_bytes == MOST_BYTES / 2
    carry(line, 10e6, 1)
    assert line.frame_bytes == MOST_BYTES
    assert not line.is_slow


def test_frames_have_2_to_128_kib_and_begin_with_16() -> None:
    sizes = []
    for rate_bytes_s in (1, 50_000, 1e9):
        line = LineRate()
        assert (line.frame_bytes, line.in_flight_bytes, line.bytes_s) == (16_384, 32_768, 0)
        carry(line, rate_bytes_s, 20)
        sizes.append((line.frame_bytes, line.in_flight_bytes))
    assert sizes == [(2_048, 4_096), (50_000, 100_000), (131_072, None)]


def test_a_sample_is_half_a_frame_or_a_second() -> None:
    line = LineRate()
    line.acked(8_191, 0.5)
    assert (line.frame_bytes, line.bytes_s) == (16_384, 0)
    line.acked(1, 0.0)
    assert (line.frame_bytes, line.bytes_s) == (16_384, 16_384)
    line.acked(10, 0.6)
    line.acked(5_990, 0.39)
    assert line.bytes_s == 16_384
    line.acked(4_000, 0.01)
    assert (line.frame_bytes, line.bytes_s) == (10_000, 10_000)


def test_a_line_is_slow_when_it_was_below_64_kib_a_second_for_3_seconds() -> None:
    slow, fast = LineRate(), LineRate()
    found = []
    for _ in range(3):
        slow.acked(65_535, 1.0)
        fast.acked(65_536, 1.0)
        found.append((slow.is_slow, fast.is_slow))
    assert found == [(False, False), (False, False), (True, False)]
    slow.acked(65_536, 1.0)
    assert not slow.is_slow
