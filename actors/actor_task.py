"""ActorTask: the asyncio task of one actor, and the context in which it runs.

1. The system keeps a reference to the task until the task has ended, and reports its exception.
2. Other code may run as this task, in its context, while the task sleeps: a step of the dispatcher, and an answer that
   is given in the step of the asking task.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from contextvars import copy_context
from typing import TYPE_CHECKING, TypeVar

from .dispatcher import Stepper, enter_task, leave_task
from .reaper import suspended_at

if TYPE_CHECKING:
    from .system import ActorSystem

A = TypeVar("A")
R = TypeVar("R")


class ActorTask:
    """The task of one actor, not yet started. `begun`: has its first step begun?"""

    __slots__ = ("_context", "_loop", "_system", "_task", "begun")

    _task: asyncio.Task[None]

    def __init__(self, system: ActorSystem) -> None:
        self._system = system
        self._loop = system.loop
        self._context = copy_context()
        self.begun = False

    def start(self, work: Coroutine[object, None, None], name: str, on_unstarted: Callable[[], None]) -> None:
        """Start it. `on_unstarted` is called if it is cancelled before its first step: then `work` does not run."""
        self._task = self._system.guard(work, name=name, context=self._context)
        self._task.add_done_callback(lambda _: None if self.begun else on_unstarted())

    def begin(self) -> None:
        """The first step: an eager task factory runs it while the task is being made."""
        task = asyncio.current_task()
        assert task is not None  # noqa: S101 - for the type checker
        self._task = task
        self.begun = True

    @property
    def is_current(self) -> bool:
        """Does the event loop run this task now?"""
        return asyncio.current_task(self._loop) is self._task

    @property
    def is_cancelled(self) -> bool:
        """Was it cancelled, and has the cancellation not been taken back?"""
        return self._task.cancelling() > 0

    def cancel(self) -> None:
        """Cancel it."""
        self._task.cancel()

    def give_up(self, error: BaseException) -> None:
        """Abandon it: it does not end."""
        self._system.give_up(self._task, error)

    def suspended_at(self) -> str:
        """The line at which it is suspended."""
        return suspended_at(self._task)

    def call(self, function: Callable[[A], R], argument: A) -> R:
        """Call a function within the step of another task (if there is one), but as this task and in its context."""
        loop, task = self._loop, self._task
        caller = asyncio.current_task(loop)
        if caller is not None:
            leave_task(loop, caller)
        enter_task(loop, task)
        try:
            return self._context.run(function, argument)
        finally:
            leave_task(loop, task)
            if caller is not None:
                enter_task(loop, caller)

    def stepper(self, waits: Callable[[], bool], step: Callable[[], None]) -> Stepper:
        """For `Mailbox.wait_steps`, in which the task waits."""
        return Stepper(self._system.dispatcher, self._loop, self._task, self._context, waits, step)
