"""Detaching: when the rows that a rich bolt holds leave their trees.

    a segment has been executed, rows of it are neither acked nor failed
        ─► the task runs out of work          ─► detach
        ─► HELD_S later, whatever it does     ─► detach

1. Only whole segments: as long as a row of it has not been executed, its tree has to wait for that anyway.
2. A row that is acked in time costs nothing here but its segment's place in a queue; one that is acked in its call, not
   even that.
3. User code that suspends in the middle of a later turn does not keep it from happening.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Final, Protocol

from ..acker import IdSource
from ..topology import Segment
from .account import Account
from .detached import may_part

HELD_S: Final = 0.02
"""A row that has been executed is in its tree no longer than that."""


class Holding(Protocol):
    """The bolt task."""

    def detaches(self) -> bool:
        """May its account be touched now? Not while its thread works."""
        ...

    def tell_detached(self) -> None:
        """Send what there is to tell the ackers."""
        ...


class Detacher:
    """Of one bolt task. `waiting`: the segments that are to be detached, with when."""

    def __init__(self, task: Holding, account: Account, ids: IdSource, monotonic: Callable[[], float]) -> None:
        self._task = task
        self._account = account
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
                if self._account.detach(segment, self._ids):
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
