"""Scenarios of Storm's WindowManagerTest whose windows have a length in rows and a slide in time, or the reverse."""

from __future__ import annotations

from aiostorm.windows import Mixed, MsEachRows, RowsEachMs, Time, WindowRows

from .scenarios import scenario
from .test_storm import EXPIRE_EVENTS_THRESHOLD, seq


def timed(windows: RowsEachMs | MsEachRows, rows: list[tuple[int, int]], watermark: int) -> list[WindowRows]:
    windows.add([None] * len(rows), [at for _, at in rows], [row for row, _ in rows])
    return list(windows.advance(watermark))


@scenario(
    "The last 5 rows, fired once an hour: 100 rows",
    "WindowManagerTest#testExpireThreshold",
    "rows 1–95 expire when 100 rows are held",
    "rows 1–95 are released after the hour, when the window of 96–100 fires; until then all rows are held",
    "The times of the rows decide which are the last ones, when the window fires",
)
def test_expire_threshold() -> None:
    hour_ms = 3_600_000
    windows = RowsEachMs(Mixed(size=5, slide_ms=hour_ms, time=Time.PROCESSING))
    rows = [(row, row) for row in seq(1, EXPIRE_EVENTS_THRESHOLD)]
    assert timed(windows, rows, hour_ms - 1) == []
    assert windows.released() == []
    assert [(one.get(), one.get_expired()) for one in windows.advance(hour_ms)] == [(seq(96, 100), ())]
    assert windows.released() == list(seq(1, 95))
    assert windows.rows == 5


@scenario(
    "The last 3 rows, every 10 ms of event time: 603, 605, 607, 618, 626, 636, watermark 631; 665, 666, 667, 679, "
    "watermark 674",
    "WindowManagerTest#testCountBasedWindowWithEventTs",
    "1–3, 2–4, 3–5; then 4–6 three times, 7–9",
    "1–3, 2–4, 3–5; then 4–6 once, 7–9",
    "A window without a new row does not fire again",
)
def test_count_based_window_with_event_time() -> None:
    windows = RowsEachMs(Mixed(size=3, slide_ms=10))
    fired = timed(windows, [*zip(seq(1, 6), (603, 605, 607, 618, 626, 636), strict=True)], 631)
    assert [one.window.end for one in fired] == [610, 620, 630]
    assert [one.get() for one in fired] == [seq(1, 3), seq(2, 4), seq(3, 5)]
    assert [one.get_new() for one in fired] == [seq(1, 3), seq(4), seq(5)]
    assert [one.get_expired() for one in fired] == [(), seq(1), seq(2)]
    fired = timed(windows, [*zip(seq(7, 10), (665, 666, 667, 679), strict=True)], 674)
    assert [one.window.end for one in fired] == [640, 670]
    assert [one.get() for one in fired] == [seq(4, 6), seq(7, 9)]


@scenario(
    "The last 20 ms, every 3 rows: 603, 605, 607, 618, 625, 626, 629, 636, watermark 631; 665, 666, 667, 669, 679, "
    "watermark 674",
    "WindowManagerTest#testCountBasedTriggerWithEventTs",
    "1–3, 3–6; then 9, 9–12",
)
def test_count_based_trigger_with_event_time() -> None:
    windows = MsEachRows(Mixed(size_ms=20, slide=3))
    rows = [*zip(seq(1, 8), (603, 605, 607, 618, 625, 626, 629, 636), strict=True)]
    fired = timed(windows, rows, 631)
    assert [one.get() for one in fired] == [seq(1, 3), seq(3, 6)]
    assert [(one.window.start, one.window.end) for one in fired] == [(588, 608), (607, 627)]
    fired = timed(windows, [*zip(seq(9, 13), (665, 666, 667, 669, 679), strict=True)], 674)
    assert [one.get() for one in fired] == [seq(9), seq(9, 12)]
    assert [one.get_new() for one in fired] == [seq(9), seq(10, 12)]
