"""Timed task: a task that receives watermarks, and has windows that wait for them (or passes the watermarks on).

    mailbox ─► rows, rows, watermark ─► advance ─► windows are due? the next turns fire them ─► wakeup, for the rest

1. A watermark is handled in its place among the rows.
2. There is one wakeup at most; it is set for the first moment at which something changes without input.
3. A task in a worker that was restarted asks its input tasks for their watermarks.
"""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import Any, Final

from ..actors import Timer
from ..metrics import TimeMetrics
from ..topology import WATERMARK_STREAM, ComponentSpec, Config, Segment, TaskSpec
from ..windows import WatermarkTracker, WindowBolt
from .emit.collectors import BoltTaskCollector
from .environment import Environment
from .event_time.driver import EventTimeDriver
from .event_time.time_messages import WatermarkRequest
from .execute.base import Executor, Tools
from .execute.windowing import make_keeper, pass_through_driver, window_executor
from .steps import SteppingTask

log = logging.getLogger("aiostorm.tasks")

WAKEUP: Final = object()

HELD_UP_MS: Final = 1_000
"""After a longer turn, or a longer delay of an wakeup, the task counts as held up."""


class EventTimeTask(SteppingTask):
    """Base of bolt tasks."""

    def __init__(self, env: Environment, task: TaskSpec, spec: ComponentSpec, config: Config) -> None:
        super().__init__(env, task, spec, config)
        self._keeper: WatermarkTracker | None = None
        self._wakeup: Timer | None = None
        self._wakeup_s = 0.0
        self._held_ms: int | None = None  # since when its targets have blocked it
        self._has_dropped = False

    def time_metrics(self) -> TimeMetrics | None:
        if self._time is None:
            return None
        found = self._time.metrics()
        return replace(found, live=0) if self._has_dropped else found  # the open windows are counted as dropped

    def window_executor(self, component: WindowBolt, tools: Tools, collector: BoltTaskCollector) -> Executor:
        """The executor of a bolt with windows."""
        keeper = self._keep_time(component, tools)
        assert keeper is not None  # noqa: S101 - for the type checker: a bolt with windows has one
        before = self._time
        executor = window_executor(component, tools, collector, self.env, self.task, self.config, keeper)
        self._time = executor
        if before is not None and before.held and not before.buffered:
            self.counters.dropped_windows += before.held
            log.warning(
                "%s was restarted: what %s held is lost with the instance that failed",
                self.name,
                _count(before.held, "open window"),
            )
        return executor

    def pass_time_on(self, component: Any, tools: Tools) -> None:
        """For a bolt without windows."""
        self._time = pass_through_driver(tools, self.env, self.task, self._keep_time(component, tools))

    def after_turn(self, time: EventTimeDriver, begun_ms: int) -> None:
        """Rows were taken, or windows fired."""
        used_ms = time.now_ms() - begun_ms
        if used_ms > HELD_UP_MS:
            time.skip(used_ms)
            if self._held_ms is not None:
                self._held_ms = time.now_ms()  # the turn's time must not be skipped twice
        if time.unsettled:
            self.settle_time(time)

    async def fire(self, time: EventTimeDriver, most: int) -> None:
        """A turn of firing windows."""
        stopwatch = self.env.clock.stopwatch
        begun_s = stopwatch()
        await time.fire(most)
        self.counters.execute_s += stopwatch() - begun_s

    def settle_time(self, time: EventTimeDriver) -> None:
        """After a turn or an wakeup: advance the watermark, and set the next wakeup."""
        time.advance_watermark()
        wait_ms = time.settled()
        if wait_ms is None:
            return
        at_s = self.env.clock.monotonic() + wait_ms / 1000
        if self._wakeup is not None and self._wakeup.active:
            if self._wakeup_s <= at_s:  # it comes first, and is then set anew
                return
            self._wakeup.cancel()
        self._wakeup, self._wakeup_s = self.after(wait_ms / 1000, WAKEUP), at_s

    def on_wakeup(self) -> None:
        """The wakeup has fired."""
        self._wakeup = None
        if self._time is None or self.outbox.blocked:  # then `_on_unblock` sets it again
            return
        late_ms = int((self.env.clock.monotonic() - self._wakeup_s) * 1000)
        if late_ms > HELD_UP_MS:
            self._time.skip(late_ms)
        self.settle_time(self._time)
        self.emitter.flush()

    def _on_block(self) -> None:
        if self._time is not None:
            self._held_ms = self._time.now_ms()

    def _on_unblock(self) -> None:
        super()._on_unblock()
        if self._time is None or self.outbox.blocked:  # a target has ended, and other rows still wait
            return
        if self._held_ms is not None:
            self._time.skip(self._time.now_ms() - self._held_ms)
            self._held_ms = None
        if self._wakeup is None:
            self._wakeup, self._wakeup_s = self.after(0, WAKEUP), self.env.clock.monotonic()

    def on_watermarks(self, time: EventTimeDriver, segment: Segment) -> None:
        """Handle a segment of watermarks."""
        for watermark_ms in segment.items:
            if type(watermark_ms) is int:
                time.on_watermark(segment.origin.task, watermark_ms)

    def up_to_watermark(self, time: EventTimeDriver) -> list[Segment]:
        """Take the segments up to the next watermark; watermarks before them are handled."""
        inbox, segments = self._inbox, list[Segment]()
        while inbox and inbox[0].origin.stream == WATERMARK_STREAM and not time.firing:
            self.on_watermarks(time, inbox.popleft())
        while inbox and inbox[0].origin.stream != WATERMARK_STREAM and not time.firing:
            segments.append(inbox.popleft())
        return segments

    def report_dropped(self) -> None:
        """The task ends: count and log what was in windows that have not fired."""
        time, counters = self._time, self.counters
        if time is None or not time.held or self._has_dropped:
            return
        held, self._has_dropped = time.held, True
        if time.buffered:
            counters.dropped_tuples += held
            log.warning(
                "%s ended with %s in windows that have not fired: they are not acked", self.name, _count(held, "tuple")
            )
        else:
            counters.dropped_windows += held
            text = "%s ended with %s that have not fired: their rows were acked and are not sent again"
            log.warning(text, self.name, _count(held, "open window"))

    def _keep_time(self, component: Any, tools: Tools) -> WatermarkTracker | None:
        if self._keeper is None:
            self._keeper = make_keeper(self.env, self.task, component, self.config, tools.report)
            if self._keeper is not None and self.env.remote:
                # In one process all start together. A restarted worker has lost what its inputs sent before.
                for task in self.env.time_inputs(self.task.component):
                    self.env.mailbox_of(self.task.task_id, task).post(WatermarkRequest(self.task.task_id))
        return self._keeper


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"
