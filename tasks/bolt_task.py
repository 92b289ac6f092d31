"""Bolt task: takes batches from its mailbox, executes them, and sends on what was emitted.

    control first ─► blocked? wait ─► a turn: take a batch ─► executor ─► flush ─► let others run
                                          └ none: idle, wait

1. A turn ends with the batch, or after `topology.turn.max.ms`: the rest of the batch comes first in the next turn.
2. Nothing is taken while the outbox is blocked: that is how a full mailbox downstream reaches the spout, hop by hop.
   Control messages are handled all the same.
3. A segment's edge is done when its last row is: executed (basic, function) or acked or failed (rich).
4. When a rich bolt raises, its tuple fails, and so do the tuples that the instance still held; the guardian decides
   about a restart; the next instance executes the rest of the batch.
"""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Any

from ..actors import EMPTY, Question, Stop, Timer
from ..backpressure import BoltReading, Clear, Sample, Sampler, Settings
from ..topology import (
    WATERMARK_STREAM,
    BasicBolt,
    Bolt,
    ColumnsError,
    ComponentSpec,
    Config,
    Segment,
    TaskSpec,
    TupleBatch,
)
from ..windows import WindowBolt, WindowedBolt
from .detaching import Detacher
from .drive import USER_ERRORS, is_cancelled, user_error
from .emit.collectors import BoltTaskCollector, TaskCollector, WindowCollector
from .emit.detached import Detached
from .emit.portions import Portions
from .environment import Environment
from .event_time.time_messages import WatermarkRequest
from .execute.base import Executor, RowFailedError, Tools, without_waiting
from .execute.batch_executor import BatchExecutor
from .execute.choice import Rewire, choose_executor
from .failing import FailingTask
from .input_limits import InputLimits
from .long_call import LongCallWatch


class BoltTask(FailingTask):
    """One task of a bolt."""

    def __init__(self, env: Environment, task: TaskSpec, spec: ComponentSpec, config: Config) -> None:
        super().__init__(env, task, spec, config)
        self._stopwatch = env.clock.stopwatch
        self._turn_s = config.turn_max_ms / 1000
        self._turn_tuples = config.turn_max_tuples
        self._slice = 1  # rows between two readings of the clock; follows the time a row takes
        self._batches: BatchExecutor | None
        self._collectors: list[TaskCollector] = []
        self._working = False
        self._dry = False
        self._closings = 0  # of its mailbox's gate, until the last sample
        self._begun_s = 0.0  # when the current rows were begun,
        self._running = 0  # and how many they are
        self._suspended = False
        self._flush_soon: asyncio.Handle | None = None
        pressure = Settings.of(env.config)
        self.sampler = Sampler(pressure)
        portions = Portions(self.outbox, self._stopwatch, self._turn_tuples, pressure.target_s)
        self._limits = InputLimits(self._box, portions, config, pressure.target_s)
        self._detacher = Detacher(self, self.emitter, env.ids(), env.clock.monotonic)
        self._long_call = LongCallWatch(self._running_s, self._detach_waiting, self._box, env.clock.monotonic)

    @property
    def is_idle(self) -> bool:
        box, busy = self._box, self._working or self._raised is not None or self.fires
        return not (busy or self._inbox or self.outbox.blocked or box.has_data or box.has_control or self.emitter.dirty)

    def sample(self, now_s: float) -> BoltReading:
        """Sample the mailbox for the topology master. Rows that were taken and not executed count as still in it."""
        self._limits.check()
        self._long_call.check()
        box, sampler, counters = self._box, self.sampler, self.counters
        in_hand = sum(len(segment.items) for segment in self._inbox) - self._start
        # Of the current rows, those that are probably done count as executed: a batch may take longer than an interval.
        spent_s = self._stopwatch() - self._begun_s if self._working else 0.0
        running = self._running if self._working else 0
        done = int(min(running, spent_s * counters.executed / counters.execute_s)) if counters.execute_s else 0
        seen = Sample(
            fill=box.fill + in_hand + running - done,
            capacity=box.limit,
            held=not (box.gate_open or box.closed) or (box.closings != self._closings and not self._dry),
            executed=counters.executed + done,
            execute_s=counters.execute_s + spent_s,
            dry=self._dry,
            life=self.counters.restarts,
            stuck=bool(self.outbox.blocked),
        )
        self._dry = not (self._working or seen.fill)
        self._closings = box.closings
        sampler.sample(seen, now_s)
        judged = (sampler.flagged, sampler.verdict, sampler.step, sampler.busy)
        since = (sampler.load, sampler.starved, sampler.blocks)
        return BoltReading(self.task.task_id, seen.fill, seen.capacity, seen.executed, *judged, *since)

    def update(self, settings: Settings) -> None:
        """Apply other backpressure settings."""
        self.sampler.update(settings)
        self._limits.update(settings)

    async def started(self) -> None:
        """Make, prepare and wire a component: the first, or the next after a failure."""
        self._close_collectors()
        self._held.stop_watching()  # the timer of the instance before ended with that instance
        if len(self._held):  # else they failed with the call that raised
            error = RuntimeError("the bolt was restarted")
            self._fail_held(error, self._inbox[0] if self._start else None, self._start)
        component = await self.make_component()
        context, report = self.context(), partial(self.report, "report_error")
        fails = (self._fail_row, self._fail_segment)
        kind = WindowCollector if isinstance(component, WindowedBolt) else BoltTaskCollector
        collector = kind(self.emitter, self.outbox, report, *fails, self._wake)
        self._collectors = [collector]
        if isinstance(component, Bolt | WindowBolt):
            await self.open_component(component.prepare, context, collector)
        elif isinstance(component, BasicBolt):
            await self.open_component(component.prepare, context)
        self.use_hooks(context)
        tools = Tools(self.emitter, self.outbox, report, self._suspend, *fails, self.hook_calls)
        if isinstance(component, WindowBolt):
            self._executor = self.window_executor(component, tools, collector)
        else:
            self._executor = choose_executor(component, tools, collector, self._collectors, self.task.task_id)
            self.pass_time_on(component, tools)
        self._batches = self._executor if isinstance(self._executor, BatchExecutor) else None
        self._limits.use_batches(batches=self._batches is not None)
        self.begin_ticks()
        if self._time is not None:  # an instance's wakeup ends with the instance
            self.settle_time(self._time)
        self.is_ready()

    async def run(self) -> None:
        """The loop; see the module."""
        mailbox = self.mailbox
        self._begin_steps()
        while True:
            while (message := mailbox.take_control()) is not EMPTY:
                await self._control(message)
            if self.emitter.dirty:  # emitted or acked outside of a turn, or segments were lost
                self.emitter.flush()
            blocked, work = self.outbox.blocked, bool(self._inbox or self.fires or mailbox.has_data)
            if self._stopping and not (blocked or work):
                return
            if not (blocked or work):
                self._dry = True
                self.env.on_idle()
            if self._executor.plain and self._thread is None:
                await self._wait_steps(ready=work and not blocked)
            elif blocked or not work:
                await mailbox.wait_next()
            else:
                self._waits()
                await self._turn()
                await asyncio.sleep(0)

    async def stopped(self) -> None:
        """The task ends."""
        self._detacher.stop()  # `cleanup` may ack, in a thread
        self._long_call.stop()
        try:
            await self.end_component("cleanup")
        finally:  # also if the cleanup hangs and is cancelled
            self._close_collectors()
            for segment in self._inbox:
                self.dead_letter(segment)
            self.report_dropped()

    # -- a turn ------------------------------------------------------------------------------------------------------

    async def _turn(self) -> None:
        inbox, time, limits = self._inbox, self._time, self._limits
        begun_ms = 0 if time is None else time.now_ms()
        if not inbox and (time is None or not time.firing):
            inbox.extend(self._box.take_batch(limits.whole or limits.rows()))
        if not self.env.sampling:  # in workers without spouts nothing else wakes the monitor
            self.env.wake()
        self._working, self._begun_s = True, self._stopwatch()
        counters = self.counters
        executed, execute_s = counters.executed, counters.execute_s
        try:
            if time is not None and time.firing:
                await self.fire(time, self._turn_tuples)
            elif self._batches is not None:
                await self._run_batch(self._batches)
            else:
                await self._run_slices(self._executor)
            limits.executed += counters.executed - executed
            limits.work_s += counters.execute_s - execute_s
            if limits.work_s >= limits.due_s:
                limits.measure()
            if time is not None:
                self.after_turn(time, begun_ms)
        finally:
            self._working = self._suspended = False
            if self._box.in_long_call:
                self._long_call.turn_ended(idle=not (self._inbox or self._box.has_data))
            self.emitter.in_hand = None
            if self.stamps is not None:
                self.stamps.enter(None)
            if self._in_step:  # the data first; the ackers are informed at the end of the round
                self.emitter.seal_emit_buffers()
                self._after_round(self._post)
            elif self._thread is None or not is_cancelled():  # killed: the thread may still be emitting
                self._detach_if_idle()
                self.emitter.flush()
            if self.outbox.blocked or not limits.whole:
                limits.turn_sent(counters.executed - executed)

    def _post(self) -> None:
        if self._detacher.waiting:
            self._detach_if_idle()
        self.emitter.post()
        time = self._time
        if self._raised is None and not (self._inbox or self._box.fill or (time is not None and time.firing)):
            self._dry = True
            self.env.on_idle()  # only now: before the post the task was not idle

    async def _run_slices(self, executor: Executor) -> None:
        stopwatch, inbox, limit_s, emitter = self._stopwatch, self._inbox, self._turn_s, self.emitter
        begun_s = last_s = self._begun_s  # start of the turn, start of the slice
        time = self._time
        while inbox:
            segment = inbox[0]
            if time is not None and segment.origin.stream == WATERMARK_STREAM:
                inbox.popleft()
                self.on_watermarks(time, segment)
                if time.firing:
                    return
                continue
            start, length = self._start, len(segment.items)
            stop = start + self._slice
            if executor.hold_open:
                self._held.add((segment,))
            emitter.in_hand = (segment,)
            if self.stamps is not None:
                self.stamps.enter(segment.ingested_ms)
            # Advance before the rows are executed: after a failure the next instance continues behind them.
            if stop < length:
                self._start = stop
            else:
                stop = length
                inbox.popleft()
                self._start = 0
            self._running = stop - start
            failed = 0
            try:
                if self._thread is None:
                    ran = executor.run(segment, start, stop)
                    failed = ran if isinstance(ran, int) else await ran
                else:
                    failed = await self._run_in_thread(executor, segment, start, stop)
            except RowFailedError as error:
                self._rich_failed(segment, start, stop, error)
            except ColumnsError as error:
                if stop < length:
                    inbox.popleft()
                stop, self._start, failed = length, 0, self._unreadable(executor, segment, error)
            except asyncio.CancelledError:
                self._interrupted([segment])
                raise
            self._executed(executor, segment, stop - start, failed)
            self._running = 0
            now_s = stopwatch()
            used_s = now_s - last_s
            self.counters.execute_s += used_s
            # Choose a slice that takes about half of a turn: a slow bolt returns to the loop after a few rows.
            if used_s * 2 > limit_s:
                self._slice = max(1, int((stop - start) * limit_s / (2 * used_s)))
            elif stop - start == self._slice:
                self._slice = min(self._slice * 2, self._turn_tuples)
            if now_s - begun_s > limit_s:
                return
            last_s = self._begun_s = now_s

    async def _run_batch(self, executor: BatchExecutor) -> None:
        if self._time is None:
            segments = list(self._inbox)
            self._inbox.clear()
        else:
            segments = self.up_to_watermark(self._time)
            if not segments:
                return
        self._start = 0
        if executor.hold_open:
            self._held.add(segments)
        self.emitter.in_hand = segments
        if self.stamps is not None:
            self.stamps.enter(min((s.ingested_ms for s in segments if s.ingested_ms is not None), default=None))
        begun_s = self._begun_s = self.env.clock.stopwatch()
        self._running = sum(len(segment.items) for segment in segments)
        try:
            if self._thread is not None:
                failed = await self.in_thread(lambda: without_waiting(executor.run_batch(segments)))
            else:
                failed = await executor.run_batch(segments)
        except RowFailedError as error:
            self.counters.executed += sum(len(segment.items) for segment in segments)
            self.report("execute_batch", error.__cause__ or error, TupleBatch(segments))
            self._fail_held(error.__cause__ or error)
            raise (error.__cause__ or error) from None
        except asyncio.CancelledError:
            self._interrupted(segments)
            raise
        used_s = self.env.clock.stopwatch() - begun_s
        self.counters.execute_s += used_s
        self._running = 0
        if self.hook_calls is not None:
            self.hook_calls.batch_executed(segments, used_s, None if executor.hold_open else not failed)
        for segment in segments:
            self._executed(executor, segment, len(segment.items), 0)
        if not executor.hold_open:
            self.counters.acked -= failed

    async def _run_in_thread(self, executor: Executor, segment: Segment, start: int, stop: int) -> int:
        def work() -> int:
            ran = executor.run(segment, start, stop)
            return ran if isinstance(ran, int) else without_waiting(ran)

        return int(await self.in_thread(work))

    def _executed(self, executor: Executor, segment: Segment, count: int, failed: int) -> None:
        counters = self.counters
        counters.executed += count
        if executor.hold_open:
            if self._held.executed(segment):
                self.emitter.withhold(segment)
                if not (self._inbox and self._inbox[0] is segment):  # to the end of the segment
                    self._detacher.executed(segment)
            return
        counters.acked += count - failed
        if segment.lineage is not None and type(segment.lineage) is Detached:
            self.emitter.executed(segment, self._start if self._start and self._inbox[0] is segment else len(segment))
            return
        segment.open -= count
        if segment.open:
            self.emitter.withhold(segment)
        else:
            self.emitter.done(segment)

    def _detach_if_idle(self) -> None:
        if self._detacher.waiting and not (self._inbox or self.fires or self._box.has_data):
            self.emitter.seal_emit_buffers()  # children of held rows: all edges go in one message
            self._detacher.all()

    def may_detach_now(self) -> bool:
        return not self._working or (self._suspended and self._thread is None)

    def send_detached(self) -> None:
        self.emitter.flush()
        if not self._working:
            self.mailbox.wake()  # the task may be idle now

    def _running_s(self) -> float:
        return self._stopwatch() - self._begun_s if self._working and self._thread is None else 0.0

    def _detach_waiting(self) -> bool:
        return self._detacher.unfinished(self._executor, self._start, self._inbox, self._box.waiting())

    def _waits(self) -> None:
        self._long_call.turn_began()

    def _interrupted(self, segments: list[Segment]) -> None:
        """The task was killed in the middle of these segments: they become dead letters."""
        waiting = {id(segment) for segment in self._inbox}
        self._inbox.extendleft(segment for segment in reversed(segments) if id(segment) not in waiting)

    def _on_unblock(self) -> None:
        self._limits.unblocked()
        super()._on_unblock()

    # -- control -----------------------------------------------------------------------------------------------------

    async def _control(self, message: Any) -> None:
        kind = type(message)
        if kind is Timer:
            if not message.received():
                return
            if not self.on_timer(message.message):
                await self._tick()
        elif kind is Stop:
            self._stopping = True
            self.mailbox.close(f"{self.name} is stopping")
        elif kind is Question:
            await self.answer(message)
        elif kind is Clear:
            self.sampler.clear()
        elif kind is Rewire:
            message.work()
        elif kind is WatermarkRequest:
            self.watermarks.resend(message.task)
        else:
            raise TypeError(f"a bolt task does not understand {message!r}")

    async def _tick(self) -> None:
        segment = Segment(self._tick_origin, [self.config.tick_tuple_freq_s])
        segment.open, segment.done = 0, bytearray(b"\1")  # in no tree: acking it does nothing
        self._working, self._begun_s = True, self._stopwatch()
        self._waits()
        try:
            if self._thread is not None:
                await self.in_thread(lambda: without_waiting(self._executor.tick(segment)))
            else:
                await self._executor.tick(segment)
        except USER_ERRORS as raised:
            error = user_error(raised)
            cause = error.__cause__ if isinstance(error, RowFailedError) and error.__cause__ is not None else error
            self.report("a tick", cause)
            # A turn may have been interrupted: rows that the instance has not received are kept for the next one.
            self._fail_held(cause, keep=self._inbox[0] if self._start else None, below=self._start)
            raise cause from None
        finally:
            self._working = False
            self._long_call.turn_ended(idle=not (self._inbox or self._box.has_data))
            self.emitter.flush()

    # -- collectors --------------------------------------------------------------------------------------------------

    def _close_collectors(self) -> None:
        """The instance was replaced: an emit from an asyncio task that it left behind is an error."""
        for collector in self._collectors:
            collector.closed = True

    def _suspend(self) -> None:
        """User code suspends in the middle of a turn: send what it has emitted and acked so far."""
        self._suspended = True
        self.emitter.flush()

    def _wake(self) -> None:
        """A rich bolt emitted, acked or failed. Outside of a turn, nothing else would flush."""
        if (not self._working or self._suspended) and self._flush_soon is None and not self.blocks:
            self._flush_soon = asyncio.get_running_loop().call_soon(self._flush)

    def _flush(self) -> None:
        self._flush_soon = None
        self.emitter.flush()
        if not self._working:
            self.mailbox.wake()  # the task may be idle or blocked now
