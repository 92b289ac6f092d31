"""Tally: what is counted while it runs, in memory that is all taken before: what is measured must not grow by itself.

1. A number is a spout's task and a count from 0. Each is marked when it is done for the first time, and when acked.
2. Latencies go into a histogram for each second: buckets that are 5 % wide.
3. A pause is a time in which no spout emits anything, new or again. What is emitted again only the framework knows: so
   it is asked each tenth of a second, and a pause is known to about that.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Iterable
from typing import Final

from ..cells import WrongResultError

PAUSE_S: Final = 0.5
"""A pause of so long is counted."""
_LEAST_S: Final = 0.001
_WIDTH: Final = math.log(1.05)
_BUCKETS: Final = 264
"""Up to 400 s."""


class Histogram:
    """Latencies in seconds, to 2.5 %."""

    def __init__(self) -> None:
        self.counts = array("L", [0]) * _BUCKETS

    def add(self, seconds: float) -> None:
        """One more."""
        bucket = int(math.log(max(seconds, _LEAST_S) / _LEAST_S) / _WIDTH)
        self.counts[min(bucket, _BUCKETS - 1)] += 1

    @staticmethod
    def quantile(share: float, histograms: Iterable[Histogram]) -> float | None:
        """What so many of all are below or at, in seconds; None if there are none."""
        counts = [sum(column) for column in zip(*(one.counts for one in histograms), strict=True)]
        left = math.ceil(share * sum(counts))
        for bucket, count in enumerate(counts):
            left -= count
            if count and left <= 0:
                return _LEAST_S * math.exp((bucket + 0.5) * _WIDTH)
        return None


class Tally:
    """Of one run. `most`: numbers that a spout task has at most; `seconds`: that are counted one by one."""

    def __init__(self, spouts: int, most: int, seconds: int) -> None:
        self.emitted = [0] * spouts
        self.done = [bytearray(b"\0") * most for _ in range(spouts)]
        self.acked = [bytearray(b"\0") * most for _ in range(spouts)]
        self.acks = 0
        self.first = 0
        self.again = 0
        self.latencies = [Histogram() for _ in range(seconds + 1)]
        self.pauses: list[tuple[float, float]] = []
        self.longest_pause_s = 0.0
        self.counts_from_s = 0.0
        self._emits = 0
        self._moved_s = self._looked_s = 0.0

    def emit(self, spout: int) -> int:
        """The next number of a spout."""
        number = self.emitted[spout]
        self.emitted[spout] = number + 1
        return number

    def look(self, replayed: int, at_s: float) -> None:
        """So many have been emitted again in all: has anything been emitted since the last look?"""
        emits = sum(self.emitted) + replayed
        if emits != self._emits:
            self._paused(self._moved_s, self._looked_s)
            self._emits, self._moved_s = emits, at_s
        self._looked_s = at_s

    def finished(self, at_s: float) -> None:
        """Nothing more will be emitted."""
        self._paused(self._moved_s, at_s)

    def execute(self, spout: int, number: int) -> None:
        """The slow bolt has done one."""
        if self.done[spout][number]:
            self.again += 1
        else:
            self.done[spout][number] = 1
            self.first += 1

    def ack(self, spout: int, number: int, at_s: float, latency_s: float) -> None:
        """One is acked."""
        self.acks += 1
        self.acked[spout][number] = 1
        self.latencies[min(int(at_s), len(self.latencies) - 1)].add(latency_s)

    def check(self) -> None:
        """WrongResultError unless every number was done and acked."""
        emitted = sum(self.emitted)
        done, acked = (sum(map(sum, counts)) for counts in (self.done, self.acked))
        if not done == acked == self.acks == emitted == self.first:
            raise WrongResultError(f"{emitted} were emitted, {done} were done, {acked} were acked, {self.acks} times")

    def _paused(self, from_s: float, to_s: float) -> None:
        from_s = max(from_s, self.counts_from_s)
        self.longest_pause_s = max(self.longest_pause_s, to_s - from_s)
        if to_s - from_s >= PAUSE_S:
            self.pauses.append((from_s, to_s))
