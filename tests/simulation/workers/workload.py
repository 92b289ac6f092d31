"""What the worlds of topologies on several workers share: spouts wait for all bolts, and deaths are reported."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import TypeVar

from aiostorm.testing.simulation import World

from ..workload import FleetWorkload
from .model import Incarnation
from .program import Program, Watched

WatchedT = TypeVar("WatchedT", bound=Watched)


class TasksWorkload(FleetWorkload[WatchedT]):
    """Workers with a task set each."""

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self.chance: random.Random = world.chance.stream("workers")
        self.prepared: set[str] = set()
        self.superseded = 0

    def prepare(self, program: Program) -> None:
        """Its bolts are prepared. No spout is opened before every bolt of every worker was prepared once."""
        self.prepared.add(program.name)
        if len(self.prepared) == len(self.names):
            for other in self.running:
                if isinstance(other, Program):
                    other.process.loop.call_soon(other.may_open.set)

    def report_death(self, incarnation: Incarnation, incarnation_id: int) -> None:
        """The parent learns of a death, and tells the others: soon, late, or only when there is a successor."""
        if self.chance.random() < 0.8:
            # All at once, as the real one does; apart from one another is what links and partitions make of that.
            at_s = self.world.now_s + 0.002 * 2000 ** self.chance.random()
            self.world.call_at(at_s, self.notify_of_death, incarnation, incarnation_id)

    def notify_of_death(self, incarnation: Incarnation, incarnation_id: int) -> None:
        """The other workers get the report now."""
        for program in self.running:
            if program.name != incarnation[0] and isinstance(program, Program):
                program.process.loop.call_soon(program.on_death, incarnation[0], incarnation_id)

    @property
    def in_transit(self) -> Iterator[str]:
        """What workers have sent to each other, and the other one has not received: their links repeat it."""
        running = {program.name: program for program in self.running}
        if not all(program.emits for program in running.values()):
            return
        for name, program in running.items():
            for peer, sent in program.exchange.sent.items():
                received = running[peer].exchange.received.get(name, 0)
                if sent != received:
                    yield f"{name} has sent {sent} to {peer}, which has received {received}"

    def stop(self) -> None:
        """Ask all programs to end."""
        for program in self.running:
            if isinstance(program, Program):
                program.process.loop.call_soon(program.stopping.set)
