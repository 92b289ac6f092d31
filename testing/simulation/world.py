"""A simulated world: several processes in one thread, in virtual time, in an order that a seed decides.

    driver loop (the test) ──run_forever──► World.step: a process that has something to do and can, chosen by the seed
                                              │ none: time jumps to the next timer, arrival or fault
                                              └ nothing at all: DeadlockError, with what each process waits for

1. True time moves only when no process can run, or while one is busy (slow processors take time).
2. Each process has its own event loop: code in it gets it by `asyncio.get_running_loop()`, as in a real process. The
   code of the system runs unmodified.
3. All randomness comes from the seed: see chance.py. Everything that happens is in the trace.
4. A dead process's coroutines are left where they are. When the world has ended they are cancelled, unrecorded.
"""

from __future__ import annotations

import asyncio
import heapq
import itertools
import logging
import sys
from collections.abc import Callable
from typing import Any

from ..errors import DeadlockError, TimeLimitError
from ..waiting import pending_tasks
from .chance import Chance
from .disk import Disk
from .errors import InvariantError
from .loop import ORDERS, ProcessClock, SimLoop
from .process import Main, Process
from .switch import Switch
from .trace import Trace


class World:
    """A world. `now_s`: true time, seconds since its start. `order`: see loop.py; None: the seed chooses.

    `max_steps` bounds a world in which something polls forever.
    """

    def __init__(self, seed: int, *, order: str | None = None, max_steps: int = 20_000_000) -> None:
        self.seed = seed
        self.chance = Chance(seed)
        self.now_s = 0.0
        self.order = order or self.chance.stream("order").choice(ORDERS)
        self.trace = Trace()
        self.problems: list[str] = []
        self.reported = 0
        """How many of the problems were reported to the test."""
        self.processes: dict[str, Process] = {}
        self.switch = Switch(self)
        self.disks: dict[str, Disk] = {}
        self.steps = 0
        self.on_process_ended: Callable[[Process, BaseException | None], None] | None = None
        self.current: Process
        self._max_steps = max_steps
        self._pick = self.chance.stream("processes")
        self._events: list[tuple[float, int, Callable[..., None], tuple[Any, ...]]] = []
        self._numbers = itertools.count()
        self._pids = itertools.count(1000)
        self.dead: list[SimLoop] = []
        self.driver = _Driver(self)
        self.current = self.driver

    def clock(self) -> float:
        """True time."""
        return self.now_s

    def process(self, name: str, main: Main) -> Process:
        """A process that is not started yet."""
        if name in self.processes:
            raise ValueError(f"there is a process {name!r} already")
        made = self.processes[name] = Process(self, name, len(self.processes) + 1, main)
        return made

    def new_pid(self) -> int:
        """A process id that no process has had."""
        return next(self._pids)

    def disk(self, name: str) -> Disk:
        """The disk of the process of this name: it outlives the process."""
        found = self.disks.get(name)
        if found is None:
            found = self.disks[name] = Disk(self.chance.stream(f"disk {name}"))
        return found

    def call_at(self, at_s: float, callback: Callable[..., None], *args: Any) -> None:
        """Call back at a true time."""
        heapq.heappush(self._events, (max(at_s, self.now_s), next(self._numbers), callback, args))

    def problem(self, text: str) -> None:
        """A promise was broken."""
        self.problems.append(f"{text} (at {self.now_s:.6f} s)")
        self.trace.add(self.now_s, "problem", "world", text)

    def check(self) -> None:
        """InvariantError with every broken promise so far, if there is one; they then count as reported."""
        __tracebackhide__ = True  # pytest shows the test's line
        if self.problems:
            self.reported = len(self.problems)
            raise InvariantError(self.problems)

    def on_asyncio_error(self, _loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        """An error that only asyncio reports: an exception in a callback, or one that was never retrieved."""
        error = context.get("exception")
        self.problem(f"asyncio complains: {context.get('message')}{'' if error is None else f': {error!r}'}")

    def process_ended(self, process: Process, error: BaseException | None) -> None:
        """The program of a process is over."""
        if self.on_process_ended is not None:
            self.on_process_ended(process, error)
        elif error is not None:
            self.problem(f"process {process.name} ended with {error!r}")

    async def until(self, ready: Callable[[], bool], bound_s: float, what: str) -> None:
        """For observers in the driver's loop: wait until it is so. TimeoutError after `bound_s`."""
        end_s = self.now_s + max(bound_s, 0)
        while not ready():
            if self.now_s >= end_s:
                raise TimeoutError(f"{what} did not come in {bound_s:g} s")
            await asyncio.sleep(min(0.2, max(end_s - self.now_s, 1e-6)))

    # -- the steps ---------------------------------------------------------------------------------------------------

    def step(self) -> None:
        """Called by the driver's loop, again and again."""
        self.steps += 1
        if self.steps > self._max_steps:
            self.steps = 0
            raise TimeLimitError(
                f"the world has made {self._max_steps:,} steps and it is {self.now_s:,.3f} s: something polls and what "
                f"it polls for does not come. Pending:\n{self._pending()}"
            )
        while self._events and self._events[0][0] <= self.now_s:
            _, _, callback, args = heapq.heappop(self._events)
            callback(*args)
        able: list[Process] = []
        next_s: float | None = None
        for process in (self.driver, *self.processes.values()):
            due_s = process.due_s()
            if due_s is None:
                continue
            if due_s <= self.now_s:
                able.append(process)
            elif next_s is None or due_s < next_s:
                next_s = due_s
        if able:
            self._run(able[0] if len(able) == 1 else self._pick.choice(able))
            return
        if self._events and (next_s is None or self._events[0][0] < next_s):
            next_s = self._events[0][0]
        if next_s is None:
            raise DeadlockError(f"deadlock: nothing is ready and nothing will ever be. Pending:\n{self._pending()}")
        self.now_s = next_s

    def _run(self, process: Process) -> None:
        before, self.current = self.current, process
        hooks = sys.get_asyncgen_hooks()
        asyncio._set_running_loop(process.loop)
        loop: Any = process.loop
        sys.set_asyncgen_hooks(loop._asyncgen_firstiter_hook, loop._asyncgen_finalizer_hook)
        try:
            process.step()
        finally:
            asyncio._set_running_loop(self.driver.loop)
            sys.set_asyncgen_hooks(*hooks)
            self.current = before

    def _pending(self) -> str:
        return "\n".join(
            f" in {process.name}:\n{pending_tasks(process.loop)}"
            for process in (self.driver, *self.processes.values())
            if process.alive
        )

    def end(self) -> None:
        """The world is over: every process dies, and the coroutines of dead processes end, unrecorded."""
        for process in self.processes.values():
            if process.alive:
                process.alive = False
                self.dead.append(process.loop)
        self._events.clear()
        self.trace.close()
        logged = logging.root.manager.disable
        logging.disable()
        try:
            for loop in self.dead:
                asyncio._set_running_loop(loop)
                try:
                    loop.shut_down()
                finally:
                    asyncio._set_running_loop(None)
        finally:
            logging.disable(logged)
        self.dead.clear()


class DriverLoop(SimLoop):
    """The loop in which the test runs; running it runs the world. `loop.world` is the world."""

    def __init__(self, world: World, clock: ProcessClock) -> None:
        super().__init__(world.clock, clock, world.chance.stream("driver"), "fifo")
        self.world = world

    def _run_once(self) -> None:
        self.world.step()

    def close(self) -> None:
        """As asyncio's."""
        self.world.end()
        super().close()


class _Driver(Process):
    """The test itself, as a process without faults."""

    def __init__(self, world: World) -> None:
        super().__init__(world, "test", 0, None)
        self.alive = True
        self.incarnation = 1
        self.loop = DriverLoop(world, self.clock)

    def due_s(self) -> float | None:
        if getattr(self.loop, "_stopping", False):
            return float("-inf")
        return self.loop.due_s()


def world_loop(seed: int, **options: Any) -> DriverLoop:
    """The driver's loop of a new world."""
    loop = World(seed, **options).driver.loop
    assert isinstance(loop, DriverLoop)
    return loop
