"""Turns: a bolt task executes the segments that it has taken, and sends what was emitted.

    take ─► windows to fire? fire ─┐
        └─► batch executor? all ───┼─► flush (in a step: the data now, the acks at the end of the round)
        └─► slice after slice ─────┘

1. A turn ends with the rows that it took, or after `topology.turn.max.ms`: the rest comes first in the next turn.
2. A slice has as many rows as take about half of a turn: a slow bolt returns to the event loop after a few rows.
3. A segment's edge is done when its last row is: executed (basic, function) or acked or failed (rich).
4. What user code emits or acks between turns, or while a turn is suspended, is sent at once.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from ..topology import WATERMARK_STREAM, ColumnsError, Config, Segment, TupleBatch
from .drive import USER_ERRORS, is_cancelled, user_error
from .emit.detached import Detached
from .execute.base import Executor, RowFailedError, without_waiting
from .execute.batch_executor import BatchExecutor
from .failures import TICK_ORIGIN

if TYPE_CHECKING:
    from .bolt_task import BoltTask


class BoltTurns:
    """The turns of one bolt task. `executor`: of the present instance; `working`: is there a turn, or a tick, now?

    `suspended`: does user code wait in it? `begun_s`: when the current rows were begun; `running`: how many they are.
    """

    __slots__ = (
        "_batches",
        "_flush_soon",
        "_slice",
        "_stopwatch",
        "_task",
        "_turn_s",
        "_turn_tuples",
        "begun_s",
        "executor",
        "running",
        "suspended",
        "working",
    )

    def __init__(self, task: BoltTask, config: Config) -> None:
        self._task = task
        self._stopwatch = task.env.clock.stopwatch
        self._turn_s = config.turn_max_ms / 1000
        self._turn_tuples = config.turn_max_tuples
        self._slice = 1  # rows between two readings of the clock; follows the time a row takes
        self.executor: Executor
        self._batches: BatchExecutor | None = None
        self._flush_soon: asyncio.Handle | None = None
        self.working = False
        self.suspended = False
        self.begun_s = 0.0
        self.running = 0

    def use(self, executor: Executor) -> None:
        """A new instance, or another executor for the same one."""
        self.executor = executor
        self._batches = executor if isinstance(executor, BatchExecutor) else None

    @property
    def takes_batches(self) -> bool:
        """Does the bolt take batches?"""
        return self._batches is not None

    @property
    def spent_s(self) -> float:
        """For how long the current rows have been executed."""
        return self._stopwatch() - self.begun_s if self.working else 0.0

    async def run(self) -> None:
        """One turn."""
        task = self._task
        taken, time, limits, counters = task.taken.segments, task.time.driver, task.limits, task.counters
        begun_ms = 0 if time is None else time.now_ms()
        if not taken and (time is None or not time.firing):
            taken.extend(task.box.take_batch(limits.known or limits.rows()))
        if not task.env.sampling:  # in workers without spouts nothing else wakes the monitor
            task.env.wake()
        self.working, self.begun_s = True, self._stopwatch()
        executed, execute_s = counters.executed, counters.execute_s
        try:
            if time is not None and time.firing:
                await task.time.fire(time, self._turn_tuples)
            elif self._batches is not None:
                await self._run_batch(self._batches)
            else:
                await self._run_slices(self.executor)
            limits.executed += counters.executed - executed
            limits.work_s += counters.execute_s - execute_s
            if limits.work_s >= limits.due_s:
                limits.measure()
            if time is not None:
                task.time.after_turn(time, begun_ms)
        finally:
            self.working = self.suspended = False
            if task.box.reader.in_long_call:
                task.long_call.turn_ended(idle=not (taken or task.box.has_data))
            emitter = task.emitter
            task.acks.in_hand = None
            if emitter.stamps is not None:
                emitter.enter(None)
            if task.steps.in_step:  # the data first; the ackers are informed at the end of the round
                emitter.seal()
                task.steps.after_round(self._post)
            elif task.user.thread is None or not is_cancelled():  # killed: the thread may still be emitting
                self._detach_if_idle()
                emitter.flush()
            if task.outbox.blocked or counters.executed - executed >= limits.notable:
                limits.turn_sent(counters.executed - executed)

    def _post(self) -> None:
        task = self._task
        if task.detacher.waiting:
            self._detach_if_idle()
        task.acks.post()
        time = task.time.driver
        if task.steps.raised is None and not (
            task.taken.segments or task.box.gate.fill or (time is not None and time.firing)
        ):
            task.sampling.dry = True
            if task.env.bolts_matter:
                task.env.on_idle()  # only now: before the post the task was not idle

    async def _run_slices(self, executor: Executor) -> None:
        task, stopwatch, limit_s = self._task, self._stopwatch, self._turn_s
        taken, time, acks, counters, emitter = task.taken, task.time.driver, task.acks, task.counters, task.emitter
        segments = taken.segments
        begun_s = last_s = self.begun_s  # start of the turn, start of the slice
        while segments:
            segment = segments[0]
            if time is not None and segment.origin.stream == WATERMARK_STREAM:
                segments.popleft()
                task.time.on_watermarks(time, segment)
                if time.firing:
                    return
                continue
            start, length = taken.start, len(segment.items)
            stop = start + self._slice
            if executor.hold_open:
                task.failures.held.add((segment,))
            acks.in_hand = (segment,)
            if emitter.stamps is not None:
                emitter.enter(segment.ingested_ms)
            # Advance before the rows are executed: after a failure the next instance continues behind them.
            if stop < length:
                taken.start = stop
            else:
                stop = length
                segments.popleft()
                taken.start = 0
            self.running = stop - start
            failed = 0
            try:
                if task.user.thread is None:
                    ran = executor.run(segment, start, stop)
                    failed = ran if isinstance(ran, int) else await ran
                else:
                    failed = await self._run_in_thread(executor, segment, start, stop)
            except RowFailedError as error:
                task.failures.rich_failed(segment, start, stop, error)
            except ColumnsError as error:
                if stop < length:
                    segments.popleft()
                stop, taken.start, failed = length, 0, task.failures.unreadable(segment, error)
            except asyncio.CancelledError:
                self._interrupted([segment])
                raise
            self._executed(executor, segment, stop - start, failed)
            self.running = 0
            now_s = stopwatch()
            used_s = now_s - last_s
            counters.execute_s += used_s
            if used_s * 2 > limit_s:
                self._slice = max(1, int((stop - start) * limit_s / (2 * used_s)))
            elif stop - start == self._slice:
                self._slice = min(self._slice * 2, self._turn_tuples)
            if now_s - begun_s > limit_s:
                return
            last_s = self.begun_s = now_s

    async def _run_batch(self, executor: BatchExecutor) -> None:
        task = self._task
        taken, time = task.taken, task.time.driver
        if time is None:
            segments = list(taken.segments)
            taken.segments.clear()
        else:
            segments = task.time.up_to_watermark(time, taken.segments)
            if not segments:
                return
        taken.start = 0
        if executor.hold_open:
            task.failures.held.add(segments)
        task.acks.in_hand = segments
        if task.emitter.stamps is not None:
            task.emitter.enter(min((s.ingested_ms for s in segments if s.ingested_ms is not None), default=None))
        begun_s = self.begun_s = self._stopwatch()
        rows = self.running = sum(len(segment.items) for segment in segments)
        try:
            if task.user.thread is not None:
                failed = await task.user.in_thread(lambda: without_waiting(executor.run_batch(segments)))
            else:
                failed = await executor.run_batch(segments)
        except RowFailedError as error:
            task.counters.executed += rows
            task.report("execute_batch", error.__cause__ or error, TupleBatch(segments))
            task.failures.fail_held(error.__cause__ or error)
            raise (error.__cause__ or error) from None
        except asyncio.CancelledError:
            self._interrupted(segments)
            raise
        used_s = self._stopwatch() - begun_s
        task.counters.execute_s += used_s
        self.running = 0
        if task.user.hook_calls is not None:
            task.user.hook_calls.batch_executed(segments, used_s, None if executor.hold_open else not failed)
        for segment in segments:
            self._executed(executor, segment, len(segment.items), 0)
        if not executor.hold_open:
            task.counters.acked -= failed

    async def _run_in_thread(self, executor: Executor, segment: Segment, start: int, stop: int) -> int:
        def work() -> int:
            ran = executor.run(segment, start, stop)
            return ran if isinstance(ran, int) else without_waiting(ran)

        return int(await self._task.user.in_thread(work))

    def _executed(self, executor: Executor, segment: Segment, count: int, failed: int) -> None:
        task = self._task
        counters, acks, taken = task.counters, task.acks, task.taken
        counters.executed += count
        if executor.hold_open:
            if task.failures.held.executed(segment):
                acks.withhold(segment)
                if not (taken.segments and taken.segments[0] is segment):  # to the end of the segment
                    task.detacher.executed(segment)
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
        taken = self._task.taken.segments
        waiting = {id(segment) for segment in taken}
        taken.extendleft(segment for segment in reversed(segments) if id(segment) not in waiting)

    async def tick(self, seconds: float | None) -> None:
        """Execute a tick tuple."""
        task, executor = self._task, self.executor
        segment = Segment(TICK_ORIGIN, [seconds])
        segment.open, segment.done = 0, bytearray(b"\1")  # in no tree: acking it does nothing
        self.working, self.begun_s = True, self._stopwatch()
        task.long_call.turn_began()
        try:
            if task.user.thread is not None:
                await task.user.in_thread(lambda: without_waiting(executor.tick(segment)))
            else:
                await executor.tick(segment)
        except USER_ERRORS as raised:
            error = user_error(raised)
            cause = error.__cause__ if isinstance(error, RowFailedError) and error.__cause__ is not None else error
            task.failures.tick_failed(cause)
            raise cause from None
        finally:
            self.working = False
            task.long_call.turn_ended(idle=not (task.taken.segments or task.box.has_data))
            task.emitter.flush()

    # -- rows that leave their trees, while a call does not return ----------------------------------------------------

    def _detach_if_idle(self) -> None:
        task = self._task
        if task.detacher.waiting and not (task.taken.segments or task.time.firing or task.box.has_data):
            task.emitter.seal()  # children of held rows: all edges go in one message
            task.detacher.all()

    def may_detach_now(self) -> bool:
        return not self.working or (self.suspended and self._task.user.thread is None)

    def send_detached(self) -> None:
        self._task.emitter.flush()
        if not self.working:
            self._task.box.wake()  # the task may be idle now

    def loop_spent_s(self) -> float:
        """For how long the current rows have kept the event loop; 0.0 if a thread executes them."""
        return self.spent_s if self._task.user.thread is None else 0.0

    def detach_waiting(self) -> bool:
        """A call does not return: rows in hand and behind it leave their trees. True if there were any."""
        task = self._task
        taken = task.taken
        return task.detacher.unfinished(self.executor, taken.start, taken.segments, task.box.waiting())

    # -- user code emits, acks and fails ------------------------------------------------------------------------------

    def suspend(self) -> None:
        """User code suspends in the middle of a turn: send what it has emitted and acked so far."""
        self.suspended = True
        self._task.emitter.flush()

    def wake(self) -> None:
        """A rich bolt emitted, acked or failed. Outside of a turn, nothing else would flush."""
        if (not self.working or self.suspended) and self._flush_soon is None and self._task.user.thread is None:
            self._flush_soon = asyncio.get_running_loop().call_soon(self._flush)

    def _flush(self) -> None:
        self._flush_soon = None
        self._task.emitter.flush()
        if not self.working:
            self._task.box.wake()  # the task may be idle or blocked now
