"""Calls: blocking calls (py4j, the JVM's sockets) run in threads of their own, and the event loop waits for them.

    await calls.run(function, …) ─► queue ─► thread ─► result ─► the loop

1. Threads are few, start when they are first needed, and are daemons: a call that hangs in the JVM does not delay the
   end of the process (a ThreadPoolExecutor's would).
2. A call whose caller is cancelled goes on in its thread, and its result is dropped: cancel a Spark job by its job
   group.
3. PySpark gives each Python thread its own JVM thread; py4j returns it when the thread ends.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import queue
import threading
from collections.abc import Callable
from typing import Any, Final, TypeVar

from ..runtime import thread_works

T = TypeVar("T")

MAX_THREADS: Final = 8
END_S: Final = 2.0

log = logging.getLogger("aiostorm.spark")

_Call = tuple[Callable[[], Any], asyncio.AbstractEventLoop, "asyncio.Future[Any]"]


class SparkCalls:
    """Threads for blocking calls; at most `threads` calls run at once, the others wait."""

    def __init__(self, threads: int = MAX_THREADS, *, name: str = "spark") -> None:
        self._most = threads
        self.name = name
        self._queue: queue.SimpleQueue[_Call | None] = queue.SimpleQueue()  # bounded by the callers, which wait
        self._threads: list[threading.Thread] = []
        self._lock = threading.Lock()
        self._busy = 0  # calls that wait or run, cancelled or not
        self._closed = False
        self._open: set[asyncio.Future[Any]] = set()

    async def run(self, function: Callable[..., T], *arguments: Any) -> T:
        """Call a function in a thread. Returns or raises what it does."""
        return await self.result(self.begin(function, *arguments))

    async def result(self, call: asyncio.Future[T]) -> T:
        """Wait for a call that was begun. If the caller is cancelled, the call goes on."""
        try:
            await asyncio.wait((call,))
        except asyncio.CancelledError:
            call.add_done_callback(log_error)
            raise
        return call.result()

    async def ended(self) -> None:
        """Wait until no call is under way."""
        while self._open:
            await asyncio.wait(self._open)

    def begin(self, function: Callable[..., T], *arguments: Any) -> asyncio.Future[T]:
        """Like `run`, without waiting: returns a future."""
        if self._closed:
            raise RuntimeError("these threads have ended")
        loop = asyncio.get_running_loop()
        future: asyncio.Future[T] = loop.create_future()
        thread_works(loop, future)
        self._open.add(future)
        future.add_done_callback(self._open.discard)
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
        """Wait for the threads (blocking, at most `timeout_s` for each). Whether all have ended."""
        for thread in self._threads:
            thread.join(timeout_s)
        return not any(thread.is_alive() for thread in self._threads)

    def _work(self) -> None:
        while (call := self._queue.get()) is not None:
            function, loop, future = call
            try:
                outcome: Any = function()
                failure = None
            except BaseException as error:  # also SystemExit in user code: the thread goes on
                outcome, failure = None, error
            with self._lock:
                self._busy -= 1
            _set_outcome(loop, future, outcome, failure)
            del call, function, future, outcome, failure


def log_error(future: asyncio.Future[Any]) -> None:
    """Log the error of a call whose result nothing awaits. Spark may have ended."""
    error = None if future.cancelled() else future.exception()
    if error is not None:
        log.debug("a call failed whose result was not awaited", exc_info=error)


def _set_outcome(
    loop: asyncio.AbstractEventLoop, future: asyncio.Future[Any], outcome: Any, error: BaseException | None
) -> None:
    def set_outcome() -> None:
        if future.done():
            return
        if error is None:
            future.set_result(outcome)
        elif isinstance(error, StopIteration):  # a future refuses it
            future.set_exception(RuntimeError("StopIteration"))
        else:
            future.set_exception(error)

    with contextlib.suppress(RuntimeError):  # the loop is closed
        loop.call_soon_threadsafe(set_outcome)
