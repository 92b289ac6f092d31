"""Calls: `next_tuple` is called again and again until enough was emitted, a call emits nothing, or the time is over.

The calls of a blocking spout run in its thread; what it emits is transferred to the loop.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, Protocol

from .drive import drive, finish

if TYPE_CHECKING:
    from ..topology import Spout
    from .emit.outbox import Outbox
    from .emit.spout_collector import SpoutTaskCollector
    from .emit.threaded_collector import ThreadedSpoutCollector
    from .task import TaskActor

CALLS_PER_LOOK: Final = 16
"""Calls of `next_tuple` between two readings of the clock, if they were short so far."""


class CallingLoop(Protocol):
    """The emit loop."""

    def messages_left(self) -> int:
        """How many more messages may be open."""
        ...

    def suspended(self) -> None:
        """`next_tuple` suspends."""
        ...


class SpoutState:
    """What the emit loop and the control loop of a spout task read of each other.

    `active`: may it emit? `ended`: for good. `held`: does it wait for a sink? `on_control`: is a control message
    handled now? `suspended_since_s`: since when `next_tuple` waits for its source; None: it does not. `busy_until_s`:
    the same, of the stopwatch.
    """

    __slots__ = ("active", "busy_until_s", "ended", "held", "on_control", "suspended_since_s")

    def __init__(self) -> None:
        self.active = False
        self.ended = False
        self.held = False
        self.on_control = False
        self.suspended_since_s: float | None = None
        self.busy_until_s = 0.0


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
        loop: CallingLoop,
        state: SpoutState,
        outbox: Outbox,
        spout: Spout,
        collector: SpoutTaskCollector,
        stopwatch: Callable[[], float],
        turn_s: float,
    ) -> None:
        self._loop = loop
        self._state = state
        self._outbox = outbox
        self._spout = self.polled = spout
        self._collector = collector
        self._stopwatch = stopwatch
        self._turn_s = turn_s
        self._has_suspended = False
        self._stride = 1

    async def turn(self, most: int) -> None:
        loop, state, outbox, collector = self._loop, self._state, self._outbox, self._collector
        next_tuple, stopwatch = self._spout.next_tuple, self._stopwatch
        until_s = stopwatch() + self._turn_s
        now = collector.emitted
        enough = now + most
        calls = 0
        self._has_suspended = False
        while now < enough and not collector.finished and state.active and not state.held and not outbox.blocked:
            result = next_tuple()
            if result is not None:
                if inspect.iscoroutine(result):
                    await drive(result, self._suspends)
                    if self._has_suspended:  # it waited for its source: send at once what was emitted
                        return
                else:
                    await finish(result, self._suspends)
                if loop.messages_left() <= 0:  # what was emitted before the suspension may be settled by now
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
        self._loop.suspended()


class ThreadedLoop(Protocol):
    """The emit loop."""

    def held_up(self) -> bool:
        """Must something else be done before the next call? Called in the thread."""
        ...


class ThreadedTurns:
    """The turns of one spout."""

    polled = None

    def __init__(
        self,
        loop: ThreadedLoop,
        state: SpoutState,
        task: TaskActor,
        spout: Spout,
        collector: ThreadedSpoutCollector,
        turn_s: float,
    ) -> None:
        self._loop = loop
        self._state = state
        self._task = task
        self._spout = spout
        self._turn_s = turn_s
        self.collector = collector

    async def turn(self, most: int) -> None:
        task, state, loop, collector = self._task, self._state, self._loop, self.collector
        next_tuple, stopwatch = self._spout.next_tuple, task.env.clock.stopwatch
        until_s = stopwatch() + self._turn_s
        state.suspended_since_s, state.busy_until_s = task.env.clock.monotonic(), stopwatch()
        task.env.on_idle()
        try:
            await task.user.in_thread(
                lambda: collector.turn(next_tuple, most, lambda: loop.held_up() or stopwatch() >= until_s)
            )
        finally:
            self.transfer()  # also what was emitted before an error

    def transfer(self) -> None:
        """Transfer what the thread has emitted so far. A spout that emits during its call is not waiting."""
        if self.collector.transfer() and self._state.suspended_since_s is not None:
            self._state.suspended_since_s = self._task.env.clock.monotonic()
