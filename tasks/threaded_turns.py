"""Threaded turns: a blocking spout's `next_tuple` is called in its thread; what it emits is transferred to the loop."""

from __future__ import annotations

from typing import Protocol

from ..topology import Spout
from .emit.threaded_collector import ThreadedSpoutCollector
from .environment import Environment
from .user_code import UserCode


class ThreadedTask(Protocol):
    """The spout task."""

    env: Environment
    user: UserCode
    suspended_since_s: float | None

    def held_up(self) -> bool:
        """Must something else be done before the next call? Called in the thread."""
        ...


class ThreadedTurns:
    """The turns of one spout."""

    polled = None

    def __init__(self, task: ThreadedTask, spout: Spout, collector: ThreadedSpoutCollector, turn_s: float) -> None:
        self._task = task
        self._spout = spout
        self._turn_s = turn_s
        self.collector = collector

    async def turn(self, most: int) -> None:
        task, collector = self._task, self.collector
        next_tuple, stopwatch = self._spout.next_tuple, task.env.clock.stopwatch
        until_s = stopwatch() + self._turn_s
        task.suspended_since_s = task.env.clock.monotonic()
        task.env.on_idle()
        try:
            await task.user.in_thread(
                lambda: collector.turn(next_tuple, most, lambda: task.held_up() or stopwatch() >= until_s)
            )
        finally:
            self.transfer()  # also what was emitted before an error

    def transfer(self) -> None:
        """Transfer what the thread has emitted so far. A spout that emits during its call is not waiting."""
        if self.collector.transfer() and self._task.suspended_since_s is not None:
            self._task.suspended_since_s = self._task.env.clock.monotonic()
