"""Task: what spout tasks and bolt tasks share: one instance of a component, as an actor with a task id.

1. The actor outlives its component: after a failure the guardian restarts it and it makes a fresh component; the
   mailbox, what was taken from it, and what waits to be sent stay.
2. User code of a `blocking` component runs in one thread that belongs to the task, and the task waits for it: two of
   its methods never run at once.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

from ..actors import Actor, DeadLetter, MailboxClosedError, Question
from ..metrics import ProgressMetrics, TaskCounters, TaskMetrics, TimeMetrics
from ..topology import (
    WATERMARK_FIELDS,
    WATERMARK_STREAM,
    Component,
    ComponentSpec,
    Config,
    Failure,
    Origin,
    Row,
    Segment,
    TaskHook,
    TaskSpec,
    TopologyContext,
)
from .drive import USER_ERRORS, AwaitCancelledError, awaited, check_cancel, stop_iteration_error, user_error
from .emit.ack_batch import AckBatch
from .emit.checking import check_rows
from .emit.emit_buffer import OutStreams
from .emit.emitter import Emitter
from .emit.following import follow
from .emit.outbox import Outbox
from .emit.stamping import StampingEmitter
from .emit.watermarks import WatermarkEmitter
from .environment import Environment
from .exits import UserExitError
from .hints import hint
from .hooks import DebugHook, HookCalls, load_hooks
from .reports import describe


class GetResult:
    """Request for the component's `result()`; sent as a Question on the control lane."""


class Activate:
    """To a spout task: start or continue emitting."""


class Deactivate:
    """To a spout task: emit nothing new. `end=True`: for good, so a waiting `next_tuple` is cancelled."""

    def __init__(self, *, end: bool = False) -> None:
        self.end = end


class FailPending:
    """To a spout task: every message that is open now fails, because its tree is lost (a worker died, say)."""

    def __init__(self, failure: Failure) -> None:
        self.failure = failure


class TaskActor(Actor):
    """Base of spout and bolt tasks. `ready` is done when the component was opened or prepared for the first time.

    `thread`: in which user methods of a blocking component run; None: they run in the event loop.
    """

    def __init__(self, env: Environment, task: TaskSpec, spec: ComponentSpec, config: Config) -> None:
        self.env = env
        self.task = task
        self.spec = spec
        self.config = config
        self.counters = TaskCounters()
        self.ready: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.name = f"component {task.component!r} (task {task.task_id})"
        ids = env.ids()
        mailbox_of = partial(env.mailbox_of, task.task_id)
        self.outbox = Outbox(self._on_unblock, self._lost, ids.take, self._packed, mailbox_of, self._on_block)
        self.acks = AckBatch(env.ackers(task))
        streams = OutStreams(self.name, env.out_streams(task, spec, config, self.outbox))
        self.emitter = (StampingEmitter if env.plan.time.stamped else Emitter)(
            streams, ids, self.acks, self.counters, self._refused, spread=bool(env.remote)
        )
        if env.config.testing_always_try_serialize:
            check_rows(self.emitter)
        self.stamps: StampingEmitter | None = None
        if isinstance(self.emitter, StampingEmitter):
            self.stamps = self.emitter
            self.stamps.begin(lambda: int(env.clock.now() * 1000))
        self.watermarks = self.emitter.watermarks = WatermarkEmitter(
            self.name,
            Origin(task.component, task.task_id, WATERMARK_STREAM, WATERMARK_FIELDS),
            self.outbox.outlets,
            env.watermark_receivers(task.component),
            declared=spec.time.emits_watermarks,
        )
        self.emitter.following = follow(env, task, self.emitter.streams.values(), self.watermarks)
        self.hooks: list[TaskHook] = []
        self.hook_calls: HookCalls | None = None
        self.component: Component | None = None
        self._progress_failed: Component | None = None
        self.thread: ThreadPoolExecutor | None = None

    # -- read by the cluster -----------------------------------------------------------------------------------------

    @property
    def is_idle(self) -> bool:
        """Nothing to do, nothing in hand, nothing waiting to be sent."""
        raise NotImplementedError

    @property
    def pending(self) -> int:
        """Open messages (spouts)."""
        return 0

    @property
    def pending_trees(self) -> int:
        """Trees with open messages (spouts)."""
        return 0

    def metrics(self) -> TaskMetrics:
        """A copy of the counters."""
        box = self.env.mailboxes[self.task.task_id]
        return TaskMetrics.of(
            self.task.task_id,
            self.counters,
            pending=self.pending,
            pending_trees=self.pending_trees,
            fill=box.fill,
            capacity=box.capacity,
            time=self.time_metrics(),
            progress=self.progress(),
        )

    def progress(self) -> ProgressMetrics | None:
        """How far the component is, if it can say. An error is reported once for each instance."""
        component = self.component
        if not isinstance(component, Component) or type(component).progress is Component.progress:
            return None
        try:
            found = component.progress()
            if found is None:
                return None
            return ProgressMetrics(found.unit, found.done, found.total, found.rows, found.before, found.note)
        except Exception as error:
            if component is not self._progress_failed:
                self._progress_failed = component
                self.report("progress", error)
            return None

    def time_metrics(self) -> TimeMetrics | None:
        """How far event time is, for a task that handles it."""
        return None

    # -- life --------------------------------------------------------------------------------------------------------

    async def make_component(self) -> Component:
        """A fresh component with its hooks; not yet opened."""
        if self.component is not None:
            self.counters.restarts += 1
        self.component = component = self.spec.create()
        if component.blocking and self.thread is None:
            name = f"aiostorm-{self.task.component}[{self.task.task_id}]"
            self.thread = ThreadPoolExecutor(1, thread_name_prefix=name)
        self.hooks = [hook() for hook in load_hooks(self.config)]
        if self.config.debug:
            self.hooks.append(DebugHook())
        return component

    def context(self) -> TopologyContext:
        """The context that the component is given."""
        return TopologyContext(
            topology=self.env.name,
            component=self.task.component,
            task_id=self.task.task_id,
            task_index=self.task.index,
            config=self.config,
            tasks=self.env.plan.tasks_of,
            fields=self.env.stream_fields(),
            add_hook=self.hooks.append,
            resources=self.env.resources,
        )

    def use_hooks(self, context: TopologyContext) -> None:
        """After the component was opened: call its hooks from now on, if it has any."""
        self._call_hooks()
        if self.hook_calls is not None:
            self.hook_calls.call("prepare", context)

    def log_activity(self, *, wanted: bool) -> bool:
        """Switch the log of `topology.debug` for an open component. True if that changed anything."""
        others = [hook for hook in self.hooks if not isinstance(hook, DebugHook)]
        if wanted == (len(others) < len(self.hooks)):
            return False
        if wanted:
            others.append(DebugHook())
            others[-1].prepare(self.context())
        self.hooks[:] = others  # the same list: contexts append to it
        self._call_hooks()
        return True

    def _call_hooks(self) -> None:
        self.hook_calls = None
        self.emitter.on_emit = None
        if self.hooks:
            self.hook_calls = HookCalls(
                self.hooks, self.task.task_id, self.env.clock.stopwatch, lambda e: self.report("a hook", e)
            )
            self.emitter.on_emit = self.hook_calls.emitted

    def is_ready(self) -> None:
        """Set `ready`, once."""
        if not self.ready.done():
            self.ready.set_result(None)

    async def end_component(self, method: str) -> None:
        """Call `close` or `cleanup`, and end the thread."""
        if self.component is not None:
            try:
                if hasattr(self.component, method):  # a function bolt has nothing to clean up
                    await self.call(getattr(self.component, method))
            except USER_ERRORS as error:
                self.report(method, user_error(error))
            if self.hook_calls is not None:
                self.hook_calls.call("cleanup")
            self.emitter.flush()  # what a blocking component emitted or acked meanwhile
        self._end_thread()

    # -- user code ---------------------------------------------------------------------------------------------------

    async def call(self, method: Callable[..., Any], *arguments: Any) -> Any:
        """Call a user method: in the task's thread if the component blocks, else here; awaited if it is async."""
        if self.thread is not None:
            return await self.in_thread(lambda: method(*arguments))
        try:
            result = method(*arguments)
        except asyncio.CancelledError as cancelled:
            check_cancel(cancelled)
            raise
        if result is not None and inspect.isawaitable(result):
            return await awaited(result)
        return result

    async def open_component(self, method: Callable[..., Any], *arguments: Any) -> None:
        """Call `open` or `prepare`. An error is reported and raised to the guardian."""
        try:
            await self.call(method, *arguments)
        except USER_ERRORS as raised:
            error = user_error(raised)
            self.report(method.__name__, error)
            self._end_thread()  # the guardian may give up; a next instance gets a new thread
            if error is raised:
                raise
            raise error from raised

    async def notify(self, where: str, method: Callable[..., Any], *arguments: Any) -> None:
        """Call a user method that is a notification; an error in it is reported and changes nothing."""
        try:
            await self.call(method, *arguments)
        except USER_ERRORS as error:
            self.report(where, user_error(error))

    async def in_thread(self, work: Callable[[], Any]) -> Any:
        """Run blocking work in the task's thread."""
        return await asyncio.get_running_loop().run_in_executor(self.thread, _contained, work)

    def report(self, where: str, error: BaseException, tup: object | None = None) -> None:
        """Report an error in user code."""
        self.counters.errors += 1
        clock = self.env.clock
        self.env.exits.add(f"/{self.env.name}/{self.task.component}[{self.task.task_id}]", error, clock.monotonic())
        self.env.errors.add(
            self.task.component,
            self.task.task_id,
            where,
            error,
            tup=tup,
            wall_s=clock.now(),
            now_s=clock.monotonic(),
            hint=hint(self.env.topology, self.task.component, error, tup),
        )

    def failure(self, error: BaseException | str | None) -> Failure:
        """The Failure that a spout receives."""
        text = None if error is None else describe(error)
        return Failure("failed", self.task.component, self.task.task_id, text)

    async def answer(self, question: Question) -> None:
        """Answer a question of the cluster."""
        try:
            if not isinstance(question.message, GetResult):
                raise TypeError(f"a task does not understand {question.message!r}")
            value = await self.call(self.component.result) if self.component is not None else None
        except USER_ERRORS as raised:
            error = user_error(raised)
            self.report("result", error)
            if not question.reply.done():
                question.reply.set_exception(error)
            return
        if not question.reply.done():
            question.reply.set_result(value)

    # -- callbacks ---------------------------------------------------------------------------------------------------

    def _on_block(self) -> None:
        """Segments begin to wait for their targets."""

    def _on_unblock(self) -> None:
        """Nothing waits any more; or something was lost, and the rest may still wait."""
        self.mailbox.wake()

    def _lost(self, segment: Segment, error: MailboxClosedError) -> None:
        """A target ended before it took the segment: its messages fail, at once if their ackers still run."""
        failure = self.failure(f"the target task has ended: {error}")
        self.acks.failures += [(root, index, failure) for root, index in segment.messages]
        self.acks.done(segment)

    def _packed(self, pack: Callable[[Origin, Any, Any], Any], piece: Segment) -> list[Segment]:
        """A target in another worker takes a piece of rows that waited for several targets: pack it."""
        packed = self.emitter.spreader.packed(pack, piece)
        if self.emitter.dirty:  # a row that cannot be sent: its message fails
            self._on_unblock()
        return packed

    def dead_letter(self, segment: Segment) -> None:
        """A segment was taken from the mailbox and will not be executed."""
        self.system.dead_letters.add(DeadLetter(self.name, segment, "the task ended before it executed it"))

    def _refused(self, error: Exception, row: Row, stream: str) -> Failure:
        self.report(f"emit on stream {stream!r}", error, row)
        return self.failure(error)

    def _end_thread(self) -> None:
        if self.thread is not None:
            self.thread.shutdown(wait=False, cancel_futures=True)
            self.thread = None


def _contained(work: Callable[[], Any]) -> Any:
    """Run in a thread, with errors that cannot leave it as they are converted.

    A future that is given a StopIteration (`next(lines)`) never ends; a CancelledError would look like a cancel of the
    task, a SystemExit like one of the program.
    """
    try:
        return work()
    except asyncio.CancelledError as cancelled:
        raise AwaitCancelledError("user code raised CancelledError, and the task was not cancelled") from cancelled
    except StopIteration as error:
        raise stop_iteration_error() from error
    except Exception:
        raise
    except BaseException as error:
        raise UserExitError(error) from error
