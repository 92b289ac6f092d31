"""The machines at their limits: states that are left, slices of which a window has fired, keys that are no number."""

from __future__ import annotations

import math
from typing import Any

import pytest

from aiostorm.windows import (
    BufferedCounts,
    Count,
    Counts,
    PlainWindows,
    Session,
    SharedWindows,
    Sliding,
    Sum,
    Tumbling,
    WindowKeyError,
    WindowLimitError,
    buffered_windows,
    count_windows,
    time_windows,
)

from .test_machines import FAR, Own


def test_the_open_windows_of_a_key_are_those_that_contain_a_time() -> None:
    windows = PlainWindows(Sliding(10, 5), Count())
    windows.add(["a"], [7], [1])

    def starts(key: str, at_ms: int | None = None) -> list[int]:
        return [window.start for window, _ in windows.open_of(key, at_ms)]

    assert starts("a") == [0, 5]
    assert [starts("a", at_ms) for at_ms in (-1, 0, 4, 5, 9, 10, 14, 15)] == [
        [],
        [0],
        [0],
        [0, 5],
        [0, 5],
        [5],
        [5],
        [],
    ]
    assert starts("b") == []


def test_a_batch_of_new_keys_counts_against_the_states_that_are_left() -> None:
    windows = time_windows(Tumbling(10), Sum(), max_states=3)
    assert windows.add(["a", "b"], [1, 1], [1, 1]).failed == []
    [(place, error)] = windows.add(["c", "a", "d"], [2, 2, 2], [1, 1, 1]).failed
    assert (place, type(error)) == (2, WindowLimitError)
    assert [(one.key, one.result) for one in windows.advance(FAR)] == [("a", 2), ("b", 1), ("c", 1)]


@pytest.mark.parametrize("kind", [Tumbling(10), Sliding(10, 5), Session(5)])
def test_a_key_that_is_no_number_is_refused_and_has_no_window(kind: Any) -> None:
    windows = time_windows(kind, Count())
    taken = windows.add([math.nan, "a"], [1, 1], [1, 1])
    [(place, error)] = taken.failed
    assert (place, type(error)) == (0, WindowKeyError)
    assert [one.key for one in windows.advance(FAR) if one.window.start <= 1][:1] == ["a"]
    assert windows.states == 0


def test_a_row_of_a_slice_of_which_a_window_has_fired_obeys_the_limits() -> None:
    windows = SharedWindows(Sliding(10, 5), Count(), max_states=2)
    windows.add(["a", "b"], [7, 7], [1, 1])
    assert [(one.window.start, one.key) for one in windows.advance(10)] == [(0, "a"), (0, "b")]
    taken = windows.add(["c", "a"], [8, 8], [1, 1])
    [(place, error)] = taken.failed
    assert (place, type(error)) == (0, WindowLimitError)
    windows.limit(10)
    [(place, error)] = windows.add([math.nan, "c"], [8, 8], [1, 1]).failed
    assert (place, type(error)) == (0, WindowKeyError)
    assert windows.states == 3
    found = [(one.window.start, one.key, one.result) for one in windows.advance(FAR)]
    assert found == [(5, "a", 2), (5, "b", 1), (5, "c", 1)]
    assert windows.states == 0


def test_a_slice_is_dropped_with_the_last_of_its_windows() -> None:
    windows = SharedWindows(Sliding(10, 5), Count())
    windows.add(["a"], [2], [1])
    assert [one.window.start for one in windows.advance(5)] == [-5]
    assert windows.states == 1
    assert [one.window.start for one in windows.advance(10)] == [0]
    assert (windows.states, windows.next_fire_ms) == (0, None)


@pytest.mark.parametrize(
    ("kind", "of_seven"), [(Tumbling(10), [(0, 10)]), (Sliding(10, 5), [(0, 10), (5, 15)]), (Session(5), [(7, 12)])]
)
def test_rows_that_are_kept_have_a_key_that_is_a_number(kind: Any, of_seven: list[tuple[int, int]]) -> None:
    windows = buffered_windows(kind)
    [(place, error)] = windows.add([math.nan, "a"], [7, 7], [1, 1]).failed
    assert (place, type(error)) == (0, WindowKeyError)
    assert windows.rows == 1
    assert sorted((window.start, window.end) for window in windows.windows_of(7)) == of_seven


def test_a_key_without_open_windows_is_counted_on_until_it_is_forgotten() -> None:
    windows = count_windows(Counts(2), Own(), max_states=2)

    def fired(*keys: str) -> list[tuple[int, str]]:
        assert windows.add(list(keys), list(keys)).failed == []
        return [(one.window.start, one.key) for one in windows.fire()]

    assert fired("a", "a", "a", "a") == [(0, "a"), (2, "a")]
    windows.forget("a")
    assert fired("a", "a") == [(0, "a")]


def test_a_key_that_goes_on_leaves_its_place_among_those_that_rest() -> None:
    windows = count_windows(Counts(2), Own(), max_states=2)

    def fired(*keys: str) -> list[tuple[int, str]]:
        assert windows.add(list(keys), list(keys)).failed == []
        return [(one.window.start, one.key) for one in windows.fire()]

    assert fired("b", "b", "a", "a") == [(0, "b"), (0, "a")]
    assert fired("a", "c", "c") == [(0, "c")]  # a goes on: b and c rest
    assert fired("b", "b") == [(2, "b")]
    assert fired("a") == [(2, "a")]


def test_rows_of_counts_fire_at_each_slide() -> None:
    windows = BufferedCounts(Counts(6, 3))
    fired: list[tuple[int, int, int]] = []
    for number in range(7):
        assert windows.add(["a"], [number]).failed == []
        fired += [(number, one.window.start, one.window.end) for one in windows.fire()]
    assert fired == [(2, 0, 3), (5, 0, 6)]
