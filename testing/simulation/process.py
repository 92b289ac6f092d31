"""A simulated process: an event loop and a clock of its own, which can be killed, frozen and slowed down.

    start ─► runs ─► crash: nothing of it runs again, no `finally`, no `except`   ─► start: a new incarnation
               │ ─► pause: frozen (SIGSTOP), its timers are late when it continues
               └ ─► slow: every callback takes longer

1. What it did to the world before a crash stays done; what it does afterwards (a callback that had begun runs to its
   end) has no effect: code outside checks `alive` first.
2. It has a random source and a network of its own, new for each incarnation. What is on its disk stays: `store` is how
   this incarnation uses it.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Coroutine
from typing import TYPE_CHECKING, Any

from ..waiting import describe
from .chance import SeededRng
from .disk import SimStore
from .loop import ProcessClock, SimLoop
from .network import SimNetwork

if TYPE_CHECKING:
    from .world import World

Main = Callable[["Process"], Coroutine[Any, Any, None]]


class Process:
    """Made by `World.process`. `main(process)` is its program; `incarnation` counts from 1 (0: never started)."""

    def __init__(self, world: World, name: str, index: int, main: Main | None) -> None:
        self.world = world
        self.name = name
        self.index = index
        self.incarnation = 0
        self.alive = False
        self.busy_until_s = 0.0
        self.paused_until_s = 0.0
        self.handle_cost_s = 0.0
        self.slowness = 1.0
        self.crash_at_effect = False
        self.background: set[str] = set()
        self.may_outlive: Callable[[asyncio.Task[Any]], bool] = lambda task: False
        """Which asyncio tasks may still run when its program ends."""
        self.clock = ProcessClock(world.now_s)
        self.loop: SimLoop
        self.task: asyncio.Task[None] | None = None
        self.rng: SeededRng
        self.network: SimNetwork
        self.store: SimStore
        self.at_death: list[Callable[[bool], None]] = []
        """Called once, when this incarnation ends: was it a crash?"""
        self.stdin = b""
        self.on_terminate: Callable[[], None] | None = None
        """Called on SIGTERM; None: the process is killed by it."""
        self.main = main

    @property
    def runs(self) -> bool:
        """Is it alive, with a program that has not ended?"""
        return self.alive and self.task is not None and not self.task.done()

    def start(self) -> None:
        """Start an incarnation."""
        if self.alive:
            raise RuntimeError(f"process {self.name} is alive: crash it, or let it end")
        self._begin()
        assert self.main is not None
        self.task = self.spawn(self.main(self), name=self.name)
        self.world.trace.add(self.world.now_s, "life", self.name, f"starts (life {self.incarnation})")
        self.task.add_done_callback(self._ended)

    def _begin(self) -> None:
        self.incarnation += 1
        self.alive = True
        self.busy_until_s = self.paused_until_s = 0.0
        self.crash_at_effect = False
        self.on_terminate = None
        world = self.world
        life = f"{self.name}.{self.incarnation}"
        self.rng = SeededRng(world.chance.stream(f"rng {life}"))
        self.loop = SimLoop(world.clock, self.clock, world.chance.stream(f"loop {life}"), world.order)
        self.network = SimNetwork(self, world.switch)
        self.store = SimStore(self, world.disk(self.name))
        self.at_death = [self.store.process_died, self.network.process_died]
        self._set_up_loop(self.loop)

    def _set_up_loop(self, loop: SimLoop) -> None:
        loop.set_exception_handler(self.world.on_asyncio_error)
        # asyncio runs the driver; the other loops are always "running" for asyncio.
        loop._thread_id = self.world.driver.loop._thread_id

    def spawn(self, work: Coroutine[Any, Any, Any], name: str) -> asyncio.Task[Any]:
        """Run a coroutine in it."""
        return self.loop.create_task(work, name=name)

    def spawn_background(self, work: Coroutine[Any, Any, Any], name: str) -> None:
        """Run a coroutine in it that does not belong to its program: it may outlast the program."""
        self.background.add(name)
        self.spawn(work, name)

    async def call(self, work: Callable[[], Awaitable[Any]]) -> Any:
        """From another process: run `work` in this one and wait for its result. ProcessDiedError if it dies first."""
        caller = asyncio.get_running_loop()
        answer: asyncio.Future[Any] = caller.create_future()
        life = self.incarnation

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
        self.spawn_background(run(), f"{self.name}: asked")
        while not answer.done():
            if self.incarnation != life or not self.runs:
                raise ProcessDiedError(f"{self.name} has died")
            await asyncio.wait((answer,), timeout=0.1)
        return answer.result()

    # -- what the world does to it -----------------------------------------------------------------------------------

    def crash(self, why: str = "is killed") -> None:
        """It dies here and now, and its machine with it: kill -9 and worse."""
        if self.alive:
            self.world.trace.add(self.world.now_s, "fault", self.name, why)
            self._die(crashed=True)

    def kill(self, why: str = "is killed") -> None:
        """It dies here and now, but its machine lives: its peers are notified, and nothing on its disk is lost."""
        if self.alive:
            self.world.trace.add(self.world.now_s, "life", self.name, why)
            self._die(crashed=False)

    def pause(self, for_s: float) -> None:
        """Freeze it."""
        self.paused_until_s = max(self.paused_until_s, self.world.now_s + for_s)
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
        if not self.alive:
            return
        error = None if task.cancelled() else task.exception()
        how = "ends" if error is None else f"ends with {type(error).__name__}"
        for left in asyncio.all_tasks(self.loop) - {task}:
            if left.get_name() not in self.background and not self.may_outlive(left):
                self.world.problem(f"an asyncio task outlives the program of {self.name}: {describe(left).strip()}")
        self.world.trace.add(self.world.now_s, "life", self.name, how)
        self._die(crashed=False)
        self.world.process_ended(self, error)

    def _die(self, *, crashed: bool) -> None:
        self.alive = False
        self.loop.stop_for_good()
        self.world.dead.append(self.loop)
        for callback in self.at_death:
            callback(crashed)

    # -- what the world asks -----------------------------------------------------------------------------------------

    def due_s(self) -> float | None:
        """The true time at which it has something to do and can do it; None if it waits for nothing."""
        if not self.alive:
            return None
        due_s = self.loop.due_s()
        return None if due_s is None else max(due_s, self.busy_until_s, self.paused_until_s)

    def step(self) -> None:
        """Run one iteration of its loop."""
        world = self.world
        handles = self.loop.iterate()
        self.busy_until_s = world.now_s + self.handle_cost_s * self.slowness * handles
        world.trace.add_step(self.index, handles, world.now_s)


class ProcessDiedError(Exception):
    """The process that was called has died."""


def _answer(answer: asyncio.Future[Any], value: Any, error: BaseException | None) -> None:
    with contextlib.suppress(asyncio.InvalidStateError):
        if error is None:
            answer.set_result(value)
        else:
            answer.set_exception(error)
