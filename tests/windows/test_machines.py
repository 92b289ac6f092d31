"""What each machine promises by itself: errors, rows that fail, limits, idle inputs, bounds, ready-made aggregates."""

from __future__ import annotations

import math
from datetime import datetime, timedelta, timezone
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiostorm.windows import (
    END_MS,
    Aggregate,
    BufferedCounts,
    BufferedWindows,
    ByFunction,
    Collect,
    Combined,
    Count,
    Counts,
    Fold,
    Max,
    Mean,
    Min,
    Mixed,
    Periodic,
    PlainWindows,
    Punctuated,
    Reduce,
    Session,
    SessionWindows,
    SharedWindows,
    Sliding,
    Sum,
    TimestampError,
    TopK,
    Tumbling,
    WatermarkPolicy,
    Watermarks,
    Window,
    WindowError,
    WindowLimitError,
    buffered_windows,
    count_windows,
    time_windows,
    to_ms,
)
from aiostorm.windows.generators import MaxTimestamp
from aiostorm.windows.rows import ReadRows

FAR = 10**15


class Reduced(Aggregate):
    """The user's own, which merges: its states are shared."""

    merges = True

    def init_state(self, window: Window) -> list[Any]:
        return []

    def execute(self, value: Any, state: list[Any], window: Window) -> list[Any]:
        return [*state, value]

    def merge(self, first: list[Any], second: list[Any]) -> list[Any]:
        return first + second


class Own(Aggregate):
    """As a user writes one, in JStorm's way: the state is changed in place, and cannot be merged."""

    def init_state(self, window: Window) -> list[Any]:
        return []

    def execute(self, value: Any, state: list[Any], window: Window) -> None:
        if value == "bad":
            raise ValueError("bad")
        state.append(value)

    def purge(self, state: list[Any], window: Window) -> list[Any]:
        if "worse" in state:
            raise ValueError("worse")
        return state


@pytest.mark.parametrize(
    ("build", "says"),
    [
        (lambda: Tumbling(0), "size_ms"),
        (lambda: Tumbling(-5), "give 1 or more"),
        (lambda: Tumbling(1.5), "whole number"),
        (lambda: Tumbling(True), "whole number"),
        (lambda: Sliding(10, 0), "slide_ms"),
        (lambda: Sliding(10, 11), "slide by the size or less"),
        (lambda: Sliding(10, 5, None), "offset_ms"),
        (lambda: Session(0), "gap_ms"),
        (lambda: Counts(0), "give 1 or more"),
        (lambda: Counts(3, 0), "slide"),
        (lambda: Counts(3, 4), "slide by the size or less"),
        (lambda: time_windows(Session(5), Own()), "merge"),
        (lambda: time_windows(Session(5), Combined(a=Count(), b=Fold(list, max))), "merge"),
        (lambda: time_windows(Session(5), Fold(list, max)), "merge"),
        (lambda: time_windows(Counts(5), Count()), "Tumbling"),
        (lambda: time_windows(Tumbling(5), Count), "give an Aggregate"),
        (lambda: time_windows(Tumbling(5), Count(), allowed_lateness_ms=-1), "allowed_lateness_ms"),
        (lambda: time_windows(Tumbling(5), Count(), max_states=0), "max_states"),
        (lambda: count_windows(Tumbling(5), Count()), "Counts"),
        (lambda: buffered_windows(5), "give Tumbling, Sliding, Session, Counts or Mixed"),
        (lambda: Mixed(), "nothing; give size and slide_ms"),
        (lambda: Mixed(size=3, slide=3), "with size, slide; give size and slide_ms"),
        (lambda: Mixed(size_ms=3, slide_ms=3), "with slide_ms, size_ms; give"),
        (lambda: Mixed(size=0, slide_ms=3), "size of mixed windows"),
        (lambda: Mixed(size=3, slide_ms=0), "slide_ms"),
        (lambda: Mixed(size_ms=0, slide=3), "size_ms"),
        (lambda: Mixed(size_ms=3, slide=0), "slide of mixed windows"),
        (lambda: time_windows(Mixed(size=3, slide_ms=3), Count()), "BufferedWindowBolt"),
        (lambda: count_windows(Mixed(size_ms=3, slide=3), Count()), "give Counts"),
        (lambda: Sum(of=1.5), "field"),
        (lambda: TopK(0), "1 or more"),
        (lambda: Reduce(None), "function"),
        (lambda: Fold([], max), "makes it"),
        (lambda: Fold(list, None), "function"),
        (lambda: Combined(), "by name"),
        (lambda: Combined(a=Count), "give an Aggregate"),
        (lambda: Periodic(-1), "lag_ms"),
        (lambda: Periodic(interval_ms=0), "interval_ms"),
        (lambda: Periodic(max_advance_ms=0), "max_advance_ms"),
        (lambda: Punctuated(None), "function"),
        (lambda: ByFunction(5), "function"),
        (lambda: Watermarks([]), "input tasks"),
        (lambda: Watermarks([1], ratio=0), "ratio"),
        (lambda: Watermarks([1], ratio=math.nan), "ratio"),
        (lambda: Watermarks([1], policy="min"), "WatermarkPolicy"),
        (lambda: Watermarks([1], idle_timeout_ms=0), "idle_timeout_ms"),
    ],
)
def test_impossible_settings_are_refused_when_the_window_is_built(build: Any, says: str) -> None:
    with pytest.raises(WindowError, match=says):
        build()


@given(
    size_ms=st.integers(1, 60),
    part=st.integers(1, 60),
    offset_ms=st.integers(-70, 70),
    timestamps=st.lists(st.integers(-200, 200), min_size=1, max_size=40),
)
def test_slices_have_numbers(size_ms: int, part: int, offset_ms: int, timestamps: list[int]) -> None:
    assigner = Sliding(size_ms, min(size_ms, part), offset_ms)
    numbers = assigner.numbers_of(timestamps)
    slices = [assigner.slice_of(timestamp) for timestamp in timestamps]
    assert len(set(zip(numbers, slices, strict=True))) == len(set(numbers)) == len(set(slices))
    assert [number for _, number in sorted(zip(slices, numbers, strict=True))] == sorted(numbers)
    assert [assigner.last_end(number) for number in numbers] == [
        assigner.windows_of(timestamp)[-1].end for timestamp in timestamps
    ]


def test_timestamps() -> None:
    zone = timezone(timedelta(hours=2))
    assert to_ms(5) == 5
    assert to_ms(-1.5) == -2
    assert to_ms(datetime(1970, 1, 1, 2, tzinfo=zone)) == 0
    assert to_ms(datetime(1969, 12, 31, 23, 59, 59, tzinfo=timezone.utc)) == -1_000  # noqa: UP017
    for wrong in (None, True, "5", math.nan, math.inf, datetime(2026, 1, 1), 10**18, -(10**18), [1]):
        with pytest.raises(TimestampError, match=r"give|leave|say"):
            to_ms(wrong)


def test_windows_have_an_order_and_know_what_overlaps() -> None:
    first, second = Window(0, 10), Window(10, 20)
    assert first < second
    assert second >= first
    assert not first.overlaps(second)  # they touch
    assert first.overlaps(Window(9, 11))
    assert first.cover(second) == Window(0, 20)
    assert 0 in first
    assert 10 not in first
    assert sorted([Window(5, 20), second, first, Window(0, 20)]) == [first, Window(0, 20), Window(5, 20), second]


@pytest.mark.parametrize("machine", [PlainWindows, SharedWindows])
def test_rows_that_fail_fail_alone(machine: Any) -> None:
    windows = machine(Sliding(10, 5), Combined(sum=Sum(), rows=Count()))
    taken = windows.add(["a", "a", [], "a", "a", "b"], [1, 2, 3, math.nan, 4, 5], [1, "x", 1, 1, 2, 3])
    assert [place for place, _ in sorted(taken.failed, key=lambda row: row[0])] == [1, 2, 3]
    fired = {(one.key, one.window.end): one.result for one in windows.advance(100)}
    assert fired[("a", 10)] == {"sum": 3, "rows": 2}
    assert fired[("b", 15)] == {"sum": 3, "rows": 1}


@pytest.mark.parametrize("machine", [time_windows, SharedWindows, PlainWindows])
def test_several_aggregates_without_columns_count_a_row_in_each_of_its_windows(machine: Any) -> None:
    both = Combined(all=Fold(list, lambda state, value: [*state, value]), most=Fold(lambda: 0, max))
    if machine is SharedWindows:
        both = Combined(all=Reduced(), most=Reduced())
    windows = machine(Sliding(10, 5), both)
    taken = windows.add(["a", "b", "a", "a"], [1, 2, 6, 12], [3, 9, 4, 1])
    assert (taken.late, taken.failed) == ([], [])
    found = [(one.window.start, one.key, one.result) for one in windows.advance(FAR)]
    lists = [(-5, "a", [3]), (-5, "b", [9]), (0, "a", [3, 4]), (0, "b", [9]), (5, "a", [4, 1]), (10, "a", [1])]
    if machine is SharedWindows:
        assert found == [(start, key, {"all": values, "most": values}) for start, key, values in lists]
    else:
        assert found == [(start, key, {"all": values, "most": max(values)}) for start, key, values in lists]
    assert windows.states == 0


def test_a_batch_goes_on_after_numbers_of_another_kind() -> None:
    from decimal import Decimal

    windows = PlainWindows(Tumbling(10), Sum())
    assert windows.add(["a"], [1], [Decimal(1)]).failed == []
    failed = windows.add(["a", "b"], [1, 1], [0.5, 0.5]).failed
    assert [place for place, _ in failed] == [0]  # a Decimal and a float
    assert [(one.key, one.result) for one in windows.advance(10)] == [("a", Decimal(1)), ("b", 0.5)]


def test_the_users_own_aggregate_fails_by_row_and_by_key() -> None:
    windows = time_windows(Tumbling(10), Own())
    taken = windows.add(["a", "a", "b", "c"], [1, 2, 3, 4], [1, "bad", "worse", 2])
    assert [(place, str(error)) for place, error in taken.failed] == [(1, "bad")]
    fired = list(windows.advance(10))
    assert [(one.key, one.result, str(one.error)) for one in fired] == [
        ("a", [1], "None"),
        ("b", None, "worse"),
        ("c", [2], "None"),
    ]


@pytest.mark.parametrize(
    ("kind", "aggregate"),
    [
        *((kind, Sum()) for kind in (PlainWindows, SharedWindows, SessionWindows)),
        *((kind, Combined(a=Sum(), b=Collect())) for kind in (PlainWindows, SharedWindows, SessionWindows)),
        (PlainWindows, Own()),
    ],
    ids=lambda value: getattr(value, "__name__", type(value).__name__),
)
def test_there_are_never_more_states_than_there_may_be(kind: Any, aggregate: Aggregate) -> None:
    windows = kind(Session(10) if kind is SessionWindows else Tumbling(10), aggregate, max_states=3)
    taken = windows.add(list("abcdea"), [1] * 6, [1] * 6)
    assert [place for place, _ in taken.failed] == [3, 4]
    assert all(isinstance(error, WindowLimitError) for _, error in taken.failed)
    assert windows.states == 3
    assert len(list(windows.advance(100))) == 3
    assert windows.add(["d"], [200], [1]).failed == []


def test_there_are_never_more_rows_and_counts_than_there_may_be() -> None:
    rows = BufferedWindows(Tumbling(10), max_rows=2)
    assert [place for place, _ in rows.add("abc", [1, 2, 3], "xyz").failed] == [2]
    counts = count_windows(Counts(2), Count(), max_states=2)
    assert [place for place, _ in counts.add("abca", [1] * 4).failed] == [2]
    assert [(one.key, one.result) for one in counts.fire()] == [("a", 2)]
    assert counts.add("c", [1]).failed == []


def test_rows_that_have_fired_give_way_to_those_that_have_not() -> None:
    """Keys that never come again do not use up the limit."""
    windows = BufferedCounts(Counts(2), max_rows=4)
    for key in range(1_000):
        assert windows.add([key, key], [key, -key]).failed == []
        assert windows.released() == [key, -key]
        assert windows.rows <= 4
    assert len(windows._of_key) == 2
    list(windows.fire())
    windows.add([999, 998], ["x", "y"])  # rows that the others had released are not reported any more
    assert windows.rows == 4
    windows.add([999, 998], ["z", "w"])
    assert [(one.key, one.get(), one.get_expired()) for one in windows.fire()] == [
        (999, ("x", "z"), ()),
        (998, ("y", "w"), ()),
    ]
    windows = BufferedCounts(Counts(3, 2), max_rows=4)
    assert [place for place, _ in windows.add("aabbccdde", range(9)).failed] == [7, 8]  # held: 1, 3, 5 and 6
    assert windows.released() == [0, 2, 4]
    assert [(one.key, one.get()) for one in windows.fire()] == [("a", (0, 1)), ("b", (2, 3)), ("c", (4, 5))]
    assert windows.rows == 4


def test_late_rows_are_reported_with_their_windows() -> None:
    windows = SharedWindows(Sliding(10, 5), Count(), allowed_lateness_ms=2)
    list(windows.advance(17))
    assert windows.add("abc", [4, 5, 16], [0, 0, 0]).late == [0, 1]  # 5 was in [5, 15), which waited until 17
    assert [one.end for one in windows.windows_of(4)] == [5, 10]
    windows = SharedWindows(Sliding(10, 5), Count(), allowed_lateness_ms=3)
    list(windows.advance(17))
    assert windows.add("ab", [4, 5], [0, 0]).late == [0]


def test_a_row_at_the_watermark_is_on_time() -> None:
    windows = PlainWindows(Tumbling(10), Count())
    list(windows.advance(10))
    assert windows.add("ab", [10, 9], [0, 0]).late == [1]


def test_ready_made_aggregates() -> None:
    rows = [{"v": 3, "w": "x"}, {"v": 1, "w": "y"}, {"v": 2, "w": "x"}]
    every = Combined(
        count=Count(),
        sum=Sum("v"),
        least=Min("v"),
        most=Max("v"),
        mean=Mean("v"),
        top=TopK(1, of="w"),
        all=Collect(lambda row: row["v"]),
        joined=Reduce(lambda first, second: first + second, of="w"),
        folded=Fold(lambda: 1, lambda state, row: state * row["v"], merge=lambda first, second: first * second),
        nested=Combined(count=Count()),
    )
    for assigner in (Tumbling(10), Sliding(10, 5), Session(10)):
        windows = time_windows(assigner, every)
        assert windows.add("kkk", [6, 7, 8], rows).failed == []
        fired = [one.result for one in windows.advance(99)]
        assert fired[0] == {
            "count": 3,
            "sum": 6,
            "least": 1,
            "most": 3,
            "mean": 2.0,
            "top": [("x", 2)],
            "all": [3, 1, 2],
            "joined": "xyx",
            "folded": 6,
            "nested": {"count": 3},
        }


@pytest.mark.parametrize(("aggregate", "result"), [(Min(), 1), (Max(), 3), (Mean(), 2.0), (Sum(), 6), (Count(), 3)])
def test_ready_made_aggregates_take_batches(aggregate: Aggregate, result: Any) -> None:
    for assigner in (Tumbling(10), Sliding(10, 3)):
        windows = time_windows(assigner, aggregate)
        windows.add("kkkj", [6, 6, 6, 7], [3, 1, 2, 9])
        assert next(one.result for one in windows.advance(99) if one.key == "k") == result


def test_keys_that_cannot_be_compared_fire_in_an_order() -> None:
    windows = PlainWindows(Tumbling(10), Count())
    windows.add([None, "b", 2, "a", 1], [1] * 5, [0] * 5)
    assert [one.key for one in windows.advance(10)] == [None, 1, 2, "a", "b"]


def test_the_order_in_which_inputs_become_idle_changes_nothing() -> None:
    for first, second in (("a", "b"), ("b", "a")):
        watermarks = Watermarks(["a", "b"], idle_timeout_ms=10)
        watermarks.advance("a", 100, 0)
        watermarks.advance("b", 200, 0)
        assert watermarks.watermark == 100
        watermarks.on_activity(second, 5)
        watermarks.tick(10)
        assert watermarks.idle == {first}
        assert watermarks.tick(15) == 200


def test_an_idle_input_is_waited_for_again_when_it_speaks() -> None:
    watermarks = Watermarks(["a", "b"], idle_timeout_ms=10, now_ms=0)
    watermarks.advance("a", 100, 1)
    assert watermarks.watermark is None  # b has said nothing
    assert watermarks.next_idle_ms == 10
    assert watermarks.tick(10) == 100
    watermarks.advance("b", 50, 11)
    assert watermarks.advance("a", 200, 12) == 100  # it does not go back, nor on
    assert watermarks.advance("b", 150, 13) == 150


def test_a_share_of_the_inputs() -> None:
    watermarks = Watermarks(range(10), policy=WatermarkPolicy.MAX_TIMESTAMP_WITH_RATIO, ratio=0.9)
    for name in range(8):
        assert watermarks.advance(name, 100 + name, 0) is None
    assert watermarks.advance(8, 50, 0) == 50


def test_one_bad_clock_does_not_move_time_far() -> None:
    for clocks in ([10**13, 1_000, 1_001], [1_000, 10**13, 1_001]):
        generator = Periodic(max_advance_ms=60_000)
        generator.tick(0)
        generator.observe(clocks, clocks)
        assert generator.tick(1_000) == 61_000
    generator = Periodic(lag_ms=5, interval_ms=10)
    assert generator.tick(0) is None
    assert generator.next_tick_ms is None  # no useless timer
    generator.observe([7, 3], [0, 0])
    assert generator.next_tick_ms == 10
    assert generator.tick(9) is None
    assert generator.tick(10) == 2
    assert generator.tick(20) is None  # nothing new


NOW = 1_800_000_000_000


@pytest.mark.parametrize(
    ("clocks", "reached"),
    [
        ([0, *range(NOW, NOW + 20)], NOW + 19),
        ([NOW, 0, *range(NOW, NOW + 20)], NOW + 19),
        ([0, *[NOW, 2 * NOW, NOW] * 20], 61 * 1_000),  # they do not agree
        ([0, *range(NOW, NOW + 6), 900, *range(NOW, NOW + 20)], 900 + 26 * 1_000),  # a row is near the first
        ([NOW, *[2 * NOW] * 7, NOW + 1, *[2 * NOW] * 20], NOW + 27 * 1_000),
    ],
)
def test_an_input_that_begins_with_a_slow_clock_is_not_years_behind(clocks: list[int], reached: int) -> None:
    far = MaxTimestamp(1_000)
    far.observe(clocks)
    assert far.ms is not None
    assert abs(far.ms - reached) <= 1_000


def test_marks_and_functions() -> None:
    watermarks = Punctuated(lambda row: row == "mark", lag_ms=1)
    assert watermarks.observe([5, 9], ["", ""]) is None
    assert watermarks.observe([4, 20], ["mark", ""]) == 8
    own = ByFunction(lambda at_ms, row: row, max_advance_ms=10)
    assert own.observe([1, 2], [None, None]) is None
    assert own.observe([1, 2, 3], [5, 7, 1_000]) == 17


def test_time_changes_nothing_for_windows_by_count() -> None:
    machine = count_windows(Counts(2), Count())
    added = machine.add_rows(ReadRows(range(3), ["a"] * 3, [0] * 3, [1] * 3))
    assert (added.late, added.failed) == ([], [])
    assert (machine.watermark, machine.next_fire_ms, machine.work(), machine.windows_of(0)) == (None, None, False, [])
    assert [(fired.window, fired.result) for fired in machine.advance(FAR)] == [(Window(0, 2), 2)]
    assert list(machine.fire()) == []


def test_the_end_of_time_fires_the_last_rows_of_windows_by_count() -> None:
    machine = buffered_windows(Counts(2))
    machine.add_rows(ReadRows(range(3), ["a"] * 3, [0] * 3, ["x", "y", "z"]))
    assert [fired.rows for fired in machine.advance(FAR)] == [("x", "y")]
    assert [fired.rows for fired in machine.advance(END_MS)] == [("z",)]
    assert (machine.rows, machine.released()) == (0, ["x", "y", "z"])
