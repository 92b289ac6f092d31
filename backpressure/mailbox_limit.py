"""Mailbox limit: how many rows a mailbox may contain, so that they are about `target_s` seconds of work. Pure.

    turn: rows, seconds of work, seconds blocked ─► seconds a row ─► limit = target / seconds a row, 16 … capacity

1. The limit is never above the capacity, and never below LEAST (or the capacity, if that is less).
2. It starts at FIRST and at most doubles in a turn: a row of a slow bolt never waits behind a thousand others, and a
   fast bolt can use its whole capacity after four turns.
3. The time of a row is the work and the time that its task was blocked behind it: rows in a mailbox wait for both. (The
   `row_s` that senders see is work alone.)
4. A bolt that takes batches spends part of its work on each batch, whatever its number of rows. Smaller batches would
   only make each row more expensive; so if that part is the larger one, the mailbox may contain a whole batch and a
   little more. The parts are known after batches of different sizes: until then, larger batches are allowed.
5. A task that becomes blocked, and was not for FREE_TURNS, does not know for how long: its limit is LEAST until it
   does. So the mailboxes of a chain of fast bolts before a slow one contain little too.
6. A target of 0 means no limit: the capacity is the limit.

From: Flink's buffer debloating (FLIP-183): as many bytes in the buffers as are processed in a target time.
"""

from __future__ import annotations

from typing import Final

from .service import ServiceTime

FIRST: Final = 64
"""Rows before the first measurement: few enough for a shuffle to be even from the start."""

LEAST: Final = 16
"""Rows. With fewer, senders would wake up for each one."""

FREE_TURNS: Final = 64
"""Turns without being blocked after which earlier measurements of it are too old."""

WHOLE_BATCH: Final = 1.25
"""Share of a batch: the next batch is there when one is done, and its senders have some free capacity."""


class MailboxLimit:
    """The limit of one task's mailbox. `batch`: rows that the task takes at once, if it takes batches; else 0."""

    __slots__ = ("_capacity", "_each", "_free", "_passing", "_service", "_target_s", "batch", "limit")

    def __init__(self, capacity: int, target_s: float) -> None:
        self.batch = 0
        self._capacity = capacity
        self._target_s = target_s
        self._service = ServiceTime()
        self._passing = ServiceTime()
        self._each = _LineFit()
        self._free = FREE_TURNS  # turns since it was blocked last
        self.limit = self._limit()

    @property
    def row_s(self) -> float:
        """Seconds of work a row; 0.0 before the first measurement."""
        return self._service.row_s

    def measured(self, rows: int, work_s: float, blocked_s: float) -> int:
        """A turn of `rows` rows is done, during which the task was blocked for `blocked_s`. Returns the limit."""
        if rows:
            self._service.measured(rows, work_s)
            self._passing.measured(rows, work_s + blocked_s)
            if self.batch:
                self._each.add(rows, work_s)
            self._free = 0 if blocked_s else self._free + 1
            self.limit = min(self._limit(), 2 * self.limit)
        return self.limit

    def blocks(self) -> int:
        """The task becomes blocked. Returns the limit."""
        if self._free >= FREE_TURNS:
            self.stuck()
        return self.limit

    def stuck(self) -> int:
        """The task has been blocked for too long. Returns the limit."""
        if self._target_s:
            self.limit = min(self.limit, LEAST)
        return self.limit

    def aim(self, target_s: float) -> int:
        """Set another target. Returns the limit."""
        self._target_s = target_s
        self.limit = self._limit()
        return self.limit

    def _limit(self) -> int:
        capacity, target_s = self._capacity, self._target_s
        if not target_s:
            return capacity
        row_s = self._passing.row_s
        if not row_s:
            return min(FIRST, capacity)
        least = LEAST
        if self.batch:
            least = max(least, self._least_for_batches())
        wanted = target_s / row_s
        return capacity if wanted >= capacity else min(max(int(wanted), least), capacity)

    def _least_for_batches(self) -> int:
        whole = int(self.batch * WHOLE_BATCH)
        parts = self._each.split()
        if parts is None:  # unknown until there are larger batches
            return min(2 * self._each.rows, whole)
        fixed_s, each_s = parts
        return whole if fixed_s > each_s * self.batch else 0


class _LineFit:
    """The time of a batch and of each row in it: a line fitted to the measurements. Older batches fade."""

    __slots__ = ("_count", "_rows", "_rows_rows", "_rows_s", "_s")

    def __init__(self) -> None:
        self._count = self._rows = self._rows_rows = self._s = self._rows_s = 0.0

    def add(self, rows: int, work_s: float) -> None:
        self._count = FADES * self._count + 1
        self._rows = FADES * self._rows + rows
        self._rows_rows = FADES * self._rows_rows + rows * rows
        self._s = FADES * self._s + work_s
        self._rows_s = FADES * self._rows_s + rows * work_s

    @property
    def rows(self) -> int:
        """Recent rows of a batch."""
        return round(self._rows / self._count)

    def split(self) -> tuple[float, float] | None:
        """Seconds a batch, and seconds a row of it; None if all batches had the same size: then it is unknown."""
        count, rows = self._count, self._rows
        spread = count * self._rows_rows - rows * rows
        if spread <= 1e-6 * rows * rows:
            return None
        each_s = min(max((count * self._rows_s - rows * self._s) / spread, 0.0), self._s / rows)
        return (self._s - each_s * rows) / count, each_s


FADES: Final = 0.9
"""The weight that a batch keeps with each batch after it."""
