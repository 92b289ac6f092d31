"""A loop whose time jumps: an hour's sleep is instant, and a test that would hang is an error at once.

    something is ready            → run it; time does not move
    nothing ready, a thread works → wait for it in real time; virtual time does not move
    nothing ready, an fd is open  → wait for it in real time; virtual time moves at the same rate
    nothing ready, a timer        → time jumps to the timer
    nothing ready, nothing at all → DeadlockError, which lists every asyncio task with the line where it waits

1. Time moves only when nothing is ready: the speed of the machine has no effect that a test can observe.
2. `time()` starts at a fixed value, so two runs of one test read the same times.
3. Every wait has a bound (jumps, steps without time moving, real seconds outside, and virtual time if asked): what
   polls forever ends with a message. A bound that was hit starts anew, so that the test's clean-up can still run.
4. "Outside" means work given to `run_in_executor` (and `asyncio.to_thread`) or announced with `outside_work()`, and
   file descriptors registered with the loop beyond its own self-pipe. A thread that was not announced is unknown to the
   loop: use `outside_work()`, or run the test in real time.

From: Storm's simulated time (org.apache.storm.utils.Time, which needs every thread's help), trio's autojump clock.
"""

from __future__ import annotations

import asyncio
import contextlib
import selectors
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from typing import Any, TypeVar

from .errors import DeadlockError, TimeLimitError
from .virtual_time import START_S, WALL_START_S, VirtualTime
from .waiting import pending_tasks

T = TypeVar("T")
Events = list[tuple[selectors.SelectorKey, int]]


class VirtualTimeLoop(asyncio.SelectorEventLoop):
    """An asyncio event loop in virtual time; use it as `asyncio.Runner(loop_factory=VirtualTimeLoop)`.

    `limit_s`: virtual seconds that may pass (None: no limit). `max_jumps`: how often time may move. `max_steps`: how
    many iterations the loop may make without time moving. `outside_wait_s`: real seconds to wait for a thread or a
    descriptor.
    """

    virtual = True

    def __init__(
        self,
        *,
        start_s: float = START_S,
        limit_s: float | None = None,
        max_jumps: int = 1_000_000,
        max_steps: int = 1_000_000,
        outside_wait_s: float = 30.0,
    ) -> None:
        self.wall_offset_s = WALL_START_S - start_s
        self._time = VirtualTime(start_s, limit_s, max_jumps, max_steps)
        self._outside_wait_s = outside_wait_s
        self._outside = 0
        self._on_idle: list[asyncio.Future[None]] = []
        self._on_move: list[asyncio.Future[None]] = []
        self._pool: Executor | None = None
        self._waiter = _Waiter(self._wait)
        super().__init__(self._waiter)
        self._own_fds = len(self._waiter.get_map())

    def time(self) -> float:
        """Virtual seconds."""
        return self._time.now_s

    async def quiet(self) -> None:
        """Wait until nothing is ready and no thread works: all that can happen at this instant has happened."""
        await self._signal(self._on_idle)

    async def moved(self) -> None:
        """Wait until time has moved to the next timer."""
        await self._signal(self._on_move)

    @contextlib.contextmanager
    def outside_work(self) -> Iterator[None]:
        """While the block runs, one of your threads works for this loop: the loop waits for it in real time."""
        self._outside += 1
        try:
            yield
        finally:
            self._outside -= 1

    # -- threads -----------------------------------------------------------------------------------------------------

    def run_in_executor(  # type: ignore[override]
        self, executor: Executor | None, func: Callable[..., T], *args: Any
    ) -> asyncio.Future[T]:
        """As asyncio's; time stands still until the work has ended."""
        self._check_closed()  # type: ignore[attr-defined]
        if executor is None:
            if self._pool is None:
                self.set_default_executor(ThreadPoolExecutor(thread_name_prefix="asyncio"))
            executor = self._pool
        assert executor is not None
        work = executor.submit(func, *args)
        self._outside += 1
        waiting = asyncio.wrap_future(work, loop=self)
        # After wrap_future's own callback: the result is delivered before time may jump.
        work.add_done_callback(self._work_ended)
        return waiting

    def set_default_executor(self, executor: ThreadPoolExecutor) -> None:  # type: ignore[override]
        """As asyncio's."""
        super().set_default_executor(executor)
        self._pool = executor

    async def shutdown_default_executor(self, *args: Any, **kwargs: Any) -> None:
        """As asyncio's, which waits for a thread of its own."""
        with self.outside_work():
            await super().shutdown_default_executor(*args, **kwargs)

    def _work_ended(self, _work: Future[Any]) -> None:
        # Called in the thread. A loop that was closed meanwhile waits for nothing.
        with contextlib.suppress(RuntimeError):
            self.call_soon_threadsafe(self._outside_ended)

    def _outside_ended(self) -> None:
        self._outside -= 1

    # -- the iteration -----------------------------------------------------------------------------------------------

    def _wait(self, timeout_s: float | None) -> Events:
        """Called by the loop once an iteration, in place of `select`; see the table above."""
        events = self._waiter.poll(0)
        if events or timeout_s == 0:
            self._check(self._time.step())
            return events
        if self._outside:
            return self._wait_outside("a thread", self._outside_wait_s)
        if self._on_idle:
            return _release(self._on_idle)
        if len(self._waiter.get_map()) > self._own_fds:
            return self._pass_really(timeout_s)
        if timeout_s is None:
            raise DeadlockError(
                "deadlock: nothing is ready, no timer is set, and no thread or socket is waited for. "
                f"Pending:\n{pending_tasks(self)}"
            )
        self._move(timeout_s)
        return []

    def _wait_outside(self, what: str, wait_s: float) -> Events:
        events = self._waiter.poll(wait_s)
        if not events:
            self._check(
                f"the loop has waited {wait_s:g} real seconds for {what}, while virtual time stood still. "
                "If it waits for a timer of this loop, run the test in real time; "
                "if it needs that long, raise the bound (outside_wait_s)"
            )
        return events

    def _pass_really(self, timeout_s: float | None) -> Events:
        if timeout_s is None:
            return self._wait_outside("a socket or another descriptor", self._outside_wait_s)
        before_s = super().time()
        events = self._waiter.poll(timeout_s)
        self._move(min(timeout_s, super().time() - before_s) if events else timeout_s)
        return events

    def _move(self, delay_s: float) -> None:
        problem = self._time.move(delay_s)
        if self._on_move:
            _release(self._on_move)
        self._check(problem)

    def _check(self, problem: str | None) -> None:
        if problem is not None:
            raise TimeLimitError(f"{problem}. Pending:\n{pending_tasks(self)}")

    async def _signal(self, waiting: list[asyncio.Future[None]]) -> None:
        future: asyncio.Future[None] = self.create_future()
        waiting.append(future)
        try:
            await future
        finally:
            if future in waiting:
                waiting.remove(future)


class _Waiter(selectors.DefaultSelector):
    """The loop's selector; the loop itself decides how to wait."""

    def __init__(self, wait: Callable[[float | None], Events]) -> None:
        super().__init__()
        self._wait = wait

    def select(self, timeout: float | None = None) -> Events:
        """Called by asyncio once an iteration."""
        return self._wait(timeout)

    def poll(self, timeout_s: float) -> Events:
        """Wait really."""
        return super().select(timeout_s)


def _release(waiting: list[asyncio.Future[None]]) -> Events:
    for future in waiting:
        if not future.done():
            future.set_result(None)
    waiting.clear()
    return []
