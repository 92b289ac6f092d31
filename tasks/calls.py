"""Calls: `next_tuple` is called again and again until enough was emitted, a call emits nothing, or the time is over."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Final, Protocol

from ..topology import Spout
from .drive import drive, finish
from .emit.outbox import Outbox
from .emit.spout_collector import SpoutTaskCollector

CALLS_PER_LOOK: Final = 16
"""Calls of `next_tuple` between two readings of the clock, if they were short so far."""


class CallingTask(Protocol):
    """The spout task."""

    active: bool
    outbox: Outbox

    def messages_left(self) -> int:
        """How many more messages may be open."""
        ...

    def suspended(self) -> None:
        """`next_tuple` suspends."""
        ...


class Turns(Protocol):
    """How a spout of some kind is called for tuples."""

    @property
    def polled(self) -> Spout | None:
        """The spout, if `next_tuple` may be called directly in the loop (see polling)."""
        ...

    async def turn(self, most: int) -> None:
        """Call the spout until `most` messages (at least one) were emitted, none are left, or the time is over."""
        ...


class Calls:
    """The turns of one spout whose methods run in the loop."""

    def __init__(
        self,
        task: CallingTask,
        spout: Spout,
        collector: SpoutTaskCollector,
        stopwatch: Callable[[], float],
        turn_s: float,
    ) -> None:
        self._task = task
        self._spout = self.polled = spout
        self._collector = collector
        self._stopwatch = stopwatch
        self._turn_s = turn_s
        self._has_suspended = False
        self._stride = 1

    async def turn(self, most: int) -> None:
        task, collector, next_tuple, stopwatch = self._task, self._collector, self._spout.next_tuple, self._stopwatch
        outbox = task.outbox
        until_s = stopwatch() + self._turn_s
        now = collector.emitted
        enough = now + most
        calls = 0
        self._has_suspended = False
        while now < enough and not collector.finished and task.active and not outbox.blocked:
            result = next_tuple()
            if result is not None:
                if inspect.iscoroutine(result):
                    await drive(result, self._suspends)
                    if self._has_suspended:  # it waited for its source: send at once what was emitted
                        return
                else:
                    await finish(result, self._suspends)
                if task.messages_left() <= 0:  # what was emitted before the suspension may be settled by now
                    return
            before, now = now, collector.emitted
            if now == before:
                return
            calls += 1
            if calls >= self._stride:  # reading the clock costs as much as a short call
                calls = 0
                now_s = stopwatch()
                if now_s >= until_s:
                    self._stride = 1
                    return
                self._stride = min(2 * self._stride, CALLS_PER_LOOK)

    def _suspends(self) -> None:
        self._has_suspended = True
        self._task.suspended()
