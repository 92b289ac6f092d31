"""Windows compared, and their keys in order."""

from __future__ import annotations

import random
from typing import Any

import pytest

from aiostorm.windows import EarlyWindow, Window
from aiostorm.windows.window import in_steps

IN_ORDER = [Window(-5, 9), Window(0, 9), Window(8, 9), Window(-7, 10), Window(0, 10), Window(3, 12)]


def test_windows_are_in_the_order_of_their_ends_then_of_their_starts() -> None:
    for i, first in enumerate(IN_ORDER):
        for j, second in enumerate(IN_ORDER):
            compared = (first < second, first <= second, first > second, first >= second, first == second)
            assert compared == (i < j, i <= j, i > j, i >= j, i == j)


@pytest.mark.parametrize(
    ("other", "common"),
    [((0, 5), False), ((0, 10), False), ((0, 11), True), ((12, 15), True), ((19, 30), True), ((20, 30), False)],
)
def test_windows_overlap_if_they_have_a_common_time(other: tuple[int, int], common: bool) -> None:
    assert Window(10, 20).overlaps(Window(*other)) is common
    assert Window(*other).overlaps(Window(10, 20)) is common


def test_a_window_contains_its_start_and_not_its_end() -> None:
    assert [at in Window(10, 20) for at in (9, 10, 19, 20, 15.5, "15")] == [False, True, True, False, False, False]
    assert Window(10, 20).size == 10
    assert str(Window(-3, 20)) == "[-3, 20)"
    assert Window(5, 10).cover(Window(0, 7)) == Window(0, 10)
    assert Window(0, 7).cover(Window(5, 10)) == Window(0, 10)


def test_an_early_window_equals_the_final_one() -> None:
    early = EarlyWindow(10, 20)
    assert (early.final, Window(10, 20).final) == (False, True)
    assert early == Window(10, 20)
    assert early == EarlyWindow(10, 20)
    assert hash(early) == hash(Window(10, 20))
    assert [early == other for other in (Window(10, 21), Window(9, 20), EarlyWindow(9, 20), (10, 20), None)] == [
        False
    ] * 5


@pytest.mark.parametrize(
    "key", [str, float, lambda at: (at % 7, str(at)), lambda at: (at, (str(at), 0.5)), lambda at: str(at).encode()]
)
@pytest.mark.parametrize(("count", "steps"), [(4_000, 0), (4_001, 2), (8_000, 2), (8_001, 3)])
def test_more_than_4000_keys_are_sorted_in_steps(key: Any, count: int, steps: int) -> None:
    keys = [key(at) for at in range(count)]
    ordered = sorted(keys)
    random.Random(count).shuffle(keys)
    made = list(in_steps(keys, 1_500))
    assert made[:steps] == [[]] * steps, "before the first results the parts are sorted, one in a step"
    assert [len(some) for some in made[steps:-1]] == [1_500] * (len(made) - steps - 1)
    assert [one for some in made for one in some] == ordered


@pytest.mark.parametrize(
    ("odd", "steps"), [(None, 1), ((1, 2), 1), ((1, "a", 3), 1), (("b", "a"), 1), ("text", 1), ((1, None), 1)]
)
def test_keys_of_several_kinds_are_sorted_at_once(odd: Any, steps: int) -> None:
    keys: list[Any] = [(at, str(at)) for at in range(5_000)]
    made = list(in_steps([*keys, odd], 10_000))
    assert [len(some) for some in made] == [0] * steps + [5_001]
    assert set(made[-1]) == {*keys, odd}
