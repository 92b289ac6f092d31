"""What fails, and what must not: unusual rows, merges, purges, keys and numbers."""

from __future__ import annotations

import math
import random
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiostorm.windows import (
    BufferedCounts,
    BufferedWindows,
    Collect,
    Combined,
    Count,
    Counts,
    Max,
    Mean,
    Min,
    PlainWindows,
    Session,
    SessionWindows,
    SharedWindows,
    Sliding,
    Sum,
    TopK,
    Tumbling,
    WindowKeyError,
    count_windows,
    time_windows,
)
from aiostorm.windows.window import AT_ONCE, in_order, in_steps

from .machines import FAR, MACHINES, every_machine
from .streams import columns

numbers = st.integers(-5, 5) | st.floats(-5, 5) | st.booleans()
values = numbers | st.sampled_from([None, "x", 10**400, Decimal(2), [1], math.nan, math.inf])
rows: Any = st.lists(st.tuples(st.sampled_from("aab") | st.just([]), st.integers(0, 40), values), max_size=6)


def everything() -> Combined:
    return Combined(all=Collect(), top=TopK(2), sum=Sum(), least=Min(), mean=Mean(), most=Max(), rows=Count())


@every_machine
@given(steps=st.lists(st.tuples(rows, st.integers(0, 45)), max_size=5), limit=st.sampled_from([5, 1_000_000]))
def test_a_row_that_fails_leaves_nothing(make: Any, steps: list[Any], limit: int) -> None:
    """What comes out is what comes out of the other rows alone."""
    all_of_them, good_ones = make(everything(), max_states=limit), make(everything())
    for batch, watermark in steps:
        failed = {place for place, _ in all_of_them.add(*columns(batch)).failed}
        rest = [row for place, row in enumerate(batch) if place not in failed]
        assert good_ones.add(*columns(rest)).failed == []
        assert all_of_them.states == good_ones.states <= limit
        assert all_of_them.next_fire_ms == good_ones.next_fire_ms
        assert repr(list(all_of_them.advance(watermark))) == repr(list(good_ones.advance(watermark)))
    assert repr(list(all_of_them.advance(FAR))) == repr(list(good_ones.advance(FAR)))
    assert all_of_them.states == 0
    assert all_of_them.next_fire_ms is None


@every_machine
def test_keys_that_raise_fail_their_rows(make: Any) -> None:
    class NoHash:
        def __hash__(self) -> int:
            raise ValueError("no hash")

    class Unequal:
        def __hash__(self) -> int:
            return hash("a")

        def __eq__(self, other: object) -> bool:
            raise ValueError("never equal")

    windows = make(Count())
    windows.add("a", [1], [1])
    failed = windows.add(["a", NoHash(), Unequal(), "b"], [1] * 4, [1] * 4).failed
    assert [(place, str(error)) for place, error in failed] == [(1, "no hash"), (2, "never equal")]
    assert {(one.key, one.result) for one in windows.advance(FAR)} == {("a", 2), ("b", 1)}


def test_timers_of_sessions_that_have_become_one_are_cleared() -> None:
    windows = SessionWindows(Session(10), Sum())
    for at in range(0, 100_000, 20):
        windows.add("aa", [at + 20, at + 10], [1, 1])
    assert windows.states == 1
    assert len(windows._sessions._timers) < 1_100


def test_many_sessions_of_one_key_close_one_by_one() -> None:
    windows = SessionWindows(Session(1), Count())
    windows.add("a" * 1_000, range(0, 4_000, 4), [0] * 1_000)
    fired = list(windows.advance(1_500))
    assert windows.add("aa", [1_500, 1_702], [0, 0]).late == []  # one that is there, and one that is new
    fired += windows.advance(FAR)
    assert [one.window.start for one in fired] == sorted([*range(0, 4_000, 4), 1_702])
    assert [one.window.start for one in fired if one.result == 2] == [1_500]
    assert windows.states == 0


@pytest.mark.parametrize("kind", [Tumbling(100), Sliding(100, 50), Session(100)], ids=lambda kind: type(kind).__name__)
def test_work_before_results_is_done_in_steps(kind: Any) -> None:
    """A window of many keys blocks the loop only briefly; without `work` the results are the same."""
    keys = [f"k{at}" for at in range(2 * AT_ONCE + 7)]
    random.Random(1).shuffle(keys)
    windows = time_windows(kind, Count())
    windows.add(keys, [60] * len(keys), keys)
    fired, worked, results = [], 0, windows.advance(FAR)
    while True:
        while windows.work():
            worked += 1
        one = next(results, None)
        if one is None:
            break
        fired.append(one.key)
    assert fired == sorted(keys) * (2 if kind == Sliding(100, 50) else 1)
    assert worked >= 3
    assert not windows.work()


@given(st.lists(st.none() | st.integers() | st.text() | st.tuples(st.none() | st.integers(), st.text()), max_size=20))
def test_keys_have_one_order(keys: list[Any]) -> None:
    assert in_order(keys) == in_order(keys[::-1])
    assert [key for step in in_steps(list(keys), 3) for key in step] == in_order(keys)


def test_many_keys_have_the_same_order_as_few() -> None:
    mixed = [("a", 1), None, ("a", None), 10, 9, 2.5, "b"]
    assert in_order(mixed) == [None, 2.5, 9, 10, "b", ("a", None), ("a", 1)]
    for keys in (
        [(str(at % 7), at) for at in range(AT_ONCE + 9)],
        [at * 0.5 if at % 2 else at for at in range(AT_ONCE + 9)],
        [*range(AT_ONCE + 9), "late", None],
        [Decimal(at) for at in range(AT_ONCE + 9)],
    ):
        random.Random(2).shuffle(keys)
        assert [key for step in in_steps(list(keys)) for key in step] == in_order(keys)


def test_a_function_that_raises_only_the_second_time_has_counted_its_row() -> None:
    seen: list[Any] = []

    def once(row: Any) -> int:
        seen.append(row)
        if seen.count(row) > 1:
            raise ValueError("again")
        return 1

    windows = PlainWindows(Tumbling(10), Sum(of=once))
    assert [place for place, _ in windows.add(["a", []], [1, 1], [1, 2]).failed] == [1]
    assert [one.result for one in windows.advance(10)] == [1]


def test_a_buffer_fires_in_time_that_grows_with_its_rows_alone() -> None:
    """One key, 2,000 windows that are all due at once: each looks at its own rows."""
    looked_at = 0

    class Counted(Sliding):
        def last_end(self, number: int) -> int:
            nonlocal looked_at
            looked_at += 1
            return super().last_end(number)

    windows = BufferedWindows(Counted(10, 10))
    windows.add(["k"] * 20_000, range(20_000), range(20_000))
    assert sum(len(one.rows) for one in windows.advance(FAR)) == 20_000
    assert looked_at < 10 * 20_000


def test_incomplete_windows_fire_at_the_end() -> None:
    for size, slide, rows in ((3, 3, 7), (5, 2, 8), (5, 2, 3), (5, 2, 1), (4, 3, 6), (1, 1, 2)):
        windows = BufferedCounts(Counts(size, slide))
        windows.add(["a"] * rows + ["b"], [*range(rows), "b"])
        released = [*windows.released()]
        fired = list(windows.fire())
        windows.end()
        fired += windows.fire()
        released += windows.released()
        assert sorted(map(str, released)) == sorted([*map(str, range(rows)), "b"]), (size, slide, rows)
        mine = [one for one in fired if one.key == "a"]
        assert [row for one in mine for row in one.new] == list(range(rows))
        assert all(one.rows == tuple(number for number in range(rows) if number in one.window) for one in mine)
        assert [one.window.end for one in mine] == [slide * n for n in range(1, -(-rows // slide) + 1)]
        assert windows.rows == 0
        windows.end()
        assert list(windows.fire()) == windows.released() == []


@pytest.mark.parametrize("key", [math.nan, float("nan"), ("a", math.nan), Decimal("nan")], ids=repr)
def test_nan_is_no_key(key: Any) -> None:
    """Each such row would open a window of its own, and none would ever be found again."""
    for make in (*MACHINES.values(), lambda aggregate: BufferedWindows(Tumbling(10))):
        windows = make(Count())
        taken = windows.add([key, "a", key], [1, 1, 1], [1, 2, 3])
        assert [place for place, _ in taken.failed] == [0, 2]
        assert all(isinstance(error, WindowKeyError) for _, error in taken.failed)
        assert {one.key for one in windows.advance(FAR)} == {"a"}
    for counts in (BufferedCounts(Counts(1)), count_windows(Counts(1), Count()), count_windows(Counts(1), Sum(len))):
        assert [place for place, _ in counts.add([key, "a", key], ["x", "y", "z"]).failed] == [0, 2]
        assert {one.key for one in counts.fire()} == {"a"}
    windows = SharedWindows(Sliding(10, 5), Count())
    list(windows.advance(5))
    windows.add("a", [6], [0])
    list(windows.advance(10))
    assert len(windows.add([key], [7], [0]).failed) == 1


def test_a_function_that_stops_an_iteration_fails_its_row() -> None:
    """A `map` ends where a function raises StopIteration, and a column is too short then."""
    windows = PlainWindows(Tumbling(10), Sum(of=lambda row: next(iter(row))))
    taken = windows.add("aab", [1, 1, 1], [[1], [], [2]])
    assert [place for place, _ in taken.failed] == [1]
    assert [(one.key, one.result) for one in windows.advance(10)] == [("a", 1), ("b", 2)]


@pytest.mark.parametrize("counts", [Counts(3), Counts(4, 3), Counts(30, 3)], ids=str)
def test_rows_that_fail_have_no_number(counts: Counts) -> None:
    windows = count_windows(counts, everything())
    good = count_windows(counts, everything())
    for value in range(100):
        failed = windows.add("aaa", ["x", value, None]).failed
        assert [place for place, _ in failed] == [0, 2]
        good.add("a", [value])
        assert windows.states == good.states
    assert repr(list(windows.fire())) == repr(list(good.fire()))


def test_keys_without_an_open_window_are_forgotten_in_time() -> None:
    windows = count_windows(Counts(2), Count(), max_states=3)
    for key in "abcde":
        windows.add(key * 2, "xy")
    windows.add("eeaa", "xyxy")
    assert [(one.key, one.window.start) for one in windows.fire()][5:] == [("e", 2), ("a", 0)]
    assert windows.states == 0
    assert len(windows._idle) == 3
