"""Bolt time: the event time of a bolt task: the watermarks that it receives, and the windows that wait for them.

    mailbox ─► rows, rows, watermark ─► advance ─► windows are due? the next turns fire them ─► wakeup, for the rest

1. A watermark is handled in its place among the rows.
2. There is one wakeup at most; it is set for the first moment at which something changes without input.
3. A task in a worker that was restarted asks its input tasks for their watermarks. (Not with exactly once: there all
   tasks begin again with what they had saved.)
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from ..state import ForeignError, StateError
from ..windows import WatermarkTracker, WindowStateError
from .event_time.time_messages import WatermarkRequest
from .execute.windowing import make_keeper, pass_through_driver, window_executor
from .snapshots.saved import SENT, TIME
from .snapshots.window_capture import WindowTables
from .snapshots.window_loading import WRONG, load_windows

if TYPE_CHECKING:
    from ..actors import Timer
    from ..metrics import TimeMetrics
    from ..topology import Component, Segment, Value
    from ..windows import WindowBolt
    from .emit.collectors import BoltTaskCollector
    from .event_time.driver import EventTimeDriver
    from .execute.base import Executor, Tools
    from .task import TaskActor

log = logging.getLogger("aiostorm.tasks")

WAKEUP: Final = object()
"""The message of the wakeup's timer."""

HELD_UP_MS: Final = 1_000
"""After a longer turn, or a longer delay of a wakeup, the task counts as held up."""


class BoltTime:
    """The event time of one bolt task. `driver`: of the present instance; None: the task handles no event time.

    `keeper`: outlives the instances.
    """

    __slots__ = ("_has_dropped", "_held_ms", "_task", "_wakeup_s", "driver", "keeper", "wakeup")

    def __init__(self, task: TaskActor) -> None:
        self.driver: EventTimeDriver | None = None
        self.keeper: WatermarkTracker | None = None
        self.wakeup: Timer | None = None
        self._wakeup_s = 0.0
        self._held_ms: int | None = None  # since when its targets have blocked the task
        self._has_dropped = False
        self._task = task

    @property
    def firing(self) -> bool:
        """Are there windows to fire?"""
        return self.driver is not None and self.driver.firing

    def metrics(self) -> TimeMetrics | None:
        """How far event time is."""
        if self.driver is None:
            return None
        found = self.driver.metrics()
        return replace(found, live=0) if self._has_dropped else found  # the open windows are counted as dropped

    def window_executor(self, component: WindowBolt, tools: Tools, collector: BoltTaskCollector) -> Executor:
        """The executor of a bolt with windows."""
        keeper = self._keep_time(component, tools)
        assert keeper is not None  # noqa: S101 - for the type checker: a bolt with windows has one
        task, before = self._task, self.driver
        executor = window_executor(component, tools, collector, task.env, task.task, task.config, keeper)
        self.driver = executor.driver
        if before is not None and before.held and not before.keeps_rows:
            task.counters.dropped_windows += before.held
            log.warning(
                "%s was restarted: what %s held is lost with the instance that failed",
                task.name,
                _count(before.held, "open window"),
            )
        return executor

    def pass_through(self, component: Component, tools: Tools) -> None:
        """For a bolt without windows."""
        task = self._task
        self.driver = pass_through_driver(tools, task.env, task.task, self._keep_time(component, tools))

    def after_turn(self, driver: EventTimeDriver, begun_ms: int) -> None:
        """Rows were taken, or windows fired."""
        used_ms = driver.now_ms() - begun_ms
        if used_ms > HELD_UP_MS:
            driver.skip(used_ms)
            if self._held_ms is not None:
                self._held_ms = driver.now_ms()  # the turn's time must not be skipped twice
        if driver.unsettled:
            self.advance(driver)

    async def fire(self, driver: EventTimeDriver, most: int) -> None:
        """A turn of firing windows."""
        stopwatch = self._task.env.clock.stopwatch
        begun_s = stopwatch()
        await driver.fire(most)
        self._task.counters.execute_s += stopwatch() - begun_s

    def advance(self, driver: EventTimeDriver) -> None:
        """After a turn or a wakeup: advance the watermark, and set the next wakeup."""
        driver.advance_watermark()
        wait_ms = driver.settled()
        if wait_ms is None:
            return
        at_s = self._task.env.clock.monotonic() + wait_ms / 1000
        if self.wakeup is not None and self.wakeup.active:
            if self._wakeup_s <= at_s:  # it comes first, and is then set anew
                return
            self.wakeup.cancel()
        self.wakeup, self._wakeup_s = self._task.after(wait_ms / 1000, WAKEUP), at_s

    def begin(self) -> None:
        """A new instance: the wakeup of the one before ended with that."""
        if self.driver is not None:
            self.advance(self.driver)

    def on_wakeup(self) -> None:
        """The wakeup has fired."""
        self.wakeup = None
        driver, task = self.driver, self._task
        if driver is None or task.outbox.blocked:  # then `unblocked` sets it again
            return
        late_ms = int((task.env.clock.monotonic() - self._wakeup_s) * 1000)
        if late_ms > HELD_UP_MS:
            driver.skip(late_ms)
        self.advance(driver)
        task.emitter.flush()

    def blocked(self) -> None:
        """Segments begin to wait for their targets."""
        if self.driver is not None:
            self._held_ms = self.driver.now_ms()

    def unblocked(self) -> None:
        """Nothing waits any more; or a target has ended, and other rows still wait."""
        driver, task = self.driver, self._task
        if driver is None or task.outbox.blocked:
            return
        if self._held_ms is not None:
            driver.skip(driver.now_ms() - self._held_ms)
            self._held_ms = None
        if self.wakeup is None:
            self.wakeup, self._wakeup_s = task.after(0, WAKEUP), task.env.clock.monotonic()

    def on_watermarks(self, driver: EventTimeDriver, segment: Segment) -> None:
        """Handle a segment of watermarks."""
        for watermark_ms in segment.items:
            if type(watermark_ms) is int:
                driver.on_watermark(segment.origin.task, watermark_ms)

    def report_dropped(self) -> None:
        """The task ends: count and log what was in windows that have not fired."""
        driver, counters, name = self.driver, self._task.counters, self._task.name
        if driver is None or not driver.held or self._has_dropped or self._task.env.snapshots is not None:
            return
        held, self._has_dropped = driver.held, True
        if driver.keeps_rows:
            counters.dropped_tuples += held
            log.warning(
                "%s ended with %s in windows that have not fired: they are not acked", name, _count(held, "tuple")
            )
        else:
            counters.dropped_windows += held
            text = "%s ended with %s that have not fired: their rows were acked and are not sent again"
            log.warning(text, name, _count(held, "open window"))

    # -- snapshots ---------------------------------------------------------------------------------------------------

    def save(self) -> dict[str, Value]:
        """What the task knows of time, as values. What it emitted is sealed, and nothing is `firing`. StateError."""
        task, driver = self._task, self.driver
        try:
            time = {} if driver is None else {**driver.save(), "tasks": self._inputs()}
        except WindowStateError as error:
            raise StateError(f"{task.name}: its event time cannot be saved: {error}") from error
        return {**save_sent(task), TIME: time} if time else save_sent(task)

    def tables(self) -> WindowTables | None:
        """Its windows, for a snapshot; None: it has none."""
        driver, spec = self.driver, self._task.task
        if driver is None or driver.windows is None:
            return None
        return WindowTables(driver.windows.machine, spec.component, spec.task_id)

    def restore(self, saved: Mapping[str, Value], windows: Mapping[str, Value]) -> None:
        """Continue from what `save` gave, with these windows: after the executor was made, before `begin`. StateError.

        Input tasks are known by component and index. Of new ones nothing is known yet: windows wait for them.
        """
        task, driver = self._task, self.driver
        restore_sent(task, saved)
        if driver is None:
            return
        if driver.windows is not None:
            load_windows(driver.windows.machine, windows, task.task.component, task.task.task_id)
        try:
            if time := saved.get(TIME):
                tasks = renamed_tasks(time["tasks"], self._inputs())
                driver.restore(time, inputs=WatermarkTracker.renamed(time["inputs"], tasks))
        except WRONG as error:
            raise ForeignError(f"{task.name}: its event time cannot be restored: {error}") from error

    def _inputs(self) -> dict[int, tuple[str, int]]:
        env = self._task.env
        specs = {spec.task_id: (spec.component, spec.index) for spec in env.plan.tasks}
        return {task: specs[task] for task in env.time_inputs(self._task.task.component)}

    def _keep_time(self, component: Component, tools: Tools) -> WatermarkTracker | None:
        if self.keeper is None:
            env, task = self._task.env, self._task.task
            self.keeper = make_keeper(env, task, component, self._task.config, tools.report)
            if self.keeper is not None and env.remote and env.snapshots is None:
                # In one process all start together. A restarted worker has lost what its inputs sent before.
                for source in env.time_inputs(task.component):
                    env.mailbox_of(task.task_id, source).post(WatermarkRequest(task.task_id))
        return self.keeper


def save_sent(task: TaskActor) -> dict[str, Value]:
    """The watermarks that a task has sent, and what it has read of its rows, for a snapshot."""
    sent = task.watermarks.save(int(task.env.clock.monotonic() * 1000))
    return {SENT: sent} if sent else {}


def restore_sent(task: TaskActor, saved: Mapping[str, Value]) -> None:
    """Continue from what `save_sent` gave. ForeignError."""
    try:
        task.watermarks.restore(saved.get(SENT, {}), int(task.env.clock.monotonic() * 1000))
    except WRONG as error:
        raise ForeignError(f"{task.name}: the watermarks that it sent cannot be restored: {error}") from error


def renamed_tasks(before: Mapping[int, tuple[str, int]], now: Mapping[int, tuple[str, int]]) -> dict[int, int]:
    """The ids that tasks have now, by the ids that they had. Those of a component with another number are others."""
    ids, were = {at: task for task, at in now.items()}, set(before.values())
    changed = {component for component, _ in were.symmetric_difference(ids)}
    return {task: ids[at] for task, at in before.items() if at[0] not in changed}


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"
