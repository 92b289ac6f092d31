"""A simulated world: several processes in one thread, in virtual time, in an order that a seed decides.

    World ── schedule: true time, and the events to come     (schedule.py)
          ── scheduler: which process runs next              (scheduler.py)
          ── processes, each with its own loop and clock     (process.py)
          ── switch: the network between them                (switch.py)
          ── disks: what survives a process                  (disk.py)
          ── chance: all randomness, from the seed           (chance.py)
          ── trace: all that has happened                    (trace.py)
          ── problems: broken promises                       (problems.py)
          ── driver: the process of the test itself, whose loop runs the world

1. Each process has its own event loop: code in it gets it by `asyncio.get_running_loop()`, as in a real process. The
   code of the system runs unmodified.
2. A dead process's coroutines are left where they are. When the world has ended they are cancelled, unrecorded.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable
from typing import Any

from .chance import Chance
from .disk import Disk
from .incarnation import Incarnation
from .loop import ORDERS, ProcessClock, SimLoop
from .problems import Problems
from .process import Main, Process
from .schedule import Schedule
from .scheduler import Scheduler
from .switch import Switch
from .trace import Trace


class World:
    """A world. `order`: see loop.py; None: the seed chooses.

    `max_steps` bounds a world in which something polls forever.
    """

    def __init__(self, seed: int, *, order: str | None = None, max_steps: int = 20_000_000) -> None:
        self.chance = Chance(seed)
        self.order = order or self.chance.stream("order").choice(ORDERS)
        self.schedule = Schedule()
        self.trace = Trace()
        self.problems = Problems()
        self.switch = Switch(self)
        self.disks: dict[str, Disk] = {}
        self.processes: dict[str, Process] = {}
        self.on_process_ended: Callable[[Process, BaseException | None], None] | None = None
        self.driver = _Driver(self)
        self.scheduler = Scheduler(self, max_steps)
        self._pids = itertools.count(1000)

    @property
    def seed(self) -> int:
        return self.chance.seed

    @property
    def now_s(self) -> float:
        """True time, seconds since the world's start."""
        return self.schedule.now_s

    @property
    def current(self) -> Process:
        """The process that runs now."""
        return self.scheduler.current

    def call_at(self, at_s: float, callback: Callable[..., None], *args: Any) -> None:
        """Call back at a true time."""
        self.schedule.call_at(at_s, callback, *args)

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

    # -- promises ----------------------------------------------------------------------------------------------------

    def problem(self, text: str) -> None:
        """A promise was broken."""
        self.problems.append(f"{text} (at {self.now_s:.6f} s)")
        self.trace.add(self.now_s, "problem", "world", text)

    def check(self) -> None:
        """InvariantError with every broken promise so far, if there is one; they then count as reported."""
        __tracebackhide__ = True  # pytest shows the test's line
        self.problems.check()

    def on_asyncio_error(self, _loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        """An error that only asyncio reports: an exception in a callback, or one that was never retrieved."""
        error = context.get("exception")
        self.problem(f"asyncio complains: {context.get('message')}{'' if error is None else f': {error!r}'}")

    # -- its end -----------------------------------------------------------------------------------------------------

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

    def end(self) -> None:
        """The world is over: every process dies, and the coroutines of dead processes end, unrecorded."""
        for process in self.processes.values():
            if process.alive:
                process.current.alive = False
                self.scheduler.dead.append(process.current)
        self.schedule.clear()
        self.trace.close()
        self.scheduler.shut_down()


class DriverLoop(SimLoop):
    """The loop in which the test runs; running it runs the world. `loop.world` is the world."""

    def __init__(self, world: World, clock: ProcessClock) -> None:
        super().__init__(world.schedule.now, clock, world.chance.stream("driver"), "fifo")
        self.world = world

    def _run_once(self) -> None:
        self.world.scheduler.step()

    def close(self) -> None:
        """As asyncio's."""
        self.world.end()
        super().close()


class _Driver(Process):
    """The test itself, as a process without faults."""

    def __init__(self, world: World) -> None:
        super().__init__(world, "test", 0, None)
        self.incarnation = 1
        self.current = Incarnation(self, 1, DriverLoop(world, self.clock))

    def due_s(self) -> float | None:
        if getattr(self.loop, "_stopping", False):
            return float("-inf")
        return self.loop.due_s()


def world_loop(seed: int, **options: Any) -> DriverLoop:
    """The driver's loop of a new world."""
    loop = World(seed, **options).driver.loop
    assert isinstance(loop, DriverLoop)
    return loop
