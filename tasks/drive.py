"""Drive: await a user's coroutine and know the moment it really suspends.

A turn ends when user code suspends: what it has emitted so far is sent then, not when it resumes. So nothing waits in a
buffer while a spout awaits its socket, and no timer is needed to fill or flush a batch.
"""

from __future__ import annotations

import inspect
import types
from collections.abc import Callable, Coroutine, Generator
from typing import Any


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
        on_suspend()
        try:
            argument = yield waited
            step = work.send
        except BaseException as error:
            step, argument = work.throw, error


async def finish(value: Any, on_suspend: Callable[[], None]) -> Any:
    """What a user method gave back: driven if it was `async def`."""
    if inspect.iscoroutine(value):
        return await drive(value, on_suspend)
    if inspect.isawaitable(value):
        on_suspend()
        return await value
    return value
