"""Service time: the recent seconds of work for a row of a task. Pure.

    turn: rows, seconds ─► sums that fade as the task works ─► seconds a row

1. It is a ratio of sums, so a turn counts by its rows and its time: a pause of the process during a turn of a thousand
   rows is shared by all of them.
2. The sums fade with the time that the task works, not with the time that passes: a turn that was MEMORY_S of work ago
   counts one third. So a row that takes seconds has an effect at once, and a task without work keeps its measurements.
3. It lies between the shortest and the longest time a row of the measured turns (and is at least LEAST_S).

From: Flink's buffer debloating, which measures a subtask's throughput in the same place.
"""

from __future__ import annotations

from math import exp
from typing import Final

MEMORY_S: Final = 1.0
"""Seconds of work."""

LEAST_S: Final = 1e-9
"""A measured time is never 0, whatever the clock says."""


class ServiceTime:
    """The service time of one task."""

    __slots__ = ("_rows", "_work_s", "row_s")

    def __init__(self) -> None:
        self.row_s = 0.0
        """Seconds a row; 0.0 before the first measurement."""
        self._rows = 0.0
        self._work_s = 0.0

    def measured(self, rows: int, work_s: float) -> float:
        """A turn of `rows` rows took `work_s` seconds of work. Returns the new `row_s`."""
        if rows:
            keep = exp(-work_s / MEMORY_S)
            self._rows = self._rows * keep + rows
            self._work_s = self._work_s * keep + work_s
            self.row_s = max(self._work_s / self._rows, LEAST_S)
        return self.row_s
