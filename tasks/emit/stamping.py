"""Stamping: rows carry the time at which they came into the topology, for windows by ingestion time.

    spout: segment ◄─ the clock           bolt: segment ◄─ the stamp of the segment whose rows it was made from

1. All rows of a segment have one stamp: rows of different stamps are not put into one emit buffer.
2. Rows that a bolt emits outside of a turn, or when a window fires, get the time of sending.

From: Flink, ingestion time. (JStorm takes the time at which the last task emitted the tuple: depart.)
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ...topology import Segment


class Stamps:
    """The stamps of one task. `ingested_ms`: of the rows that are executed; None: they have no input row.

    `sealing_ms`: of the rows that are being sent; None: they get the time of now, which `wall_ms` returns.
    """

    __slots__ = ("_wall_ms", "ingested_ms", "sealing_ms")

    def __init__(self, wall_ms: Callable[[], int]) -> None:
        self.ingested_ms: int | None = None
        self.sealing_ms: int | None = None
        self._wall_ms = wall_ms

    def stamp(self, segment: Segment) -> None:
        """Stamp a segment that is being sent."""
        segment.ingested_ms = self._wall_ms() if self.sealing_ms is None else self.sealing_ms
