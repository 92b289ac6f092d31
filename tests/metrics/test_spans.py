"""What processes keep of sampled trees, and the clocks of other processes."""

from __future__ import annotations

from collections import deque

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiostorm.metrics import ClockEstimate, SpanRing, mask_of


@pytest.mark.parametrize(("one_in", "bits"), [(1, 0), (2, 1), (1024, 10), (16_384, 14), (20_000, 14), (0, 22)])
def test_about_one_root_in_so_many_has_the_bits(one_in: int, bits: int) -> None:
    mask = mask_of(one_in)
    assert mask == ((1 << bits) - 1) << 40
    assert mask < 1 << 63  # the top bit says whether a tree has a single message
    assert mask & ((1 << 40) - 1) == 0  # the low bits choose the acker


@given(st.integers(1, 20), st.lists(st.sampled_from(["add", "read"]), max_size=200), st.integers(1, 7))
def test_a_reader_gets_each_row_once_in_order_unless_the_ring_has_replaced_it(
    size: int, steps: list[str], most: int
) -> None:
    ring, kept, asked = SpanRing(size), deque[int](maxlen=size), 0
    last_read = -1
    for number, step in enumerate(steps):
        if step == "add":
            ring.add((number,))
            kept.append(number)
            continue
        rows, asked = ring.after(asked, most)
        got = [int(row[0]) for row in rows]
        assert got == [n for n in kept if n > last_read][:most]
        last_read = got[-1] if got else last_read
    assert [row[0] for row in ring.rows()] == list(kept)


@given(
    st.floats(-1e6, 1e6),
    st.lists(st.tuples(st.floats(0, 1e5), st.floats(0, 1), st.floats(0, 1)), min_size=1, max_size=30),
)
def test_the_estimate_of_a_clock_is_as_wrong_as_it_says_at_most(
    offset_s: float, answers: list[tuple[float, float, float]]
) -> None:
    clock = ClockEstimate()
    for asked_s, out_s, back_s in answers:
        clock.sample(asked_s, asked_s + out_s + back_s, asked_s + out_s + offset_s)
        assert abs(clock.offset_s - offset_s) <= clock.error_s + 1e-6
    assert clock.error_s == pytest.approx(min(out_s + back_s for _, out_s, back_s in answers) / 2, abs=1e-6)


def test_a_ring_keeps_the_last_thousand_rows_and_gives_five_hundred_at_a_time() -> None:
    ring = SpanRing()
    for number in range(1001):
        ring.add((number,))
    assert [row[0] for row in ring.rows()] == list(range(1, 1001))
    assert ring.after(0) == (tuple((number,) for number in range(1, 501)), 501)
    assert ring.after(501) == (tuple((number,) for number in range(501, 1001)), 1001)
    assert ring.after(1000) == (((1000,),), 1001)
    assert ring.after(1001) == ((), 1001)
    assert ring.after(5000) == ((), 1001), "a reader that knew an earlier process"


def test_the_quickest_answer_counts_until_240_others_have_come() -> None:
    clock = ClockEstimate()
    assert (clock.offset_s, clock.error_s) == (0.0, 0.0)
    clock.sample(10.0, 9.0, 12.0)
    assert (clock.offset_s, clock.error_s) == (2.0, 0.0), "an answer before its question is not less than sure"
    for _ in range(239):
        clock.sample(20.0, 21.0, 25.5)
    assert (clock.offset_s, clock.error_s) == (2.0, 0.0)
    clock.sample(20.0, 21.0, 25.5)
    assert (clock.offset_s, clock.error_s) == (5.0, 0.5)
