"""Detaching: when rows that a bolt holds, or does not come to, leave their trees.

    a segment has been executed, rows of it are neither acked nor failed
        ─► the task runs out of work          ─► detach
        ─► HELD_S later, whatever it does     ─► detach
    a call does not end (long_call.py)         ─► detach what is in hand, and what waits behind it

1. Of what is held only whole segments: as long as a row of it has not been executed, its tree waits for that; unless
   the call that it waits for does not end.
2. A row that is acked in time costs nothing here but its segment's place in a queue; one that is acked in its call, not
   even that.
3. User code that suspends in the middle of a later turn does not keep it from happening.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterable
from typing import Final, Protocol

from ..acker import IdSource
from ..topology import Segment
from .emit.detached import may_part
from .emit.emitter import Emitter
from .execute.executors import Executor

HELD_S: Final = 0.02
"""A row that has been executed is in its tree no longer than that."""


class Holding(Protocol):
    """The bolt task."""

    def detaches(self) -> bool:
        """May its ack batch be touched now? Not while its thread works."""
        ...

    def tell_detached(self) -> None:
        """Send what there is to tell the ackers."""
        ...


class Detacher:
    """Of one bolt task. `waiting`: the segments that are to be detached, with when."""

    def __init__(self, task: Holding, emitter: Emitter, ids: IdSource, monotonic: Callable[[], float]) -> None:
        self._task = task
        self._emitter = emitter
        self._ids = ids
        self._monotonic = monotonic
        self.waiting: deque[tuple[float, Segment]] = deque()
        self._timer: asyncio.TimerHandle | None = None

    def executed(self, segment: Segment) -> None:
        """All rows of it have been, and some of them are held."""
        if may_part(segment):
            self.waiting.append((self._monotonic() + HELD_S, segment))
            if self._timer is None:
                self._arm(HELD_S)

    def all(self) -> None:
        """The task has nothing else to do. What this comes to is told with what the turn has to tell."""
        self._part(float("inf"))
        if not self.waiting:
            self.stop()

    def unfinished(self, executor: Executor, start: int, inbox: Iterable[Segment], box: Iterable[Segment]) -> bool:
        """A call does not end: what is in hand leaves, and what waits behind it. Was there anything?

        Not where a thread executes: it may be emitting. `inbox`: what the task has taken and not executed, but for the
        first `start` rows; `box`: what it has not taken.
        """
        emitter, ids = self._emitter, self._ids
        emitter.seal_emit_buffers()  # what was made of rows in hand is told with their edges
        hand, reached, parted = emitter.in_hand or (), executor.reached(), False
        for segment in hand:
            if reached is not None:
                parted |= emitter.detach(segment, ids, 0 if executor.hold_open else reached)
        for segment in inbox:
            if segment not in hand:
                parted |= emitter.detach(segment, ids, 0 if executor.hold_open else start)
            start = 0
        for segment in box:
            parted |= emitter.detach(segment, ids)
        emitter.flush()
        executor.look_again()
        return parted

    def stop(self) -> None:
        """The task ends."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _part(self, until_s: float) -> bool:
        """Detach what is due by then. Was there anything?"""
        waiting, parted = self.waiting, False
        stay: list[Segment] = []
        while waiting and waiting[0][0] <= until_s:
            segment = waiting.popleft()[1]
            if may_part(segment):
                if self._emitter.detach(segment, self._ids):
                    parted = True
                else:
                    stay.append(segment)  # too much for one message: with the next
        if stay:
            waiting.extend((self._monotonic() + HELD_S, segment) for segment in stay)
        return parted

    def _ring(self) -> None:
        self._timer = None
        if not self._task.detaches():
            self._arm(HELD_S)
            return
        if self._part(self._monotonic()):
            self._task.tell_detached()
        if self.waiting:
            self._arm(max(0.0, self.waiting[0][0] - self._monotonic()))

    def _arm(self, delay_s: float) -> None:
        self._timer = asyncio.get_running_loop().call_later(delay_s, self._ring)
