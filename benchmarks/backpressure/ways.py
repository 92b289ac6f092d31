"""Ways to hold spouts back: none but hop by hop, Heron's, a limit of what is pending, ours.

Heron's way, as its stream manager does it (apache/incubator-heron, heron/stmgr/src/cpp/manager/instance-server.cpp:
`StartBackPressureConnectionCb` to `AttemptStopBackPressureFromSpouts`; heron/common/src/cpp/network/connection.cpp):

    a connection's buffer ≥ high mark, on more than 3 packets in a row ─► it is a cause ─► no spout is read any more
    its buffer ≤ low mark ─► it is a cause no more;  no cause left, in any stream manager ─► all spouts are read again

1. The buffers are counted in bytes there: 50 MB is high, 30 MB is low, for each bolt's task. At 100 bytes a tuple and
   100,000 tuples/s these are 5 and 3 seconds of what a task does. So they are here: 1,000 and 600 tuples of 5 ms. (By
   bytes it would be half an hour at our rate: every tuple would time out.)
2. Mailboxes are the buffers, and many times as large as the high mark: their own gates never close.
3. A look is taken each 10 ms: as often as Heron drains what it has gathered for a task (`cache.drain.frequency.ms`), so
   a look stands for a packet.
4. Spouts are stopped by deactivating them, which takes effect at once; in Heron a spout goes on until its own small
   queue is full.

Mailboxes that hold a time are ours: under all other ways they hold a number of tuples.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from aiostorm import Config, RunningTopology

from .slowness import SERVICE_S

NONE, HERON, PENDING, OURS = "none", "heron", "pending", "ours"
TIMEOUT_S: Final = 10.0
"""Of messages: what waits for longer in queues fails, and is emitted again."""
HIGH: Final = round(5 / SERVICE_S)
LOW: Final = round(3 / SERVICE_S)
_CAPACITY: Final = 100 * HIGH
PENDING_EACH: Final = 1_000
"""Messages of a spout task: all four have two seconds of the bolt's work, as many as a user would guess."""
_LOOK_S: Final = 0.01
_LOOKS_ABOVE: Final = 3
_BY_NUMBER: Final[Mapping[str, Any]] = {"topology.backpressure.enable": False, "topology.mailbox.target.ms": 0}
_BASE: Final[Mapping[str, Any]] = {
    "topology.message.timeout.secs": TIMEOUT_S,
    "topology.max.retries": 1_000_000,
    "topology.spout.wait.max.ms": 5.0,
}


@dataclass(frozen=True, slots=True)
class Way:
    """A way: its letter on the command line, its title, and what it sets."""

    name: str
    letter: str
    title: str
    settings: Mapping[str, Any] = field(default_factory=dict)

    def config(self) -> Config:
        """Of the topology."""
        return Config(**{**_BASE, **self.settings})


WAYS: Final[dict[str, Way]] = {
    way.name: way
    for way in (
        Way(NONE, "a", "hop by hop only", _BY_NUMBER),
        Way(
            HERON,
            "b",
            "Heron's way: stop all, go",
            {**_BY_NUMBER, "topology.mailbox.capacity": _CAPACITY},
        ),
        Way(PENDING, "d", "max.spout.pending alone", {**_BY_NUMBER, "topology.max.spout.pending": PENDING_EACH}),
        Way(OURS, "c", "coordinated", {"topology.backpressure.enable": True}),
    )
}


class StopAndGo:
    """Heron's rule, for looks at how full the queues are. `transitions`: how often spouts were stopped or let go."""

    def __init__(self, high: int = HIGH, low: int = LOW, above: int = _LOOKS_ABOVE) -> None:
        self.stopped = False
        self.transitions = 0
        self._high, self._low, self._above = high, low, above
        self._looks: dict[int, int] = {}
        self._causes: set[int] = set()

    def look(self, fills: Iterable[tuple[int, int]]) -> bool:
        """(Task, tuples in its queue) of all bolts. Has it changed whether spouts are stopped?"""
        for task, fill in fills:
            if task in self._causes:
                if fill <= self._low:
                    self._causes.discard(task)
                continue
            self._looks[task] = self._looks.get(task, 0) + 1 if fill >= self._high else 0
            if self._looks[task] > self._above:
                self._looks[task] = 0
                self._causes.add(task)
        was, self.stopped = self.stopped, bool(self._causes)
        self.transitions += was is not self.stopped
        return was is not self.stopped


async def stop_and_go(running: RunningTopology, rule: StopAndGo, components: Iterable[str]) -> None:
    """Steer a running topology by it, until it is cancelled."""
    while True:
        await asyncio.sleep(_LOOK_S)
        seen = running.metrics()
        if rule.look((task.task_id, task.fill) for name in components for task in seen[name].tasks):
            await (running.deactivate() if rule.stopped else running.activate())
