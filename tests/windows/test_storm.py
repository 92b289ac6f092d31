"""Scenarios of Storm's WindowManagerTest and of JStorm's windows, with their numbers.

Storm's windows are (start, end]: a time on a boundary is in the next one here. Most of these numbers stand on none.
"""

from __future__ import annotations

import pytest

from aiostorm.windows import (
    BufferedWindows,
    Collect,
    Count,
    Counts,
    MsEachRows,
    PlainWindows,
    RowsEachMs,
    Sliding,
    Time,
    Tumbling,
    WindowError,
    WindowRows,
    buffered_windows,
    count_windows,
)
from aiostorm.windows.buffered import BufferedCounts

from .scenarios import scenario

EXPIRE_EVENTS_THRESHOLD = 100
"""Storm's: so many rows are held before it looks which of them have expired."""

HALF_OPEN = "Windows are [start, end), as in JStorm"


def seq(first: int, last: int | None = None) -> tuple[int, ...]:
    return tuple(range(first, (first if last is None else last) + 1))


def counted(size: int, slide: int, rows: tuple[int, ...]) -> list[WindowRows]:
    windows = BufferedCounts(Counts(size, slide))
    assert windows.add([None] * len(rows), rows).failed == []
    return list(windows.fire())


def timed(
    windows: BufferedWindows | RowsEachMs | MsEachRows, rows: list[tuple[int, int]], watermark: int
) -> list[WindowRows]:
    windows.add([None] * len(rows), [at for _, at in rows], [row for row, _ in rows])
    return list(windows.advance(watermark))


@scenario(
    "Count windows of 5 rows, slide 2, 8 rows",
    "WindowManagerTest#testCountBasedWindow",
    "windows 1–2, 1–4, 2–6, 4–8; expired: 1; 2, 3",
)
def test_count_based_window() -> None:
    fired = counted(5, 2, seq(1, 8))
    assert [one.get() for one in fired] == [seq(1, 2), seq(1, 4), seq(2, 6), seq(4, 8)]
    assert [one.get_new() for one in fired] == [seq(1, 2), seq(3, 4), seq(5, 6), seq(7, 8)]
    assert [one.get_expired() for one in fired] == [(), (), seq(1), seq(2, 3)]


@scenario(
    "100 rows at 1–100 ms, windows of 100 rows: nothing is dropped before the first watermark",
    "WindowManagerTest#testExpireThresholdWithWatermarkCountEvictionPolicy",
    "at 100 one window of rows 1–100; these rows expire with the next watermark",
    "one window of rows 1–100, when row 100 comes; these rows are released with it",
    "Count windows do not use timestamps, so they do not wait for a watermark",
)
def test_expire_threshold_with_counts() -> None:
    windows = BufferedCounts(Counts(EXPIRE_EVENTS_THRESHOLD))
    windows.add([None] * 100, seq(1, 100))
    assert [one.get() for one in windows.fire()] == [seq(1, 100)]
    assert windows.released() == list(seq(1, 100))


@scenario(
    "100 rows at 1–100 ms, windows of 100 ms: nothing is dropped before the first watermark",
    "WindowManagerTest#testExpireThresholdWithWatermarkTimeEvictionPolicy",
    "at 100 one window of rows 1–100; these rows expire at 201",
    "at 100 one window of rows 1–99; row 100 is in the next window, which fires at 201",
    HALF_OPEN,
)
def test_expire_threshold_with_watermarks() -> None:
    windows = BufferedWindows(Tumbling(EXPIRE_EVENTS_THRESHOLD))
    windows.add([None] * 100, seq(1, 100), seq(1, 100))
    assert windows.rows == 100
    assert windows.released() == []
    assert [one.get() for one in windows.advance(100)] == [seq(1, 99)]
    fired = timed(windows, [(row, row) for row in seq(101, 200)], 201)
    assert [one.get() for one in fired] == [seq(100, 199)]
    assert [one.get_expired() for one in fired] == [seq(1, 99)]


@scenario(
    "Processing time, 1 s: rows with a time of one second ago are in no window, even if they came last",
    "WindowManagerTest#testTimeBasedWindow",
    "at +100 ms: 51–100, expired 1–50 and 101–200; at +200 ms: 51–100 and 201–300, new 201–300, expired none",
)
def test_time_based_window() -> None:
    now = 1_700_000_000_000
    windows = BufferedWindows(Sliding(1_000, 100, time=Time.PROCESSING))
    rows = [(row, now - 1_000) for row in seq(1, 50)] + [(row, now) for row in seq(51, 100)]
    rows += [(row, now - 1_000) for row in seq(101, 200)]
    fired = timed(windows, rows, now + 100)[-1]
    assert fired.window.end == now + 100
    assert fired.get() == fired.get_new() == seq(51, 100)
    assert fired.get_expired() == seq(1, 50) + seq(101, 200)
    (fired,) = timed(windows, [(row, now) for row in seq(201, 300)], now + 200)
    assert fired.get() == seq(51, 100) + seq(201, 300)
    assert fired.get_new() == seq(201, 300)
    assert fired.get_expired() == ()


@scenario(
    "Processing time, 100 ms, fired every 60 ms: 10 rows",
    "WindowManagerTest#testTimeBasedWindowExpiry",
    "+60 ms: 1–10; +120 ms: no window, 1–10 expire; +180 ms: nothing",
)
def test_time_based_window_expiry() -> None:
    windows = BufferedWindows(Sliding(100, 60, offset_ms=20, time=Time.PROCESSING))
    windows.add([None] * 10, [0] * 10, seq(1, 10))
    assert [(one.window.end, one.get(), one.get_expired()) for one in windows.advance(60)] == [(60, seq(1, 10), ())]
    assert windows.rows == 10
    assert list(windows.advance(120)) == []
    assert windows.rows == 0
    assert list(windows.advance(180)) == []


@scenario(
    "Count windows of 3, 6 rows",
    "WindowManagerTest#testTumblingWindow",
    "windows 1–3, 4–6; expired with the second window: 1–3",
)
def test_tumbling_window() -> None:
    fired = counted(3, 3, seq(1, 6))
    assert [one.get() for one in fired] == [seq(1, 3), seq(4, 6)]
    assert [one.get_new() for one in fired] == [seq(1, 3), seq(4, 6)]
    assert [one.get_expired() for one in fired] == [(), seq(1, 3)]


@scenario(
    "Event time, 20 ms, slide 10, watermarks 609, 631, 834, and a gap",
    "WindowManagerTest#testEventTimeBasedWindow",
    "none; 1–3, 1–4, 4–5; 5–6, 6, 7–9; each with its new and its expired rows",
)
def test_event_time_based_window() -> None:
    windows = BufferedWindows(Sliding(20, 10))
    assert timed(windows, [(1, 603), (2, 605), (3, 607)], 609) == []
    fired = timed(windows, [(4, 618), (5, 626), (6, 636)], 631)
    assert [one.window.end for one in fired] == [610, 620, 630]
    assert [one.get() for one in fired] == [seq(1, 3), seq(1, 4), seq(4, 5)]
    assert [one.get_new() for one in fired] == [seq(1, 3), seq(4), seq(5)]
    assert [one.get_expired() for one in fired] == [(), (), seq(1, 3)]
    fired = timed(windows, [(7, 825), (8, 826), (9, 827), (10, 839)], 834)
    assert [one.get() for one in fired] == [seq(5, 6), seq(6), seq(7, 9)]
    assert [one.get_new() for one in fired] == [seq(6), (), seq(7, 9)]
    assert [one.get_expired() for one in fired] == [seq(4), seq(5), ()]


@scenario(
    "Count windows of 2 over rows at 10, 10, 11, 12, 12, 12, 12, 13, 14, 15 ms",
    "WindowManagerTest#testCountBasedTumblingWithSameEventTs",
    "1–2, 3–4, 5–6, 7–8, 9–10, at watermark 20",
    "the same rows; each window fires when its last row comes",
    "Count windows do not use timestamps, so they do not wait for a watermark",
)
def test_count_based_tumbling_with_the_same_times() -> None:
    assert [one.get() for one in counted(2, 2, seq(1, 10))] == [seq(at, at + 1) for at in (1, 3, 5, 7, 9)]


@scenario(
    "The same rows, count windows of 5 rows, slide 2",
    "WindowManagerTest#testCountBasedSlidingWithSameEventTs",
    "1–2, 1–4, 2–6, 4–8, 6–10, at watermark 20",
    "the same rows; each window fires when its last row comes",
    "Count windows do not use timestamps, so they do not wait for a watermark",
)
def test_count_based_sliding_with_the_same_times() -> None:
    fired = counted(5, 2, seq(1, 10))
    assert [one.get() for one in fired] == [seq(1, 2), seq(1, 4), seq(2, 6), seq(4, 8), seq(6, 10)]


@scenario(
    "Rows out of order: 626, 632, 629; watermark 631",
    "WindowManagerTest#testEventTimeLag",
    "1–3, 1–4, and 4, 5, 7 in the order in which they came",
)
def test_event_time_lag() -> None:
    rows = [(1, 603), (2, 605), (3, 607), (4, 618), (5, 626), (6, 632), (7, 629), (8, 636)]
    fired = timed(BufferedWindows(Sliding(20, 10)), rows, 631)
    assert [one.get() for one in fired] == [seq(1, 3), seq(1, 4), (4, 5, 7)]


@scenario("Rows after the watermark are in no window yet", "WindowManagerTest#testScanStop", "1–3, 1–4, 4–6")
def test_scan_stop() -> None:
    rows = [*zip(range(1, 11), (603, 605, 607, 618, 626, 629, 636, 637, 638, 639), strict=True)]
    fired = timed(BufferedWindows(Sliding(20, 10)), rows, 631)
    assert [one.get() for one in fired] == [seq(1, 3), seq(1, 4), seq(4, 6)]


def test_a_tuple_is_released_with_its_last_window() -> None:
    """Storm acks at expiry, one slide later; here "when its last window has fired" (docs/semantics.md)."""
    windows = BufferedWindows(Sliding(20, 10))
    timed(windows, [(1, 605), (2, 615)], 610)
    assert windows.released() == []
    list(windows.advance(620))
    assert windows.released() == [1]
    list(windows.advance(630))
    assert windows.released() == [2]
    assert windows.rows == 1  # it may be reported once more, as an expired row
    list(windows.advance(640))
    assert windows.rows == 0


@scenario(
    "Sliding count windows with an aggregate: 3 rows, slide 1; 5 rows, slide 2",
    "JStorm SlidingCountWindows (code)#assignWindows",
    "a row is in two windows: with (3, 1) each window gets 2 rows; with (5, 2) row 4 is in [2, 7), [4, 9)",
    "with (3, 1): 0–2, 1–3, 2–4; with (5, 2) row 4 is in [0, 5), [2, 7), [4, 9)",
    "JStorm loses windows if the size is more than twice the slide",
)
def test_sliding_count_windows_of_jstorm() -> None:
    windows = count_windows(Counts(3, 1), Collect())
    windows.add([None] * 5, range(5))
    assert [one.result for one in windows.fire()] == [[0, 1, 2], [1, 2, 3], [2, 3, 4]]
    assert [(one.start, one.end) for one in Counts(5, 2).windows_of(4)] == [(0, 5), (2, 7), (4, 9)]


@scenario(
    "Tumbling windows of 10 ms, rows at 1, 9, 10, 12",
    "JStorm EventTimeTrigger (code)#onElement",
    "[0, 10) fires when the watermark has reached its end, not at 9",
)
def test_tumbling_event_time_windows_of_jstorm() -> None:
    windows = PlainWindows(Tumbling(10), Collect())
    windows.add([None] * 4, [1, 9, 10, 12], ["a", "b", "c", "d"])
    assert list(windows.advance(9)) == []
    assert [one.result for one in windows.advance(10)] == [["a", "b"]]
    assert [one.result for one in windows.advance(20)] == [["c", "d"]]


@scenario(
    "Sums of 30 rows, slide 10, updated by the new and the expired rows; means of three sums",
    "JStorm SlidingWindowTopologyTest#testSlidingWindowTopology",
    "for rows 1, 2, 3, …: 55, 210, 465, 765",
)
def test_sums_from_new_and_expired_tuples() -> None:
    total, sums = 0, []
    for window in counted(30, 10, seq(1, 300)):
        total += sum(window.get_new()) - sum(window.get_expired())
        assert total == sum(window.get())
        sums.append(total)
    assert sums[:4] == [55, 210, 465, 765]
    means = [sum(window.get()) // 3 for window in counted(3, 3, tuple(sums))]
    assert means == [sum(sums[at : at + 3]) // 3 for at in range(0, 30, 3)]


@scenario(
    "300 rows, one every 100 ms; windows of 5 s, slide 3 s, lag 5 s",
    "JStorm SlidingTupleTsTopologyTest#testSlidingTupleTsTopology",
    "8 windows that end at whole slides; the third has rows 41–90",
    "8 windows with `offset_ms=1_000`; the third has rows 40–89",
    "Windows are [start, end). Starts are aligned to the slide, not ends; this differs if the size is no "
    "multiple of it",
)
def test_sliding_windows_by_the_tuples_time() -> None:
    base = 24 * 60 * 60 * 1_000
    rows = [(row, base + 100 * row) for row in seq(1, 300)]
    fired = timed(BufferedWindows(Sliding(5_000, 3_000, offset_ms=1_000)), rows, base + 30_000 - 5_000)
    assert [one.window.end - base for one in fired] == [3_000 * number for number in range(1, 9)]
    assert [one.get() for one in fired] == [seq(max(1, 30 * number - 50), 30 * number - 1) for number in range(1, 9)]
    fired = timed(BufferedWindows(Sliding(5_000, 3_000)), rows, base + 30_000 - 5_000)
    assert [one.window.start - base for one in fired] == [3_000 * number for number in range(-1, 7)]


@scenario(
    "Count of words: windows of 1,000 words, slide 100",
    "JStorm TridentSlidingCountWindowTest#testTridentSlidingCountWindow",
    "100, 200, … 1,000, 1,000",
    "buffered: the same; incremental: 1,000, 1,000",
    "Incremental windows are like JStorm's SlidingCountWindows: only full windows fire",
)
def test_counts_of_words() -> None:
    assert [len(one.get()) for one in counted(1_000, 100, seq(1, 1_200))] == [*range(100, 1_001, 100), 1_000, 1_000]
    windows = count_windows(Counts(1_000, 100), Count())
    windows.add([None] * 1_200, seq(1, 1_200))
    assert [one.result for one in windows.fire()] == [1_000, 1_000, 1_000]


@scenario(
    "Count windows with sizes and slides of -1, 0, 1, 5, 10, 100, 200, 500",
    "SlidingWindowTest#testWindowCount",
    "below 1: refused; (5, 10): the last 5 of every 10 rows; otherwise the last `size` rows every `slide` rows",
    "(5, 10) is refused; the rest is the same",
    "A slide longer than the size leaves out rows without notice",
)
def test_sizes_of_count_windows() -> None:
    for size, slide in ((-1, 10), (10, -1), (0, 10), (10, 0), (0, 0), (-1, -1), (5, 10)):
        with pytest.raises(WindowError, match=r"give 1 or more|slide by the size or less"):
            Counts(size, slide)
    for size, slide in ((1, 1), (10, 5), (100, 10), (100, 100), (200, 100), (500, 100)):
        fired = counted(size, slide, seq(1, max(size, 5 * slide)))
        assert len(fired) >= 5
        for number, one in enumerate(fired, 1):
            assert one.get() == seq(max(0, number * slide - size) + 1, number * slide)


@scenario(
    "Windows by time with sizes and slides of -1, 0, 1, 2, 5, 10, 20 s",
    "SlidingWindowTest#testTimeWindow",
    "below 1: refused; (2, 5): 2 s of every 5 s; otherwise (end - size, end], ends at whole slides",
    "(2, 5) is refused; [end - size, end), ends at whole slides with `offset_ms`",
    "A slide longer than the size leaves out rows without notice; starts are aligned, not ends; windows "
    "are [start, end)",
)
def test_sizes_of_windows_by_time() -> None:
    for size_s, slide_s in ((-1, 10), (10, -1), (0, 10), (10, 0), (0, 0), (-1, -1), (2, 5)):
        with pytest.raises(WindowError, match=r"give 1 or more|leave out what is between them"):
            Sliding(size_s * 1_000, slide_s * 1_000)
    for size_s, slide_s in ((1, 1), (5, 2), (20, 5), (20, 10)):
        assert_whole_slides(size_s * 1_000, slide_s * 1_000)


@scenario(
    "Count windows of -1, 0, 1, 10, 250, 500 rows",
    "TumblingWindowTest#testTumbleCount",
    "below 1: refused; otherwise each window has the next `size` rows",
)
def test_sizes_of_tumbling_count_windows() -> None:
    for size in (-1, 0):
        with pytest.raises(WindowError, match="give 1 or more"):
            Counts(size)
    for size in (1, 10, 250, 500):
        assert [one.get() for one in counted(size, size, seq(1, 5 * size))] == [
            seq(size * number + 1, size * number + size) for number in range(5)
        ]


@scenario(
    "Tumbling windows of -1, 0, 1, 2, 5, 10 s, two spouts, lag 10 s",
    "TumblingWindowTest#testTumbleTime",
    "below 1: refused; otherwise (end - size, end]",
    "below 1: refused; otherwise [end - size, end)",
    HALF_OPEN,
)
def test_sizes_of_tumbling_windows() -> None:
    for size_s in (-1, 0):
        with pytest.raises(WindowError, match="give 1 or more"):
            Tumbling(size_s * 1_000)
    for size_s in (1, 2, 5, 10):
        assert_whole_slides(size_s * 1_000, size_s * 1_000)


def assert_whole_slides(size: int, slide: int) -> None:
    """Two spouts, a row each 100 ms, one of them 35 ms behind; the watermark is 10 s behind them."""
    begin = 1_700_000_000_035
    at = {row: begin + 100 * (row // 2) + 35 * (row % 2) for row in range(1_400)}
    windows = BufferedWindows(Sliding(size, slide, offset_ms=-size % slide))
    fired = []
    for row, ms in at.items():
        fired += timed(windows, [(row, ms)], ms - 10_000)
    first = begin // slide * slide + slide
    assert len(fired) >= 5
    for number, one in enumerate(fired):
        assert one.window.end == first + number * slide
        assert one.get() == tuple(row for row, ms in at.items() if one.window.end - size <= ms < one.window.end)


@scenario(
    "Length and slide of windows: 9 rows; 10 rows, slide 2; 20 s; 50 s, slide 10 s",
    "TridentWindowingTest#testWindowConfig",
    "length and slide: 9, 9; 10, 2; 20,000, 20,000; 50,000, 10,000",
)
def test_sizes_and_slides_of_windows() -> None:
    assert (Counts(9).size, Counts(9).slide) == (9, 9)
    assert (Counts(10, 2).size, Counts(10, 2).slide) == (10, 2)
    assert (Tumbling(20_000).size_ms, Tumbling(20_000).slide_ms) == (20_000, 20_000)
    assert (Sliding(50_000, 10_000).size_ms, Sliding(50_000, 10_000).slide_ms) == (50_000, 10_000)


@pytest.mark.parametrize(
    ("slots", "came", "counts"),
    [
        (2, (3, 2, 0, 0, 1, 0, 0, 0), (3, 5, 2, 0, 1, 1, 0, 0)),
        (3, (3, 2, 0, 0, 1, 0, 0, 0), (3, 5, 5, 2, 1, 1, 1, 0)),
        (4, (3, 2, 0, 0, 1, 0, 0, 0), (3, 5, 5, 5, 3, 1, 1, 1)),
        (5, (3, 2, 0, 0, 1, 0, 0, 0), (3, 5, 5, 5, 6, 3, 1, 1)),
        (5, (3, 11, 5, 13, 7, 17, 0, 3, 50, 600, 7000), (3, 14, 19, 32, 39, 53, 42, 40, 77, 670, 7653)),
    ],
)
@scenario(
    "A rolling count over 2 to 5 slots",
    "SlidingWindowCounterTest#testCounterWithSimulatedRuns",
    "3, 5, 2, 0, 1, 1, 0, 0 (2 slots) … 3, 14, 19, 32, 39, 53, 42, 40, 77, 670, 7653 (5 slots)",
    "the same, but no zeros",
    "A window without rows does not fire; Storm's counter emits 0 once",
)
def test_rolling_counts(slots: int, came: tuple[int, ...], counts: tuple[int, ...]) -> None:
    windows = buffered_windows(Sliding(slots * 60, 60))
    incremental = []
    for number, increments in enumerate(came):
        rows = [(number, 60 * number)] * increments
        incremental += timed(windows, rows, 60 * (number + 1))
    assert [(one.window.end // 60 - 1, len(one.get())) for one in incremental] == [
        (number, count) for number, count in enumerate(counts) if count
    ]


def test_windows_that_keep_their_rows() -> None:
    assert isinstance(buffered_windows(Counts(3)), BufferedCounts)
    assert isinstance(buffered_windows(Tumbling(3)), BufferedWindows)
