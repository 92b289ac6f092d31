"""Resources: opened before the tasks of a worker and closed after them, by one asyncio task that keeps them open.

    open ─► [a: make, enter] ─► [b: …] ─► ready ── in use ── close ─► [b: exit] ─► [a: exit]
                └─ raises: reported, again after a wait (topology.restart.*) … given up: what is open is closed

1. All resources are entered and left in one asyncio task that does nothing else. What they have started there (a
   TaskGroup, a cancel scope) may end it: that is a failure of the resource, and of the topology.
2. They are opened in the order of declaration and closed in reverse, also if the start fails. A resource that cannot be
   closed is reported, and the others are closed all the same.
3. Errors are reported like those of tasks, under the name of the resource.
4. Closing has a bound: that of the topology's graceful stop, or AT_ONCE_S if it ends at once. Then it is cancelled.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING, Final, Protocol

from ..actors import Directive, FailureHistory, RestartPolicy
from ..topology import Managed, Resource, WorkerContext
from .drive import USER_ERRORS, AwaitCancelledError, awaited, user_error

if TYPE_CHECKING:
    from .drive import Yielded
    from .environment import Environment

AT_ONCE_S: Final = 1.0
"""The time for closing all of them, where the topology ends at once."""

LEAST_S: Final = 0.25
"""The least time for closing each of them, and for what was cancelled to end."""


class Guard(Protocol):
    """Runs work whose errors must not be lost: ActorSystem.guard."""

    def __call__(self, work: Coroutine[Yielded, Yielded, None], *, name: str) -> asyncio.Task[None]:
        """See there."""
        ...


class WorkerResources:
    """The resources of one topology in this worker, whose name is `worker`; tasks find them in `env.resources`."""

    def __init__(
        self,
        env: Environment,
        worker: str,
        policy: RestartPolicy,
        guard: Guard,
        gave_up: Callable[[str, BaseException], None],
    ) -> None:
        self._env = env
        self._worker = worker
        self._policy = policy
        self._guard = guard
        self._gave_up = gave_up
        self._opened: list[tuple[str, Managed]] = []
        self._task: asyncio.Task[None] | None = None
        self._up = asyncio.get_running_loop().create_future()
        self._over = asyncio.Event()
        self._opening = True
        self._due_s: float | None = None  # when closing must be over, if the topology ends at once
        self._closing: asyncio.Timeout | None = None

    async def open(self, ended: asyncio.Future[None]) -> None:
        """Returns when all are open, when one was given up, when `ended` is done, or when closing has begun."""
        if self._env.topology.resources and not self._over.is_set():
            self._task = self._guard(self._live(), name=f"resources of {self._env.name}")
            await asyncio.wait((self._up, self._task, ended), return_when=asyncio.FIRST_COMPLETED)

    def close_soon(self) -> None:
        """Close at once: now, or as soon as the tasks have ended."""
        if self._due_s is None:
            self._due_s = self._env.clock.monotonic() + AT_ONCE_S
            if self._closing is not None:
                asyncio.get_running_loop().call_later(AT_ONCE_S, self._cut_short, self._closing)

    async def close(self) -> None:
        """Close what is open. A cancel makes it close at once, and is raised when that is done."""
        self._over.set()
        if self._task is None:
            return
        if self._opening:
            self._task.cancel()
        try:
            await self._wait_closed(self._task)
        except asyncio.CancelledError:
            self.close_soon()
            await self._wait_closed(self._task)
            raise

    # -- inside ------------------------------------------------------------------------------------------------------

    async def _live(self) -> None:
        """Opens all, waits, closes all."""
        cancelled: asyncio.CancelledError | None = None
        try:
            are_open = await self._open_all()
            self._opening = False
            if are_open:
                self._up.set_result(None)
                await self._over.wait()
        except asyncio.CancelledError as error:
            self._opening = False
            if self._over.is_set():
                _uncancel()  # by `close`: the cancel was for the opening only
            else:
                cancelled = error
        failed = await self._close_all(cancelled)
        if cancelled is None:
            return
        if not failed and _is_cancelled():
            raise cancelled  # the program ends
        unknown = (
            "resources",
            AwaitCancelledError("a resource has cancelled the task that keeps them open"),
        )
        self._give_up(*(failed[0] if failed else unknown))

    async def _open_all(self) -> bool:
        """Open all. False if one was given up."""
        env = self._env
        tasks = {
            component: tuple(task for task in ids if task in env.mailboxes)
            for component, ids in env.plan.tasks_of.items()
            if component in env.topology.components
        }
        context = WorkerContext(env.name, self._worker, env.config, tasks, env.resources)
        for resource in env.topology.resources.values():
            if not await self._open(resource, context):
                return False
        return True

    async def _open(self, resource: Resource, context: WorkerContext) -> bool:
        history = FailureHistory(self._policy)
        while not self._over.is_set():
            try:
                manager = resource.manager(context)
                if isinstance(manager, AbstractAsyncContextManager):
                    value = await awaited(manager.__aenter__())
                else:
                    value = manager.__enter__()
            except USER_ERRORS as raised:
                error = user_error(raised)
                self._report(resource.name, "open", error)
            else:
                self._opened.append((resource.name, manager))
                self._env.resources[resource.name] = value
                return True
            decision = history.failed(error, self._env.clock.monotonic())
            if decision.directive is not Directive.RESTART:
                self._give_up(f"resource {resource.name!r}", error)
                return False
            await asyncio.sleep(decision.delay_s)
        return False

    async def _close_all(self, cancelled: asyncio.CancelledError | None) -> list[tuple[str, Exception]]:
        """Close all, the last opened first, whatever fails. Returns the failures: (resource, error)."""
        clock = self._env.clock
        failed: list[tuple[str, Exception]] = []
        if cancelled is not None or self._due_s is not None:
            self._due_s = clock.monotonic() + AT_ONCE_S  # counted from here
        while self._opened:
            name, manager = self._opened[-1]
            due_s = self._due_s
            limit = asyncio.timeout(None if due_s is None else max(due_s - clock.monotonic(), LEAST_S))
            try:
                async with limit as self._closing:
                    await _leave(manager, cancelled)
            except USER_ERRORS as raised:
                failed.append((f"resource {name!r}", self._not_closed(name, raised, late=limit.expired())))
            finally:
                self._closing = None
                self._opened.pop()
        return failed

    def _cut_short(self, closing: asyncio.Timeout) -> None:
        """The time is over: cancel this close, if it still runs."""
        if self._closing is closing and not closing.expired():
            closing.reschedule(0.0)

    def _not_closed(self, name: str, raised: BaseException, *, late: bool) -> Exception:
        """Report a resource that was not closed."""
        if late and isinstance(raised, TimeoutError):
            raised = TimeoutError("closing took too long and was cancelled")
        elif isinstance(raised, asyncio.CancelledError) and _is_cancelled():
            raised = AwaitCancelledError("cancelled before it was closed: the program ends")
        error = user_error(raised)
        self._report(name, "close", error)
        return error

    async def _wait_closed(self, task: asyncio.Task[None]) -> None:
        while not task.done():
            limit_s = None if self._due_s is None else AT_ONCE_S + (len(self._opened) + 1) * LEAST_S
            left = len(self._opened)
            done, _ = await asyncio.wait((task,), timeout=limit_s)
            if not done and limit_s is not None and left == len(self._opened):
                names = ", ".join(name for name, _ in self._opened[-1:]) or "one that was being opened"
                error = TimeoutError("cancelled, and does not end: it swallows CancelledError")
                self._report(names, "close", error)
                return

    def _give_up(self, what: str, error: BaseException) -> None:
        self._gave_up(f"/{self._env.name}/{what}", error)

    def _report(self, name: str, where: str, error: BaseException) -> None:
        clock, path = self._env.clock, f"resource {name!r}"
        self._env.exits.add(f"/{self._env.name}/{path}", error, clock.monotonic())
        self._env.errors.add(path, 0, where, error, tup=None, wall_s=clock.now(), now_s=clock.monotonic())


async def _leave(manager: Managed, error: BaseException | None) -> None:
    details = (None, None, None) if error is None else (type(error), error, error.__traceback__)
    if isinstance(manager, AbstractAsyncContextManager):
        await awaited(manager.__aexit__(*details))
    else:
        manager.__exit__(*details)


def _is_cancelled() -> bool:
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


def _uncancel() -> None:
    task = asyncio.current_task()
    while task is not None and task.cancelling():
        task.uncancel()
