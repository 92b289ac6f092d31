"""Aligner: when a task has received barrier `number` from all its sources. Pure.

    source 1   rows rows B1 ───(the sender holds its outlet)───────────┐
    source 2   rows B1 ────────(the sender holds its outlet)───────────┤ all barriers 1 are here:
    source 3   rows rows rows rows B1 ─────────────────────────────────┴► Aligned(1): save the state, send barrier 1,
                                                                          notify the sources: their outlets are released

1. A barrier has the number of its snapshot, and how many rows its source has sent to this task since the tasks were
   built. Rows and barriers of one source arrive in their order, so this must equal the number of received rows. If it
   does not, rows were lost or arrived twice: `Lost`. It is reported for every later number too, until the tasks are
   built again.
2. A sender sends no row behind barrier `number` before this task is aligned. If there is one, the state would contain a
   row that the state of its source does not: `Lost`, too. It is also the answer if the snapshot was given up and this
   task is not notified yet; the coordinator does not accept `Lost` about such a number.
3. Numbers only grow. A barrier of an older number is ignored: the number is aligned, aborted, or replaced by a greater
   one (a greater number shows that the smaller one was aborted).

From: Chandy and Lamport's snapshots, Flink's SingleCheckpointBarrierHandler (which blocks the channel of a source; here
the sender holds, because sources share one mailbox).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Aligned:
    """The barriers of this number have arrived from all sources."""

    number: int


@dataclass(frozen=True, slots=True)
class Lost:
    """Snapshot `number` cannot be taken: the rows of `source` are not those that it has sent."""

    number: int
    source: int
    sent: int
    received: int

    def __str__(self) -> str:
        return (
            f"snapshot {self.number}: task {self.source} has sent {self.sent:,} rows, and {self.received:,} were "
            "received: rows were lost, or arrived twice, or were sent behind the barrier"
        )


class Aligner:
    """The aligner of one task. `sources`: the tasks that send to it.

    `received`: source → rows received since the tasks were built. The task adds to it, once for each segment.
    """

    __slots__ = ("_arrived", "_missing", "_past", "number", "received")

    def __init__(self, sources: Iterable[int]) -> None:
        self.received = dict.fromkeys(sources, 0)
        self.number: int | None = None
        """The number of which some barriers have arrived, and others have not."""
        self._past = 0  # numbers up to this one are aligned or aborted
        self._arrived: dict[int, int] = {}  # source → the rows before its last barrier
        self._missing: set[int] = set()  # the sources whose barrier of `number` has not arrived

    def barrier(self, source: int, number: int, rows: int) -> Aligned | Lost | None:
        """A barrier arrived from a source, which has sent so many rows to this task before it."""
        received = self.received[source]
        if number <= self._past or (self.number is not None and number < self.number):
            return None
        if number != self.number:
            self._begin(number)
        if source not in self._missing:
            return None
        self._missing.discard(source)
        self._arrived[source] = rows
        if rows != received:
            self._end(number)
            return Lost(number, source, rows, received)
        return self._complete(number)

    def abort(self, number: int) -> None:
        """The snapshot was given up: barriers of this number and of smaller ones are ignored."""
        if self.number is not None and self.number <= number:
            self.number = None
        self._past = max(self._past, number)

    def _begin(self, number: int) -> None:
        self.number = number
        self._missing = set(self.received)

    def _end(self, number: int) -> None:
        self._past = number
        self.number = None

    def _complete(self, number: int) -> Aligned | Lost | None:
        if self._missing:
            return None
        self._end(number)
        for source, received in self.received.items():
            if received != self._arrived[source]:
                return Lost(number, source, self._arrived[source], received)
        return Aligned(number)
