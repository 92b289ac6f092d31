"""User code: the component of a task: how it is made, opened, called and ended, with its hooks.

User code of a `blocking` component runs in one thread that belongs to the task, and the task waits for it: two of its
methods never run at once.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING

from ..metrics import OwnMetrics, ProgressMetrics
from ..runtime import in_thread
from ..topology import Component, ComponentSpec, Config, TaskHook, TaskSpec, TopologyContext
from .drive import USER_ERRORS, AwaitCancelledError, awaited, check_cancel, stop_iteration_error, user_error
from .exits import UserExitError
from .hooks import DebugHook, HookCalls, import_hooks

if TYPE_CHECKING:
    from ..actors import Question
    from ..topology import Function, Returned, StateValue, Unchecked
    from .emit.emitter import Emitter
    from .environment import Environment

Report = Callable[[str, BaseException], None]
"""Reports an error: (where it was raised, error)."""


class GetResult:
    """Request for the component's `result()`; sent as a Question on the control lane."""


class UserCode:
    """The component of one task. `component`: the present instance; `hook_calls`: of its hooks, if it has any.

    `own`: what it measures by itself. `thread`: in which methods of a blocking component run; None: they run in the
    event loop.
    """

    __slots__ = (
        "_emitter",
        "_env",
        "_progress_failed",
        "_report",
        "_spec",
        "_task",
        "component",
        "config",
        "hook_calls",
        "hooks",
        "own",
        "thread",
    )

    def __init__(
        self,
        env: Environment,
        task: TaskSpec,
        spec: ComponentSpec,
        config: Config,
        emitter: Emitter,
        report: Report,
    ) -> None:
        self.component: Component | None = None
        self.config = config
        self.hooks: list[TaskHook] = []
        self.hook_calls: HookCalls | None = None
        self.thread: ThreadPoolExecutor | None = None
        self.own = OwnMetrics(task.component, env.metric_names(), env.clock.monotonic)
        self._progress_failed: Component | None = None
        self._env = env
        self._task = task
        self._spec = spec
        self._emitter = emitter
        self._report = report

    async def make(self) -> Component:
        """A fresh component with its hooks; not yet opened."""
        self.component = component = self._spec.create()
        if component.blocking and self.thread is None:
            name = f"aiostorm-{self._task.component}[{self._task.task_id}]"
            self.thread = ThreadPoolExecutor(1, thread_name_prefix=name)
        self.hooks = [hook() for hook in import_hooks(self.config)]
        if self.config.debug:
            self.hooks.append(DebugHook())
        return component

    def context(self, state: StateValue = None) -> TopologyContext:
        """The context that the component is given. `state`: of the task."""
        return TopologyContext(
            topology=self._env.name,
            component=self._task.component,
            task_id=self._task.task_id,
            task_index=self._task.index,
            config=self.config,
            tasks=self._env.plan.tasks_of,
            fields=self._env.stream_fields(),
            add_hook=self.hooks.append,
            resources=self._env.resources,
            state=state,
            metrics=self.own,
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
        self._emitter.on_emit = None
        if self.hooks:
            stopwatch = self._env.clock.stopwatch
            self.hook_calls = HookCalls(
                self.hooks, self._task.task_id, stopwatch, lambda error: self._report("a hook", error)
            )
            self._emitter.on_emit = self.hook_calls.emitted

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
                self._report("progress", error)
            return None

    async def end(self, method: str) -> None:
        """Call `close` or `cleanup`, and end the thread."""
        if self.component is not None:
            try:
                if hasattr(self.component, method):  # a function bolt has nothing to clean up
                    await self.call(getattr(self.component, method))
            except USER_ERRORS as error:
                self._report(method, user_error(error))
            if self.hook_calls is not None:
                self.hook_calls.call("cleanup")
            self._emitter.flush()  # what a blocking component emitted or acked meanwhile
        self._end_thread()

    async def call(self, method: Function, *arguments: Unchecked) -> Returned:
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

    async def open(self, method: Function, *arguments: Unchecked) -> None:
        """Call `open` or `prepare`. An error is reported and raised to the guardian."""
        try:
            await self.call(method, *arguments)
        except USER_ERRORS as raised:
            error = user_error(raised)
            self._report(method.__name__, error)
            self._end_thread()  # the guardian may give up; a next instance gets a new thread
            if error is raised:
                raise
            raise error from raised

    async def restore(self, method: Function, *arguments: Unchecked, end: str) -> None:
        """As `open`, for a component that is open. `end`: is called if that fails, since nothing else ends it."""
        in_loop = self.thread is None
        try:
            await self.open(method, *arguments)
        except BaseException:
            if in_loop:
                await self.end(end)
            raise

    async def notify(self, where: str, method: Function, *arguments: Unchecked) -> None:
        """Call a user method that is a notification; an error in it is reported and changes nothing."""
        try:
            await self.call(method, *arguments)
        except USER_ERRORS as error:
            self._report(where, user_error(error))

    async def in_thread(self, work: Callable[[], Returned]) -> Returned:
        """Run blocking work in the task's thread."""
        return await in_thread(partial(_contained, work), self.thread)

    async def answer(self, question: Question) -> None:
        """Answer a question of the cluster."""
        try:
            if not isinstance(question.message, GetResult):
                raise TypeError(f"a task does not understand {question.message!r}")
            value = await self.call(self.component.result) if self.component is not None else None
        except USER_ERRORS as raised:
            error = user_error(raised)
            self._report("result", error)
            if not question.reply.done():
                question.reply.set_exception(error)
            return
        if not question.reply.done():
            question.reply.set_result(value)

    def _end_thread(self) -> None:
        if self.thread is not None:
            self.thread.shutdown(wait=False, cancel_futures=True)
            self.thread = None


def _contained(work: Callable[[], Returned]) -> Returned:
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
