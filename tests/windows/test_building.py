"""Which machine implements which windows, from which settings, and the error for windows that cannot be."""

from __future__ import annotations

from typing import Any

import pytest

from aiostorm.topology import Config, Fields, StreamId
from aiostorm.windows import (
    Aggregate,
    BufferedCounts,
    BufferedSessions,
    BufferedWindowBolt,
    BufferedWindows,
    Combined,
    Count,
    Counts,
    CountWindows,
    Each,
    EarlyWindows,
    Every,
    Mean,
    Mixed,
    MsEachRows,
    Periodic,
    PlainWindows,
    RowsEachMs,
    Session,
    SessionWindows,
    SharedWindows,
    Sliding,
    Sum,
    Time,
    Tumbling,
    WindowedBolt,
    WindowError,
    WindowStateError,
    check_packable,
    time_windows,
)
from aiostorm.windows.building import buffered_windows, count_windows, early_windows
from aiostorm.windows.row_time import RowTime
from aiostorm.windows.settings import TimeSettings
from aiostorm.windows.state_codec import StateCodec, window_of
from aiostorm.windows.stream_clock import StreamClock

SECOND = Tumbling(1_000)
READ = {StreamId("orders"): Fields("user", "n")}


class Unmerged(Count):
    """Has no merge."""

    merge = Aggregate.merge


@pytest.mark.parametrize(
    ("assigner", "aggregate", "kind"),
    [
        (Tumbling(10), Count(), PlainWindows),
        (Sliding(10, 10), Count(), PlainWindows),
        (Sliding(10, 9), Count(), SharedWindows),
        (Sliding(10, 9), Unmerged(), PlainWindows),
        (Tumbling(10), Unmerged(), PlainWindows),
        (Session(10), Count(), SessionWindows),
    ],
)
def test_windows_by_time(assigner: Any, aggregate: Any, kind: type) -> None:
    windows = time_windows(assigner, aggregate)
    assert type(windows) is kind
    list(windows.advance(100))
    assert windows.add(["a", "a"], [50, 150], [0, 0]).late == [0], "there is no lateness unless it is given"
    assert len(list(windows.advance(10**6))) >= 1
    late = time_windows(assigner, aggregate, allowed_lateness_ms=50)
    list(late.advance(100))
    assert late.add(["a"], [50], [0]).late == []


@pytest.mark.parametrize(
    ("assigner", "kind"),
    [
        (Sliding(10, 5), BufferedWindows),
        (Session(10), BufferedSessions),
        (Mixed(size=3, slide_ms=10), RowsEachMs),
        (Mixed(size_ms=10, slide=3), MsEachRows),
    ],
)
def test_buffered_windows_by_time(assigner: Any, kind: type) -> None:
    windows: Any = buffered_windows(assigner)
    assert type(windows) is kind
    list(windows.advance(100))
    late = windows.add(["a", "a"], [50, 150], [0, 0]).late
    assert late == ([] if kind is RowsEachMs else [0]), "a row counts in the next window of rows, however old it is"


@pytest.mark.parametrize("make", [lambda: time_windows(Tumbling(10), Count()), lambda: buffered_windows(Tumbling(10))])
def test_a_row_is_late_when_its_window_has_ended(make: Any) -> None:
    windows = make()
    list(windows.advance(100))
    assert windows.add(["a"] * 3, [99, 100, 90], [0] * 3).late == [0, 2]


def test_windows_by_count() -> None:
    assert type(count_windows(Counts(3), Count())) is CountWindows
    assert type(buffered_windows(Counts(3))) is BufferedCounts


@pytest.mark.parametrize("wrong", [Mixed(size=3, slide_ms=10), Counts(3), None])
def test_windows_that_cannot_be_are_refused(wrong: Any) -> None:
    with pytest.raises(WindowError, match="windows by time of"):
        time_windows(wrong, Count())
    with pytest.raises(WindowError, match="early results of"):
        early_windows(wrong, Count(), Each(1))
    with pytest.raises(WindowError, match="windows by count of"):
        count_windows(SECOND, Count())  # type: ignore[arg-type]
    with pytest.raises(WindowError, match="buffered windows of None"):
        buffered_windows(None)  # type: ignore[arg-type]
    for make in (time_windows, count_windows):
        with pytest.raises(WindowError, match="windows of 5; give an Aggregate"):
            make(SECOND, 5)  # type: ignore[arg-type]


# -- settings ----------------------------------------------------------------------------------------------------------


def test_settings_of_a_bolt_are_its_own_or_those_of_the_config() -> None:
    config = Config(watermark_lag_ms=7, watermark_idle_timeout_ms=0, watermark_max_advance_ms=1)
    of_config = TimeSettings.of(WindowedBolt(SECOND, Count(), timestamp="n"), config)
    assert (of_config.lag_ms, of_config.idle_timeout_ms, of_config.max_advance_ms) == (7, None, 1)
    bolt = WindowedBolt(SECOND, Count(), timestamp="n", lag_ms=0, idle_timeout_ms=1, max_advance_ms=0)
    own = TimeSettings.of(bolt, config)
    assert (own.lag_ms, own.idle_timeout_ms, own.max_advance_ms) == (0, 1, None)
    assert (of_config.without_lag().lag_ms, of_config.without_lag().interval_ms) == (0, of_config.interval_ms)
    assert type(own.new_generator()) is Periodic
    made = Periodic(3)
    assert TimeSettings.of(WindowedBolt(SECOND, Count(), generator=lambda: made), config).new_generator() is made
    early = WindowedBolt(SECOND, Count(), timestamp="n", early=Each(2), max_states=7)
    assert type(early.machine(TimeSettings.of(early, config), None)) is EarlyWindows
    assert type(RowTime(bolt).clock(config, exact=True)) is StreamClock


# -- bolts -------------------------------------------------------------------------------------------------------------


def test_the_role_of_a_bolt_in_event_time() -> None:
    by_time = [Tumbling(10, time=time) for time in Time]
    roles = [WindowedBolt(windows, Count(), timestamp="n").time_role for windows in (*by_time, Counts(3))]
    assert [role.stamped for role in roles] == [False, False, True, False]
    assert [role.follow is not None for role in roles] == [True, False, False, False]
    bolts = [WindowedBolt(windows, Count(), timestamp="n") for windows in (*by_time, Counts(3))]
    assert [bolt.follows_rows for bolt in bolts] == [True, False, True, False]
    assert not any(bolt.fire_when_idle for bolt in bolts)


@pytest.mark.parametrize(
    ("windows", "kept_ms", "kept_rows"),
    [
        (Tumbling(100), 200 + 12, None),
        (Sliding(100, 30), 130 + 12, None),
        (Session(100), 100 + 12, None),
        (Mixed(size_ms=100, slide=3), 100 + 12, None),
        (Mixed(size=3, slide_ms=100), 100 + 12, 5),
        (Mixed(size=3, slide_ms=100, time=Time.PROCESSING), 100 + 12, 4),
        (Counts(7), None, 7),
    ],
)
def test_how_much_a_buffered_bolt_keeps(windows: Any, kept_ms: int | None, kept_rows: int | None) -> None:
    role = BufferedWindowBolt(windows, timestamp="n", lag_ms=5, allowed_lateness_ms=7).time_role
    assert (role.keeps, role.kept_ms, role.kept_rows) == (True, kept_ms, kept_rows)


def test_methods_that_a_bolt_must_define() -> None:
    bolt = WindowedBolt(SECOND)
    for method, given in (("init_state", 1), ("execute", 3), ("purge", 2), ("merge", 2), ("retract", 2)):
        with pytest.raises(NotImplementedError, match=f"WindowedBolt .*{method}"):
            getattr(bolt, method)(*range(given))
    with pytest.raises(NotImplementedError, match="BufferedWindowBolt must define execute"):
        BufferedWindowBolt(SECOND).execute(None)  # type: ignore[arg-type]


class Own(WindowedBolt):
    """Has states of its own."""

    def init_state(self, window: Any) -> Any:
        return 0

    def execute(self, tup: Any, state: Any, window: Any) -> Any:
        return state + 1

    def purge(self, state: Any, window: Any) -> Any:  # type: ignore[override]
        return [(state,)]


class Merging(Own):
    """With a merge."""

    def merge(self, first: Any, second: Any) -> Any:
        return first + second


PROCESSING = {"timestamp": None}


@pytest.mark.parametrize(
    ("bolt", "problem"),
    [
        (WindowedBolt(SECOND, Count(), timestamp="n", key=(5, "user")), "key is (5, 'user'); give a field's name"),  # type: ignore[arg-type]
        (WindowedBolt(SECOND, Count(), timestamp="n", key=("", "user")), "key is ('', 'user'); give a field's name"),
        (WindowedBolt(SECOND, Count(), timestamp="n", early=5), "early is 5; give Every(ms) or Each(rows)"),  # type: ignore[arg-type]
        (WindowedBolt(Counts(3), Count(), early=Each(1)), "early results are of windows by time"),
        (WindowedBolt(Counts(3), Count(), times="datetime"), "times is of windows by time"),
        (Own(SECOND, timestamp="n", times="datetime"), "times is of ready-made aggregates"),
        (Own(Session(10), timestamp="n"), "sessions may overlap: Own must define merge"),
        (WindowedBolt(SECOND, Sum(), timestamp="n"), "its aggregate: Sum() of a row of orders"),
        (WindowedBolt(SECOND, Mean(), timestamp="n"), "its aggregate: Mean() of a row of orders"),
        (WindowedBolt(SECOND, Count(), timestamp="n", key="user", early=Every(10)), None),
        (Merging(Session(10), timestamp="n"), None),
        (Own(SECOND, timestamp="n"), None),
        (WindowedBolt(SECOND, Combined(a=Sum("n"), b=Count()), timestamp="n", times="datetime"), None),
    ],
)
def test_problems_of_a_bolt_before_it_runs(bolt: WindowedBolt, problem: str | None) -> None:
    found = bolt.problems(READ)
    assert [text[: len(problem or text)] for text in found] == ([] if problem is None else [problem])


def test_a_setting_that_there_is_not_is_an_error_that_names_those_that_there_are() -> None:
    with pytest.raises(TypeError, match="has no setting 'qqqqqq'") as caught:
        WindowedBolt(SECOND, Count(), qqqqqq=1)  # type: ignore[call-arg]
    named = str(caught.value).partition("there are: ")[2].split(", ")
    assert {"windows", "aggregate", "early", "times", "key", "lag_ms"} <= set(named)
    assert not {"self", "settings"} & set(named)


# -- states in dumps ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("wrong", [[1], [1, 2, 3], (1, 2), "ab", {0: 1, 1: 2}, [1, None]])
def test_states_that_are_none_are_refused(wrong: Any) -> None:
    codec = StateCodec(Combined(a=Count(), b=Sum()))
    assert codec.unpack([1, 2], "k") == [1, 2]
    with pytest.raises(WindowStateError, match="key 'k'"):
        codec.unpack(wrong, "k")


@pytest.mark.parametrize(("start", "end"), [(5, 5), (6, 5), (None, 5), (1.0, 2)])
def test_a_window_in_a_dump_is_checked(start: Any, end: Any) -> None:
    with pytest.raises(WindowStateError, match="window"):
        window_of(start, end)
    with pytest.raises(WindowStateError, match="window"):
        StateCodec(Count()).unpack_fired((start, end, False, "k", 1, None))


def test_the_table_of_a_value_that_cannot_be_packed_is_named() -> None:
    def pack(value: Any) -> None:
        if value[1] == "bad":
            raise TypeError("it cannot be sent")

    head = {"kind": "K", "settings": {"aggregates": ["Sum"]}, "state": {}}
    check_packable({"head": head, "tables": {5: [{"k": 1}]}}, pack)
    for name, where in (
        (5, "the window or slice from 5, key 'k', the state of Sum"),
        ("timers", "its timers, key 'k'"),
    ):
        with pytest.raises(WindowStateError) as caught:
            check_packable({"head": head, "tables": {name: [{"k": "bad"}]}}, pack)
        assert str(caught.value) == f"K, {where}: it cannot be sent"
