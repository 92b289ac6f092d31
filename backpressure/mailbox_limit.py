"""MailboxLimit: how many rows a task's mailbox is held to, so that what waits in it is about `target_s` of work. Pure.

    turn: rows, seconds of work, seconds blocked ─► seconds a row ─► limit = target / seconds a row, 16 … capacity

1. The limit is never above the capacity, and never below LEAST (or the capacity, if that is less).
2. It begins at FIRST, and is at most doubled by a turn: a row of a slow bolt is never behind a thousand others, and a
   fast one has its whole capacity after four turns.
3. What a row takes is the work and the time for which its task waited for room behind it: what waits in a mailbox waits
   for both. (What senders are told, `row_s`, is work alone.)
4. A bolt that takes batches has a part of its work for each batch, whatever its rows. A batch of fewer rows would only
   be dearer for each; so where that part is the larger one, the mailbox holds a whole batch and a little more. Which
   part is, is known from batches that are not as large as each other: until there are, it lets larger ones come.
5. A task that comes to wait for room, and had not for FREE_TURNS, does not know for how long: it is held to LEAST until
   it does. So what a chain of fast bolts holds before a slow one is little too.
6. A target of 0 holds nothing: the capacity is the limit.

From: Flink's buffer debloating (FLIP-183): buffers of so many bytes as go through in a target time.
"""

from __future__ import annotations

from typing import Final

from .service import ServiceTime

FIRST: Final = 64
"""Rows, before anything was measured: so that a shuffle is even from the start."""

LEAST: Final = 16
"""Rows. Fewer would make senders wake up for each."""

FREE_TURNS: Final = 64
"""Without waiting for room: what was known about that is too old."""

WHOLE_BATCH: Final = 1.25
"""Of a batch: so that the next one is there when a batch is done, and its senders have some room."""


class MailboxLimit:
    """Of one task. `batch`: rows that it takes at once, if it takes batches; else 0."""

    __slots__ = ("_capacity", "_each", "_free", "_passing", "_service", "_target_s", "batch", "limit")

    def __init__(self, capacity: int, target_s: float) -> None:
        self.batch = 0
        self._capacity = capacity
        self._target_s = target_s
        self._service = ServiceTime()
        self._passing = ServiceTime()
        self._each = _LineFit()
        self._free = FREE_TURNS  # turns since it waited for room
        self.limit = self._limit()

    @property
    def row_s(self) -> float:
        """Seconds of work a row; 0.0: not measured yet."""
        return self._service.row_s

    def measured(self, rows: int, work_s: float, blocked_s: float) -> int:
        """A turn of so many rows is done, after so many seconds in which the task waited for room. The limit."""
        if rows:
            self._service.measured(rows, work_s)
            self._passing.measured(rows, work_s + blocked_s)
            if self.batch:
                self._each.add(rows, work_s)
            self._free = 0 if blocked_s else self._free + 1
            self.limit = min(self._limit(), 2 * self.limit)
        return self.limit

    def blocks(self) -> int:
        """The task comes to wait for room. The limit."""
        if self._free >= FREE_TURNS:
            self.stuck()
        return self.limit

    def stuck(self) -> int:
        """It has waited for longer than is good. The limit."""
        if self._target_s:
            self.limit = min(self.limit, LEAST)
        return self.limit

    def aim(self, target_s: float) -> int:
        """Another target. The limit."""
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
        if parts is None:  # larger ones will show
            return min(2 * self._each.rows, whole)
        fixed_s, each_s = parts
        return whole if fixed_s > each_s * self.batch else 0


class _LineFit:
    """What a batch takes, and what a row of it: the line through what was measured. Older batches fade."""

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
        """Of a batch, lately."""
        return round(self._rows / self._count)

    def split(self) -> tuple[float, float] | None:
        """Seconds a batch, and seconds a row of it; None if all batches were as large: then it cannot be told."""
        count, rows = self._count, self._rows
        spread = count * self._rows_rows - rows * rows
        if spread <= 1e-6 * rows * rows:
            return None
        each_s = min(max((count * self._rows_s - rows * self._s) / spread, 0.0), self._s / rows)
        return (self._s - each_s * rows) / count, each_s


FADES: Final = 0.9
"""Of a batch, with each that follows."""
