"""Bugs planted into windows and into what carries time, one at a time: the world of windows finds each."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from aiostorm.tasks.bolt_time import BoltTime
from aiostorm.tasks.emit.emitter import EmitBuffer
from aiostorm.tasks.emit.following import Following
from aiostorm.tasks.emit.spout_collector import SpoutTaskCollector
from aiostorm.tasks.emit.watermarks import EndOfStream, WatermarkEmitter
from aiostorm.tasks.event_time.driver import EventTimeDriver
from aiostorm.tasks.execute.buffered_executor import WindowCalls
from aiostorm.tasks.execute.window_executor import WindowExecutor
from aiostorm.tasks.in_flight import InFlight
from aiostorm.topology import Segment
from aiostorm.windows import HashJoin, Watermarks, WatermarkTracker, Window
from aiostorm.windows.firing import Firing
from aiostorm.windows.open_sessions import OpenSessions, SessionMerge

from ..windows.world import WindowsResult, run
from .planting import SEEDS, Plant, first_that_finds, replaced


@contextlib.contextmanager
def the_watermark_is_the_greatest_of_its_inputs() -> Iterator[None]:
    """Watermark by max instead of min."""

    def among(self: Watermarks, active: list[int | None]) -> int | None:
        return max((watermark for watermark in active if watermark is not None), default=None)

    with replaced(Watermarks, "_by_policy", among):
        yield


@contextlib.contextmanager
def a_watermark_goes_back() -> Iterator[None]:
    """When an input that was idle speaks again."""
    real = Watermarks._decide

    def decide(self: Watermarks) -> None:
        self.watermark = None
        real(self)

    with replaced(Watermarks, "_decide", decide):
        yield


@contextlib.contextmanager
def event_time_sets_no_timers() -> Iterator[None]:
    """Time is looked at when something comes."""
    with replaced(BoltTime, "advance", lambda self, driver: (driver.advance_watermark(), driver.settled())):
        yield


@contextlib.contextmanager
def late_tuples_are_not_acked() -> Iterator[None]:
    """STORM-1859: they are replayed, and late again."""
    real = WindowExecutor.run

    def run_late(self: WindowExecutor, segment: Segment, start: int, stop: int) -> int:
        before = self._late._emitter.counters.late
        failed = real(self, segment, start, stop)
        segment.open += self._late._emitter.counters.late - before
        return failed

    with replaced(WindowExecutor, "run", run_late):
        yield


@contextlib.contextmanager
def sessions_merge_with_one_other() -> Iterator[None]:
    """JStorm's: a tuple between two sessions joins the first."""
    real = OpenSessions.merge_of

    def one_at_most(self: OpenSessions[Any], key: Any, at_ms: int) -> SessionMerge[Any]:
        place = real(self, key, at_ms)
        if len(place.touched) < 2:
            return place
        first = place.touched[0]
        window = Window(min(first.start, at_ms), max(first.end, at_ms + self._gap_ms))
        return SessionMerge(place.of_key, place.at, [first], window)

    with replaced(OpenSessions, "merge_of", one_at_most):
        yield


@contextlib.contextmanager
def windows_fire_a_millisecond_late() -> Iterator[None]:
    """`<` for `<=`: a watermark that is exactly at a window's end does not fire it."""

    def has_passed(self: Firing[Any], end: int) -> bool:
        return self.watermark is not None and end + self._lateness_ms < self.watermark

    with replaced(Firing, "_has_passed", has_passed):
        yield


@contextlib.contextmanager
def watermarks_are_not_resent() -> Iterator[None]:
    """A restarted task is sent new watermarks only."""
    with replaced(WatermarkEmitter, "resend", lambda self, task: None):
        yield


@contextlib.contextmanager
def the_end_of_a_stream_is_sent_once() -> Iterator[None]:
    """Ours: the simulation found it. A spout replays what a dead worker held, after it has sent its end."""
    real = EndOfStream.is_due

    def is_due(self: EndOfStream, collector: Any) -> bool:
        return self._sent_after < 0 and real(self, collector)

    with replaced(EndOfStream, "is_due", is_due):
        yield


@contextlib.contextmanager
def results_come_after_their_watermark() -> Iterator[None]:
    """A task sends its watermark, and then fires what ends before it."""
    real = EventTimeDriver.advance_watermark

    def advance_watermark(self: EventTimeDriver) -> None:
        if self.windows is not None and not self.windows.output.keeps_rows:
            self.pass_on(self.keeper.watermark)
        real(self)

    with replaced(EventTimeDriver, "advance_watermark", advance_watermark):
        yield


@contextlib.contextmanager
def watermarks_overtake_rows() -> Iterator[None]:
    """What a spout has emitted in this turn goes behind the watermark that it has emitted after it."""
    with replaced(SpoutTaskCollector, "_before_watermark", lambda self: None):
        yield


@contextlib.contextmanager
def an_ended_interval_counts_as_activity() -> Iterator[None]:
    """Ours: the simulation found it. One that has ended is waited for again, and for ever."""
    real = WatermarkTracker.tick

    def tick(self: WatermarkTracker, now_ms: int) -> None:
        for task, generator in self._generators.items():
            at_ms = generator.next_tick_ms
            if at_ms is not None and at_ms <= now_ms:
                self._watermarks.on_activity(task, now_ms)
        real(self, now_ms)

    with replaced(WatermarkTracker, "tick", tick):
        yield


@contextlib.contextmanager
def windows_wait_for_idle_inputs() -> Iterator[None]:
    """STORM-1608: an input task that is silent holds all windows back, though it should not."""

    def tick(self: Watermarks, now_ms: int) -> int | None:
        return self.watermark

    with replaced(Watermarks, "tick", tick):
        yield


@contextlib.contextmanager
def kept_tuples_are_not_failed() -> Iterator[None]:
    """Ours: the simulation found it. A task that fails outside of a call forgets the tuples that it keeps."""
    with replaced(InFlight, "__len__", lambda self: 0):
        yield


@contextlib.contextmanager
def a_new_instance_sets_no_timer_until_a_row_comes() -> Iterator[None]:
    """Ours: the simulation found it. The wakeup ends with the previous instance."""
    with replaced(BoltTime, "begin", lambda self: None):
        yield


@contextlib.contextmanager
def a_bolt_passes_on_the_watermark_of_one_input() -> Iterator[None]:
    """A bolt between passes on what one input says, not the least of all."""
    real = EventTimeDriver.on_watermark

    def on_watermark(self: EventTimeDriver, task: int, watermark_ms: int) -> None:
        real(self, task, watermark_ms)
        self.pass_on(self.keeper.by_input()[task])

    with replaced(EventTimeDriver, "on_watermark", on_watermark):
        yield


@contextlib.contextmanager
def followed_watermarks_overtake_their_rows() -> Iterator[None]:
    """A followed watermark is sent before the rows that it comes from."""
    real = Following.parts

    def parts(self: Following, emit_buffer: EmitBuffer) -> Iterator[EmitBuffer]:
        found = list(real(self, emit_buffer))
        self.send_due()
        yield from found

    with replaced(Following, "parts", parts):
        yield


@contextlib.contextmanager
def released_rows_are_not_acked() -> Iterator[None]:
    """The last window of a row has fired, and its message waits for its timeout."""

    def release(self: WindowCalls) -> None:
        self._machine.released()

    with replaced(WindowCalls, "_release", release):
        yield


@contextlib.contextmanager
def rows_without_a_partner_are_lost() -> Iterator[None]:
    """An outer join gives what an inner one does."""
    real = HashJoin.places

    def places(self: HashJoin, rows: Any) -> Any:
        return [found for found in real(self, rows) if None not in found]

    with replaced(HashJoin, "places", places):
        yield


PLANTED: dict[str, Plant] = {
    planted.__name__: planted
    for planted in (
        the_watermark_is_the_greatest_of_its_inputs,
        a_watermark_goes_back,
        event_time_sets_no_timers,
        late_tuples_are_not_acked,
        sessions_merge_with_one_other,
        windows_fire_a_millisecond_late,
        watermarks_are_not_resent,
        the_end_of_a_stream_is_sent_once,
        results_come_after_their_watermark,
        watermarks_overtake_rows,
        an_ended_interval_counts_as_activity,
        windows_wait_for_idle_inputs,
        kept_tuples_are_not_failed,
        a_new_instance_sets_no_timer_until_a_row_comes,
        a_bolt_passes_on_the_watermark_of_one_input,
        followed_watermarks_overtake_their_rows,
        released_rows_are_not_acked,
        rows_without_a_partner_are_lost,
    )
}

FIRST_LOOK = {
    # Seeds that found a bug some time ago: the test looks there first. (Any change to the code may move them.)
    "a_watermark_goes_back": 9,
    "windows_fire_a_millisecond_late": 11,
    "late_tuples_are_not_acked": 8,
    "sessions_merge_with_one_other": 25,
    "watermarks_are_not_resent": 2,
    "the_end_of_a_stream_is_sent_once": 36,
    "results_come_after_their_watermark": 4,
    "watermarks_overtake_rows": 135,
    "windows_wait_for_idle_inputs": 2,
    "kept_tuples_are_not_failed": 24,
    "a_bolt_passes_on_the_watermark_of_one_input": 5,
    "followed_watermarks_overtake_their_rows": 32,
    "rows_without_a_partner_are_lost": 41,
    "a_new_instance_sets_no_timer_until_a_row_comes": 62,
}


def found_by(planted: Plant, first: int = 0, seeds: int = SEEDS) -> WindowsResult | None:
    return first_that_finds(run, planted, first, seeds)
