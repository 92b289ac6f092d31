"""Arrow: in the world of pressure, does the cause arrow of the page lead from each spout that waits to a slow bolt?

At each look, twice in a check interval, it compares what the page says (ui/cause.py) with what was drawn for the world:
which bolts are slow, and which edges there are. Nothing is lost and nothing dies: then what it says must be so.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
from collections.abc import Sequence
from dataclasses import dataclass, field

from aiostorm.testing.simulation import World, world_loop
from aiostorm.ui.cause import causes
from aiostorm.ui.model import Cause
from aiostorm.ui.reading import targets_of

from .world import PressureWorkload

FAULTS_S = 160.0


@dataclass
class Arrows:
    """What was seen in one world. `right`: arrows that were; `unknown`: waits without a reason; `wrong`: in words."""

    kind: str
    looks: int = 0
    right: int = 0
    unknown: int = 0
    wrong: list[str] = field(default_factory=list)


class Arrowed(PressureWorkload):
    """It looks, and is at its end with the time in which bolts are slow."""

    def __init__(self, world: World) -> None:
        super().__init__(world, "none", None, FAULTS_S)
        self.arrows = Arrows(self.shape.kind)
        self.targets = targets_of(self.shape.topology)
        self.slow = frozenset(self.scene.loads)

    async def measure(self) -> Arrows:
        """Until the bolts are slow no more."""
        world = self.world
        self.process.start()
        await world.until(lambda: world.now_s >= self.from_s, self.from_s, "the first slow bolt")
        while world.now_s < self.until_s:
            await asyncio.sleep(self.interval_s / 2)
            self.compare()
        self.process.loop.call_soon(self.ending.set)
        await world.until(lambda: not self.process.alive, 60.0, "the end of the process")
        return self.arrows

    def compare(self) -> None:
        pressure = self.running.backpressure()
        found = causes(pressure, self.targets)
        self.arrows.looks += 1
        waiting = {task.component for task in pressure.spouts}
        if waiting != {cause.spout for cause in found}:
            self.arrows.wrong.append(f"{sorted(waiting)} wait, and the arrows begin at {[c.spout for c in found]}")
        for cause in found:
            if not cause.mailbox:
                self.arrows.unknown += 1
            elif problem := self.problem(cause):
                self.arrows.wrong.append(f"{self.world.now_s:.2f} {problem}: {cause}")
            else:
                self.arrows.right += 1

    def problem(self, cause: Cause) -> str:
        """Empty: it is right."""
        if cause.mailbox not in self.slow:
            return f"{cause.mailbox} is not slow, but {sorted(self.slow)} are"
        if (cause.path[0], cause.path[-1]) != (cause.spout, cause.mailbox):
            return "it does not lead from the spout to the mailbox"
        if any(b not in self.targets[a] for a, b in _steps(cause.path)):
            return "a step is no edge"
        return "" if cause.mailbox in cause.words and cause.spout in cause.words else "the words name others"


def _steps(path: Sequence[str]) -> list[tuple[str, str]]:
    return list(itertools.pairwise(path))


def arrows(seed: int) -> Arrows:
    """One seed."""
    loop = world_loop(seed)
    disabled = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    try:
        with asyncio.Runner(loop_factory=lambda: loop) as runner:
            return runner.run(Arrowed(loop.world).measure())
    finally:
        logging.disable(disabled)
