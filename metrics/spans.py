"""Spans: what a process keeps of the tuple trees that are sampled, and how workers report it.

    spout: EMITTED ─► bolt: HANDLED, HANDLED, … ─► spout: SETTLED          in a ring for each process and topology
                         └─ SPLIT: a message goes on in a sub-tree of its own

1. A root is sampled by its bits: all of `mask_of(one_in)` are set. So every task, in every worker, sees it in the
   root itself, and a tree that a user wants to see gets these bits when its root is drawn.
2. A row is a flat tuple of numbers and texts, which is encoded at once. Times are of the stopwatch of its process; the
   parent estimates how far that is from its own (ClockEstimate).
3. A ring is bounded: what is not read is replaced by what comes later.
"""

from __future__ import annotations

from collections import deque
from typing import Final

SPAN_ROWS: Final = 1000
"""The rows that a process keeps for a topology."""

REPORTED: Final = 500
"""The most rows in one report of a worker; the others come with the next."""

MAX_TEXT_CHARS: Final = 200

EMITTED, HANDLED, SETTLED, SPLIT = range(4)
"""The first item of a row, by which the others are known:

    EMITTED, root, task, at, seconds since 1970, messages, earlier failures, root of the tree that failed (or 0),
             context ("traceparent", or "traceparent tracestate"; empty: none)
    HANDLED, root, edge, task, sending task, stream, arrived, begun, ended, rows
    SETTLED, root, task, at, messages, outcome ("acked" or "failed"), why
    SPLIT, root, root of the sub-tree
"""

SpanRow = tuple[int | float | str, ...]

_LOW_BITS: Final = 40
"""The lower bits of a root choose its acker, and are adjusted for it."""

_WANTED_BITS: Final = 22
"""What is sampled on demand, when nothing else is: by chance one root in four million."""


def mask_of(one_in: int) -> int:
    """The bits that are set in a sampled root: about one root in `one_in` has them; 0: only those that are wanted."""
    bits = _WANTED_BITS if one_in == 0 else min(_WANTED_BITS, one_in.bit_length() - 1)
    return ((1 << bits) - 1) << _LOW_BITS


class SpanRing:
    """The last rows of a process, for one topology. `count`: of all that were added."""

    __slots__ = ("_rows", "count")

    def __init__(self, size: int = SPAN_ROWS) -> None:
        self._rows: deque[SpanRow] = deque(maxlen=size)
        self.count = 0

    def add(self, row: SpanRow) -> None:
        """Add a row; the oldest is removed if there are too many."""
        self._rows.append(row)
        self.count += 1

    def rows(self) -> list[SpanRow]:
        """All that are kept, the oldest first."""
        return list(self._rows)

    def after(self, count: int, most: int = REPORTED) -> tuple[tuple[SpanRow, ...], int]:
        """Rows that were added after the first `count`, the oldest first; and the number to ask with the next time."""
        if count >= self.count:
            return (), self.count
        start = max(count, self.count - len(self._rows))
        kept = self.rows()[len(self._rows) - (self.count - start) :][:most]
        return tuple(kept), start + len(kept)


class ClockEstimate:
    """How far the stopwatch of another process is from the one here, from questions and their answers.

    The answer was made between the question and its arrival. The quickest of the last answers says it best.
    """

    KEPT: Final = 240

    __slots__ = ("_samples", "error_s", "offset_s")

    def __init__(self) -> None:
        self._samples: deque[tuple[float, float]] = deque(maxlen=self.KEPT)
        self.offset_s = 0.0
        """Subtract it from a time there, for the time here."""
        self.error_s = 0.0
        """By so much the times may be wrong."""

    def sample(self, asked_s: float, answered_s: float, there_s: float) -> None:
        """An answer has arrived. `there_s`: the time there when it was made."""
        error_s = max(0.0, answered_s - asked_s) / 2
        self._samples.append((error_s, there_s - asked_s - error_s))
        self.error_s, self.offset_s = min(self._samples)
