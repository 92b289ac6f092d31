"""Merges and results: in what order states are joined, what a merge and a purge may do, and what says so if not."""

from __future__ import annotations

import math
import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiostorm.windows import (
    Aggregate,
    Collect,
    Combined,
    Count,
    Fold,
    Max,
    Min,
    PlainWindows,
    Reduce,
    Session,
    SessionWindows,
    SharedWindows,
    Sliding,
    Sum,
    TopK,
    Tumbling,
    Window,
    time_windows,
)
from aiostorm.windows.window import in_order

from .machines import FAR, every_machine
from .streams import columns


@given(st.lists(st.tuples(st.sampled_from("ab"), st.integers(0, 40), st.integers(0, 99)), max_size=12), st.data())
def test_rows_of_windows_that_share_nothing_are_in_the_order_of_their_coming(added: list[Any], data: Any) -> None:
    windows = PlainWindows(Sliding(10, 3), Fold(list, lambda state, row: [*state, row]))
    rest = added
    while rest:
        count = data.draw(st.integers(1, len(rest)))
        windows.add(*columns(rest[:count]))
        rest = rest[count:]
    for one in windows.advance(FAR):
        assert one.result == [value for key, at, value in added if key == one.key and at in one.window]


@given(
    st.lists(st.tuples(st.integers(0, 40), st.integers(0, 99)), max_size=25),
    st.lists(st.integers(0, 50), max_size=25),
    st.sampled_from([(10, 3), (10, 5), (12, 1), (7, 4), (30, 10)]),
)
def test_states_are_joined_slice_by_slice_whenever_their_rows_came(
    added: list[tuple[int, int]], watermarks: list[int], size: tuple[int, int]
) -> None:
    """Whether a window has fired meanwhile or not must not be seen in another one."""
    assigner = Sliding(*size)
    windows = SharedWindows(assigner, Collect())
    here: list[tuple[int, int]] = []
    fired = []
    for at, (timestamp, value) in enumerate(added):
        if not windows.add_one("k", timestamp, value).late:
            here.append((timestamp, value))
        if at < len(watermarks):
            fired += [(one.window, one.result, list(here)) for one in windows.advance(watermarks[at])]
    fired += [(one.window, one.result, here) for one in windows.advance(FAR)]
    for window, result, known in fired:
        inside = [row for row in known if row[0] in window]
        inside.sort(key=lambda row: assigner.slice_of(row[0]).start)
        assert result == [value for _, value in inside]


@every_machine
@given(st.lists(st.floats() | st.integers(-3, 3), min_size=1, max_size=8), st.randoms(use_true_random=False))
def test_least_and_greatest_do_not_mind_the_order(make: Any, added: list[Any], rng: random.Random) -> None:
    results = set()
    for batched in (True, False):
        windows = make(Combined(least=Min(), most=Max()))
        shuffled = rng.sample(added, len(added))
        if batched:
            windows.add(["k"] * len(added), [5] * len(added), shuffled)
        else:
            for value in shuffled:
                windows.add_one("k", 5, value)
        results |= {(one.result["least"] + 0.0, one.result["most"] + 0.0) for one in windows.advance(FAR)}
    seen = [value for value in added if value == value]
    expected = (min(seen) + 0.0, max(seen) + 0.0) if seen else (math.nan, math.nan)
    assert {repr(result) for result in results} == {repr(expected)} or results == {expected}


def cannot(first: int, second: int) -> int:
    if 7 in (first, second):
        raise ValueError("seven")
    return first + second


def test_a_merge_that_fails_is_reported_by_its_windows() -> None:
    windows = SharedWindows(Sliding(10, 5), Fold(lambda: 0, lambda state, row: state + row, merge=cannot))
    windows.add("abab", [1, 1, 6, 6], [7, 1, 1, 1])
    fired = [(one.window.start, one.key, one.result, str(one.error)) for one in windows.advance(FAR)]
    assert fired == [
        (-5, "a", 7, "None"),
        (-5, "b", 1, "None"),
        (0, "a", None, "seven"),
        (0, "b", 2, "None"),
        (5, "a", 1, "None"),
        (5, "b", 1, "None"),
    ]
    assert windows.states == 0
    sessions = SessionWindows(Session(10), Fold(lambda: 0, lambda state, row: state + row, merge=cannot))
    failed = sessions.add("aaa", [0, 15, 8], [7, 1, 2]).failed
    assert [(place, str(error)) for place, error in failed] == [(2, "seven")]
    assert [one.result for one in sessions.advance(FAR)] == [7, 1]


def test_a_row_that_cannot_be_merged_behind_fails_alone() -> None:
    windows = SharedWindows(Sliding(10, 5), Fold(lambda: 0, lambda state, row: state + row, merge=cannot))
    windows.add("a", [6], [1])
    assert [one.result for one in windows.advance(10)] == [1]
    assert [str(error) for _, error in windows.add("ab", [7, 7], [7, 7]).failed] == ["seven"]
    assert [(one.key, one.result) for one in windows.advance(FAR)] == [("a", 1), ("b", 7)]


def test_purge_is_asked_once_for_a_key_and_window() -> None:
    asked: list[int] = []

    class Own(Sum):
        def purge(self, state: Any, window: Window) -> Any:
            asked.append(state)
            if state == 2:
                raise ValueError("two")
            return state

    for aggregate in (Own(), Combined(own=Own(), rows=Count())):
        asked.clear()
        windows = PlainWindows(Tumbling(10), aggregate)
        windows.add("abc", [1, 2, 3], [1, 2, 3])
        assert [str(one.error) for one in windows.advance(10)] == ["None", "two", "None"]
        assert asked == [1, 2, 3]


def test_a_subclass_is_not_passed_over_by_batches() -> None:
    class Squares(Sum):
        def execute(self, value: Any, state: Any, window: Window) -> Any:
            return state + value * value

    class FromTen(Count):
        def init_state(self, window: Window) -> int:
            return 10

    for aggregate, result in ((Squares(), 14), (FromTen(), 13)):
        windows = PlainWindows(Tumbling(10), aggregate)
        windows.add("aaa", [1, 2, 3], [1, 2, 3])
        assert [one.result for one in windows.advance(10)] == [result]


@every_machine
def test_none_is_no_state(make: Any) -> None:
    class Forgetful(Aggregate):
        def init_state(self, window: Window) -> Any:
            return None

        def execute(self, value: Any, state: Any, window: Window) -> Any:
            return None

        def merge(self, first: Any, second: Any) -> Any:
            return None

    windows = make(Forgetful())
    taken = windows.add("aa", [1, 1], [1, 2])
    assert len(taken.failed) == 2
    assert "return the state" in str(taken.failed[0][1])
    assert windows.states == 0


def test_a_merge_that_returns_none_is_an_error() -> None:
    windows = time_windows(Sliding(10, 5), Fold(list, lambda state, row: [*state, row], merge=list.extend))
    windows.add("aa", [1, 6], [1, 2])
    assert "merge returned None" in str([one.error for one in windows.advance(FAR)][1])


def test_reduce_may_be_anything_that_joins() -> None:
    windows = SharedWindows(Sliding(30, 10), Reduce(lambda first, second: first + second))
    windows.add("aa", [25, 35], ["x", "y"])
    assert [one.result for one in windows.advance(40)] == ["x", "xy"]
    windows.add("aa", [22, 31], ["z", "u"])
    assert [one.result for one in windows.advance(FAR)] == ["xzyu", "yu"]


def changed_first(first: dict[str, int], second: dict[str, int]) -> dict[str, int]:
    first.update(second)
    return first


class Box:
    def __init__(self) -> None:
        self.rows: list[Any] = []

    def put(self, row: Any) -> Box:
        self.rows.append(row)
        return self

    def merged(self, other: Box) -> Box:
        self.rows += other.rows
        return self

    def kept(self, other: Box) -> Box:
        return max(self, other, key=lambda box: len(box.rows))


@pytest.mark.parametrize(
    "aggregate",
    [
        Fold(dict, lambda state, row: {**state, row: 1}, merge=changed_first),
        Fold(set, lambda state, row: state | {row}, merge=lambda first, second: first.update(second) or first),
        Fold(Box, Box.put, merge=Box.merged),
        Reduce(lambda first, second: first.extend(second) or first, of=lambda row: [row]),
    ],
    ids=["dict", "set", "object", "reduce"],
)
def test_a_merge_that_changes_what_it_was_given_says_so(aggregate: Aggregate) -> None:
    windows = SharedWindows(Sliding(10, 5), aggregate)
    windows.add("aa", [1, 6], ["x", "y"])
    assert [one.error is None for one in windows.advance(5)] == [True]
    (fired,) = windows.advance(10)
    assert "merge(first, second) changed its arguments" in str(fired.error)


def test_a_merge_may_return_one_of_two() -> None:
    windows = SharedWindows(Sliding(10, 5), Fold(Box, Box.put, merge=Box.kept, result=lambda box: box.rows))
    windows.add("aaa", [1, 2, 6], ["x", "y", "z"])
    assert [one.result for one in windows.advance(FAR)] == [["x", "y"], ["x", "y"], ["z"]]


@given(st.lists(st.sampled_from("abcdefgh") | st.none() | st.integers(0, 3), max_size=40), st.integers(1, 9))
def test_the_most_frequent_are_those_of_all(added: list[Any], k: int) -> None:
    windows = PlainWindows(Tumbling(10), TopK(k))
    windows.add([0] * len(added), [1] * len(added), added)
    pairs = [(value, added.count(value)) for value in in_order(set(added))]
    expected = sorted(pairs, key=lambda pair: -pair[1])[:k]
    assert [one.result for one in windows.advance(10)] == [expected] * bool(added)
