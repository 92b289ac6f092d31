"""Scheduler: which process of a world runs next; when none can, time goes on.

    step ─► the events that are due ─► a process that has something to do and can, chosen by the seed
                                         │ none: time jumps to the next timer, arrival or fault
                                         └ nothing at all: DeadlockError, with what each process waits for

True time moves only when no process can run, or while one is busy (slow processors take time).
"""

from __future__ import annotations

import asyncio
import logging
import sys
from typing import TYPE_CHECKING, Any

from ..errors import DeadlockError, TimeLimitError
from ..waiting import pending_tasks

if TYPE_CHECKING:
    from .incarnation import Incarnation
    from .process import Process
    from .world import World


class Scheduler:
    """Made by its world. `max_steps` bounds a world in which something polls forever."""

    def __init__(self, world: World, max_steps: int) -> None:
        self.steps = 0
        self.current: Process = world.driver
        """The process that runs now."""
        self.dead: list[Incarnation] = []
        """The incarnations that have ended."""
        self._world = world
        self._max_steps = max_steps
        self._choice = world.chance.stream("processes")

    def step(self) -> None:
        """Called by the driver's loop, again and again."""
        schedule = self._world.schedule
        self.steps += 1
        if self.steps > self._max_steps:
            self.steps = 0
            raise TimeLimitError(
                f"the world has made {self._max_steps:,} steps and it is {schedule.now_s:,.3f} s: something polls and "
                f"what it polls for does not come. Pending:\n{self._pending()}"
            )
        schedule.run_due()
        able: list[Process] = []
        next_s: float | None = None
        for process in (self._world.driver, *self._world.processes.values()):
            due_s = process.due_s()
            if due_s is None:
                continue
            if due_s <= schedule.now_s:
                able.append(process)
            elif next_s is None or due_s < next_s:
                next_s = due_s
        if able:
            self._run(able[0] if len(able) == 1 else self._choice.choice(able))
            return
        event_s = schedule.next_s
        if event_s is not None and (next_s is None or event_s < next_s):
            next_s = event_s
        if next_s is None:
            raise DeadlockError(f"deadlock: nothing is ready and nothing will ever be. Pending:\n{self._pending()}")
        schedule.now_s = next_s

    def shut_down(self) -> None:
        """The world is over: the coroutines of dead processes end, unrecorded, and without an effect outside.

        While one does, its process is the current one, which is dead: code outside asks it.
        """
        logged = logging.root.manager.disable
        logging.disable()
        try:
            for ended in self.dead:
                self.current = ended.process
                asyncio._set_running_loop(ended.loop)
                try:
                    ended.loop.shut_down()
                finally:
                    asyncio._set_running_loop(None)
        finally:
            self.current = self._world.driver
            logging.disable(logged)
        self.dead.clear()

    def _run(self, process: Process) -> None:
        before, self.current = self.current, process
        hooks = sys.get_asyncgen_hooks()
        asyncio._set_running_loop(process.loop)
        loop: Any = process.loop
        sys.set_asyncgen_hooks(loop._asyncgen_firstiter_hook, loop._asyncgen_finalizer_hook)
        try:
            process.step()
        finally:
            asyncio._set_running_loop(self._world.driver.loop)
            sys.set_asyncgen_hooks(*hooks)
            self.current = before

    def _pending(self) -> str:
        return "\n".join(
            f" in {process.name}:\n{pending_tasks(process.loop)}"
            for process in (self._world.driver, *self._world.processes.values())
            if process.alive
        )
