"""Key range: by fields, through ranges of the hash space, so that state can move with its range.

Key ranges are Flink's key groups.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ..keys import stable_hash
from .fields import FieldsGrouping

if TYPE_CHECKING:
    from ..streams import StreamId
    from ..tuples import Row
    from .base import GroupingContext


class KeyRanges:
    """The hash space in `n_ranges` ranges, assigned to tasks in contiguous runs whose sizes differ by at most one.

    State is stored by range, so that it can move when the number of tasks changes: a key keeps its range as long as the
    number of ranges stays the same.
    """

    __slots__ = ("n_ranges", "n_tasks")

    def __init__(self, n_ranges: int, n_tasks: int) -> None:
        if not 1 <= n_tasks <= n_ranges:
            raise ValueError(f"{n_tasks} tasks cannot share {n_ranges} ranges: need 1 <= tasks <= ranges")
        self.n_ranges = n_ranges
        self.n_tasks = n_tasks

    @classmethod
    def for_tasks(cls, n_tasks: int) -> KeyRanges:
        """256 ranges, or the least multiple of 256 with a range for every task."""
        return cls(max(1, -(-n_tasks // 256)) * 256, n_tasks)

    def range_of(self, key: Row) -> int:
        """The range of a key (the tuple of its values)."""
        return stable_hash(key) % self.n_ranges

    def task_of(self, key_range: int) -> int:
        """The index (0 … n_tasks - 1) of the task that owns a range."""
        return key_range * self.n_tasks // self.n_ranges

    def ranges_of(self, task: int) -> range:
        """The ranges that a task owns."""
        first = -(-task * self.n_ranges // self.n_tasks)
        return range(first, -(-(task + 1) * self.n_ranges // self.n_tasks))


class KeyRangeGrouping(FieldsGrouping):
    """By fields, through key ranges: for consumers whose state must survive a change of parallelism."""

    def prepare(self, context: GroupingContext, stream: StreamId, targets: Sequence[int]) -> None:
        """Assign the ranges to the targets."""
        self._ranges = KeyRanges.for_tasks(len(targets))
        super().prepare(context, stream, targets)

    def _compute(self, hashed: int) -> int:
        return self._ranges.task_of(hashed % self._ranges.n_ranges)

    def _compute_all(self, hashes: list[int]) -> list[int]:
        return list(map(self._compute, hashes))
