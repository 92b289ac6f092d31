"""Detaching: when rows that a bolt holds, or cannot execute yet, leave their trees.

    a segment has been executed, rows of it are neither acked nor failed
        ─► the task runs out of work          ─► detach
        ─► HELD_S later, busy or not          ─► detach
    a call does not return (long_call.py)      ─► detach what is in hand, and what waits behind it

1. Only whole segments of held rows are detached: until every row has been executed, the tree waits for the segment;
   except where a call does not return.
2. A row that is acked in time costs only a place in a queue for its segment; a row that is acked during its call does
   not cost even that.
3. User code that suspends in the middle of a later turn does not delay detaching.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Final, Protocol

from .emit.detached import can_detach

if TYPE_CHECKING:
    from ..acker import IdSource
    from ..topology import Segment
    from .emit.emitter import Emitter
    from .execute.base import Executor

HELD_S: Final = 0.02
"""A row that has been executed stays in its tree for at most this time."""


class DetachingTask(Protocol):
    """The bolt task."""

    def may_detach_now(self) -> bool:
        """May the ack batch be changed now? Not while the task's thread works."""
        ...

    def send_detached(self) -> None:
        """Send the pending acks."""
        ...


class Detacher:
    """The detacher of one bolt task. `waiting`: the segments to detach, each with its due time."""

    def __init__(self, task: DetachingTask, emitter: Emitter, ids: IdSource, monotonic: Callable[[], float]) -> None:
        self._task = task
        self._emitter = emitter
        self._ids = ids
        self._monotonic = monotonic
        self.waiting: deque[tuple[float, Segment]] = deque()
        self._timer: asyncio.TimerHandle | None = None

    def executed(self, segment: Segment) -> None:
        """All rows of the segment have been executed, and some are held."""
        if can_detach(segment):
            self.waiting.append((self._monotonic() + HELD_S, segment))
            if self._timer is None:
                self._arm(HELD_S)

    def all(self) -> None:
        """The task has nothing else to do: detach everything that waits. It is sent with the acks of the turn."""
        self._detach_due(float("inf"))
        if not self.waiting:
            self.stop()

    def unfinished(self, executor: Executor, start: int, inbox: Iterable[Segment], box: Iterable[Segment]) -> bool:
        """A call does not return: detach what is in hand and what waits behind it. True if anything was detached.

        Not for a task whose thread executes: it may be emitting. `inbox`: segments that the task has taken and not
        executed, except the first `start` rows; `box`: segments still in its mailbox.
        """
        emitter, acks, ids = self._emitter, self._emitter.acks, self._ids
        emitter.seal()  # children of the rows in hand go in the same message as their edges
        hand, reached, found = acks.in_hand or (), executor.reached(), False
        for segment in hand:
            if reached is not None:
                found |= acks.detach(segment, ids, 0 if executor.hold_open else reached)
        for segment in inbox:
            if segment not in hand:
                found |= acks.detach(segment, ids, 0 if executor.hold_open else start)
            start = 0
        for segment in box:
            found |= acks.detach(segment, ids)
        emitter.flush()
        executor.refresh()
        return found

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _detach_due(self, until_s: float) -> bool:
        """Detach what is due by then. True if anything was detached."""
        waiting, found = self.waiting, False
        stay: list[Segment] = []
        while waiting and waiting[0][0] <= until_s:
            segment = waiting.popleft()[1]
            if can_detach(segment):
                if self._emitter.acks.detach(segment, self._ids):
                    found = True
                else:
                    stay.append(segment)  # too much for one message: retried with the next
        if stay:
            waiting.extend((self._monotonic() + HELD_S, segment) for segment in stay)
        return found

    def _on_timer(self) -> None:
        self._timer = None
        if not self._task.may_detach_now():
            self._arm(HELD_S)
            return
        if self._detach_due(self._monotonic()):
            self._task.send_detached()
        if self.waiting:
            self._arm(max(0.0, self.waiting[0][0] - self._monotonic()))

    def _arm(self, delay_s: float) -> None:
        self._timer = asyncio.get_running_loop().call_later(delay_s, self._on_timer)
