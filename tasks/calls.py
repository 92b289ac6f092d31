"""Calls: a turn of `next_tuple`, called again and again until it has emitted enough, or nothing, or time is over."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Final, Protocol

from ..topology import Spout
from .drive import drive, finish
from .emit.outbox import Outbox
from .emit.spout_collector import SpoutTaskCollector

CALLS_PER_LOOK: Final = 16
"""Calls of `next_tuple` between two looks at the clock, if they were short so far."""


class Caller(Protocol):
    """The spout task."""

    active: bool
    outbox: Outbox

    def room(self) -> int:
        """How many more messages may be open."""
        ...

    def suspended(self) -> None:
        """`next_tuple` really suspends."""
        ...


class Turns(Protocol):
    """How a spout of some kind is asked for tuples."""

    @property
    def polled(self) -> Spout | None:
        """The spout, if `next_tuple` may be called by itself, in the loop (see polling)."""
        ...

    async def turn(self, most: int) -> None:
        """Until so many more (at least one) have been emitted, there are none, or the time is over."""
        ...


class Calls:
    """Of one spout whose methods run in the loop."""

    def __init__(
        self,
        task: Caller,
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
        """See Turns."""
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
                    if self._has_suspended:  # its source had it wait: what came is sent at once
                        return
                else:
                    await finish(result, self._suspends)
                if task.room() <= 0:  # while it was suspended, what it had emitted was sent and may be settled
                    return
            before, now = now, collector.emitted
            if now == before:
                return
            calls += 1
            if calls >= self._stride:  # a look at the clock costs as much as a short call
                calls = 0
                now_s = stopwatch()
                if now_s >= until_s:
                    self._stride = 1
                    return
                self._stride = min(2 * self._stride, CALLS_PER_LOOK)

    def _suspends(self) -> None:
        self._has_suspended = True
        self._task.suspended()
