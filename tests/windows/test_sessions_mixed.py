"""Sessions and mixed windows, each by itself; and when exactly windows of every kind by time fire, and take rows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from aiostorm.windows import (
    END_MS,
    BufferedSessions,
    BufferedWindows,
    Collect,
    Count,
    Mixed,
    MsEachRows,
    PlainWindows,
    RowsEachMs,
    Session,
    SessionWindows,
    SharedWindows,
    Sliding,
    Tumbling,
    Window,
)

FAR = 10**15


def test_a_session_that_is_open_takes_what_would_be_late_by_itself() -> None:
    windows = SessionWindows(Session(10), Collect())
    windows.add("aa", [0, 8], [1, 2])
    list(windows.advance(15))
    assert windows.add("a", [3], [3]).late == []
    assert windows.add("b", [3], [3]).late == [0]
    assert [(one.window, one.result) for one in windows.advance(19)] == [(Window(0, 18), [1, 2, 3])]


def test_sessions_that_touch_are_one_and_one_tuple_joins_many() -> None:
    windows = SessionWindows(Session(10), Collect())
    windows.add("aaaaa", [0, 10, 21, 32, 54], [1, 2, 3, 4, 5])
    assert windows.states == 4  # [0, 20); [21, 31); [32, 42); [54, 64)
    windows.add("a", [43], [6])  # [43, 53) touches nothing
    assert windows.states == 5
    windows.add("aa", [42, 53], [7, 8])  # each touches both that are beside it
    assert windows.states == 3
    assert [(one.window, sorted(one.result)) for one in windows.advance(99)] == [
        (Window(0, 20), [1, 2]),
        (Window(21, 31), [3]),
        (Window(32, 64), [4, 5, 6, 7, 8]),
    ]


@pytest.mark.parametrize("kind", [SessionWindows, BufferedSessions])
def test_a_session_waits_for_rows_that_touch_it_in_any_order(kind: Any) -> None:
    """The watermark is at the end of the session: a row at that moment is on time, and in it."""
    windows = kind(Session(10), Collect()) if kind is SessionWindows else kind(Session(10))
    windows.add("a", [0], [1])
    assert windows.next_fire_ms == 11
    assert list(windows.advance(10)) == []
    assert windows.add("ab", [10, 0], [2, 3]).late == []  # b would be alone, until 10
    fired = [(one.key, one.window) for one in windows.advance(11)]
    assert fired == [("b", Window(0, 10))]
    assert windows.add("ab", [0, 0], [4, 5]).late == [1]
    assert [(one.key, one.window) for one in windows.advance(21)] == [("a", Window(0, 20))]


def test_a_buffered_session_has_its_rows_as_they_came() -> None:
    windows = BufferedSessions(Session(10), max_rows=5)
    assert windows.add("aabaa", [0, 40, 3, 25, 33], [1, 2, 3, 4, 5]).failed == []
    assert [place for place, _ in windows.add("a", [12], [6]).failed] == [0]
    assert [(one.key, one.get(), one.get_new(), one.get_expired()) for one in windows.advance(14)] == [
        ("a", (1,), (1,), ()),
        ("b", (3,), (3,), ()),
    ]
    assert windows.released() == [1, 3]
    assert windows.rows == 3
    windows.add("a", [15], [7])
    ((window, _, rows, new, expired),) = [(o.window, o.key, o.rows, o.new, o.expired) for o in windows.advance(FAR)]
    assert (window, rows, new, expired) == (Window(15, 50), (2, 4, 5, 7), (2, 4, 5, 7), ())
    assert windows.released() == [2, 4, 5, 7]
    assert windows.rows == 0
    assert windows.next_fire_ms is None


def test_rows_each_milliseconds_late_rows_and_limits() -> None:
    windows = RowsEachMs(Mixed(size=2, slide_ms=10), max_rows=4)
    windows.add("aaa", [3, 5, 15], "xyz")
    assert [one.get() for one in windows.advance(10)] == [("x", "y")]
    assert windows.add("aaa", [1, 4, 5], "uvw").late == [0, 1]  # two are behind them in the next window
    assert [place for place, _ in windows.add("a", [16], "v").failed] == [0]
    assert [(one.window, one.get(), one.get_new(), one.get_expired()) for one in windows.advance(20)] == [
        (Window(5, 20), ("w", "z"), ("w", "z"), ("x", "y"))
    ]
    assert windows.released() == ["x", "y"]
    windows.add("aa", [31, 32], "kl")
    assert [(one.get(), one.get_expired()) for one in windows.advance(40)] == [(("k", "l"), ("w", "z"))]
    assert windows.rows == 2


def test_milliseconds_each_rows_counts_in_the_order_of_time() -> None:
    windows = MsEachRows(Mixed(size_ms=10, slide=2))
    windows.add("aaaab", [7, 3, 5, 5, 1], "wxyzb")
    assert windows.next_fire_ms == 6
    assert [(one.key, one.window, one.get()) for one in windows.advance(99)] == [
        ("a", Window(-4, 6), ("x", "y", "z")),  # 3, 5, and 5 again: one and a half slides
        ("a", Window(-2, 8), ("x", "y", "z", "w")),
    ]
    assert sorted(windows.released()) == ["b", "w", "x", "y", "z"]
    assert windows.rows == 0
    windows.add("b", [200], "c")  # b has one row that is counted for no window yet
    assert [(one.key, one.get()) for one in windows.advance(201)] == [("b", ("c",))]


def test_mixed_windows_as_the_page_has_them() -> None:
    times = [3, 5, 7, 18, 26, 66]
    rows, ms = RowsEachMs(Mixed(size=3, slide_ms=10)), MsEachRows(Mixed(size_ms=20, slide=3))
    for windows in (rows, ms):
        windows.add([None] * 6, times[::-1], times[::-1])
    assert [(one.window.end, one.get()) for one in rows.advance(99)] == [
        (10, (3, 5, 7)),
        (20, (5, 7, 18)),
        (30, (7, 18, 26)),
        (70, (18, 26, 66)),
    ]
    assert [(one.window, one.get()) for one in ms.advance(99)] == [
        (Window(-12, 8), (3, 5, 7)),
        (Window(47, 67), (66,)),
    ]


def test_milliseconds_each_rows_end_with_whole_slides() -> None:
    windows = MsEachRows(Mixed(size_ms=10, slide=3))
    windows.add("aaaa", [1, 2, 3, 5], "wxyz")
    assert [one.get() for one in windows.advance(6)] == [("w", "x", "y")]
    assert list(windows.advance(END_MS)) == []  # how far time had come before the end must not matter
    assert windows.released() == ["w", "x", "y", "z"]
    assert windows.rows == 0
    assert windows.next_fire_ms is None


def test_rows_each_milliseconds_are_let_go_at_the_end() -> None:
    windows = RowsEachMs(Mixed(size=3, slide_ms=10))
    windows.add("ab", [1, 25], "xy")
    assert [one.get() for one in windows.advance(END_MS)] == [("x",), ("y",)]
    assert sorted(windows.released()) == ["x", "y"]
    assert windows.rows == 0
    assert windows.add("a", [5], "z").late == [0]  # of a spout that began anew
    assert windows.next_fire_ms is None


BY_TIME: dict[str, Callable[[int], Any]] = {
    "tumbling": lambda late: PlainWindows(Tumbling(10), Count(), allowed_lateness_ms=late),
    "plain": lambda late: PlainWindows(Sliding(10, 5), Count(), allowed_lateness_ms=late),
    "shared": lambda late: SharedWindows(Sliding(10, 5), Count(), allowed_lateness_ms=late),
    "buffered": lambda late: BufferedWindows(Sliding(10, 5), allowed_lateness_ms=late),
    "session": lambda late: SessionWindows(Session(10), Count(), allowed_lateness_ms=late),
    "buffered session": lambda late: BufferedSessions(Session(10), allowed_lateness_ms=late),
    "mixed rows": lambda late: RowsEachMs(Mixed(size=2, slide_ms=10), allowed_lateness_ms=late),
    "mixed span": lambda late: MsEachRows(Mixed(size_ms=10, slide=1), allowed_lateness_ms=late),
}


@pytest.mark.parametrize("late", [0, 1, 7])
@pytest.mark.parametrize("kind", BY_TIME)
def test_a_window_fires_at_its_end_and_not_a_millisecond_later_or_sooner(kind: str, late: int) -> None:
    """[0, 10) fires when the watermark is 10; a session when it is 11, since a row at 10 is still in it."""
    windows, fires = BY_TIME[kind](late), 10 + late + ("session" in kind)
    windows.add("a", [9 if kind == "mixed span" else 0], [0])
    before = [one.window.end for one in windows.advance(fires - 1)]
    assert before == ([5] if kind in ("plain", "shared", "buffered") else [])
    assert windows.next_fire_ms == fires
    assert [one.window for one in windows.advance(fires)] == [Window(0, 10)]
    assert list(windows.advance(fires)) == []


@pytest.mark.parametrize("late", [0, 1, 7])
@pytest.mark.parametrize("kind", BY_TIME)
def test_a_row_at_the_watermark_is_on_time_and_late_is_behind_its_last_window(kind: str, late: int) -> None:
    windows = BY_TIME[kind](late)
    list(windows.advance(100))
    assert windows.add("a", [100], [0]).late == []
    assigner = Tumbling(10) if kind == "tumbling" else Sliding(10, 5)
    first = 90 - late  # of a session that ends at the watermark: that still waits
    if kind == "mixed rows":
        return  # the last two rows, as late as they may be
    if kind == "mixed span":
        first = 91 - late  # a window that ends at 101 reaches back to it
    elif "session" not in kind:
        first = next(at for at in range(70, 101) if assigner.windows_of(at)[-1].end + late > 100)
    assert windows.add("b", [first], [0]).late == []
    assert windows.add("c", [first - 1], [0]).late == [0]
