"""UserCalls: methods of bolts with windows that may wait: `async def`, or in the thread of a blocking bolt.

Only these methods run in the thread: what they are called with has left the windows. The methods that change states run
in the event loop, also those of a blocking bolt: a snapshot may be reading the states.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from ..drive import finish

if TYPE_CHECKING:
    from ...topology import Function, Returned, Unchecked

InThread = Callable[[Callable[[], "Returned"]], Awaitable["Returned"]]


class UserCalls:
    """The calls of one bolt. `in_thread`: of a blocking bolt. `suspend()` is called before the task waits."""

    __slots__ = ("_in_thread", "_suspend")

    def __init__(self, in_thread: InThread | None, suspend: Callable[[], None]) -> None:
        self._in_thread = in_thread
        self._suspend = suspend

    def waits(self, method: Function) -> bool:
        """Whether calls of this method may wait."""
        return self._in_thread is not None or inspect.iscoroutinefunction(method)

    async def call(self, method: Function, *arguments: Unchecked) -> Returned:
        """What the method returns. Raises what it raises."""
        if self._in_thread is None:
            returned = method(*arguments)
            return await finish(returned, self._suspend) if hasattr(returned, "__await__") else returned

        def work() -> Returned:
            made = method(*arguments)
            return list(made) if inspect.isgenerator(made) else made  # its body, too

        self._suspend()
        return await self._in_thread(work)
