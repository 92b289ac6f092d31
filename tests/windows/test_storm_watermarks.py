"""Scenarios of Storm's WaterMarkEventGeneratorTest, WindowedBoltExecutorTest and of what bounds a window's memory."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from aiostorm.windows import (
    BufferedCounts,
    BufferedWindows,
    Count,
    Counts,
    Periodic,
    PlainWindows,
    Session,
    SessionWindows,
    Sliding,
    TimestampError,
    Tumbling,
    WatermarkPolicy,
    Watermarks,
    WindowError,
    WindowLimitError,
)

from .scenarios import scenario

LAG_MS = 5


class Tracker:
    """Storm's WaterMarkEventGenerator: `track` rows of a stream, `run` says the watermark if there is a new one."""

    def __init__(self, *streams: str) -> None:
        self.watermarks = Watermarks(streams)
        self.generators = {stream: Periodic(LAG_MS, interval_ms=1) for stream in streams}
        self.now_ms = 0
        self.run()

    def track(self, stream: str, *timestamps: int) -> None:
        self.generators[stream].observe(timestamps, timestamps)

    def run(self) -> int | None:
        before = self.watermarks.watermark
        self.now_ms += 1
        for stream, generator in self.generators.items():
            said = generator.tick(self.now_ms)
            if said is not None:
                self.watermarks.advance(stream, said, self.now_ms)
        return self.watermarks.watermark if self.watermarks.watermark != before else None


@scenario("One stream at 100, 110; lag 5", "WaterMarkEventGeneratorTest#testTrackSingleStream", "105")
def test_one_stream() -> None:
    tracker = Tracker("s1")
    tracker.track("s1", 100, 110)
    assert tracker.run() == 105


@scenario(
    "One stream at 100, 110, then 104; lag 5", "WaterMarkEventGeneratorTest#testTrackSingleStreamOutOfOrder", "105"
)
def test_one_stream_out_of_order() -> None:
    tracker = Tracker("s1")
    tracker.track("s1", 100, 110, 104)
    assert tracker.run() == 105


@scenario(
    "Two streams: one at 110, then the other at 98",
    "WaterMarkEventGeneratorTest#testTrackTwoStreams",
    "none while one stream is silent; then 93",
)
def test_two_streams() -> None:
    tracker = Tracker("s1", "s2")
    tracker.track("s1", 100, 110)
    assert tracker.run() is None
    tracker.track("s2", 95, 98)
    assert tracker.run() == 93


@scenario("No row has come", "WaterMarkEventGeneratorTest#testNoEvents", "no watermark")
def test_no_row_has_arrived() -> None:
    assert Tracker("s1").run() is None


@scenario(
    "Watermark 105; then 105, 106, 115 and 104",
    "WaterMarkEventGeneratorTest#testLateEvent",
    "104 is late, 105 is not; the watermark is then 110",
    "windows of 1 ms: the same; of 10 ms: 104 is not late, 99 is; the watermark is then 110",
    "A tuple is late only if all its windows have fired; a window that is still open takes it",
)
def test_a_late_row() -> None:
    tracker = Tracker("s1")
    tracker.track("s1", 100, 110)
    assert tracker.run() == 105
    came = (105, 106, 115, 104, 99)
    assert late(Tumbling(1), 105, came) == [104, 99]
    assert late(Tumbling(10), 105, came) == [99]
    tracker.track("s1", *came)
    assert tracker.run() == 110


def late(assigner: Sliding, watermark: int, timestamps: Sequence[int]) -> list[int]:
    windows = PlainWindows(assigner, Count())
    list(windows.advance(watermark))
    taken = windows.add([None] * len(timestamps), timestamps, timestamps)
    assert taken.failed == []
    return [timestamps[place] for place in taken.late]


@scenario(
    "A tuple without a timestamp",
    "WindowedBoltExecutorTest#testExecuteWithoutTs",
    "IllegalArgumentException: the worker ends",
    "TimestampError: the tuple fails; the other tuples and the task continue",
    "One bad tuple must not end the task and its open windows",
)
def test_a_row_without_a_time() -> None:
    windows = BufferedWindows(Sliding(20, 10))
    taken = windows.add([None] * 2, [None, 603], ["bad", "good"])
    assert [(place, type(error)) for place, error in taken.failed] == [(0, TimestampError)]
    assert [one.get() for one in windows.advance(610)] == [("good",)]


@scenario(
    "603, 605, 607, 618, 626, 636; windows of 20 ms, slide 10, lag 5",
    "WindowedBoltExecutorTest#testExecuteWithTs",
    "603–607; 603–618; 618, 626",
)
def test_rows_with_a_time() -> None:
    timestamps = (603, 605, 607, 618, 626, 636)
    tracker, windows = Tracker("s1"), BufferedWindows(Sliding(20, 10))
    tracker.track("s1", *timestamps)
    windows.add([None] * len(timestamps), timestamps, timestamps)
    watermark = tracker.run()
    assert watermark == 631
    assert [one.get() for one in windows.advance(watermark)] == [(603, 605, 607), (603, 605, 607, 618), (618, 626)]


@scenario(
    "The same rows, a watermark after each, and then 600",
    "WindowedBoltExecutorTest#testExecuteWithLateTupleStream",
    "only 600 is late",
)
def test_a_late_row_after_the_others() -> None:
    tracker, windows = Tracker("s1"), BufferedWindows(Sliding(20, 10))
    late_ones = []
    for timestamp in (603, 605, 607, 618, 626, 636, 600):
        tracker.track("s1", timestamp)
        late_ones += [timestamp] * len(windows.add([None], [timestamp], [timestamp]).late)
        watermark = tracker.run()
        if watermark is not None:
            list(windows.advance(watermark))
    assert late_ones == [600]


@scenario(
    "MAX_TIMESTAMP_WITH_RATIO, 0.9: of ten inputs one is at 120, eight at 50, one has sent nothing; [0, 100)",
    "JStorm WatermarkTriggerPolicy (code)#MAX_TIMESTAMP_WITH_RATIO",
    "by its documentation it fires (the greatest is past the end, 9 of 10 have sent something); by its "
    "code it does not",
    "it waits until nine inputs are at 100",
    "Rows that eight inputs still send for this window must not be lost",
)
def test_a_share_of_the_inputs_has_passed_the_end() -> None:
    watermarks = Watermarks(range(10), policy=WatermarkPolicy.MAX_TIMESTAMP_WITH_RATIO, ratio=0.9)
    windows = PlainWindows(Tumbling(100), Count())
    windows.add([None], [20], [1])
    for name, at_ms in enumerate([120] + [50] * 8):
        watermarks.advance(name, at_ms, 0)
    assert watermarks.watermark == 50
    assert list(windows.advance(50)) == []
    for name in range(1, 8):
        watermarks.advance(name, 100, 0)
    assert watermarks.watermark == 50
    assert watermarks.advance(8, 100, 0) == 100
    assert [one.window.end for one in windows.advance(100)] == [100]


@scenario(
    "Watermark 50, then a row at 20; windows of 100 ms",
    "JStorm WindowedBoltExecutor (code)#execute",
    "late: it is behind the watermark",
    "on time while [0, 100) is open; late when it has fired",
    "A tuple is late only if all its windows have fired; a window that is still open takes it",
)
def test_a_row_behind_the_watermark_in_an_open_window() -> None:
    windows = PlainWindows(Tumbling(100), Count())
    list(windows.advance(50))
    assert windows.add([None], [20], [1]).late == []
    assert [one.result for one in windows.advance(100)] == [1]
    assert windows.add([None], [20], [1]).late == [0]


@scenario(
    "Sessions with a gap of 10 ms: rows at 0 and 10, at 30 and 41",
    "JStorm TimeWindow (code)#intersects",
    "[0, 20); [30, 40) and [41, 51); the first fires at 20",
    "the same; the first fires at 21",
    "A row at 20 may still come when the watermark is 20, and belongs to the session",
)
def test_sessions_that_touch() -> None:
    windows = SessionWindows(Session(10), Count())
    windows.add([None] * 4, [41, 0, 30, 10], [1] * 4)
    assert list(windows.advance(20)) == []
    assert [(one.window.start, one.window.end) for one in windows.advance(21)] == [(0, 20)]
    assert [(one.window.start, one.window.end) for one in windows.advance(99)] == [(30, 40), (41, 51)]


@scenario(
    "Sessions with a gap of 10 ms: rows at 0, 15 and 8",
    "JStorm WindowedBoltExecutor (code)#mergeSessionWindows",
    "two overlapping sessions, [0, 18) and [8, 25)",
    "[0, 25)",
    "A row that joins several sessions merges them, as in Flink",
)
def test_a_row_that_joins_two_sessions() -> None:
    windows = SessionWindows(Session(10), Count())
    windows.add([None] * 3, [0, 15, 8], [1] * 3)
    assert [(one.window.start, one.window.end, one.result) for one in windows.advance(99)] == [(0, 25, 3)]


@scenario(
    "A cache of 0 or -1 partitions of a window is created",
    "SimpleWindowPartitionCacheTest#testBuildInvalid1, testBuildInvalid2",
    "IllegalArgumentException",
    "there is no cache; a limit of 0 or -1 rows or states is a WindowError",
    "Rows that do not fit into memory are not written to disk: they fail, with an error that says what to do",
)
def test_limits_below_one() -> None:
    for limit in (0, -1):
        with pytest.raises(WindowError, match="max_rows"):
            BufferedWindows(Tumbling(10), max_rows=limit)
        with pytest.raises(WindowError, match="max_states"):
            PlainWindows(Tumbling(10), Count(), max_states=limit)


@scenario(
    "There is space for 2, and 3 come",
    "SimpleWindowPartitionCacheTest#testGet",
    "2 is moved to the store, 3 is in the cache",
    "3 fails; 1 and 2 stay",
    "There is no cache, as in the row above",
)
def test_more_rows_than_the_limit() -> None:
    buffered = BufferedCounts(Counts(5), max_rows=2)
    incremental = PlainWindows(Tumbling(10), Count(), max_states=2)
    for taken in (buffered.add([None] * 3, [1, 2, 3]), incremental.add([1, 2, 3], [0, 0, 0], [1, 2, 3])):
        assert [(place, type(error)) for place, error in taken.failed] == [(2, WindowLimitError)]
    assert buffered.rows == incremental.states == 2
