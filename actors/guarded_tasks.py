"""GuardedTasks: every asyncio task of an actor system, referenced until it ends; no exception of them is lost.

end: cancel all ── kill_timeout_s ──► cancel those that still run ── kill_timeout_s ──► abandon them, by name
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from contextvars import Context
from typing import TypeVar

from .errors import KillTimeoutError
from .reaper import suspended_at

T = TypeVar("T")


class GuardedTasks:
    """The asyncio tasks of one event loop. `fail(name, error)` is called for each task that raised."""

    __slots__ = ("_fail", "_given_up", "_tasks", "loop")

    def __init__(self, loop: asyncio.AbstractEventLoop, fail: Callable[[str, BaseException], None]) -> None:
        self.loop = loop
        self._fail = fail
        self._tasks: dict[asyncio.Task[object], None] = {}  # in the order in which they started and are ended
        self._given_up: set[asyncio.Task[object]] = set()

    def __contains__(self, task: object) -> bool:
        return task in self._tasks

    def start(self, work: Coroutine[object, None, T], *, name: str, context: Context | None) -> asyncio.Task[T]:
        """Start one."""
        task = self.loop.create_task(work, name=name, context=context)
        self._tasks[task] = None
        task.add_done_callback(self._ended)
        return task

    def give_up(self, task: asyncio.Task[object], error: BaseException) -> None:
        """Abandon a task that does not end."""
        self._given_up.add(task)
        self._fail(task.get_name(), error)

    async def end(self, kill_timeout_s: float) -> asyncio.CancelledError | None:
        """End all that are left. Returns the cancellation of the caller, if there was one meanwhile."""
        cancelled: asyncio.CancelledError | None = None
        warned: set[asyncio.Task[object]] = set()
        while left := self._unfinished():
            for task in left:
                task.cancel()
            waits = self.loop.create_task(asyncio.wait(left, timeout=kill_timeout_s))
            cancelled = await wait_uncancelled(waits) or cancelled
            left = self._unfinished()
            for task in [task for task in left if task in warned]:
                error = f"{task.get_name()} was cancelled but does not end: it hangs at {suspended_at(task)}"
                self.give_up(task, KillTimeoutError(error))
            warned.update(left)
        return cancelled

    def _unfinished(self) -> list[asyncio.Task[object]]:
        return [task for task in self._tasks if not task.done() and task not in self._given_up]

    def _ended(self, task: asyncio.Task[object]) -> None:
        self._tasks.pop(task, None)
        self._given_up.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            self._fail(task.get_name(), error)


async def wait_uncancelled(waited: asyncio.Future[T]) -> asyncio.CancelledError | None:
    """Wait for something that has its own bound, even if this task is cancelled; returns that cancellation."""
    cancelled: asyncio.CancelledError | None = None
    while not waited.done():
        try:
            await asyncio.shield(waited)
        except asyncio.CancelledError as again:
            cancelled = again
    return cancelled
