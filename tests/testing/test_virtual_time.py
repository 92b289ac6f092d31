"""The bounds of virtual time: reported once each, then they start anew."""

from __future__ import annotations

import math

import pytest

from aiostorm.testing.virtual_time import START_S, WALL_START_S, VirtualTime


def test_where_every_loop_starts() -> None:
    assert (START_S, WALL_START_S) == (1_000.0, 1_700_000_000.0)


def test_steps_without_time_have_a_bound() -> None:
    time = VirtualTime(0.0, None, 100, 3)
    for _ in range(2):
        assert [time.step() for _ in range(3)] == [None] * 3
        problem = time.step()
        assert problem is not None
        assert problem.startswith("the loop has made 3 iterations without time moving")
    assert [time.step(), time.step()] == [None] * 2
    assert time.move(1.0) is None
    assert [time.step() for _ in range(3)] == [None] * 3
    assert time.step() is not None


def test_moves_have_a_bound() -> None:
    time = VirtualTime(0.0, None, 3, 100)
    for round_ in range(2):
        assert [time.move(0.5) for _ in range(3)] == [None] * 3
        problem = time.move(0.5)
        assert problem is not None
        assert problem.startswith(f"virtual time has moved 3 times, to {2.0 * (round_ + 1):.3f} s: ")
    assert time.now_s == 4.0


def test_a_time_has_a_bound() -> None:
    time = VirtualTime(1_000.0, 10.0, 100, 100)
    assert time.move(10.0) is None
    problem = time.move(0.5)
    assert problem == "the test may take 10 virtual seconds and they are over (limit_s)"
    assert time.move(10.0) is None
    assert time.move(0.5) is not None
    assert VirtualTime(0.0, None, 100, 100).move(1e12) is None


@pytest.mark.parametrize("start_s", [0.0, 1_000.0, 2.0**24, 2.0**60])
def test_time_moves_on_by_more_than_the_resolution_of_the_loop(start_s: float) -> None:
    time = VirtualTime(start_s, None, 100, 100)
    time.move(0.0)
    coarse = start_s + 1e-9 == start_s
    assert time.now_s == (math.nextafter(start_s, math.inf) if coarse else start_s)
