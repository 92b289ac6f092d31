"""Changes: wait until a condition holds that other code makes true, without polling."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from .errors import WaitTimeoutError


class Changes:
    """`until(ready)` checks at once, and again after each `notify()`."""

    __slots__ = ("_waiting",)

    def __init__(self) -> None:
        self._waiting: list[tuple[Callable[[], bool], asyncio.Future[None]]] = []

    def notify(self) -> None:
        """Something has changed."""
        for ready, future in self._waiting:
            if not future.done() and ready():
                future.set_result(None)

    async def until(self, ready: Callable[[], bool], timeout_s: float | None, describe: Callable[[], str]) -> None:
        """Wait until `ready()`; WaitTimeoutError with `describe()` after `timeout_s` seconds of the loop's time."""
        if ready():
            return
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        entry = (ready, future)
        self._waiting.append(entry)
        try:
            async with asyncio.timeout(timeout_s):
                await future
        except TimeoutError:
            raise WaitTimeoutError(f"{describe()} after {timeout_s:g} s") from None
        finally:
            self._waiting.remove(entry)
