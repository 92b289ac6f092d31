"""What runs: a source that could do ten times as much, a bolt that passes on, and the slow one.

Groupings: shuffle, or by key where one of eleven is slow. What shuffle knows of load is whether a target's mailbox is
past its high mark: then its turns go to others. It is the same under all ways; but under Heron's, mailboxes are so
large that it never happens, as in Heron, where a shuffle does not look at load.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Any, Final

from aiostorm import (
    AckValueSpout,
    BasicBolt,
    BasicCollector,
    Fields,
    SpoutCollector,
    Topology,
    TopologyBuilder,
    TopologyContext,
    Tuple,
)

from .slowness import PER_S, SERVICE_S, Slowness
from .tally import Tally

TIMES: Final = 10
"""What the source could do, as a multiple of what the slow bolt bears."""
SPOUTS: Final = 4
PASSES: Final = 2
_GAP_S: Final = SPOUTS / (TIMES * PER_S)
_BEHIND_S: Final = 0.01
"""What a source has not given for longer than this, it does not give later: it is not a queue."""
_LATE_S: Final = 0.05
"""A task begins its next tuple where the last ended, if it is notified no later: timers and event loops are late."""


class Run:
    """What the tasks of a run share: clock, tally, and whether it is over."""

    def __init__(self, slowness: Slowness, tally: Tally, clock: Callable[[], float] = time.perf_counter) -> None:
        self.slowness = slowness
        self.tally = tally
        self.over = False
        self._clock = clock
        self._began_s = clock()

    def begin(self) -> None:
        """Now is 0."""
        self._began_s = self._clock()

    def now_s(self) -> float:
        """Seconds since it began."""
        return self._clock() - self._began_s


class Source(AckValueSpout):
    """Gives numbers at its rate, as long as it is asked. A failed one is emitted again by the framework."""

    outputs = Fields("spout", "number", "emitted_s")

    def __init__(self, run: Run) -> None:
        self.run = run

    def open(self, context: TopologyContext, collector: SpoutCollector) -> None:
        self.collector = collector
        self.place = context.task_index
        self.due_s = 0.0

    def next_tuple(self) -> None:
        now_s = self.run.now_s()
        if self.run.over:
            self.collector.finish()
        elif now_s >= self.due_s:
            self.due_s = max(self.due_s, now_s - _BEHIND_S) + _GAP_S
            number = self.run.tally.emit(self.place)
            self.collector.emit((self.place, number, now_s), number)

    def ack(self, message_id: Any, values: Any) -> None:
        now_s = self.run.now_s()
        self.run.tally.ack(self.place, message_id, now_s, now_s - values[2])


class Pass(BasicBolt):
    outputs = Fields("spout", "number")

    def execute(self, tup: Tuple, collector: BasicCollector) -> None:
        collector.emit((tup["spout"], tup["number"]))


class Slow(BasicBolt):
    """Waits for something that takes its time."""

    def __init__(self, run: Run) -> None:
        self.run = run

    def prepare(self, context: TopologyContext) -> None:
        self.speed = self.run.slowness.speeds[context.task_index]
        self.free_s = 0.0

    async def execute(self, tup: Tuple, collector: BasicCollector) -> None:
        now_s = self.run.now_s()
        self.free_s = self.speed.end(max(self.free_s, now_s - _LATE_S), SERVICE_S)
        if self.free_s > now_s and not self.run.over:
            await asyncio.sleep(self.free_s - now_s)
        self.run.tally.execute(tup["spout"], tup["number"])


def topology(run: Run) -> Topology:
    """All of it, in this process."""
    builder = TopologyBuilder()
    builder.set_spout("source", lambda: Source(run), SPOUTS)
    builder.set_bolt("pass", Pass, PASSES).shuffle_grouping("source")
    slow = builder.set_bolt("slow", lambda: Slow(run), len(run.slowness.speeds))
    if run.slowness.keyed:
        slow.fields_grouping("pass", Fields("spout", "number"))
    else:
        slow.shuffle_grouping("pass")
    return builder.create_topology("backpressure")
