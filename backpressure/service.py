"""Service time: how long a task works for a row, lately. Pure.

    turn: so many rows in so many seconds ─► sums that fade as the task works ─► seconds a row

1. It is a ratio of sums, so a turn counts by its rows and its time: a pause of the process in one turn of a thousand
   rows is shared by all of them.
2. The sums fade by the time that the task works, not by time that passes: what was WINDOW_S of work ago counts for a
   third. So a row that takes seconds is known at once, and a task that rests
   forgets nothing.
3. It lies between the shortest and the longest time a row of the turns that it was given (and LEAST_S, at least).

From: Flink's buffer debloating, which measures a subtask's throughput in the same place.
"""

from __future__ import annotations

from math import exp
from typing import Final

WINDOW_S: Final = 1.0
"""Of work."""

LEAST_S: Final = 1e-9
"""What was measured is never 0, whatever the clock says."""


class ServiceTime:
    """Of one task."""

    __slots__ = ("_rows", "_work_s", "row_s")

    def __init__(self) -> None:
        self.row_s = 0.0
        """Seconds a row; 0.0: nothing was measured yet."""
        self._rows = 0.0
        self._work_s = 0.0

    def measured(self, rows: int, work_s: float) -> float:
        """A turn of so many rows took so many seconds of work. `row_s`, as it is now."""
        if rows:
            keep = exp(-work_s / WINDOW_S)
            self._rows = self._rows * keep + rows
            self._work_s = self._work_s * keep + work_s
            self.row_s = max(self._work_s / self._rows, LEAST_S)
        return self.row_s
