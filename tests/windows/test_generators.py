"""Generators of watermarks: how far rows advance them, when they tick, and those of users that raise."""

from __future__ import annotations

from typing import Any

import pytest

from aiostorm.windows import Generator, Periodic, WindowError
from aiostorm.windows.generators import MaxTimestamp
from aiostorm.windows.safe_generator import SafeGenerator


def observed(*timestamps: int, bound: int | None = 10) -> MaxTimestamp:
    """The greatest timestamp after these, one by one."""
    greatest = MaxTimestamp(bound)
    for timestamp in timestamps:
        greatest.observe([timestamp])
    return greatest


def test_the_order_of_rows_makes_a_difference_only_beyond_the_bound() -> None:
    assert [observed(100, 101).is_order_free(at) for at in (50, 101, 111, 112)] == [True, True, True, False]
    assert not observed().is_order_free(5)
    assert not observed(100).is_order_free(100)
    assert not observed(0, 1_000).is_order_free(1), "the first row is not confirmed"
    assert observed(bound=None).is_order_free(10**12)


def test_a_row_advances_time_by_the_bound_at_most() -> None:
    assert [observed(100, 101, at).ms for at in (90, 111, 112, 10**9)] == [101, 111, 111, 111]
    assert observed(100, 101, 10**9, 10**9).ms == 121
    assert observed(5, 10**9, bound=None).ms == 10**9


@pytest.mark.parametrize(
    ("rows", "ms"),
    [
        ([1_000] * 7, 70),  # not yet
        ([1_000] * 8, 1_000),  # eight rows agree
        ([1_000, 1_010, *[1_005] * 6], 1_005),
        ([1_000, 1_011, *[1_005] * 6], 80),  # the first is too far from the second
        ([1_000, 1_011, *[1_005] * 7], 1_005),
    ],
)
def test_a_first_row_that_is_wrong_is_given_up_when_eight_rows_agree(rows: list[int], ms: int) -> None:
    """The first row is 0, and the next ones are far beyond it."""
    assert observed(0, *rows).ms == ms


def test_a_periodic_watermark_comes_at_its_interval_if_there_is_a_new_one() -> None:
    generator = Periodic(5, 100)
    assert [generator.tick(at) for at in (0, 99, 100)] == [None, None, None]
    generator.observe([1_000], [])
    assert generator.next_tick_ms == 200
    assert [generator.tick(at) for at in (199, 200)] == [None, 995]
    assert [generator.tick(at) for at in (299, 300)] == [None, None]
    generator.observe([1_001], [])
    assert generator.tick(650) == 996
    generator.observe([1_002], [])
    assert generator.next_tick_ms == 700, "ticks that were missed are not made up for"


class Scripted(Generator):
    """Does what its fields say."""

    def __init__(self) -> None:
        self.answer: Any = None
        self.due: Any = None
        self.ticks: list[int] = []

    def _answer(self) -> Any:
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer

    def observe(self, timestamps: Any, rows: Any) -> Any:
        return self._answer()

    def tick(self, now_ms: int) -> Any:
        self.ticks.append(now_ms)
        return self._answer()

    @property
    def next_tick_ms(self) -> Any:
        if isinstance(self.due, Exception):
            raise self.due
        return self.due


def safe() -> tuple[SafeGenerator, Scripted, list[Exception]]:
    scripted, failed = Scripted(), list[Exception]()
    return SafeGenerator(scripted, failed.append), scripted, failed


def test_the_next_tick_is_asked_for_after_each_call() -> None:
    generator, scripted, failed = safe()
    assert generator.next_tick_ms is None
    scripted.due = 500
    assert generator.observe([1], []) is None
    assert generator.next_tick_ms == 500
    scripted.due, scripted.answer = 900, 7
    assert (generator.tick(500), generator.next_tick_ms) == (7, 900)
    assert (generator.observe([1], []), failed) == (7, [])


def test_after_an_error_of_its_tick_a_generator_is_not_called_for_a_second() -> None:
    generator, scripted, failed = safe()
    scripted.answer, scripted.due = ValueError("no"), 5_000
    assert (generator.tick(4_500), generator.next_tick_ms) == (None, 5_500)
    scripted.answer = 7
    assert [generator.tick(at) for at in (4_501, 5_499)] == [None, None]
    assert scripted.ticks == [4_500]
    scripted.due = 9_000
    assert (generator.tick(5_500), scripted.ticks) == (7, [4_500, 5_500])
    assert generator.next_tick_ms == 9_000, "the pause is over"
    assert [str(error) for error in failed] == ["no"]


@pytest.mark.parametrize(("due", "paused"), [(99, True), (100, True), (2_000, False), (None, False)])
def test_a_generator_whose_tick_stays_due_is_not_called_for_a_second(due: int | None, paused: bool) -> None:
    generator, scripted, _ = safe()
    scripted.due = due
    generator.tick(100)
    assert generator.next_tick_ms == (1_100 if paused else due)
    for at in (100, 1_099, 1_100):
        generator.tick(at)
    assert scripted.ticks == ([100, 1_100] if paused else [100, 100, 1_099, 1_100])


def test_what_a_generator_must_not_do_is_reported() -> None:
    generator, scripted, failed = safe()
    for answer in ("text", True, ValueError("no")):
        scripted.answer = answer
        assert generator.observe([1], []) is None
    scripted.answer, scripted.due = None, "soon"
    generator.observe([1], [])
    assert generator.next_tick_ms is None
    scripted.due = KeyError("due")
    generator.observe([1], [])
    assert [type(error).__name__ for error in failed] == [
        *("TimestampError", "TimestampError", "ValueError"),
        *("WindowError", "KeyError"),
    ]
    assert isinstance(failed[3], WindowError)
