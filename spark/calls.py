"""Calls: what blocks (py4j, the JVM's sockets) runs in threads of their own, and the event loop waits for it.

    await calls.run(function, …) ─► queue ─► thread ─► result ─► the loop

1. Threads are few, begin when they are first needed, and are no reason to stay: a call that is stuck in the JVM does
   not hold up the end of the process (a ThreadPoolExecutor's would).
2. What is awaited and cancelled goes on in its thread, and its result is dropped: a Spark job is cancelled by its
   job group.
3. PySpark gives each Python thread a JVM thread of its own; py4j gives it back when the thread ends.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import queue
import threading
from collections.abc import Callable
from typing import Any, Final, TypeVar

T = TypeVar("T")

MAX_THREADS: Final = 8
END_S: Final = 2.0

log = logging.getLogger("aiostorm.spark")

_Call = tuple[Callable[[], Any], asyncio.AbstractEventLoop, "asyncio.Future[Any]"]


class SparkCalls:
    """Threads for calls that block; at most `threads` calls at once, the others wait their turn."""

    def __init__(self, threads: int = MAX_THREADS, *, name: str = "spark") -> None:
        self._most = threads
        self.name = name
        self._queue: queue.SimpleQueue[_Call | None] = queue.SimpleQueue()  # bounded by who awaits
        self._threads: list[threading.Thread] = []
        self._lock = threading.Lock()
        self._busy = 0  # calls that wait or run, given up or not
        self._closed = False

    async def run(self, function: Callable[..., T], *arguments: Any) -> T:
        """Call it in a thread; what it returns or raises."""
        return await self.begin(function, *arguments)

    def begin(self, function: Callable[..., T], *arguments: Any) -> asyncio.Future[T]:
        """The same for who does not wait here: it hears by the future."""
        if self._closed:
            raise RuntimeError("these threads have ended")
        loop = asyncio.get_running_loop()
        future: asyncio.Future[T] = loop.create_future()
        with self._lock:
            self._busy += 1
            if self._busy > len(self._threads) < self._most:
                thread = threading.Thread(target=self._work, name=f"{self.name}-{len(self._threads) + 1}", daemon=True)
                self._threads.append(thread)
                thread.start()
        self._queue.put((lambda: function(*arguments), loop, future))
        return future

    def close(self) -> None:
        """No more calls; idle threads end. Does not wait."""
        self._closed = True
        for _ in self._threads:
            self._queue.put(None)

    def join(self, timeout_s: float = END_S) -> bool:
        """Wait for the threads (blocking, at most so long for each); have all ended?"""
        for thread in self._threads:
            thread.join(timeout_s)
        return not any(thread.is_alive() for thread in self._threads)

    def _work(self) -> None:
        while (call := self._queue.get()) is not None:
            function, loop, future = call
            try:
                outcome: Any = function()
                failure = None
            except BaseException as error:  # also SystemExit of user code: the thread goes on
                outcome, failure = None, error
            with self._lock:
                self._busy -= 1
            _set_outcome(loop, future, outcome, failure)
            del call, function, future, outcome, failure


def log_error(future: asyncio.Future[Any]) -> None:
    """Whoever asked has gone: what went wrong is for who looks for it. Spark may have gone, too."""
    error = None if future.cancelled() else future.exception()
    if error is not None:
        log.debug("nobody waited for this", exc_info=error)


def _set_outcome(
    loop: asyncio.AbstractEventLoop, future: asyncio.Future[Any], outcome: Any, error: BaseException | None
) -> None:
    def settle() -> None:
        if future.done():
            return
        if error is None:
            future.set_result(outcome)
        elif isinstance(error, StopIteration):  # a future refuses it
            future.set_exception(RuntimeError("StopIteration"))
        else:
            future.set_exception(error)

    with contextlib.suppress(RuntimeError):  # the loop has been closed: nobody waits
        loop.call_soon_threadsafe(settle)
