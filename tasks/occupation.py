"""Occupation: for how long a task was busy, blocked and idle; together, the time since it was made.

*Busy*: it executes, or its spout is called. *Blocked*: a turn is over, and what it sent waits for full tasks behind it;
then nothing is executed. *Idle*: the rest. It waits for tuples, or for the event loop, which all tasks here share.

All of it is computed when it is read, of what the task counts in any case.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .turn_limits import Portions


class Occupation:
    """The occupation of one task; `portions`: know for how long it was blocked."""

    __slots__ = ("_busy_s", "_made_s", "_portions", "_stopwatch")

    def __init__(self, portions: Portions, stopwatch: Callable[[], float]) -> None:
        self._portions = portions
        self._stopwatch = stopwatch
        self._made_s = stopwatch()
        self._busy_s = 0.0

    def read(self, busy_s: float) -> dict[str, float]:
        """The metrics, of which none decreases. `busy_s`: until now, with what is executed at the moment.

        A call that is given up (a failed batch) was busy when it was read, and is not in later sums.
        """
        busy_s = self._busy_s = max(self._busy_s, busy_s)
        blocked_s = self._portions.blocked_s
        idle_s = max(0.0, self._stopwatch() - self._made_s - busy_s - blocked_s)
        return {"busy_s": busy_s, "blocked_s": blocked_s, "idle_s": idle_s}
