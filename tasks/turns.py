"""Turns: a bolt task takes rows from its mailbox, executes them, and sends what was emitted.

    take ─► windows to fire? fire ─┐
        └─► batch executor? all ───┼─► flush (in a step: the data now, the acks at the end of the round)
        └─► slice after slice ─────┘

    asyncio task: run ─► control, waiting, what a step could not finish ─► wait ─┐
    dispatcher:                                             step ─► turn ─► step ─┴► …

1. A turn ends with the rows that it took, or after `topology.turn.max.ms`: the rest comes first in the next turn.
2. What user code emits or acks between turns, or while a turn is suspended, is sent at once.
3. A step is one turn, run by the dispatcher while the task's asyncio task sleeps. Most steps finish without waiting.
4. A turn that has to wait is handed to the asyncio task and continues there. So is an error.
5. While anything sent waits for capacity, no step runs.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING

from ..metrics import LONG
from ..topology import Segment
from .detaching import Detacher
from .drive import USER_ERRORS, is_cancelled, resume, user_error
from .execute.base import RowFailedError, without_waiting
from .execution import Execution
from .failures import TICK_ORIGIN, Failures
from .long_call import LongCallWatch

if TYPE_CHECKING:
    from ..actors import Stepper
    from .bolt_time import BoltTime
    from .drive import Yielded
    from .in_flight import Taken
    from .task import TaskActor
    from .turn_limits import InputLimits


class BoltTurns:
    """The turns of one bolt task."""

    __slots__ = (
        "_failures",
        "_flush_soon",
        "_task",
        "_time",
        "detacher",
        "execution",
        "limits",
        "long_call",
        "steps",
        "taken",
    )

    def __init__(self, task: TaskActor, taken: Taken, limits: InputLimits, time: BoltTime, failures: Failures) -> None:
        monotonic = task.env.clock.monotonic
        self._task = task
        self._time = time
        self._failures = failures
        self._flush_soon: asyncio.Handle | None = None
        self.taken = taken
        self.limits = limits
        self.execution = Execution(task, taken, time, failures)
        self.detacher = self.execution.detacher = Detacher(self, task.emitter, task.env.ids(), monotonic)
        self.long_call = LongCallWatch(self.loop_spent_s, self.execution.unfinished, taken.box, monotonic)
        self.steps = Steps(task, taken, time, self.run, self.long_call.turn_began)

    async def run(self) -> None:
        """One turn."""
        task, execution, limits, counters = self._task, self.execution, self.limits, self._task.counters
        box, taken, time = self.taken.box, self.taken.segments, self._time.driver
        begun_ms = 0 if time is None else time.now_ms()
        if not taken and (time is None or not time.firing):
            taken.extend(box.take_batch(limits.known or limits.rows()))
        if not task.env.sampling:  # in workers without spouts nothing else wakes the monitor
            task.env.wake()
        execution.working, execution.begun_s = True, task.env.clock.stopwatch()
        executed, execute_s = counters.executed, counters.execute_s
        try:
            if time is not None and time.firing:
                await self._time.fire(time, task.config.turn_max_tuples)
            elif execution.batches is not None:
                await execution.batch(execution.batches)
            else:
                await execution.slices(execution.executor)
            limits.executed += counters.executed - executed
            limits.work_s += counters.execute_s - execute_s
            if limits.work_s >= limits.due_s:
                limits.measure()
            if len(counters.execute_latency) > LONG or len(counters.process_latency) > LONG:
                counters.count_times()
            if time is not None:
                self._time.after_turn(time, begun_ms)
        finally:
            execution.working = execution.suspended = False
            if box.reader.in_long_call:
                self.long_call.turn_ended(idle=not (taken or box.has_data))
            emitter = task.emitter
            task.acks.in_hand = None
            if emitter.stamps is not None:
                emitter.enter(None)
            if self.steps.in_step:  # the data first; the ackers are informed at the end of the round
                emitter.seal()
                self.steps.after_round(self._post)
            elif task.user.thread is None or not is_cancelled():  # killed: the thread may still be emitting
                self._detach_if_idle()
                emitter.flush()
            if task.outbox.blocked or counters.executed - executed >= limits.notable:
                limits.turn_sent(counters.executed - executed)

    def _note_blocked(self) -> None:
        """What was sent outside of a turn may have to wait."""
        if self._task.outbox.blocked:
            self.limits.turn_sent(0)

    def _post(self) -> None:
        task, taken, time = self._task, self.taken, self._time.driver
        if self.detacher.waiting:
            self._detach_if_idle()
        task.acks.post()
        if self.steps.raised is None and not (
            taken.segments or taken.box.gate.fill or (time is not None and time.firing)
        ):
            taken.dry = True
            if task.env.bolts_matter:
                task.env.on_idle()  # only now: before the post the task was not idle

    async def tick(self, seconds: float | None) -> None:
        """Execute a tick tuple."""
        task, execution, executor = self._task, self.execution, self.execution.executor
        segment = Segment(TICK_ORIGIN, [seconds])
        segment.open, segment.done = 0, bytearray(b"\1")  # in no tree: acking it does nothing
        execution.working, execution.begun_s = True, task.env.clock.stopwatch()
        self.long_call.turn_began()
        try:
            if task.user.thread is not None:
                await task.user.in_thread(lambda: without_waiting(executor.tick(segment)))
            else:
                await executor.tick(segment)
        except USER_ERRORS as raised:
            error = user_error(raised)
            cause = error.__cause__ if isinstance(error, RowFailedError) and error.__cause__ is not None else error
            self._failures.tick_failed(cause)
            raise cause from None
        finally:
            task.counters.busy_s += execution.spent_s
            execution.working = False
            self.long_call.turn_ended(idle=not (self.taken.segments or self.taken.box.has_data))
            task.emitter.flush()
            self._note_blocked()

    # -- rows that leave their trees, while a call does not return ----------------------------------------------------

    def _detach_if_idle(self) -> None:
        taken = self.taken
        if self.detacher.waiting and not (taken.segments or self._time.firing or taken.box.has_data):
            self._task.emitter.seal()  # children of held rows: all edges go in one message
            self.detacher.all()

    def may_detach_now(self) -> bool:
        execution = self.execution
        return not execution.working or (execution.suspended and self._task.user.thread is None)

    def send_detached(self) -> None:
        self._task.emitter.flush()
        if not self.execution.working:
            self.taken.box.wake()  # the task may be idle now

    def loop_spent_s(self) -> float:
        """For how long the current rows have kept the event loop; 0.0 if a thread executes them."""
        return self.execution.spent_s if self._task.user.thread is None else 0.0

    # -- user code emits, acks and fails ------------------------------------------------------------------------------

    def suspend(self) -> None:
        """User code suspends in the middle of a turn: send what it has emitted and acked so far."""
        self.execution.suspended = True
        self._task.emitter.flush()

    def wake(self) -> None:
        """A rich bolt emitted, acked or failed. Outside of a turn, nothing else would flush."""
        execution = self.execution
        outside = not execution.working or execution.suspended
        if outside and self._flush_soon is None and self._task.user.thread is None:
            self._flush_soon = asyncio.get_running_loop().call_soon(self._flush)

    def _flush(self) -> None:
        self._flush_soon = None
        self._task.emitter.flush()
        if not self.execution.working:
            self._note_blocked()
        snapshots = self.taken.snapshots
        if snapshots is not None and snapshots.settled is not None:
            snapshots.settled.set()
        if not self.execution.working:
            self.taken.box.wake()  # the task may be idle or blocked now


class Steps:
    """The steps of one task. `turn()` is one turn of it, `waits()` is called before a turn is continued.

    `in_step`: does the dispatcher run a turn now? `raised`: by a step, for the asyncio task. `stopping`: the task ends
    when it has nothing to do.
    """

    __slots__ = (
        "_taken",
        "_task",
        "_time",
        "_turn",
        "_waits",
        "after_round",
        "in_step",
        "open_turn",
        "raised",
        "stepper",
        "stopping",
    )

    def __init__(
        self,
        task: TaskActor,
        taken: Taken,
        time: BoltTime,
        turn: Callable[[], Coroutine[Yielded, Yielded, None]],
        waits: Callable[[], None],
    ) -> None:
        self._task = task
        self._taken = taken
        self._time = time
        self._turn = turn
        self._waits = waits
        self.in_step = False
        self.raised: BaseException | None = None
        self.stopping = False
        self.open_turn: tuple[Coroutine[Yielded, Yielded, None], Yielded] | None = (
            None  # begun in a step, and what it waits for
        )
        self.stepper: Stepper
        self.after_round: Callable[[Callable[[], None]], None]

    def begin(self) -> None:
        """In the asyncio task, before its first wait."""
        self.stepper = self._task.stepper(self._step)
        self.after_round = self._task.system.dispatcher.after_round

    async def wait(self, *, ready: bool) -> None:
        """Sleep while steps do the work; then finish what a step could not."""
        thrown: asyncio.CancelledError | None = None
        try:
            await self._taken.box.wait_steps(self.stepper, ready=ready)
        except asyncio.CancelledError as cancelled:
            if isinstance(self.raised, Exception):
                self.raised = None  # the task ends anyway, and the error was reported
            if self.open_turn is None and self.raised is None:
                raise
            thrown = cancelled  # it may be meant for what user code awaits in that turn
        turn, self.open_turn = self.open_turn, None
        if turn is not None:
            self._waits()
            await resume(*turn, thrown)
        if self.raised is not None:
            error, self.raised = self.raised, None
            try:
                raise error
            finally:
                del error  # its traceback holds this frame

    def _step(self) -> None:
        """A turn, called by the dispatcher. Most turns finish without waiting."""
        box, taken = self._taken.box, self._taken.segments
        outbox, time = self._task.outbox, self._time.driver
        if outbox.blocked:
            return  # `unblocked` makes it ready again
        worked = bool(taken or box.gate.fill or (time is not None and time.firing))
        if worked:
            turn = self._turn()
            self.in_step = True
            try:
                waited = turn.send(None)
            except StopIteration:
                pass
            except BaseException as error:
                self.raised = error
                box.wake()
                return
            else:
                self.open_turn = turn, waited
                box.wake()
                return
            finally:
                self.in_step = False
        if outbox.blocked > 0:
            return
        if taken or box.gate.fill or (time is not None and time.firing):
            self.stepper.ready()
        elif self.stopping:
            box.wake()
        elif not worked and self._task.env.bolts_matter:
            # After a turn, the turn calls it: at the end of the round, after its post to the ackers.
            self._task.env.on_idle()

    def unblocked(self) -> None:
        """The task may send again."""
        if self._taken.box.takes_steps() and not self._task.emitter.dirty:  # dirty: lost segments, perhaps no turn
            self.stepper.ready()
        else:
            self._taken.box.wake()
