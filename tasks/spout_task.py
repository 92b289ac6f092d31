"""Spout task: an emit loop (emit_loop.py), and a control loop that receives verdicts on what was emitted.

    emit loop:  may emit? ─► a turn of next_tuple ─► flush ─► let others run ─► …      (waits on the wakeup)
    control loop:   control lane: verdicts ─► pending ─► ack / fail, replays;  activate, deactivate, stop

Two asyncio tasks, because `next_tuple` may be `async def` and wait for its source for hours: verdicts must be handled
meanwhile, or a spout that waits would starve its own topology.

1. `next_tuple` is not called while inactive, at `topology.max.spout.pending` open messages, while anything sent waits
   for capacity downstream, while a sink holds too many rows for a snapshot, while an async `ack` or `fail` runs, or
   after `finish`.
2. A turn ends after `topology.turn.max.tuples` messages or `topology.turn.max.ms`, when a call emits nothing, or when
   it suspends; what was emitted is sent then. What a thread emits is sent as it comes, during its call.
3. After a call that emits nothing there is a wait, from `topology.sleep.spout.wait.strategy.time.ms`, doubling to
   `topology.spout.wait.max.ms`; a verdict, an activation or `collector.wake()` ends it at once.
"""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING, Any

from ..acker import Retries, Verdicts
from ..actors import EMPTY, Question, Stop, Timer
from ..backpressure import Pace, SpoutReading
from ..topology import AckValueSpout, ComponentSpec, Config, FailValueSpout, FunctionSpout, Spout, TaskSpec
from .bolt_time import restore_sent, save_sent
from .calls import Calls, SpoutState, ThreadedTurns, Turns
from .emit.contexts import CurrentContext
from .emit.spout_collector import Inits, SpoutTaskCollector, Trees
from .emit.threaded_collector import ThreadedSpoutCollector
from .emit.watermarks import EndOfStream
from .emit_loop import EmitLoop, SpoutTiming
from .event_time.time_messages import WatermarkRequest
from .generator_spout import ChunkTurns, GeneratorSpout
from .message_outcomes import MessageOutcomes, OpenMessages
from .snapshots.messages import SNAPSHOT_KINDS, HoldSpouts
from .snapshots.spout_snapshots import SpoutSnapshots
from .task import Activate, Deactivate, FailPending, TaskActor

if TYPE_CHECKING:
    from ..actors import Message
    from ..topology import MessageId
    from .environment import Environment


class SpoutTask(TaskActor):
    """One task of a spout. `pace`: see backpressure."""

    measured = ("complete_latency",)

    def __init__(self, env: Environment, task: TaskSpec, spec: ComponentSpec, config: Config) -> None:
        super().__init__(env, task, spec, config)
        timeout_s = config.message_timeout_s if config.enable_message_timeouts else None
        self._messages = OpenMessages(config.max_spout_pending, timeout_s, self.after)
        self._state = SpoutState()
        self._timing = SpoutTiming(self, config)
        self.pace = self._timing.pace
        end: EndOfStream | None = None
        if self.watermarks.receivers:
            keeps = task.component in env.plan.time.kept
            end = EndOfStream(self.watermarks, self._messages.pending, self._messages.replays, keeps=keeps)
        self.emit_loop = EmitLoop(self, self._state, self._messages, self._timing, end)
        self.snapshots: SpoutSnapshots | None = None
        if env.snapshots is not None:
            self.snapshots = SpoutSnapshots(self, env.snapshots, self._send_all)

    # -- read by the cluster -----------------------------------------------------------------------------------------

    @property
    def pending(self) -> int:
        return self._messages.pending.count

    @property
    def pending_trees(self) -> int:
        return len(self._messages.pending)

    @property
    def finished(self) -> bool:
        """Has the spout said that it has nothing more to emit?"""
        return self.ready.done() and self.emit_loop.collector.finished

    @property
    def is_idle(self) -> bool:
        state = self._state
        return self._nothing_in_hand and (self._timing.polling.idle or not state.active or self.finished or state.ended)

    @property
    def waits_since_s(self) -> float | None:
        """Since when `next_tuple` has been suspended with nothing in hand; None if it is not.

        None for a generator: one that waits has not said that it is exhausted. None for a thread of a task that ends:
        it cannot be cancelled, so its call must return.
        """
        if not self._nothing_in_hand or isinstance(self.user.component, GeneratorSpout):
            return None
        return None if self.emit_loop.threaded is not None and self._state.ended else self._state.suspended_since_s

    @property
    def _nothing_in_hand(self) -> bool:
        if not self.ready.done():
            return False
        box, loop, state = self.env.mailboxes[self.task.task_id], self.emit_loop, self._state
        return not (
            loop.is_at_end
            or (self._messages.replays and state.active and loop.messages_left() > 0)
            or state.on_control
            or (state.held and state.active and not self.finished)
            or self.outbox.blocked
            or box.has_control
            or loop.collector.dirty
            or loop.collector.trees.settled_at_once
            or (loop.threaded is not None and loop.threaded.collector.waiting)
        )

    def reading(self) -> SpoutReading:
        """For the topology master."""
        emits = self.ready.done() and self._state.active and not self.finished
        emitted = self.emit_loop.collector.emitted + self.counters.replayed if self.ready.done() else 0
        pace = self.pace
        return SpoutReading(self.task.task_id, emitted, pace.wait_us, pace.epoch, pace.step, emits)

    def seen(self) -> dict[str, Any]:
        occupied = self._timing.occupation.read(self.counters.busy_s)
        return {**occupied, "throttled_s": self.pace.pacer.delayed_s}

    def wake(self) -> None:
        """Its pace was released: go on at once."""
        self._timing.wakeup.wake()

    def aim(self, target_s: float) -> None:
        """Set how many seconds of work may be in a mailbox."""
        self._timing.portions.aim(target_s)

    def use_config(self, config: Config) -> None:
        super().use_config(config)
        self._messages.limit = config.max_spout_pending
        self._messages.time_out_after(config.message_timeout_s)

    def open_messages(self) -> list[MessageId]:
        """The ids of messages that are neither acked nor failed for good, including those that wait to be replayed."""
        return self._messages.ids()

    # -- life --------------------------------------------------------------------------------------------------------

    async def open_component(self, *, first: bool) -> None:
        """Make and open a spout."""
        if self.snapshots is not None and first:
            await self.snapshots.restore()
        component = await self.user.make()
        if isinstance(component, FunctionSpout):
            component = self.user.component = GeneratorSpout(component, len(self.spec.outputs["default"].fields))
        if not isinstance(component, Spout):
            raise TypeError(f"{self.name} is no spout: {component!r}")
        max_retries = self.config.max_retries
        if max_retries is None:
            max_retries = component.default_max_retries
        env, loop, retries = self.env, self.emit_loop, Retries(max_retries)
        inits = Inits(self.task.task_id, env.ackers(self.task), self.system.dispatcher.after_round)
        collector = loop.collector = SpoutTaskCollector(
            self.emitter,
            self.outbox,
            lambda error: self.report("report_error", error),
            Trees(self.emitter, env.ids(), self._messages.pending, inits, env.clock.monotonic),
            retries,
            loop.new_tuples,
            keep_values=max_retries is not None or isinstance(component, AckValueSpout | FailValueSpout),
            tree_max=self.config.acker_tree_max_messages,
            context=CurrentContext() if self.config.trace_context else None,
        )
        given: SpoutTaskCollector | ThreadedSpoutCollector = collector
        if self.user.thread is not None:
            given = ThreadedSpoutCollector(collector, self.emitter, asyncio.get_running_loop(), loop.arrived)
            turn_s = self.config.turn_max_ms / 1000
            loop.threaded = ThreadedTurns(loop, self._state, self, component, given, turn_s)
        context = self.user.context()
        await self.user.open(component.open, context, given)
        if self.snapshots is not None and first:
            await self.snapshots.restore_spout(component)
            restore_sent(self, self.snapshots.saved())
            self.snapshots.own = partial(save_sent, self)
        loop.transfer()
        loop.turns = self._turns_of(component, collector)
        self.user.use_hooks(context)
        loop.outcomes = MessageOutcomes(self, component, collector, self._messages, retries)
        self.is_ready()

    def _turns_of(self, component: Spout, collector: SpoutTaskCollector) -> Turns:
        if self.emit_loop.threaded is not None:
            return self.emit_loop.threaded
        stopwatch, turn_s = self.env.clock.stopwatch, self.config.turn_max_ms / 1000
        if isinstance(component, GeneratorSpout) and component.gives_chunks:
            return ChunkTurns(component, collector, stopwatch, turn_s)
        return Calls(self.emit_loop, self._state, self.outbox, component, collector, stopwatch, turn_s)

    async def run(self) -> None:
        """The control loop; see the module."""
        mailbox, loop, state, polling = self.mailbox, self.emit_loop, self._state, self._timing.polling
        collector = loop.collector
        loop.start()
        try:
            while True:
                handled = False
                while (message := mailbox.take_control()) is not EMPTY:
                    if type(message) is Stop:
                        return
                    state.on_control = handled = True
                    try:
                        await self._on_control(message)
                    finally:
                        state.on_control = False
                if loop.error is not None:
                    raise loop.error
                waiting = len(self._messages.replays)
                if waiting and state.suspended_since_s is not None and state.active and not self.outbox.blocked:
                    loop.replay(waiting)  # `next_tuple` may wait for its source for hours
                loop.send()  # emitted outside of next_tuple (in `fail`, say), or lost on the way
                if collector.trees.settled_at_once:  # of a next_tuple that may be suspended for hours
                    handled = True
                    await self._settle_at_once()
                if handled:
                    # Not idle before the next call: after a failure, the spout may emit the message again.
                    polling.idle = False
                    self._timing.wakeup.wake()
                if polling.idle or state.suspended_since_s is not None or not state.active or collector.finished:
                    self.env.on_idle()  # else the emit loop does
                if not mailbox.has_control and loop.error is None:
                    await mailbox.wait_next()
        finally:
            loop.send()
            await loop.stop()

    async def stopped(self) -> None:
        """The task ends."""
        try:
            await self.user.end("close")
        finally:  # a kill does not wait for a thread without a bound
            if self.snapshots is not None:
                self.snapshots.stop()
            if self.ready.done():
                self.emit_loop.transfer()  # what a thread emitted in its last call
                self.emit_loop.collector.flush()
                self.emit_loop.collector.close()

    # -- the control loop ----------------------------------------------------------------------------------------------

    async def _on_control(self, message: Message) -> None:
        kind, loop, state = type(message), self.emit_loop, self._state
        if kind is Verdicts:
            for verdict in message.verdicts:
                await loop.outcomes.on_verdict(verdict)
        elif kind is Timer:
            if message.received():
                await loop.outcomes.expire(self._messages.overdue(self.env.clock.monotonic()))
        elif kind is Activate:
            if not state.active and not state.ended:
                state.active = True
                await self.user.notify("activate", loop.outcomes.spout.activate)
        elif kind is Deactivate:
            if message.end:
                state.ended = True
                if state.suspended_since_s is not None and loop.threaded is None:
                    await loop.stop()
            if state.active:
                state.active = False
                await self.user.notify("deactivate", loop.outcomes.spout.deactivate)
        elif kind is Question:
            await self.user.answer(message)
        elif kind is FailPending:
            await loop.outcomes.fail_all(message.failure)
        elif kind is WatermarkRequest:
            if loop.end is not None:
                loop.end.on_request(message.task)
        elif kind is Pace:
            self.pace.order(message, self.env.clock.monotonic())
            self.env.wake()  # the lease has to end, even if nothing is emitted
        elif kind is HoldSpouts:
            state.held = message.hold
        elif self.snapshots is not None and kind in SNAPSHOT_KINDS:
            await self.snapshots.on_control(message, loop.outcomes.spout)
        else:
            raise TypeError(f"a spout task does not understand {message!r}")
        loop.transfer()
        await loop.outcomes.settle_at_once()

    async def _settle_at_once(self) -> None:
        self._state.on_control = True
        try:
            await self.emit_loop.outcomes.settle_at_once()
        finally:
            self._state.on_control = False

    def _send_all(self) -> None:
        """Send what was emitted so far, in a thread, too."""
        self.emit_loop.transfer()
        self.emit_loop.send()

    # -- callbacks ---------------------------------------------------------------------------------------------------

    def _on_unblock(self) -> None:
        self._timing.portions.unblocked()
        self._timing.wakeup.wake()
        self.mailbox.wake()
