"""What the world of pressure is about: what spouts have to emit, and bolts that are slow when a schedule says so.

    Demand ─ offered at a rate, a backlog at the most ─► DemandSpout ─► Slow (bolt): a tuple takes what its Stint says
       ▲ acked, or failed and offered again ────────────────────────────────────┘

1. A demand keeps what is open: a message is acked once, and what fails is offered again before anything else.
2. A bolt that hangs takes until the end of its stint, so does each of its tasks.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Self

from aiostorm import Bolt, Spout
from aiostorm.testing.simulation import World

FIELDS = ("n", "hops")


class TaskDiesError(Exception):
    """Raised by a bolt on purpose."""


@dataclass(frozen=True, slots=True)
class Stint:
    """From `from_s` to `to_s` a tuple takes `takes_s` (0: nothing), or, if it `hangs`, until the end."""

    from_s: float
    to_s: float
    takes_s: float
    hangs: bool = False


@dataclass
class Load:
    """How slow a bolt is. `slow` are the indices of its tasks that are slow at all."""

    stints: Sequence[Stint] = ()
    slow: frozenset[int] = frozenset()

    def takes_s(self, index: int, now_s: float) -> float:
        """What a tuple that is begun now takes."""
        if index in self.slow:
            for stint in self.stints:
                if stint.from_s <= now_s < stint.to_s:
                    return stint.to_s - now_s if stint.hangs else stint.takes_s
        return 0.0


class Demand:
    """What one spout has to emit: `rate` a second, of which at the most `most` wait; what comes then is not offered."""

    def __init__(self, world: World, name: str, rate: float, most: float) -> None:
        self.world = world
        self.name = name
        self.rate = rate
        self.most = most
        self.emitted = 0
        self.acked = 0
        self.open: set[int] = set()
        self.again: deque[int] = deque()
        self.over = False
        self.rests_until_s = 0.0
        """Nothing is offered until then."""
        self.emptied_s = world.now_s
        """When nothing waited, the last time."""
        self._waiting = 0.0
        self._seen_s = world.now_s
        self._next = 0

    @property
    def waiting(self) -> int:
        """So many tuples would be emitted now, if they might."""
        now_s = self.world.now_s
        if not self.over and now_s >= self.rests_until_s:
            self._waiting = min(self.most, self._waiting + (now_s - self._seen_s) * self.rate)
        self._seen_s = now_s
        found = int(self._waiting) + len(self.again)
        if not found:
            self.emptied_s = now_s
        return found

    @property
    def next_s(self) -> float:
        """So long until there is one more."""
        return (1.0 - self._waiting % 1.0) / self.rate

    def end(self) -> None:
        """Nothing more is offered; what waits is not any more."""
        self.over, self._waiting = True, 0.0

    def take(self) -> int | None:
        """A message to emit."""
        if not self.waiting:
            return None
        if self.again:
            message = self.again.popleft()
        else:
            self._waiting -= 1
            message = self._next = self._next + 1
        self.open.add(message)
        self.emitted += 1
        return message

    def settle(self, message: Any, failed: bool) -> None:
        """The framework says what became of a message."""
        if message not in self.open:
            self.world.problem(f"message {message} of {self.name} is settled, but it is not open")
            return
        self.open.discard(message)
        if failed:
            self.again.append(message)
        else:
            self.acked += 1


@dataclass
class Scene:
    """One world of pressure: what its components share."""

    world: World
    loads: dict[str, Load] = field(default_factory=dict)
    demands: dict[str, Demand] = field(default_factory=dict)
    doomed: set[int] = field(default_factory=set)
    """Bolt tasks that raise at their next tuple."""
    executed: int = 0
    progress_s: dict[str, float] = field(default_factory=dict)
    """Bolt → when it had something to do, the last time."""
    overfilled: set[str] = field(default_factory=set)
    """Bolts that close a cycle: what is sent to them never waits."""

    def __deepcopy__(self, memo: Any) -> Self:
        return self


class DemandSpout(Spout):
    """A spout that emits what its demand has. `waits`: in `next_tuple`, or by emitting nothing."""

    outputs = FIELDS

    def __init__(self, scene: Scene, name: str, poll_s: float, *, waits: bool) -> None:
        self.scene, self.name, self.poll_s, self.waits = scene, name, poll_s, waits

    def open(self, context: Any, collector: Any) -> None:
        self.collector = collector
        self.demand = self.scene.demands[self.name]

    def next_tuple(self) -> Any:
        message = self.demand.take()
        if message is not None:
            self.collector.emit((message % 17, 0), message_id=message)
            return None
        return self._later() if self.waits and not self.demand.over else None

    async def _later(self) -> None:
        await asyncio.sleep(max(self.demand.next_s, self.poll_s))

    def ack(self, message_id: Any) -> None:
        self.demand.settle(message_id, failed=False)

    def fail(self, message_id: Any, failure: Any) -> None:
        self.demand.settle(message_id, failed=True)


class Slow(Bolt):
    """A bolt that takes its time, and emits `fan_out` tuples for each, up to so many hops from the spout."""

    outputs = FIELDS

    def __init__(self, scene: Scene, name: str, fan_out: int, hops: int = 99) -> None:
        self.scene, self.name, self.fan_out, self.hops = scene, name, fan_out, hops

    def prepare(self, context: Any, collector: Any) -> None:
        self.collector, self.index, self.task_id = collector, context.task_index, context.task_id
        self.load = self.scene.loads.setdefault(self.name, Load())

    def execute(self, tup: Any) -> Any:
        scene = self.scene
        scene.progress_s[self.name] = scene.world.now_s
        if self.task_id in scene.doomed:
            scene.doomed.discard(self.task_id)
            raise TaskDiesError(f"{self.name}[{self.task_id}] dies")
        takes_s = self.load.takes_s(self.index, scene.world.now_s)
        if takes_s:
            return self._later(tup, takes_s)
        self._done(tup)
        return None

    async def _later(self, tup: Any, takes_s: float) -> None:
        await asyncio.sleep(takes_s)
        self._done(tup)

    def _done(self, tup: Any) -> None:
        n, hops = tup.values
        if hops < self.hops:
            for i in range(self.fan_out):
                self.collector.emit((n + i, hops + 1), anchors=tup)
        self.scene.executed += 1
        self.scene.progress_s[self.name] = self.scene.world.now_s
        self.collector.ack(tup)
