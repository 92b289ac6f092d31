"""Emit loop: calls a spout for tuples, again and again, and sends what it emits.

    may emit? ─► a turn of next_tuple ─► send ─► let others run ─► …
       └ no: wait for the wakeup    └ nothing emitted: poll        └ raised: back off

    nothing ─► 1 ms ─► call ─► 2 ms ─► call ─► … ─► interval timer ─► call ─► interval timer ─► …      until it
    emits, or the wakeup fires

1. A spout that emits nothing is called again a little later each time. The waits double up to the longest one, which
   ends at the interval timer that all such spouts of a loop share.
2. Only a `next_tuple` that runs in the loop is polled, and only while nothing has changed since the polling began:
   whatever could forbid a call (a verdict, an order, the end of the task) fires the wakeup or sets `on_control`.
3. A poll that finds nothing reads as little as possible. A hundred idle spouts are polled a thousand times a second,
   each after its memory has left the processor's caches: reading is what costs.
4. While it is paced (see backpressure), each tuple has its time; a turn takes as many as are due together.
5. A spout that raises in `next_tuple` is called again after the policy's backoff, on the same instance: a new one would
   read its source from the start. (A generator cannot be called again: it escalates at once.)
"""

from __future__ import annotations

import asyncio
import types
from collections.abc import Generator
from typing import TYPE_CHECKING, Final

from ..actors import ActorEscalatedError, Directive, FailureHistory, RestartPolicy
from ..backpressure import SpoutPace
from .drive import USER_ERRORS, finish, user_error
from .generator_spout import GeneratorSpout
from .interval_timer import IntervalTimer, interval_timer_of
from .occupation import Occupation
from .turn_limits import Portions

if TYPE_CHECKING:
    from ..runtime import Clock
    from ..topology import Config, Returned, Spout
    from .calls import SpoutState, ThreadedTurns, Turns
    from .emit.spout_collector import SpoutTaskCollector
    from .emit.watermarks import EndOfStream
    from .message_outcomes import MessageOutcomes, OpenMessages
    from .task import TaskActor

NOT_CALLED: Final = object()
"""The wakeup has fired, or something else is to be done before the next call."""


class SpoutTiming:
    """When a spout is called, and for how many messages. `wakeup`: ends its waits."""

    __slots__ = ("backoff", "occupation", "pace", "polling", "portions", "wakeup")

    def __init__(self, task: TaskActor, config: Config) -> None:
        # One tree a turn; a few small ones, because each turn has a fixed cost.
        target_s = task.env.config.mailbox_target_ms / 1000
        self.portions = Portions(task.outbox, task.env.clock.stopwatch, config.turn_max_tuples, target_s)
        self.occupation = Occupation(self.portions, task.env.clock.stopwatch)
        self.pace = SpoutPace()
        self.wakeup = SpoutWakeup()
        self.polling = Polling(self.wakeup, config.spout_wait_ms / 1000, config.spout_wait_max_ms / 1000)
        self.backoff = Backoff(task.name, config, task.env.clock)


class EmitLoop:
    """The emit loop of one spout task. `end`: of its stream; None: no receiver needs to know.

    `collector`, `outcomes`, `turns` and `threaded` belong to the present instance of the component. `running`: the
    asyncio task of the loop; `error`: what has ended it.
    """

    __slots__ = (
        "_task",
        "collector",
        "end",
        "error",
        "messages",
        "outcomes",
        "running",
        "state",
        "threaded",
        "timing",
        "turns",
    )

    def __init__(
        self, task: TaskActor, state: SpoutState, messages: OpenMessages, timing: SpoutTiming, end: EndOfStream | None
    ) -> None:
        self._task = task
        self.state = state
        self.messages = messages
        self.timing = timing
        self.end = end
        self.running: asyncio.Task[None] | None = None
        self.error: BaseException | None = None
        self.collector: SpoutTaskCollector
        self.outcomes: MessageOutcomes
        self.turns: Turns
        self.threaded: ThreadedTurns | None = None

    @property
    def is_at_end(self) -> bool:
        """Is the end of the stream to be sent?"""
        return self.end is not None and self.end.is_due(self.collector)

    def start(self) -> None:
        """Start the loop."""
        self.running = self._task.system.guard(self._run(), name=f"{self._task.ref.path}:emit")

    async def stop(self) -> None:
        """End the loop."""
        running, self.running = self.running, None
        if running is not None:
            running.cancel()
            await asyncio.wait((running,))
        self.state.suspended_since_s = None

    async def _run(self) -> None:
        task, state, timing, collector = self._task, self.state, self.timing, self.collector
        counters, portions, polling = task.counters, timing.portions, timing.polling
        emitted_before = counters.emitted
        idle = False  # the last call emitted nothing
        try:
            while True:
                if not self.may_emit():
                    idle = False
                    if not state.on_control and self.end is not None and self.end.is_due(collector):
                        self.end.send(collector)
                    polling.idle = True
                    task.env.on_idle()
                    await timing.wakeup.wait()
                    continue
                polling.idle = False
                if timing.pace.wait_us and not idle and await self._wait_for_pace(task.env.clock):
                    continue
                failed: Exception | None = None
                emitted: bool | None = None
                try:
                    emitted = await (self._rest() if idle else self._turn())
                except USER_ERRORS as error:
                    failed = user_error(error)
                state.suspended_since_s = None
                self.send()
                rows, emitted_before = counters.emitted - emitted_before, counters.emitted
                if task.outbox.blocked or rows >= portions.notable:
                    portions.sent(rows)
                if collector.trees.settled_at_once:
                    await self.outcomes.settle_at_once()
                idle = emitted is False
                if failed is not None:
                    task.report("next_tuple", failed)
                    # A generator cannot be called again.
                    await timing.backoff.wait(failed, can_go_on=not isinstance(task.user.component, GeneratorSpout))
                elif emitted:
                    polling.soon()
                    await _pause()
        except (asyncio.CancelledError, KeyboardInterrupt, SystemExit):
            raise
        # the control loop raises it: the guardian must learn that nothing is emitted any more
        except BaseException as error:
            if isinstance(error, GeneratorExit) and asyncio.current_task(task.system.loop) is not self.running:
                raise  # the event loop was closed
            self.error = error
            task.mailbox.wake()

    def send(self) -> None:
        """Send what was emitted so far; its deadlines count from now on."""
        if self.collector.dirty:
            self.collector.flush()
            if not self._task.env.sampling:
                self._task.env.wake()
        self.messages.arm()

    def may_emit(self) -> bool:
        return (
            self.state.active
            and not self.state.held
            and not self.state.on_control
            and not self._task.outbox.blocked
            and self.messages_left() > 0
            and (not self.collector.finished or bool(self.messages.replays))
        )

    def messages_left(self) -> int:
        """How many more messages may be open. (See Calls.)"""
        if self.messages.limit is None:
            return 1 << 30
        return self.messages.limit - self.messages.pending.count - self.collector.open_messages

    async def _turn(self, so_far: int = 0) -> bool:
        """Replays, then `next_tuple` again and again. Was anything emitted? `so_far`: already emitted in this turn."""
        collector, pacer = self.collector, self.timing.pace.pacer
        begun, begun_at_s = collector.emitted - so_far, pacer.wait_s
        most = (self.timing.portions.known or self.timing.portions.next()[0]) - so_far
        if self.timing.pace.wait_us:
            most = min(most, pacer.turn())
        replayed = self.replay(most)
        begun, most = begun - replayed, most - replayed
        if self.messages.limit is not None:
            most = min(most, self.messages_left())
        stopwatch, state = self._task.env.clock.stopwatch, self.state
        begun_s = stopwatch()
        try:
            if most > 0:  # replays may have used it up
                await self.turns.turn(most)
        finally:
            until_s = stopwatch() if state.suspended_since_s is None else state.busy_until_s
            self._task.counters.busy_s += until_s - begun_s
            if pacer.wait_s:
                pacer.sent(collector.emitted - begun, self._task.env.clock.monotonic(), begun_at_s)
        return collector.emitted > begun

    def replay(self, most: int) -> int:
        """Emit failed messages again, as many as may be open; returns how many."""
        replayed = max(0, min(most, len(self.messages.replays), self.messages_left()))
        for _ in range(replayed):
            self.collector.replay(*self.messages.replays.popleft())
        if not self.messages.replays and self.end is not None:
            self.end.replayed(self.collector)
        return replayed

    def held_up(self) -> bool:
        """Must something else be done before the next call? (See ThreadedTurns.)"""
        return self.state.on_control or not self.state.active or self.state.held or bool(self._task.outbox.blocked)

    def arrived(self) -> None:
        """The thread has emitted something and may block for long before its call returns: send it now."""
        if self.running is None:  # the thread may outlive the task
            return
        self.transfer()
        self.send()
        if self._task.outbox.blocked:
            self.timing.portions.sent(0)
        if self.collector.trees.settled_at_once and not self.outcomes.handles_acks:
            self._task.mailbox.wake()  # counting them needs no call in the thread
        self._task.env.on_idle()

    def transfer(self) -> None:
        if self.threaded is not None:
            self.threaded.transfer()

    def suspended(self) -> None:
        """`next_tuple` suspends: send what it has emitted. (See Calls.)"""
        if self.state.suspended_since_s is None:
            clock = self._task.env.clock
            self.state.suspended_since_s, self.state.busy_until_s = clock.monotonic(), clock.stopwatch()
            self._task.env.on_idle()
        self.send()
        if self.collector.trees.settled_at_once:
            self._task.mailbox.wake()  # the control loop notifies the spout

    async def _rest(self) -> bool | None:
        """Call again after a while, repeatedly, as long as nothing comes. Was anything emitted? None: a turn is due."""
        self.timing.polling.idle = True
        self._task.env.on_idle()
        if not self.may_emit():
            return None
        collector = self.collector
        begun = collector.emitted
        try:
            spout = None if self.timing.pace.wait_us else self.turns.polled
            result = await self.timing.polling.poll(self.state, collector, spout)
        finally:
            self.timing.polling.idle = False
        if result is NOT_CALLED:
            return None
        if result is not None:
            await finish(result, self.suspended)
        emitted = collector.emitted - begun
        if not emitted or self.state.suspended_since_s is not None:  # it waited for its source: send at once what came
            return bool(emitted)
        return await self._turn(emitted)

    def new_tuples(self) -> None:
        self.timing.polling.soon()  # and the task is not idle before the next call
        self.timing.wakeup.wake()
        if not self.state.on_control:
            self._task.mailbox.wake()

    async def _wait_for_pace(self, clock: Clock) -> bool:
        """Wait until the next tuple is due, or the wakeup fires: an order may have come. False: it may be emitted now.

        The time waited is counted: a pace that delays nothing has no effect.
        """
        pacer, begun_s = self.timing.pace.pacer, clock.monotonic()
        delay_s = pacer.delay_s(begun_s)
        if not delay_s:
            return False
        await self.timing.wakeup.wait(delay_s)
        pacer.delayed_s += clock.monotonic() - begun_s
        return True


class Polling:
    """The polling of one spout task: `first_s` and `longest_s` are the waits."""

    __slots__ = ("_first_s", "_interval_timer", "_longest_s", "_wait_s", "_wakeup", "idle")

    def __init__(self, wakeup: SpoutWakeup, first_s: float, longest_s: float) -> None:
        self._wakeup = wakeup
        self._first_s = self._wait_s = first_s
        self._longest_s = longest_s
        # The last call emitted nothing, and nothing has happened since that could bring more.
        self.idle = True
        self._interval_timer = interval_timer_of(wakeup.loop, longest_s)

    def soon(self) -> None:
        """There may be more to emit: the waits are short again."""
        self.idle = False
        self._wait_s = self._first_s

    async def poll(self, state: SpoutState, collector: SpoutTaskCollector, spout: Spout | None) -> Returned:
        """Wait and call until a call emits, finishes or returns something to await. Returns that, None, or NOT_CALLED.

        Without `spout` nothing is called: one wait.
        """
        wakeup, emitted = self._wakeup, collector.emitted
        while True:
            self.idle = True  # again, if `next_tuple` has called `wake` by itself
            if self._wait_s < self._longest_s:
                rung = await wakeup.wait(self._wait_s)
                self._wait_s = min(self._wait_s * 2, self._longest_s)
            else:
                rung = await wakeup.wait_for(self._interval_timer)
            if rung or spout is None or state.on_control or collector.emitted != emitted:
                return NOT_CALLED
            result = spout.next_tuple()
            if result is not None or collector.emitted != emitted or collector.finished:
                return result


class SpoutWakeup:
    """A `wake` without a waiter has no effect: the waiter checks everything before it waits."""

    __slots__ = ("_waiter", "_woken", "loop")

    def __init__(self) -> None:
        self.loop = asyncio.get_running_loop()
        self._waiter: asyncio.Future[None] | None = None
        self._woken = False

    def wake(self) -> None:
        """Wake the waiter, if there is one."""
        waiter = self._waiter
        if waiter is not None:
            self._woken = True  # also if its timer has fired, and the waiter has not run yet
            if not waiter.done():
                waiter.set_result(None)

    async def wait(self, at_most_s: float | None = None) -> bool:
        """Wait for `wake`, or for at most this time. Was it woken?"""
        waiter = self._waiter = self.loop.create_future()
        self._woken = False
        timer = self.loop.call_later(at_most_s, _over, waiter) if at_most_s is not None else None
        try:
            await waiter
        finally:
            self._waiter = None
            if timer is not None:
                timer.cancel()
        return self._woken

    async def wait_for(self, interval_timer: IntervalTimer) -> bool:
        """Wait for `wake`, or for an interval timer. Was it woken?"""
        waiter = self._waiter = self.loop.create_future()
        self._woken = False
        interval_timer.add(waiter)
        try:
            await waiter
        finally:
            self._waiter = None
            interval_timer.remove(waiter)
        return self._woken


class Backoff:
    """When `next_tuple` has raised: wait and call it again, or give up, by the restart policy. `name`: of the task."""

    __slots__ = ("_clock", "_history", "_name")

    def __init__(self, name: str, config: Config, clock: Clock) -> None:
        self._name = name
        self._clock = clock
        policy = RestartPolicy(config.restart_max, config.restart_period_s, tuple(config.restart_backoff_s))
        self._history = FailureHistory(policy)

    async def wait(self, error: Exception, *, can_go_on: bool) -> None:
        """Wait until the spout may be called again. ActorEscalatedError if it may not."""
        decision = self._history.failed(error, self._clock.monotonic())
        if not can_go_on or decision.directive is Directive.ESCALATE:
            raise ActorEscalatedError(f"{self._name} failed in next_tuple and was given up: {error!r}") from error
        await self._clock.sleep(decision.delay_s)


def _over(waiter: asyncio.Future[None]) -> None:
    if not waiter.done():
        waiter.set_result(None)


@types.coroutine
def _pause() -> Generator[None, None, None]:
    """Let other tasks run. (`asyncio.sleep(0)`, two calls cheaper.)"""
    yield
