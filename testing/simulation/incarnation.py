"""Incarnation: one run of a simulated process, from its start to its end, with what is new in each run.

1. Its event loop, its random source, its network and its store belong to it alone. After its end they have no effect.
   Code that must not act for a dead process keeps the incarnation, and checks `alive`.
2. `at_death` is called once, when it ends.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any

from .chance import SeededRng
from .disk import SimStore
from .loop import SimLoop
from .network import SimNetwork

if TYPE_CHECKING:
    from .process import Process


class Incarnation:
    """Made by its process; `number` counts from 1. `loop`: None: a new one."""

    def __init__(self, process: Process, number: int, loop: SimLoop | None = None) -> None:
        world = process.world
        name = f"{process.name}.{number}"
        self.process = process
        self.number = number
        self.alive = True
        self.loop = loop or SimLoop(world.schedule.now, process.clock, world.chance.stream(f"loop {name}"), world.order)
        self.rng = SeededRng(world.chance.stream(f"rng {name}"))
        self.network = SimNetwork(self, world.switch)
        self.store = SimStore(self, world.disk(process.name))
        self.at_death: list[Callable[[bool], None]] = [self.store.process_died, self.network.process_died]
        """Called when it ends: was it a crash?"""
        self.on_terminate: Callable[[], None] | None = None
        """Called on SIGTERM; None: the process is killed by it."""
        self._program: asyncio.Task[None] | None = None
        self._background: set[str] = set()

    @property
    def runs(self) -> bool:
        """Is it alive, with a program that has not ended?"""
        return self.alive and self._program is not None and not self._program.done()

    def run(self, program: Coroutine[Any, Any, None], ended: Callable[[asyncio.Task[None]], None]) -> None:
        """Run its program. `ended` is called afterwards, unless it has died."""
        self._program = self.spawn(program, self.process.name)
        self._program.add_done_callback(lambda task: ended(task) if self.alive else None)

    def spawn(self, work: Coroutine[Any, Any, Any], name: str, *, background: bool = False) -> asyncio.Task[Any]:
        """Run a coroutine in it. `background`: it does not belong to the program, and may outlast it."""
        if background:
            self._background.add(name)
        return self.loop.create_task(work, name=name)

    def outlasting(self) -> list[asyncio.Task[Any]]:
        """The asyncio tasks that still run and should have ended with the program."""
        return [
            task
            for task in asyncio.all_tasks(self.loop) - {self._program}
            if task.get_name() not in self._background and not self.process.may_outlive(task)
        ]

    def die(self, *, crashed: bool) -> None:
        """It ends."""
        self.alive = False
        self.loop.stop_for_good()
        self.process.world.scheduler.dead.append(self)
        for callback in self.at_death:
            callback(crashed)
