"""Bolt task: takes batches from its mailbox, executes them, and sends on what was emitted.

    control first ─► blocked? wait ─► a turn (turns.py), mostly as a step ─► let others run
                                          └ nothing taken: idle, wait

1. Nothing is taken while the outbox is blocked: that is how a full mailbox downstream reaches the spout, hop by hop.
   Control messages are handled all the same.
2. When a rich bolt raises, its tuple fails, and so do the tuples that the instance still held (failures.py); the
   guardian decides about a restart; the next instance executes the rest of the batch.
"""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING, Any

from ..actors import EMPTY, Question, Stop, Timer
from ..backpressure import Clear, Settings
from ..state import State
from ..topology import TICK_STREAM, BasicBolt, Bolt, ComponentSpec, Config, TaskSpec
from ..windows import WindowBolt, WindowedBolt
from .bolt_time import WAKEUP, BoltTime
from .emit.collectors import BoltTaskCollector, TaskCollector, WindowCollector
from .event_time.time_messages import WatermarkRequest
from .execute.base import Tools
from .execute.choice import Rewire, choose_executor
from .failures import HELD, Failures
from .in_flight import Taken
from .occupation import Occupation
from .sampling import BoltSampling
from .snapshots.bolt_snapshots import BoltSnapshots
from .snapshots.messages import SNAPSHOT_KINDS
from .snapshots.task_saver import new_state
from .task import TaskActor
from .turn_limits import InputLimits, Portions
from .turns import BoltTurns

if TYPE_CHECKING:
    from ..actors import Message
    from ..metrics import TimeMetrics
    from ..topology import StateValue
    from .environment import Environment


class BoltTask(TaskActor):
    """One task of a bolt. `box`: its mailbox."""

    measured = "execute_latency", "process_latency"

    def __init__(self, env: Environment, task: TaskSpec, spec: ComponentSpec, config: Config) -> None:
        super().__init__(env, task, spec, config)
        settings = Settings.of(env.config)
        self.box = env.mailboxes[task.task_id]
        self.taken = Taken(self.box)
        self.collectors: list[TaskCollector] = []
        self.failures = Failures(self, self.taken, config)
        self.time = BoltTime(self)
        if env.snapshots is not None:
            self.taken.snapshots = BoltSnapshots(self, env.snapshots, self.failures.held)
        portions = Portions(self.outbox, env.clock.stopwatch, config.turn_max_tuples, settings.target_s)
        self.limits = InputLimits(self.box, portions, config, settings.target_s)
        occupation = Occupation(portions, env.clock.stopwatch)
        self.turns = BoltTurns(self, self.taken, self.limits, self.time, self.failures)
        self.execution, self.steps = self.turns.execution, self.turns.steps
        self.sampling = BoltSampling(self, self.turns, settings, occupation)
        self.state: StateValue = None
        self._ticks: Timer | None = None

    @property
    def snapshots(self) -> BoltSnapshots | None:
        """How it takes part in snapshots; None without exactly once."""
        return self.taken.snapshots

    @property
    def is_idle(self) -> bool:
        box, busy = self.box, self.execution.working or self.steps.raised is not None or self.time.firing
        return not (
            busy or self.taken.segments or self.outbox.blocked or box.has_data or box.has_control or self.emitter.dirty
        )

    def time_metrics(self) -> TimeMetrics | None:
        return self.time.metrics()

    def seen(self) -> dict[str, Any]:
        return {**self.sampling.occupied(), "state_keys": len(self.state) if isinstance(self.state, State) else 0}

    async def open_component(self, *, first: bool) -> None:
        """Make, prepare and connect a bolt."""
        self._close_collectors()
        self.failures.begin()
        snapshots = self.snapshots
        if snapshots is not None and first:
            await snapshots.restore()
        component = await self.user.make()
        self.state = new_state(self.spec.state, {}) if snapshots is None else snapshots.saver.state
        context, report = self.user.context(self.state), partial(self.report, "report_error")
        fails = (self.failures.fail_row, self.failures.fail_segment)
        kind = WindowCollector if isinstance(component, WindowedBolt) else BoltTaskCollector
        collector = kind(self.emitter, self.outbox, report, *fails, self.turns.wake)
        self.collectors = [collector]
        if isinstance(component, Bolt | WindowBolt):
            await self.user.open(component.prepare, context, collector)
        elif isinstance(component, BasicBolt):
            await self.user.open(component.prepare, context)
        self.user.use_hooks(context)
        tools = self.make_tools()
        if isinstance(component, WindowBolt):
            self.execution.use(self.time.window_executor(component, tools, collector))
        else:
            self.execution.use(choose_executor(component, tools, collector, self.collectors, self.task.task_id))
            self.time.pass_through(component, tools)
        if snapshots is not None and first:
            snapshots.restore_time(self.time)
            await snapshots.restore_sink()
        self.limits.use_batches(batches=self.execution.batches is not None)
        self.begin_ticks()
        self.time.begin()
        self.is_ready()

    def make_tools(self) -> Tools:
        """What an executor of the present instance needs."""
        report = partial(self.report, "report_error")
        fails = (self.failures.fail_row, self.failures.fail_segment)
        suspend, hooks = self.turns.suspend, self.user.hook_calls
        in_thread = None if self.user.thread is None else self.user.in_thread
        return Tools(self.emitter, self.outbox, report, suspend, *fails, hooks, self._lose, self.state, in_thread)

    def begin_ticks(self) -> None:
        """Start the ticks, or stop them, as the configuration says."""
        if self._ticks is not None:
            self._ticks.cancel()
        seconds = self.config.tick_tuple_freq_s
        self._ticks = None if seconds is None else self.every(seconds, TICK_STREAM)

    async def run(self) -> None:
        """The loop; see the module."""
        mailbox, emitter, outbox, steps = self.mailbox, self.emitter, self.outbox, self.steps
        steps.begin()
        while True:
            while (message := mailbox.take_control()) is not EMPTY:
                await self._control(message)
            if emitter.dirty:  # emitted or acked outside of a turn, or segments were lost
                emitter.flush()
            blocked, work = outbox.blocked, bool(self.taken.segments or self.time.firing or mailbox.has_data)
            if steps.stopping and not (blocked or work):
                return
            if not (blocked or work):
                self.taken.dry = True
                self.env.on_idle()
            if self.execution.executor.plain and self.user.thread is None:
                await steps.wait(ready=work and not blocked)
            elif blocked or not work:
                await mailbox.wait_next()
            else:
                self.turns.long_call.turn_began()
                await self.turns.run()
                await asyncio.sleep(0)

    async def stopped(self) -> None:
        """The task ends."""
        self.turns.detacher.stop()  # `cleanup` may ack, in a thread
        self.turns.long_call.stop()
        try:
            await self.user.end("cleanup")
        finally:  # also if the cleanup hangs and is cancelled
            self._close_collectors()
            if self.snapshots is not None:
                self.snapshots.stop()
            for segment in self.taken.segments:
                self.dead_letter(segment)
            self.time.report_dropped()

    async def _control(self, message: Message) -> None:
        kind = type(message)
        if kind is Timer:
            if message.received():
                await self._on_timer(message.message)
        elif kind is Stop:
            self.steps.stopping = True
            self.mailbox.close(f"{self.name} is stopping")
        elif kind is Question:
            await self.user.answer(message)
        elif kind is Clear:
            self.sampling.sampler.clear()
        elif kind is Rewire:
            message.work()
        elif kind is WatermarkRequest:
            self.watermarks.resend(message.task)
        elif self.snapshots is not None and kind in SNAPSHOT_KINDS:
            await self.snapshots.on_control(message)
        else:
            raise TypeError(f"a bolt task does not understand {message!r}")

    async def _on_timer(self, message: object) -> None:
        if message is WAKEUP:
            self.time.on_wakeup()
        elif message is HELD:
            self.failures.check_held()
        else:
            await self.turns.tick(self.config.tick_tuple_freq_s)

    def _close_collectors(self) -> None:
        """The instance was replaced: an emit from an asyncio task that it left behind is an error."""
        for collector in self.collectors:
            collector.close()

    def _lose(self, error: BaseException) -> None:
        """A result is lost."""
        self.report("report_error", error)
        self.row_failed(error)

    def _on_block(self) -> None:
        self.time.blocked()

    def _on_unblock(self) -> None:
        self.limits.unblocked()
        self.steps.unblocked()
        self.time.unblocked()
