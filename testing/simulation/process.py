"""A simulated process: its program runs in incarnations, which can be killed, frozen and slowed down.

    start ─► runs ─► crash: nothing of it runs again, no `finally`, no `except`   ─► start: a new incarnation
               │ ─► pause: frozen (SIGSTOP), its timers are late when it continues
               └ ─► slow: every callback takes longer

    Process ── clock: its own time, which may be wrong            (loop.py)          stays when it starts again
            ── processor: how fast it is, whether it is frozen    (processor.py)     stays
            ── the disk of its name                               (disk.py)          stays
            ── current: loop, rng, network, store, asyncio tasks  (incarnation.py)   new at each start

1. What it did to the world before a crash stays done; what it does afterwards (a callback that had begun runs to its
   end) has no effect: code outside checks `alive` first.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Coroutine
from typing import TYPE_CHECKING, Any

from ..waiting import describe
from .incarnation import Incarnation
from .loop import ProcessClock, SimLoop
from .processor import Processor

if TYPE_CHECKING:
    from .chance import SeededRng
    from .disk import SimStore
    from .network import SimNetwork
    from .world import World

Main = Callable[["Process"], Coroutine[Any, Any, None]]


class Process:
    """Made by `World.process`. `main(process)` is its program; `incarnation` counts from 1 (0: never started)."""

    def __init__(self, world: World, name: str, index: int, main: Main | None) -> None:
        self.world = world
        self.name = name
        self.index = index
        self.main = main
        self.stdin = b""
        self.clock = ProcessClock(world.now_s)
        self.processor = Processor()
        self.crash_at_effect = False
        self.may_outlive: Callable[[asyncio.Task[Any]], bool] = lambda task: False
        """Which asyncio tasks may still run when its program ends."""
        self.incarnation = 0
        self.current: Incarnation
        """The incarnation that runs, or the last one."""

    # -- of its present incarnation ----------------------------------------------------------------------------------

    @property
    def alive(self) -> bool:
        return self.incarnation > 0 and self.current.alive

    @property
    def runs(self) -> bool:
        """Is it alive, with a program that has not ended?"""
        return self.incarnation > 0 and self.current.runs

    @property
    def loop(self) -> SimLoop:
        return self.current.loop

    @property
    def rng(self) -> SeededRng:
        return self.current.rng

    @property
    def network(self) -> SimNetwork:
        return self.current.network

    @property
    def store(self) -> SimStore:
        return self.current.store

    def spawn(self, work: Coroutine[Any, Any, Any], name: str, *, background: bool = False) -> asyncio.Task[Any]:
        """Run a coroutine in it. `background`: it does not belong to its program, and may outlast it."""
        return self.current.spawn(work, name, background=background)

    async def call(self, work: Callable[[], Awaitable[Any]]) -> Any:
        """From another process: run `work` in this one and wait for its result. ProcessDiedError if it dies first."""
        caller = asyncio.get_running_loop()
        answer: asyncio.Future[Any] = caller.create_future()

        async def run() -> None:
            value: Any = None
            error: Exception | None = None
            try:
                value = await work()
            except asyncio.CancelledError:
                error = ProcessDiedError(f"{self.name} has ended")
            except Exception as raised:
                error = raised
            caller.call_soon(_answer, answer, value, error)

        if not self.runs:
            raise ProcessDiedError(f"{self.name} does not run")
        asked = self.current
        asked.spawn(run(), f"{self.name}: asked", background=True)
        while not answer.done():
            if not asked.runs:
                raise ProcessDiedError(f"{self.name} has died")
            await asyncio.wait((answer,), timeout=0.1)
        return answer.result()

    # -- what the world does to it -----------------------------------------------------------------------------------

    def start(self) -> None:
        """Start an incarnation."""
        if self.alive:
            raise RuntimeError(f"process {self.name} is alive: crash it, or let it end")
        assert self.main is not None
        world = self.world
        self.processor.restart()
        self.crash_at_effect = False
        self.incarnation += 1
        self.current = Incarnation(self, self.incarnation)
        self.loop.set_exception_handler(world.on_asyncio_error)
        # asyncio runs the driver; the other loops are always "running" for asyncio.
        self.loop._thread_id = world.driver.loop._thread_id
        self.current.run(self.main(self), self._ended)
        world.trace.add(world.now_s, "process", self.name, f"starts (incarnation {self.incarnation})")

    def crash(self, why: str = "is killed") -> None:
        """It dies here and now, and its machine with it: kill -9 and worse."""
        if self.alive:
            self.world.trace.add(self.world.now_s, "fault", self.name, why)
            self.current.die(crashed=True)

    def kill(self, why: str = "is killed") -> None:
        """It dies here and now, but its machine runs on: its peers are notified, and nothing on its disk is lost."""
        if self.alive:
            self.world.trace.add(self.world.now_s, "process", self.name, why)
            self.current.die(crashed=False)

    def pause(self, for_s: float) -> None:
        """Freeze it."""
        self.processor.pause(self.world.now_s + for_s)
        self.world.trace.add(self.world.now_s, "fault", self.name, f"is frozen for {for_s:.3f} s")

    def effect(self) -> bool:
        """It is about to have an effect outside: may it?

        The caller calls `effect_done` afterwards, which may be when it crashes.
        """
        return self.alive

    def effect_done(self) -> None:
        """The effect is done."""
        if self.alive and self.crash_at_effect:
            self.crash("is killed, right after what it did outside")

    def _ended(self, task: asyncio.Task[None]) -> None:
        error = None if task.cancelled() else task.exception()
        how = "ends" if error is None else f"ends with {type(error).__name__}"
        for left in self.current.outlasting():
            self.world.problem(f"an asyncio task outlives the program of {self.name}: {describe(left).strip()}")
        self.world.trace.add(self.world.now_s, "process", self.name, how)
        self.current.die(crashed=False)
        self.world.process_ended(self, error)

    # -- what the scheduler asks -------------------------------------------------------------------------------------

    def due_s(self) -> float | None:
        """The true time at which it has something to do and can do it; None if it waits for nothing."""
        if not self.alive:
            return None
        due_s = self.loop.due_s()
        return None if due_s is None else self.processor.free_s(due_s)

    def step(self) -> None:
        """Run one iteration of its loop."""
        world = self.world
        handles = self.loop.iterate()
        self.processor.ran(handles, world.now_s)
        world.trace.add_step(self.index, handles, world.now_s)


class ProcessDiedError(Exception):
    """The process that was called has died."""


def _answer(answer: asyncio.Future[Any], value: Any, error: BaseException | None) -> None:
    with contextlib.suppress(asyncio.InvalidStateError):
        if error is None:
            answer.set_result(value)
        else:
            answer.set_exception(error)
