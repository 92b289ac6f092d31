"""Threads: work for a thread, whose result the event loop waits for; and the interpreter for it while the loop is busy.

    await in_thread(work) ─► thread: work ─► result        meanwhile the loop passes the GIL on, each 1 to 5 ms

1. A thread that comes back from the system (it has opened, written, synced) waits for CPython's GIL. CPython demands it
   for that thread after 5 ms; but the 5 ms begin anew whenever the GIL is released, and a loop releases it in every
   iteration, and takes it back before the thread runs. Measured beside a busy loop: a thread waited 0.1 s each time
   (four files of 1.4 MB: 3.6 s instead of 0.01 s), and the loop was 7 % slower meanwhile.
2. So while a thread works for it, a busy loop sleeps for MOMENT_S now and then: then the thread gets the GIL. It does
   so LEAST_S after work was given or done, and ever more rarely while nothing of that happens.
3. A loop that waits for half of the time needs no such moment, since a thread runs meanwhile: it only looks now and
   then whether it has become busy.
4. In virtual time nothing of that is done.

From: take_gil in CPython's ceval_gil.c; "the convoy effect" of bugs.python.org/issue7946.
"""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, TypeVar
from weakref import WeakKeyDictionary

from .clock import is_virtual

if TYPE_CHECKING:
    from concurrent.futures import Executor

T = TypeVar("T")

MOMENT_S: Final = 1e-6
"""Asked of the system, which wakes the loop after some 50 µs: long enough for another thread to wake up."""

LEAST_S: Final = 0.001
MOST_S: Final = 0.005
"""As long as CPython itself lets a thread wait."""

IDLE_S: Final = 0.05
"""As rarely a loop that is not busy looks."""

BUSY: Final = 0.5
"""A share of its time."""

_GROWTH: Final = 1.5


async def in_thread(work: Callable[[], T], executor: Executor | None = None) -> T:
    """Call `work` in a thread of this executor (None: the loop's default). Returns or raises what it does."""
    loop = asyncio.get_running_loop()
    future = loop.run_in_executor(executor, work)
    thread_works(loop, future)
    return await future


def thread_works(loop: asyncio.AbstractEventLoop, future: asyncio.Future[Any]) -> None:
    """A thread works for this loop, which is running here, until the future is done."""
    if is_virtual(loop) or not _HAS_GIL:
        return
    if (handing := _OF_LOOPS.get(loop)) is None:
        handing = _OF_LOOPS[loop] = _HandingOver()
    handing.begin(loop)
    future.add_done_callback(handing.ended)


class _HandingOver:
    """The moments in which one loop lets other threads run."""

    __slots__ = ("_looked_s", "_timer", "_used_s", "_wait_s", "_works")

    def __init__(self) -> None:
        self._looked_s = self._used_s = 0.0  # on the clock, and of the processor
        self._works = 0  # how many threads work for the loop, or wait to
        self._wait_s = LEAST_S
        self._timer: asyncio.TimerHandle | None = None

    def begin(self, loop: asyncio.AbstractEventLoop) -> None:
        self._works += 1
        self._soon(loop)

    def ended(self, future: asyncio.Future[Any]) -> None:
        self._works -= 1
        self._soon(future.get_loop())

    def _soon(self, loop: asyncio.AbstractEventLoop) -> None:
        if self._timer is not None and (self._wait_s > LEAST_S or not self._works):
            self._timer.cancel()
            self._timer = None
        self._wait_s = LEAST_S
        if self._works and self._timer is None:
            self._looked_s, self._used_s = time.perf_counter(), time.thread_time()
            self._timer = loop.call_later(LEAST_S, self._hand_over, loop)

    def _hand_over(self, loop: asyncio.AbstractEventLoop) -> None:
        now_s, used_s = time.perf_counter(), time.thread_time()
        busy = used_s - self._used_s > BUSY * (now_s - self._looked_s)
        self._looked_s, self._used_s = now_s, used_s
        if busy:
            time.sleep(MOMENT_S)
        self._wait_s = min(self._wait_s * _GROWTH, MOST_S if busy else IDLE_S)
        self._timer = loop.call_later(self._wait_s, self._hand_over, loop)


_OF_LOOPS: Final[WeakKeyDictionary[asyncio.AbstractEventLoop, _HandingOver]] = WeakKeyDictionary()

_HAS_GIL: Final[bool] = getattr(sys, "_is_gil_enabled", lambda: True)()
