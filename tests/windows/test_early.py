"""Early results: windows are shown before they end, and what comes in the end is as if they had not been."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aiostorm.windows import (
    Collect,
    Combined,
    Count,
    Counts,
    Distinct,
    Each,
    EarlyWindows,
    Every,
    Fired,
    Mean,
    Min,
    Session,
    Sliding,
    Sum,
    TopK,
    Tumbling,
    Window,
    WindowError,
    time_windows,
)
from aiostorm.windows.building import early_windows
from aiostorm.windows.dumps import apply_delta
from aiostorm.windows.rows import ReadRows

from ..tries import examples

Row = tuple[Any, Any, Any]
ROWS = st.lists(st.tuples(st.sampled_from("ab"), st.integers(0, 60)), max_size=9)


def add(windows: EarlyWindows, *rows: Row) -> list[Fired]:
    """What is shown with the rows."""
    shown: list[Fired] = []
    keys, times, values = zip(*rows, strict=True)
    for _ in windows.add(keys, times, values):
        shown += windows.ready
        windows.ready = []
    return shown


def rows_of(fired: Any, *, in_order: bool = True) -> list[Any]:
    found = [(one.window.start, one.window.end, one.key, one.result, one.window.final) for one in fired]
    return found if in_order else [(*window, key, sorted(result), final) for *window, key, result, final in found]


def test_each_row_of_a_window_and_key_is_counted() -> None:
    windows = early_windows(Tumbling(10), Sum(), Each(2))
    shown = add(windows, ("a", 1, 1), ("b", 1, 5), ("a", 11, 7), ("a", 2, 2), ("a", 3, 4), ("a", 4, 8))
    assert rows_of(shown) == [(0, 10, "a", 3, False), (0, 10, "a", 15, False)]
    assert rows_of(windows.advance(20)) == [(0, 10, "a", 15, True), (0, 10, "b", 5, True), (10, 20, "a", 7, True)]


def test_sessions_that_become_one_have_the_rows_of_both() -> None:
    windows = early_windows(Session(10), Count(), Each(3))
    assert add(windows, ("a", 0, 0), ("a", 1, 0), ("a", 20, 0), ("a", 21, 0)) == []
    assert rows_of(add(windows, ("a", 11, 0))) == [(0, 31, "a", 5, False)]
    assert rows_of(add(windows, ("a", 12, 0))) == [(0, 31, "a", 6, False)]
    assert rows_of(windows.advance(99)) == [(0, 31, "a", 6, True)]


def test_early_results_are_emitted_after_their_interval() -> None:
    windows = early_windows(Tumbling(10), Collect(), Every(100))
    assert windows.next_ms(0) is None
    add(windows, ("a", 1, "x"), ("b", 2, "y"), ("a", 12, "z"))
    assert windows.needs_timer
    assert (windows.next_ms(7), windows.show(106)) == (107, None)
    assert not windows.needs_timer
    assert rows_of(windows.show(107) or ()) == [(0, 10, "a", ["x"], False), (10, 20, "a", ["z"], False),
                                             (0, 10, "b", ["y"], False)]  # fmt: skip
    assert windows.next_ms(500) is None
    add(windows, ("a", 3, "w"), ([], 3, "no hash"), ("a", None, "no time"))
    assert windows.next_ms(600) == 700
    assert rows_of(windows.show(700) or ()) == [(0, 10, "a", ["x", "w"], False)]
    add(windows, ("b", 3, "v"))
    assert len(rows_of(windows.advance(20))) == 3
    assert (windows.next_ms(701), list(windows.show(801) or ())) == (801, [])
    assert not windows._shown
    assert windows.states == 0


@pytest.mark.parametrize("aggregate", [Count(), Sum(), Mean(), Min(), TopK(2), Collect(), Distinct(),
                                       Combined(sum=Sum(), rows=Collect())], ids=lambda one: one.title)  # fmt: skip
@pytest.mark.parametrize("windows", [Tumbling(10), Sliding(10, 3), Session(5)], ids=str)
def test_states_are_read_and_not_used_up(aggregate: Any, windows: Any) -> None:
    plain, early = time_windows(windows, aggregate), early_windows(windows, aggregate, Each(1))
    for n in range(20):
        row = ("ab"[n % 2], n, n % 3)
        plain.add_one(*row)
        for shown in add(early, row):
            assert shown.error is None
    assert rows_of(early.advance(100)) == rows_of(plain.advance(100))


def test_an_error_in_an_early_result_is_shown_and_the_window_goes_on() -> None:
    class Fragile(Count):
        def purge(self, state: Any, window: Window) -> Any:
            return 12 // (state - 1) if not window.final else state

    windows = early_windows(Tumbling(10), Fragile(), Each(1))
    (shown,) = add(windows, ("a", 1, 0))
    assert isinstance(shown.error, ZeroDivisionError)
    assert rows_of(add(windows, ("a", 1, 0))) == [(0, 10, "a", 12, False)]
    assert rows_of(windows.advance(10)) == [(0, 10, "a", 2, True)]


@pytest.mark.parametrize("early", [Each, Every])
@pytest.mark.parametrize("wrong", [0, -1, 1.5, True, "1"])
def test_invalid_early_settings_are_refused(early: Any, wrong: Any) -> None:
    with pytest.raises(WindowError, match="early="):
        early(wrong)


def test_count_windows_have_no_early_results() -> None:
    with pytest.raises(WindowError, match="early results of Counts"):
        early_windows(Counts(3), Count(), Each(1))  # type: ignore[arg-type]


def test_an_early_window_is_the_window() -> None:
    windows = early_windows(Tumbling(10), Count(), Each(1))
    (shown,) = add(windows, ("a", 1, 0))
    assert shown.window == Window(0, 10)
    assert Window(0, 10) == shown.window
    assert {shown.window: 1}[Window(0, 10)] == 1
    assert Window(0, 10).final


@settings(max_examples=examples(200))
@given(
    windows=st.one_of(
        st.integers(1, 20).map(Tumbling),
        st.tuples(st.integers(4, 20), st.integers(1, 4)).map(lambda sizes: Sliding(*sizes)),
        st.integers(1, 20).map(Session),
    ),
    early=st.one_of(st.integers(1, 4).map(Each), st.integers(1, 3).map(Every)),
    batches=st.lists(ROWS, max_size=8),
    lateness=st.sampled_from([0, 0, 5]),
)
def test_the_last_results_are_those_without_early_ones(
    windows: Any, early: Any, batches: list[list[tuple[str, int]]], lateness: int
) -> None:
    plain = time_windows(windows, Collect(), allowed_lateness_ms=lateness)
    shows = early_windows(windows, Collect(), early, allowed_lateness_ms=lateness)
    seen: dict[Any, list[Any]] = defaultdict(list)
    number = greatest = 0
    for now_ms, batch in enumerate(batches):
        rows = [(key, at, number + n) for n, (key, at) in enumerate(batch)]
        number += len(rows)
        if rows:
            taken = plain.add(*zip(*rows, strict=True))
            late = [place for one in shows.add(*zip(*rows, strict=True)) for place in one.late]
            assert late == taken.late
        early_ones = [*shows.ready, *(shows.show(now_ms) or ())]
        shows.ready = []
        for one in early_ones:
            assert not one.window.final
            assert one.result
            if not isinstance(windows, Session):
                known = seen[one.key, one.window.start]
                assert set(known) < set(one.result) or not known  # it grows
                seen[one.key, one.window.start] = one.result
                if isinstance(early, Each):
                    assert len(one.result) % early.rows == 0
        if batch:
            greatest = max(greatest, *(at for _, at in batch))
        ended = greatest - 10
        # (Windows that share slices join them; those with early results count rows as they come.)
        assert rows_of(shows.advance(ended), in_order=False) == rows_of(plain.advance(ended), in_order=False)
        if isinstance(early, Each) and not isinstance(windows, Session):
            for (key, start), result in seen.items():
                assert Counter(result).most_common(1)[0][1] == 1, (key, start)
    assert rows_of(shows.advance(10**6), in_order=False) == rows_of(plain.advance(10**6), in_order=False)
    assert (shows.states, shows._shown) == (0, {})


def test_a_late_row_whose_key_has_no_hash_is_late() -> None:
    windows = early_windows(Tumbling(10), Count(), Every(10))
    list(windows.advance(100))
    (added,) = windows.add([[]], [1], [0])
    assert (added.late, added.failed) == ([0], [])
    assert windows.next_ms(0) is None


@pytest.mark.parametrize("early", [Each(1), Every(10)])
def test_rows_that_fail_or_are_late_are_named_by_their_places(early: Any) -> None:
    windows = early_windows(Tumbling(10), Count(), early)
    list(windows.advance(10))
    emitted: list[Fired] = []
    rows = ReadRows(range(6), ["a", "a", [], "b", "c", "a"], [11, 1, 12, None, 15, 2], [0] * 6)
    added = windows.add_rows(rows, emitted.extend)
    assert added.late == [1, 5]
    assert [place for place, _ in added.failed] == [2, 3]
    assert [one.key for one in emitted] == (["a", "c"] if early == Each(1) else [])
    assert not windows.ready


def test_results_that_were_not_taken_are_fired_later() -> None:
    windows = early_windows(Tumbling(10), Count(), Each(1))
    add(windows, ("a", 1, 0), ("b", 2, 0), ("a", 11, 0))
    results = windows.advance(20)
    assert rows_of([next(results)]) == [(0, 10, "a", 1, True)]
    assert rows_of(windows.fire()) == [(0, 10, "b", 1, True), (10, 20, "a", 1, True)]
    assert rows_of(windows.fire()) == []


def test_keys_that_are_due_are_due_in_the_same_order_after_a_restart() -> None:
    windows = early_windows(Tumbling(10), Count(), Every(10))
    base = windows.dump(1)
    add(windows, ("a", 1, 0), ("c", 1, 0))
    assert windows.next_ms(0) == 10
    assert [one.key for one in windows.show(10) or ()] == ["a", "c"]
    add(windows, ("b", 2, 0), ("a", 3, 0))
    assert windows.next_ms(10) == 20
    assert windows.show(20) is not None  # due, and nothing is taken
    restarted = early_windows(Tumbling(10), Count(), Every(10))
    restarted.load(apply_delta(base, windows.dump(2, since=1)))
    assert restarted.needs_timer
    assert restarted.next_ms(3) == 3
    assert rows_of(restarted.show(3) or ()) == [(0, 10, "b", 1, False), (0, 10, "a", 2, False)]
