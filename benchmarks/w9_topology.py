"""W9 on two worker processes, as they load it: a spout in one, the bolt that is too slow for it in the other.

    numbers ×1 (as fast as it may) ─shuffle─► slow ×1 (holds its event loop until a tuple's time is over)

The bolt sleeps without giving its event loop back, as if it computed, but with no need of a core: what it can do is its
schedule's, however busy the machine is. A tuple begins where the last ended, if the bolt is no later than 50 ms: what
the machine takes of it in between is made up for.

What each does is counted in quarters of a second of the machine's monotonic clock, which both processes share.
"""

from __future__ import annotations

import time
from typing import Any, Final

from aiostorm import BasicBolt, BasicCollector, Fields, Spout, SpoutCollector, Topology, TopologyBuilder, Tuple

from .resident import rss_mb
from .w9 import SAMPLE_S

LONGEST_S: Final = 300.0
LATE_S: Final = 0.05


class Counted:
    """How much had been done at the end of each quarter of a second, and what the process had in memory."""

    def __init__(self, longest_s: float = LONGEST_S) -> None:
        self._first = int(time.monotonic() / SAMPLE_S)
        self._counts = [0] * round(longest_s / SAMPLE_S)
        self._rss_mb = [0.0] * len(self._counts)
        self._last = -1

    def add(self) -> None:
        """One more, now."""
        place = min(int(time.monotonic() / SAMPLE_S) - self._first, len(self._counts) - 1)
        if place != self._last:
            self._last = place
            self._rss_mb[place] = rss_mb()
        self._counts[place] += 1

    def result(self) -> dict[str, Any]:
        """First quarter since the clock's zero, counts and MB of each up to the last that had any."""
        end = self._last + 1
        return {"first": self._first, "counts": self._counts[:end], "rss_mb": self._rss_mb[:end]}


class Numbers(Spout):
    outputs = Fields("number")

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds

    def open(self, context: Any, collector: SpoutCollector) -> None:
        self.collector, self.counted = collector, Counted()
        self.number = self.acked = self.failed = 0
        self.until_s = 0.0

    def activate(self) -> None:
        self.until_s = time.monotonic() + self.seconds

    def next_tuple(self) -> None:
        if time.monotonic() >= self.until_s:
            self.collector.finish()
            return
        self.collector.emit((self.number,), self.number)
        self.number += 1
        self.counted.add()

    def ack(self, message_id: int) -> None:
        self.acked += 1

    def fail(self, message_id: int, failure: Any) -> None:
        self.failed += 1

    def result(self) -> dict[str, Any]:
        return {**self.counted.result(), "emitted": self.number, "acked": self.acked, "failed": self.failed}


class Slow(BasicBolt):
    def __init__(self, service_s: float) -> None:
        self.service_s = service_s

    def prepare(self, context: Any) -> None:
        self.counted, self.number, self.disorder = Counted(), 0, 0
        self.free_s = 0.0

    def execute(self, tup: Tuple, collector: BasicCollector) -> None:
        now_s = time.monotonic()
        self.free_s = max(self.free_s, now_s - LATE_S) + self.service_s
        if self.free_s > now_s:
            time.sleep(self.free_s - now_s)
        self.disorder += tup["number"] != self.number
        self.number += 1
        self.counted.add()

    def result(self) -> dict[str, Any]:
        return {**self.counted.result(), "done": self.number, "disorder": self.disorder}


def topology(seconds: str, service_s: str) -> Topology:
    """Arguments are text, as of the command line."""
    builder = TopologyBuilder()
    builder.set_spout("numbers", Numbers(float(seconds)))
    builder.set_bolt("slow", Slow(float(service_s))).shuffle_grouping("numbers")
    return builder.create_topology("w9")
