"""Drive: await a user's coroutine and know the moment when it suspends.

1. A turn ends when user code suspends: what it has emitted is sent then, not when it resumes. So nothing waits in a
   buffer while a spout awaits its socket, and no timer is needed to flush a batch.
2. A CancelledError without a cancel of this task is an error of user code: something that it awaited was cancelled, or
   it read the result of a cancelled future. It must not look like the end of the task. (SystemExit: see exits.py.)
"""

from __future__ import annotations

import asyncio
import inspect
import types
from collections.abc import Awaitable, Callable, Coroutine, Generator
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from ..runtime import AiostormError
from .exits import UserExitError, is_of_program

if TYPE_CHECKING:
    from ..topology import Returned


USER_ERRORS: Final = BaseException
"""What a call of user code is caught with: CancelledError and SystemExit included. `user_error` decides about them."""


Yielded: TypeAlias = Any
"""What a coroutine gives to the event loop when it waits (a future), or what the event loop sends back."""


class AwaitCancelledError(AiostormError):
    """Something that user code awaited was cancelled, though the task was not: see `__cause__`."""


@types.coroutine
def drive(
    work: Coroutine[Yielded, Yielded, Returned], on_suspend: Callable[[], None]
) -> Generator[Yielded, Yielded, Returned]:
    """Await `work`; `on_suspend()` is called before each of its suspensions. It must not raise."""
    step: Callable[[Yielded], Yielded] = work.send
    argument: Yielded = None
    while True:
        try:
            waited = step(argument)
        except StopIteration as end:
            return end.value
        except asyncio.CancelledError as cancelled:
            check_cancel(cancelled)
            raise
        on_suspend()
        try:
            argument = yield waited
            step = work.send
        except BaseException as error:
            step, argument = work.throw, error


@types.coroutine
def resume(
    work: Coroutine[Yielded, Yielded, Returned], waited: Yielded, thrown: BaseException | None = None
) -> Generator[Yielded, Yielded, Returned]:
    """Continue a coroutine in this asyncio task. It was started outside of the task and now waits for `waited`.

    `thrown`: an exception that arrived instead of the result.
    """
    # Pass a cancel on to what is awaited, as asyncio does: a task of the user must not be left running.
    if thrown is not None and asyncio.isfuture(waited) and waited.cancel(*thrown.args):
        thrown = None
    step: Callable[[Yielded], Yielded] = work.send
    argument: Yielded = None
    while True:
        try:
            if thrown is not None:
                raise thrown
            argument = yield waited
            step = work.send
        except BaseException as error:
            step, argument, thrown = work.throw, error, None
        try:
            waited = step(argument)
        except StopIteration as end:
            return end.value


async def finish(value: Returned, on_suspend: Callable[[], None]) -> Returned:
    """Finish what a user method returned: awaited if it was `async def`."""
    if inspect.iscoroutine(value):
        return await drive(value, on_suspend)
    if inspect.isawaitable(value):
        on_suspend()
        return await awaited(value)
    return value


async def awaited(value: Awaitable[Returned]) -> Returned:
    """Await what user code returned; AwaitCancelledError for a cancel that was not meant for this task."""
    try:
        return await value
    except asyncio.CancelledError as cancelled:
        check_cancel(cancelled)
        raise


def check_cancel(cancelled: asyncio.CancelledError) -> None:
    """AwaitCancelledError if the current task was not cancelled."""
    if not is_cancelled():
        raise AwaitCancelledError("an awaited task or future was cancelled, and not by the framework") from cancelled


def user_error(error: BaseException) -> Exception:
    """What user code raised, as an Exception. A cancel of this task, or what a signal handler raised, goes on."""
    if isinstance(error, Exception):
        return error
    if not isinstance(error, asyncio.CancelledError):
        if isinstance(error, GeneratorExit) or is_of_program(error):
            raise error
        return UserExitError(error)
    if is_cancelled():
        raise error
    found = AwaitCancelledError("user code raised CancelledError, and the task was not cancelled")
    found.__cause__ = error
    return found


def stop_iteration_error() -> RuntimeError:
    """The error for a call that ended a loop over `map`: there, a StopIteration (`next(lines)`) looks like the end."""
    return RuntimeError("user code raised StopIteration: an iterator that it called next() on has no more items")


def is_cancelled() -> bool:
    """Was the current task cancelled? (In a component's thread there is no task.)"""
    try:
        task = asyncio.current_task()
    except RuntimeError:
        return False
    return task is not None and task.cancelling() > 0
