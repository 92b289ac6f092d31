"""Spout task: an emit loop, and a control loop that receives verdicts on what was emitted.

    emit loop:  may emit? ─► a turn of next_tuple ─► flush ─► let others run ─► …      (waits on the wakeup)
    control loop:   control lane: verdicts ─► pending ─► ack / fail, replays;  activate, deactivate, stop

Two asyncio tasks, because `next_tuple` may be `async def` and wait for its source for hours: verdicts must be handled
meanwhile, or a spout that waits would starve its own topology.

1. `next_tuple` is not called while inactive, at `topology.max.spout.pending` open messages, while anything sent waits
   for capacity downstream, while an async `ack` or `fail` runs, or after `finish`.
2. A turn ends after `topology.turn.max.tuples` messages or `topology.turn.max.ms`, when a call emits nothing, or when
   it suspends; what was emitted is sent then. What a thread emits is sent as it comes, during its call.
3. After a call that emits nothing there is a wait, from `topology.sleep.spout.wait.strategy.time.ms`, doubling to
   `topology.spout.wait.max.ms`; a verdict, an activation or `collector.wake()` ends it at once. See polling.
4. While it is paced (see backpressure), each tuple has its time; a turn takes as many as are due together.
5. A spout that raises in `next_tuple` is called again after the policy's backoff, on the same instance: a new one would
   read its source from the start. (A generator cannot be called again: it escalates at once.)
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Any

from ..acker import Emission, Retries, Verdicts
from ..actors import EMPTY, Question, Stop, Timer
from ..backpressure import Pace, SpoutPace, SpoutReading
from ..topology import AckValueSpout, ComponentSpec, Config, FailValueSpout, FunctionSpout, Spout, TaskSpec
from .backoff import Backoff
from .calls import Calls, Turns
from .drive import USER_ERRORS, finish, pause, user_error
from .emit.spout_collector import SpoutTaskCollector
from .emit.threaded_collector import ThreadedSpoutCollector
from .emit.trees import Inits, Trees
from .emit.watermarks import EndOfStream
from .environment import Environment
from .event_time.time_messages import WatermarkRequest
from .generator_spout import ChunkTurns, GeneratorSpout
from .message_outcomes import Expiry, MessageOutcomes
from .pacing import wait_for_pace
from .polling import NOT_CALLED, Polling
from .task import Activate, Deactivate, FailPending, TaskActor
from .threaded_turns import ThreadedTurns
from .turn_limits import Portions
from .wakeup import SpoutWakeup


class SpoutTask(TaskActor):
    """One task of a spout."""

    def __init__(self, env: Environment, task: TaskSpec, spec: ComponentSpec, config: Config) -> None:
        super().__init__(env, task, spec, config)
        self._expiry = Expiry(config.message_timeout_s if config.enable_message_timeouts else None, self.after)
        self._pending = self._expiry.pending
        self._limit = config.max_spout_pending
        # One tree a turn; a few small ones, because each turn has a fixed cost.
        target_s = env.config.mailbox_target_ms / 1000
        self.portions = Portions(self.outbox, env.clock.stopwatch, config.turn_max_tuples, target_s)
        self._turn_s = config.turn_max_ms / 1000
        self._replays: deque[tuple[Any, Emission, int]] = deque()
        keeps = task.component in env.plan.time.kept
        self._end_of_stream = EndOfStream(self.watermarks, self._pending, self._replays, keeps=keeps)
        self._wakeup = SpoutWakeup()
        self._polling = Polling(self._wakeup, config.spout_wait_ms / 1000, config.spout_wait_max_ms / 1000)
        self._emit_loop: asyncio.Task[None] | None = None
        self._emit_loop_error: BaseException | None = None
        self.active = False
        self._ended = False
        self.on_control = False
        self._spout: Spout
        self._collector: SpoutTaskCollector
        self._threaded: ThreadedTurns | None = None
        self._retries: Retries
        self._outcomes: MessageOutcomes
        self._turns: Turns
        self._backoff = Backoff(self.name, config, env.clock)
        self.suspended_since_s: float | None = None
        self.pace = SpoutPace()

    # -- read by the cluster -----------------------------------------------------------------------------------------

    @property
    def pending(self) -> int:
        return self._pending.count

    @property
    def pending_trees(self) -> int:
        return len(self._pending)

    @property
    def finished(self) -> bool:
        """Has the spout said that it has nothing more to emit?"""
        return self.ready.done() and self._collector.finished

    @property
    def is_idle(self) -> bool:
        return self._nothing_in_hand and (self._polling.idle or not self.active or self.finished or self._ended)

    @property
    def waits_since_s(self) -> float | None:
        """Since when `next_tuple` has been suspended with nothing in hand; None if it is not.

        None for a generator: one that waits has not said that it is exhausted. None for a thread of a task that ends:
        it cannot be cancelled, so its call must return.
        """
        if not self._nothing_in_hand or isinstance(self._spout, GeneratorSpout):
            return None
        return None if self._threaded is not None and self._ended else self.suspended_since_s

    @property
    def _nothing_in_hand(self) -> bool:
        box = self.env.mailboxes[self.task.task_id]
        return self.ready.done() and not (
            self._end_of_stream.is_due(self._collector)
            or (self._replays and self.active and self.messages_left() > 0)
            or self.on_control
            or self.outbox.blocked
            or box.has_control
            or self._collector.dirty
            or self._collector.trees.settled_at_once
            or (self._threaded is not None and self._threaded.collector.waiting)
        )

    def reading(self) -> SpoutReading:
        """For the topology master."""
        emits = self.ready.done() and self.active and not self.finished
        emitted = self._collector.emitted + self.counters.replayed if self.ready.done() else 0
        pace = self.pace
        return SpoutReading(self.task.task_id, emitted, pace.wait_us, pace.epoch, pace.step, emits)

    def wake(self) -> None:
        """Its pace was released: go on at once."""
        self._wakeup.wake()

    def open_messages(self) -> list[Any]:
        """The ids of messages that are neither acked nor failed for good, including those that wait to be replayed."""
        return [*self._pending.message_ids(), *(message_id for message_id, _, _ in self._replays)]

    # -- life --------------------------------------------------------------------------------------------------------

    async def started(self) -> None:
        """Make and open a component."""
        component = await self.user.make()
        if isinstance(component, FunctionSpout):
            component = self.user.component = GeneratorSpout(component, len(self.spec.outputs["default"].fields))
        if not isinstance(component, Spout):
            raise TypeError(f"{self.name} is no spout: {component!r}")
        self._spout = component
        max_retries = self.config.max_retries
        if max_retries is None:
            max_retries = component.default_max_retries
        self._retries = Retries(max_retries)
        env = self.env
        inits = Inits(self.task.task_id, env.ackers(self.task), self.system.dispatcher.after_round)
        self._collector = SpoutTaskCollector(
            self.emitter,
            self.outbox,
            lambda error: self.report("report_error", error),
            Trees(self.emitter, env.ids(), self._pending, inits, env.clock.monotonic),
            self._retries,
            self._new_tuples,
            keep_values=max_retries is not None or isinstance(component, AckValueSpout | FailValueSpout),
            tree_max=self.config.acker_tree_max_messages,
        )
        given: Any = self._collector
        if self.user.thread is not None:
            loop = asyncio.get_running_loop()
            given = ThreadedSpoutCollector(self._collector, self.emitter, loop, self._arrived)
            self._threaded = ThreadedTurns(self, component, given, self._turn_s)
        context = self.user.context()
        await self.user.open(component.open, context, given)
        self._transfer()
        self._turns = self._turns_of(component)
        self.user.use_hooks(context)
        self._outcomes = MessageOutcomes(self, component, self._collector, self._pending, self._retries, self._replays)
        self.is_ready()

    def _turns_of(self, component: Spout) -> Turns:
        if self._threaded is not None:
            return self._threaded
        stopwatch = self.env.clock.stopwatch
        if isinstance(component, GeneratorSpout) and component.gives_chunks:
            return ChunkTurns(component, self._collector, stopwatch, self._turn_s)
        return Calls(self, component, self._collector, stopwatch, self._turn_s)

    async def run(self) -> None:
        """The control loop; see the module."""
        mailbox = self.mailbox
        self._emit_loop = self.system.guard(self._run_emit_loop(), name=f"{self.ref.path}:emit")
        try:
            while True:
                handled = False
                while (message := mailbox.take_control()) is not EMPTY:
                    if type(message) is Stop:
                        return
                    self.on_control = handled = True
                    try:
                        await self._on_control(message)
                    finally:
                        self.on_control = False
                if self._emit_loop_error is not None:
                    raise self._emit_loop_error
                if self._replays and self.suspended_since_s is not None and self.active and not self.outbox.blocked:
                    self._replay(len(self._replays))  # `next_tuple` may wait for its source for hours
                self._send()  # emitted outside of next_tuple (in `fail`, say), or lost on the way
                if self._collector.trees.settled_at_once:  # of a next_tuple that may be suspended for hours
                    handled = True
                    await self._settle_at_once()
                if handled:
                    # Not idle before the next call: after a failure, the spout may emit the message again.
                    self._polling.idle = False
                    self._wakeup.wake()
                if (
                    self._polling.idle
                    or self.suspended_since_s is not None
                    or not self.active
                    or self._collector.finished
                ):
                    self.env.on_idle()  # else the emit loop does
                if not mailbox.has_control and self._emit_loop_error is None:
                    await mailbox.wait_next()
        finally:
            self._send()
            await self._stop_emit_loop()

    async def stopped(self) -> None:
        """The task ends."""
        try:
            await self.user.end("close")
        finally:  # a kill does not wait for a thread without a bound
            if self.ready.done():
                self._transfer()  # what a thread emitted in its last call
                self._collector.flush()
                self._collector.close()

    # -- the emit loop -------------------------------------------------------------------------------------------------

    async def _run_emit_loop(self) -> None:
        counters, portions, emitted_before = self.counters, self.portions, self.counters.emitted
        idle = False  # the last call emitted nothing
        try:
            while True:
                if not self._may_emit():
                    idle = False
                    if not self.on_control and self._end_of_stream.is_due(self._collector):
                        self._end_of_stream.send(self._collector)
                    self._polling.idle = True
                    self.env.on_idle()
                    await self._wakeup.wait()
                    continue
                self._polling.idle = False
                if self.pace.wait_us and not idle and await wait_for_pace(self.pace, self._wakeup, self.env.clock):
                    continue
                failed: Exception | None = None
                emitted: bool | None = None
                try:
                    emitted = await (self._rest() if idle else self._turn())
                except USER_ERRORS as error:
                    failed = user_error(error)
                self.suspended_since_s = None
                self._send()
                rows, emitted_before = counters.emitted - emitted_before, counters.emitted
                if self.outbox.blocked or rows >= portions.notable:
                    portions.sent(rows)
                if self._collector.trees.settled_at_once:
                    await self._outcomes.settle_at_once()
                idle = emitted is False
                if failed is not None:
                    self.report("next_tuple", failed)
                    # A generator cannot be called again.
                    await self._backoff.wait(failed, can_go_on=not isinstance(self._spout, GeneratorSpout))
                elif emitted:
                    self._polling.soon()
                    await pause()
        except (asyncio.CancelledError, KeyboardInterrupt, SystemExit):
            raise
        # the control loop raises it: the guardian must learn that nothing is emitted any more
        except BaseException as error:
            if isinstance(error, GeneratorExit) and asyncio.current_task(self.system.loop) is not self._emit_loop:
                raise  # the event loop was closed
            self._emit_loop_error = error
            self.mailbox.wake()

    def _send(self) -> None:
        """Send what was emitted so far; its deadlines count from now on."""
        if self._collector.dirty:
            self._collector.flush()
            if not self.env.sampling:
                self.env.wake()
        self._expiry.arm()

    def _may_emit(self) -> bool:
        return (
            self.active
            and not self.on_control
            and not self.outbox.blocked
            and self.messages_left() > 0
            and (not self._collector.finished or bool(self._replays))
        )

    def held_up(self) -> bool:
        """Must something else be done before the next call? (See threaded_turns.ThreadedTask.)"""
        return self.on_control or not self.active or bool(self.outbox.blocked)

    def messages_left(self) -> int:
        """How many more messages may be open. (See calls.CallingTask.)"""
        if self._limit is None:
            return 1 << 30
        return self._limit - self._pending.count - self._collector.open_messages

    async def _turn(self, so_far: int = 0) -> bool:
        """Replays, then `next_tuple` again and again. Was anything emitted? `so_far`: already emitted in this turn."""
        collector, pacer = self._collector, self.pace.pacer
        begun, begun_at_s = collector.emitted - so_far, pacer.wait_s
        most = (self.portions.known or self.portions.next()[0]) - so_far
        if self.pace.wait_us:
            most = min(most, pacer.turn())
        replayed = self._replay(most)
        begun, most = begun - replayed, most - replayed
        if self._limit is not None:
            most = min(most, self.messages_left())
        try:
            if most > 0:  # replays may have used it up
                await self._turns.turn(most)
        finally:
            if pacer.wait_s:
                pacer.sent(collector.emitted - begun, self.env.clock.monotonic(), begun_at_s)
        return collector.emitted > begun

    def _replay(self, most: int) -> int:
        """Emit failed messages again, as many as may be open; returns how many."""
        replayed = max(0, min(most, len(self._replays), self.messages_left()))
        for _ in range(replayed):
            self._collector.replay(*self._replays.popleft())
        if not self._replays:
            self._end_of_stream.replayed(self._collector)
        return replayed

    def _arrived(self) -> None:
        """The thread has emitted something and may block for long before its call returns: send it now."""
        if self._emit_loop is None:  # the thread may outlive the task
            return
        self._transfer()
        self._send()
        if self._collector.trees.settled_at_once and not self._outcomes.handles_acks:
            self.mailbox.wake()  # counting them needs no call in the thread
        self.env.on_idle()

    def _transfer(self) -> None:
        if self._threaded is not None:
            self._threaded.transfer()

    def suspended(self) -> None:
        """`next_tuple` suspends: send what it has emitted. (See calls.CallingTask.)"""
        if self.suspended_since_s is None:
            self.suspended_since_s = self.env.clock.monotonic()
            self.env.on_idle()
        self._send()
        if self._collector.trees.settled_at_once:
            self.mailbox.wake()  # the control loop notifies the spout

    async def _rest(self) -> bool | None:
        """Call again after a while, repeatedly, as long as nothing comes. Was anything emitted? None: a turn is due."""
        self._polling.idle = True
        self.env.on_idle()
        if not self._may_emit():
            return None
        collector = self._collector
        begun = collector.emitted
        try:
            spout = None if self.pace.wait_us else self._turns.polled
            result = await self._polling.poll(self, collector, spout)
        finally:
            self._polling.idle = False
        if result is NOT_CALLED:
            return None
        if result is not None:
            await finish(result, self.suspended)
        emitted = collector.emitted - begun
        if not emitted or self.suspended_since_s is not None:  # it waited for its source: send at once what came
            return bool(emitted)
        return await self._turn(emitted)

    def _new_tuples(self) -> None:
        self._polling.soon()  # and the task is not idle before the next call
        self._wakeup.wake()
        if not self.on_control:
            self.mailbox.wake()

    async def _stop_emit_loop(self) -> None:
        """End the emit loop."""
        emit_loop, self._emit_loop = self._emit_loop, None
        if emit_loop is not None:
            emit_loop.cancel()
            await asyncio.wait((emit_loop,))
        self.suspended_since_s = None

    # -- the control loop ----------------------------------------------------------------------------------------------

    async def _on_control(self, message: Any) -> None:
        kind = type(message)
        if kind is Verdicts:
            for verdict in message.verdicts:
                await self._outcomes.on_verdict(verdict)
        elif kind is Timer:
            if message.received():
                await self._outcomes.expire(self._expiry.overdue(self.env.clock.monotonic()))
        elif kind is Activate:
            if not self.active and not self._ended:
                self.active = True
                await self.user.notify("activate", self._spout.activate)
        elif kind is Deactivate:
            if message.end:
                self._ended = True
                if self.suspended_since_s is not None and self._threaded is None:
                    await self._stop_emit_loop()
            if self.active:
                self.active = False
                await self.user.notify("deactivate", self._spout.deactivate)
        elif kind is Question:
            await self.user.answer(message)
        elif kind is FailPending:
            await self._outcomes.fail_all(message.failure)
        elif kind is WatermarkRequest:
            self._end_of_stream.on_request(message.task)
        elif kind is Pace:
            self.pace.order(message, self.env.clock.monotonic())
            self.env.wake()  # the lease has to end, even if nothing is emitted
        else:
            raise TypeError(f"a spout task does not understand {message!r}")
        self._transfer()
        await self._outcomes.settle_at_once()

    async def _settle_at_once(self) -> None:
        self.on_control = True
        try:
            await self._outcomes.settle_at_once()
        finally:
            self.on_control = False

    # -- callbacks ---------------------------------------------------------------------------------------------------

    def _on_unblock(self) -> None:
        self.portions.unblocked()
        self._wakeup.wake()
        self.mailbox.wake()
