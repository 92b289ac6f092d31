"""Drive: await a user's coroutine and know the moment it really suspends.

1. A turn ends when user code suspends: what it has emitted is sent then, not when it resumes. So nothing waits in
   a buffer while a spout awaits its socket, and no timer is needed to fill or flush a batch.
2. A CancelledError that nobody sent to this task is an error of user code: something that it awaited was cancelled, or
   it asked a cancelled future for its result. It must not pass for the end of the task. (SystemExit: see exits.py.)
"""

from __future__ import annotations

import asyncio
import inspect
import types
from collections.abc import Awaitable, Callable, Coroutine, Generator
from typing import Any, Final

from ..runtime import AiostormError
from .exits import UserExitError, is_of_program

USER_ERRORS: Final = BaseException
"""What a call of user code is caught with, and `blamed` looks at: it can raise CancelledError and SystemExit too."""


class AwaitCancelledError(AiostormError):
    """Something that user code awaited was cancelled, and nobody had cancelled the task: see `__cause__`."""


@types.coroutine
def drive(work: Coroutine[Any, Any, Any], on_suspend: Callable[[], None]) -> Generator[Any, Any, Any]:
    """Await `work`; `on_suspend()` is called before each suspension of it. It must not raise."""
    step: Callable[[Any], Any] = work.send
    argument: Any = None
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
    work: Coroutine[Any, Any, Any], waited: Any, thrown: BaseException | None = None
) -> Generator[Any, Any, Any]:
    """Go on, in this asyncio task, with a coroutine that was begun outside of it and has come to wait for `waited`.

    `thrown` has come instead.
    """
    # A cancel goes to what is waited for, as asyncio's own does: a task of the user's must not be left behind.
    if thrown is not None and asyncio.isfuture(waited) and waited.cancel(*thrown.args):
        thrown = None
    step: Callable[[Any], Any] = work.send
    argument: Any = None
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


@types.coroutine
def pause() -> Generator[None, None, None]:
    """Others get the loop. (`asyncio.sleep(0)`, two calls less.)"""
    yield


async def finish(value: Any, on_suspend: Callable[[], None]) -> Any:
    """What a user method gave back: driven if it was `async def`."""
    if inspect.iscoroutine(value):
        return await drive(value, on_suspend)
    if inspect.isawaitable(value):
        on_suspend()
        return await awaited(value)
    return value


async def awaited(value: Awaitable[Any]) -> Any:
    """Await what user code gave back; AwaitCancelledError for a cancel that was not meant for this task."""
    try:
        return await value
    except asyncio.CancelledError as cancelled:
        check_cancel(cancelled)
        raise


def check_cancel(cancelled: asyncio.CancelledError) -> None:
    """AwaitCancelledError if nobody has cancelled the current task."""
    if not is_cancelled():
        raise AwaitCancelledError("what it awaited was cancelled, and not by the framework") from cancelled


def blamed(error: BaseException) -> Exception:
    """What user code raised, as an Exception. Raised again if it is not for us: a cancel of this task, a signal's."""
    if isinstance(error, Exception):
        return error
    if not isinstance(error, asyncio.CancelledError):
        if isinstance(error, GeneratorExit) or is_of_program(error):
            raise error
        return UserExitError(error)
    if is_cancelled():
        raise error
    found = AwaitCancelledError("it raised CancelledError, and nobody had cancelled the task")
    found.__cause__ = error
    return found


def ran_out() -> RuntimeError:
    """What a call raised that ended a loop over `map`: a StopIteration (`next(lines)`) looks like its end there."""
    return RuntimeError("it raised StopIteration: an iterator that it asked has no more")


def is_cancelled() -> bool:
    """Has somebody cancelled the current task? In a component's thread there is none."""
    try:
        task = asyncio.current_task()
    except RuntimeError:
        return False
    return task is not None and task.cancelling() > 0
