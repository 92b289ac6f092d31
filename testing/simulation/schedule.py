"""Schedule: true time, and what the world does at which time: frames that arrive, faults that begin and end."""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Callable
from typing import Any


class Schedule:
    """True time and the events to come (pure). `now_s`: seconds since the world's start."""

    __slots__ = ("_events", "_numbers", "now_s")

    def __init__(self) -> None:
        self.now_s = 0.0
        self._events: list[tuple[float, int, Callable[..., None], tuple[Any, ...]]] = []
        self._numbers = itertools.count()

    def now(self) -> float:
        """True time."""
        return self.now_s

    def call_at(self, at_s: float, callback: Callable[..., None], *args: Any) -> None:
        """Call back at a true time. Events of one time happen in the order of these calls."""
        heapq.heappush(self._events, (max(at_s, self.now_s), next(self._numbers), callback, args))

    @property
    def next_s(self) -> float | None:
        """The time of the next event."""
        return self._events[0][0] if self._events else None

    def run_due(self) -> None:
        """Call back what is due now."""
        while self._events and self._events[0][0] <= self.now_s:
            _, _, callback, args = heapq.heappop(self._events)
            callback(*args)

    def clear(self) -> None:
        """Nothing happens any more."""
        self._events.clear()
