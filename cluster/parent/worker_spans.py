"""WorkerSpans: what one worker has reported of sampled tuple trees, over all its processes, and the clocks of these."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from typing import Final

from ...metrics import SPAN_ROWS, ClockEstimate, PlacedRow, SpanRow

ENDS: Final = 20
"""So many ends of processes are kept."""


class WorkerSpans:
    """The rows of one worker. `count`: of its present process, as far as they have arrived. Pure.

    `clock`: of its present process. `ends`: when processes have ended, on the stopwatch here.
    """

    def __init__(self) -> None:
        self.count = 0
        self.ends: deque[float] = deque(maxlen=ENDS)
        self._rows: deque[tuple[SpanRow, ClockEstimate]] = deque(maxlen=SPAN_ROWS)
        self.clock = ClockEstimate()

    def take(self, rows: Sequence[SpanRow], count: int) -> None:
        """Rows have arrived, the last of them as number `count`. Those that are here already are left out."""
        new = rows[max(0, self.count - (count - len(rows))) :]
        self._rows.extend((tuple(row), self.clock) for row in new)
        self.count = max(self.count, count)

    def begin_again(self) -> None:
        """Its tasks are made anew, perhaps in another process."""
        self.count = 0
        self.clock = ClockEstimate()

    def placed(self, worker: str) -> Iterator[PlacedRow]:
        """All rows, with what is known of the clock of their process."""
        for row, clock in self._rows:
            yield PlacedRow(worker, clock.offset_s, clock.error_s, row)
