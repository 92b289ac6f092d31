"""Execution: a bolt task executes the rows that it has taken.

    slice after slice, or all as one batch ─► executor ─► done, failed (failures.py), or held (detaching.py)

1. A slice has as many rows as take about half of a turn: a slow bolt returns to the event loop after a few rows.
2. A segment's edge is done when its last row is: executed (basic, function) or acked or failed (rich).
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from ..topology import BARRIER_STREAM, WATERMARK_STREAM, ColumnsError, Segment, TupleBatch
from .emit.contexts import carried, shared, within
from .emit.detached import Detached
from .execute.base import Executor, RowFailedError, without_waiting
from .execute.batch_executor import BatchExecutor

if TYPE_CHECKING:
    from .bolt_time import BoltTime
    from .detaching import Detacher
    from .emit.contexts import Run
    from .failures import Failures
    from .in_flight import Taken
    from .snapshots.bolt_snapshots import BoltSnapshots
    from .task import TaskActor

_MARKS: Final = frozenset({WATERMARK_STREAM, BARRIER_STREAM})
"""Streams of segments that are not executed."""


class Execution:
    """The execution of one bolt task. `executor`: of the present instance; `working`: is there a turn, or a tick, now?

    `suspended`: does user code wait in it? `begun_s`: when the current rows were begun; `running`: how many they are.
    """

    __slots__ = (
        "_failures",
        "_slice",
        "_taken",
        "_task",
        "_time",
        "batches",
        "begun_s",
        "detacher",
        "executor",
        "running",
        "suspended",
        "working",
    )

    def __init__(self, task: TaskActor, taken: Taken, time: BoltTime, failures: Failures) -> None:
        self._task = task
        self._taken = taken
        self._time = time
        self._failures = failures
        self._slice = 1  # rows between two readings of the clock; follows the time a row takes
        self.detacher: Detacher
        self.executor: Executor
        self.batches: BatchExecutor | None = None
        self.working = False
        self.suspended = False
        self.begun_s = 0.0
        self.running = 0

    def use(self, executor: Executor) -> None:
        """A new instance, or another executor for the same one."""
        self.executor = executor
        self.batches = executor if isinstance(executor, BatchExecutor) else None
        self._failures.bolt_acks = self._task.acks.bolt_acks = executor.hold_open

    @property
    def spent_s(self) -> float:
        """For how long the current rows have been executed."""
        return self._task.env.clock.stopwatch() - self.begun_s if self.working else 0.0

    async def slices(self, executor: Executor) -> None:
        """Execute what was taken until nothing is left, the time of a turn is over, or windows are due."""
        task, taken, config = self._task, self._taken, self._task.config
        stopwatch, limit_s, snapshots = task.env.clock.stopwatch, config.turn_max_ms / 1000, taken.snapshots
        acks, counters, emitter, segments = task.acks, task.counters, task.emitter, taken.segments
        may_have_marks = snapshots is not None or self._time.driver is not None
        executions, ages = counters.execute_latency, counters.process_latency
        begun_s = last_s = self.begun_s  # start of the turn, start of the slice
        while segments:
            segment = segments[0]
            if may_have_marks and segment.origin.stream in _MARKS:
                if await self._on_mark(segment):
                    last_s = self.begun_s = stopwatch()  # a barrier takes time, which is not the next row's
                    continue
                return
            start, length, acks.in_hand = taken.start, len(segment.items), (segment,)
            stop = start + self._slice
            if executor.hold_open:
                self._failures.held.add((segment,))
            if emitter.stamps is not None:
                emitter.enter(segment.ingested_ms)
            # Advance before the rows are executed: after a failure the next instance continues behind them.
            if stop < length:
                taken.start = stop
            else:
                segments.popleft()
                stop, taken.start = length, 0
            self.running, failed = stop - start, 0
            if segment.traced:
                acks.tracer.begun(segment, last_s)
            if snapshots is not None:
                snapshots.before_rows(segment, start, stop)
            try:
                in_loop = task.user.thread is None or executor.in_loop
                run = within(segment.traced, executor.run) if segment.traced else executor.run
                ran = run(segment, start, stop) if in_loop else self._run_in_thread(run, segment, start, stop)
                failed = ran if isinstance(ran, int) else await ran
            except RowFailedError as error:
                self._failures.rich_failed(segment, start, stop, error)
            except ColumnsError as error:
                if stop < length:
                    segments.popleft()
                stop, taken.start, failed = length, 0, self._failures.unreadable(segment, error)
            except asyncio.CancelledError:
                self._interrupted([segment])
                raise
            rows, now_s = stop - start, stopwatch()
            used_s = now_s - last_s
            counters.execute_s += used_s
            executions += (used_s / rows, rows)
            if not executor.hold_open and segment.sent_s:
                ages += (now_s - segment.sent_s, rows)
                counters.process_s += (now_s - segment.sent_s) * rows
            self._executed(executor, segment, rows, failed)
            if used_s * 2 > limit_s:
                self._slice = max(1, int(rows * limit_s / (2 * used_s)))
            elif rows == self._slice:
                self._slice = min(self._slice * 2, config.turn_max_tuples)
            if now_s - begun_s > limit_s:
                return
            last_s = self.begun_s = now_s

    async def batch(self, executor: BatchExecutor) -> None:
        """Execute what was taken, up to the next watermark."""
        task, taken, snapshots = self._task, self._taken, self._taken.snapshots
        if self._time.driver is None and snapshots is None:
            segments = list(taken.segments)
            taken.segments.clear()
        else:
            segments = await self._next_batch(snapshots)
            if not segments:
                return
        taken.start = 0
        if executor.hold_open:
            self._failures.held.add(segments)
        task.acks.in_hand = segments
        if task.emitter.stamps is not None:
            task.emitter.enter(min((s.ingested_ms for s in segments if s.ingested_ms is not None), default=None))
        begun_s = self.begun_s = self._task.env.clock.stopwatch()
        rows = self.running = sum(len(segment.items) for segment in segments)
        for segment in segments:
            if segment.traced:
                task.acks.tracer.begun(segment, begun_s)
        context = shared(segments) if segments[0].traced else False
        try:
            if task.user.thread is not None:
                failed = await task.user.in_thread(
                    lambda: without_waiting(carried(context, executor.run_batch(segments)))
                )
            else:
                work = executor.run_batch(segments)
                failed = await (carried(context, work) if context else work)
        except RowFailedError as error:
            task.counters.executed += rows
            task.report("execute_batch", error.__cause__ or error, TupleBatch(segments))
            self._failures.fail_held(error.__cause__ or error)
            raise (error.__cause__ or error) from None
        except asyncio.CancelledError:
            self._interrupted(segments)
            raise
        now_s = self._task.env.clock.stopwatch()
        used_s = now_s - begun_s
        task.counters.execute_s += used_s
        executions, ages = task.counters.execute_latency, task.counters.process_latency
        executions += (used_s / rows, rows)
        self.running = 0
        if task.user.hook_calls is not None:
            task.user.hook_calls.batch_executed(segments, used_s, None if executor.hold_open else not failed)
        for segment in segments:
            count = len(segment.items)
            if not executor.hold_open and segment.sent_s:
                age_s = now_s - segment.sent_s
                ages += (age_s, count)
                task.counters.process_s += age_s * count
            self._executed(executor, segment, count, 0)
        if not executor.hold_open:
            task.counters.acked -= failed

    async def _on_mark(self, segment: Segment) -> bool:
        """Handle a watermark or a barrier, which is the first of the taken segments. False: windows are to be fired."""
        time, snapshots = self._time.driver, self._taken.snapshots
        if segment.origin.stream == WATERMARK_STREAM:
            self._taken.segments.popleft()
            if time is not None:
                self._time.on_watermarks(time, segment)
            return not self._time.firing
        if self._time.firing:  # their results belong before the barrier
            return False
        self._taken.segments.popleft()
        if snapshots is not None:
            self.suspended = True  # a rich bolt may settle rows meanwhile
            try:
                await snapshots.on_barrier(segment)
            finally:
                self.suspended = False
        return True

    async def _next_batch(self, snapshots: BoltSnapshots | None) -> list[Segment]:
        """Take the segments up to the next watermark or barrier; those before them are handled."""
        taken, segments = self._taken.segments, list[Segment]()
        while taken and taken[0].origin.stream in _MARKS and await self._on_mark(taken[0]):
            pass
        while taken and not self._time.firing and taken[0].origin.stream not in _MARKS:
            segments.append(taken.popleft())
        if snapshots is not None:
            for segment in segments:
                snapshots.before_rows(segment, 0, len(segment.items))
        return segments

    async def _run_in_thread(self, run: Run, segment: Segment, start: int, stop: int) -> int:
        def work() -> int:
            ran = run(segment, start, stop)
            return ran if isinstance(ran, int) else without_waiting(ran)  # type: ignore[arg-type] # a coroutine

        return int(await self._task.user.in_thread(work))

    def _executed(self, executor: Executor, segment: Segment, count: int, failed: int) -> None:
        self.running, task = 0, self._task
        counters, acks, taken = task.counters, task.acks, self._taken
        counters.executed += count
        if executor.hold_open:
            if self._failures.held.executed(segment):
                acks.withhold(segment)
                if not (taken.segments and taken.segments[0] is segment):  # to the end of the segment
                    self.detacher.executed(segment)
            return
        counters.acked += count - failed
        if segment.lineage is not None and type(segment.lineage) is Detached:
            partly = taken.start and taken.segments[0] is segment
            acks.executed(segment, taken.start if partly else len(segment))
            return
        segment.open -= count
        if segment.open:
            acks.withhold(segment)
        else:
            acks.done(segment)

    def _interrupted(self, segments: list[Segment]) -> None:
        """The task was killed in the middle of these segments: they become dead letters."""
        taken = self._taken.segments
        waiting = {id(segment) for segment in taken}
        taken.extendleft(segment for segment in reversed(segments) if id(segment) not in waiting)

    def unfinished(self) -> bool:
        """A call does not return: rows in hand and behind it leave their trees. True if there were any."""
        taken = self._taken
        return self.detacher.unfinished(self.executor, taken.start, taken.segments, taken.box.waiting())
