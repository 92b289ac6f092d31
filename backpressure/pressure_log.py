"""PressureLog: the state of backpressure, since when, and the last events."""

from __future__ import annotations

from collections import deque
from typing import Final

from .view import NORMAL, PressureEvent

EVENTS: Final = 200


class PressureLog:
    """`since_s`: when `state` began (wall clock); `count`: of all events, also of those that are no longer kept."""

    __slots__ = ("count", "events", "since_s", "state")

    def __init__(self, wall_s: float) -> None:
        self.state = NORMAL
        self.since_s = wall_s
        self.events: deque[PressureEvent] = deque(maxlen=EVENTS)
        self.count = 0

    def become(self, state: str, wall_s: float, text: str) -> None:
        """Another state begins."""
        self.state, self.since_s = state, wall_s
        self.add(wall_s, state, "", text)

    def add(self, wall_s: float, kind: str, component: str, text: str) -> None:
        """Something has happened."""
        self.events.append(PressureEvent(wall_s, kind, component, text))
        self.count += 1

    def remember(self, before: PressureLog) -> None:
        """Take over the events of the coordinator that this one replaces."""
        self.events.extend(before.events)
        self.count = before.count
