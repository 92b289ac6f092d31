"""The event loop of one simulated process: its callbacks run in an order that the seed decides.

1. The world runs it: it has no selector, and no I/O of its own. `run_forever` is for the driver's loop only.
2. asyncio promises that callbacks run in the order in which they were scheduled, but not in which order several events
   at one time schedule theirs. No code may depend on it, so the seed shuffles whatever is ready.
3. Time is the process's own: it may be ahead, and run fast or slow; it never goes back. The wall clock may jump.
4. Work for threads is done at once, in the loop's thread, and its result comes a little later: so the seed decides the
   order. (Code in such a "thread" that waits for the loop would wait forever; aiostorm has none.)
"""

from __future__ import annotations

import asyncio
import heapq
import itertools
import random
from collections import deque
from collections.abc import Callable
from concurrent.futures import Executor
from typing import Any, Final

from ..virtual_time import START_S, WALL_START_S

FIFO: Final = "fifo"
SHUFFLE: Final = "shuffle"
RANDOM: Final = "random"
ORDERS: Final = (FIFO, SHUFFLE, RANDOM)
"""All ready callbacks in order; all of them, shuffled; one of them at a time."""

_LAST_ITERATIONS: Final = 10_000
_LAST_STEPS: Final = 10

THREAD_S: Final = 0.01
"""The longest time of a call in a thread."""


class ProcessClock:
    """A process's own time, as a function of true time (pure). Seconds."""

    __slots__ = ("_at_s", "_own_s", "rate", "wall_offset_s")

    def __init__(self, true_s: float) -> None:
        self._at_s = true_s
        self._own_s = START_S + true_s
        self.rate = 1.0
        self.wall_offset_s = WALL_START_S - START_S

    def at(self, true_s: float) -> float:
        """The time that it shows at a true time."""
        return self._own_s + (true_s - self._at_s) * self.rate

    def when(self, own_s: float) -> float:
        """The true time at which it will show `own_s`."""
        return self._at_s + (own_s - self._own_s) / self.rate

    def set_rate(self, rate: float, true_s: float) -> None:
        """Run at another speed from now on."""
        self._own_s = self.at(true_s)
        self._at_s = true_s
        self.rate = rate


class SimTask(asyncio.Task[Any]):
    """An asyncio task whose hash is its number: a set of them (TaskGroup has one) has the same order in every run."""

    def __init__(self, coro: Any, *, number: int, **options: Any) -> None:
        self._number = number  # first: asyncio puts the new task into a set
        super().__init__(coro, **options)

    def __hash__(self) -> int:
        return self._number

    def __eq__(self, other: object) -> bool:
        return self is other


class SimTasks:
    """The task factory of a loop: numbers its tasks, and references each of them until it ends.

    A task without a reference would be collected, at a moment that the seed does not decide.
    """

    __slots__ = ("_numbers", "_sweep", "_tasks")

    def __init__(self) -> None:
        self._tasks: list[asyncio.Task[Any]] = []
        self._sweep = 256
        self._numbers = itertools.count()

    def __call__(self, loop: asyncio.AbstractEventLoop, coro: Any, **options: Any) -> SimTask:
        task = SimTask(coro, loop=loop, number=next(self._numbers), **options)
        self._tasks.append(task)
        if len(self._tasks) > self._sweep:
            self._tasks = [task for task in self._tasks if not task.done()]
            self._sweep = max(256, 2 * len(self._tasks))
        return task

    def clear(self) -> None:
        """The loop has ended."""
        self._tasks.clear()


class ReadyOrder:
    """The order in which the callbacks of one iteration run: one of ORDERS."""

    __slots__ = ("_chance", "_order")

    def __init__(self, chance: random.Random, order: str) -> None:
        self._chance = chance
        self._order = order

    def arrange(self, ready: deque[Any]) -> int:
        """Bring those that run now to the front; returns how many they are."""
        if self._order == RANDOM:
            if len(ready) > 1:
                chosen = self._chance.randrange(len(ready))
                ready.rotate(-chosen)
                handle = ready.popleft()
                ready.rotate(chosen)
                ready.appendleft(handle)
            return min(1, len(ready))
        if len(ready) > 1 and self._order == SHUFFLE:
            handles = list(ready)
            self._chance.shuffle(handles)
            ready.clear()
            ready.extend(handles)
        return len(ready)


class SimLoop(asyncio.BaseEventLoop):
    """The loop of a process. `now` returns true time; `order` is one of ORDERS."""

    virtual = True

    _ready: deque[Any]
    _scheduled: list[Any]
    _timer_cancelled_count: int
    _thread_id: int | None

    def __init__(self, now: Callable[[], float], clock: ProcessClock, chance: random.Random, order: str) -> None:
        super().__init__()
        self.clock = clock
        self._now = now
        self._chance = chance
        self._order = ReadyOrder(chance, order)
        self.stopped = False
        self._tasks = SimTasks()
        self.set_task_factory(self._tasks)
        self._clock_resolution = 1e-9

    def time(self) -> float:
        """The process's own time."""
        return self.clock.at(self._now())

    @property
    def wall_offset_s(self) -> float:
        """Wall clock minus `time()`."""
        return self.clock.wall_offset_s

    # -- what the world calls ----------------------------------------------------------------------------------------

    def due_s(self) -> float | None:
        """The true time at which it has something to do; None if it waits for nothing. May lie in the past."""
        if self._ready:
            return float("-inf")
        scheduled = self._scheduled
        while scheduled and scheduled[0]._cancelled:
            handle = heapq.heappop(scheduled)
            handle._scheduled = False
            self._timer_cancelled_count = max(0, self._timer_cancelled_count - 1)
        return self.clock.when(scheduled[0]._when) if scheduled else None

    def iterate(self) -> int:
        """Run what is ready: all, or one callback; returns how many were run."""
        self._move_due()
        ready = self._ready
        count = self._order.arrange(ready)
        for done in range(count):
            handle = ready.popleft()
            if not handle._cancelled:
                handle._run()
            if self.stopped:  # killed in the middle of this iteration
                return done + 1
        return count

    def stop_for_good(self) -> None:
        """The process is dead: nothing in it runs again. (Nor is it collected, which would run `finally`.)"""
        self.stopped = True

    def shut_down(self) -> None:
        """The world is over: let the coroutines of a dead process end, unrecorded, in their own time; then close."""
        self.set_exception_handler(lambda *_: None)
        own_s = self._now()
        self._now = lambda: own_s
        self.stopped = False
        for _ in range(_LAST_STEPS):  # a task that is cancelled before it begins runs no `finally`
            for _ in range(len(self._ready)):
                handle = self._ready.popleft()
                if not handle._cancelled:
                    handle._run()
        for task in asyncio.all_tasks(self):
            task.cancel()
        for _ in range(_LAST_ITERATIONS):
            due_s = self.due_s()
            if due_s is None:
                break
            own_s = max(own_s, due_s)
            self.iterate()
        for task in asyncio.all_tasks(self):  # it ignored the cancel
            waiting: Any = task
            waiting._log_destroy_pending = False
        self._tasks.clear()
        self._ready.clear()
        self._scheduled.clear()
        self._thread_id = None
        self.close()

    def _move_due(self) -> None:
        scheduled = self._scheduled
        # A clock computed from true time may be off by a rounding error.
        end_s = self.time() + self._clock_resolution + 1e-12 * abs(self.time())
        while scheduled and scheduled[0]._when < end_s:
            handle = heapq.heappop(scheduled)
            handle._scheduled = False
            self._ready.append(handle)

    # -- what asyncio asks of a loop ---------------------------------------------------------------------------------

    def run_in_executor(  # type: ignore[override]
        self, executor: Executor | None, func: Callable[..., Any], *args: Any
    ) -> asyncio.Future[Any]:
        """Done at once; the result comes within THREAD_S."""
        done = self.create_future()
        asyncio._set_running_loop(None)  # as in a thread
        try:
            value, error = func(*args), None
        except BaseException as caught:
            value, error = None, caught
        finally:
            asyncio._set_running_loop(self)
        self.call_later(self._chance.random() * THREAD_S, _settle, done, value, error)
        return done

    def _process_events(self, event_list: Any) -> None:
        raise NotImplementedError("a simulated process has no I/O")

    def _write_to_self(self) -> None:
        # call_soon_threadsafe: there are no threads.
        return


async def _no_io(*_args: Any, **_options: Any) -> Any:
    raise NotImplementedError(
        "a simulated process has no I/O: let a component do what reads or writes, and replace it in the simulation "
        "(`run(topology, replace=…)`)"
    )


for _name in (
    *("getaddrinfo", "getnameinfo", "create_connection", "create_server", "create_datagram_endpoint"),
    *("create_unix_connection", "create_unix_server", "connect_accepted_socket", "start_tls", "sendfile"),
    *("subprocess_exec", "subprocess_shell", "connect_read_pipe", "connect_write_pipe"),
):
    setattr(SimLoop, _name, _no_io)


def _settle(done: asyncio.Future[Any], value: Any, error: BaseException | None) -> None:
    if done.done():
        return
    if error is None:
        done.set_result(value)
    else:
        done.set_exception(error)
