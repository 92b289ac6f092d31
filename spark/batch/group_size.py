"""Group size: how many partitions one Spark job fetches: one if they are large, hundreds if they are small.

A job has a cost (10 ms and more), which 10,000 small partitions need not pay 10,000 times. The grouping changes nothing
else: chunks are of partitions.
"""

from __future__ import annotations

from typing import Final

MAX_GROUP: Final = 256
GROUP_BYTES: Final = 4 * 1024 * 1024
_GROWTH: Final = 4


class GroupSize:
    """Adapts to the sizes of the last groups."""

    __slots__ = ("partitions",)

    def __init__(self) -> None:
        self.partitions = 1
        """The number of partitions of the next group."""

    def record(self, partitions: int, size_bytes: int) -> None:
        """A group was fetched: the next one has about GROUP_BYTES, and grows by steps."""
        each = max(1, size_bytes // max(1, partitions))
        fits = max(1, GROUP_BYTES // each)
        self.partitions = min(fits, MAX_GROUP, max(partitions, 1) * _GROWTH)

    def too_large(self) -> None:
        """A group failed: the next partition is fetched alone, so that no good one fails with a bad one."""
        self.partitions = 1
