"""What is measured in the world of pressure: how soon all is over when a cause has ended, and what an idle day costs.

python -m tests.simulation.pressure.measured        the distributions, over 100 seeds
"""

from __future__ import annotations

import asyncio
import logging
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, replace

from aiostorm.testing.simulation import World, world_loop

from .scene import Load, Stint
from .world import PressureWorkload, UnknownMessage

LOOKS = 20
"""In a check interval."""

DAY_S = 86_400.0

MARKS = {
    # The defaults, and mailboxes that are not too small to be looked at; else as the seed says.
    "backpressure_sample_number": 4,
    "backpressure_sample_rate": 0.75,
    "backpressure_trigger_ratio": 0.1,
    "backpressure_high_mark": 0.8,
    "backpressure_low_mark": 0.05,
    "mailbox_capacity_tuples": 20,
    "mailbox_target_ms": 0,
    "max_spout_pending": None,
}


@dataclass(frozen=True, slots=True)
class Release:
    """Seconds from the moment at which no bolt is slow any more. None: it was not THROTTLED then."""

    rate_s: float
    """Until every spout emits what it is asked for, and goes on doing so."""
    normal_s: float
    """Until no spout waits, no bolt is flagged and all is NORMAL, and stays so."""


class Releasing(PressureWorkload):
    """Every third control message is lost, all the while; the master dies within five intervals of the end."""

    def __init__(self, world: World, interval_s: float, *, harmed: bool = True) -> None:
        super().__init__(world, "none", None, 160.0, interval_s=interval_s)
        self.shape = replace(self.shape, config=self.shape.config.merge(MARKS))
        self.harmed = harmed
        for name, load in self.scene.loads.items():
            slowest_s = max(stint.takes_s for stint in load.stints)
            self.scene.loads[name] = Load([Stint(self.from_s, self.until_s, slowest_s)], load.slow)
        for demand in self.scene.demands.values():
            demand.most = 10 + 4 * demand.rate * self.interval_s
        self.held_s = self.other_s = 0.0

    async def measure(self) -> Release | None:
        """Until all is over."""
        world, step_s = self.world, self.interval_s
        self.process.start()
        await world.until(lambda: self.watch is not None, 1.0, "the start")
        mailboxes, watch = self.mailboxes, self.watch
        assert mailboxes is not None
        assert watch is not None
        if self.harmed and world.seed % 2:
            mailboxes.every = 3
        elif self.harmed:
            mailboxes.loss = 1 / 3
        if self.harmed:
            world.call_at(self.until_s + (10 * self.chance.random() - 5) * step_s, self.kill_master)
        await world.until(lambda: world.now_s >= self.until_s, self.until_s, "the end of the cause")
        throttled = self.running.backpressure().state == "THROTTLED"
        self.held_s = self.other_s = world.now_s
        end_s = world.now_s + 40 * step_s
        while throttled and world.now_s < end_s:
            if any(d.waiting > 2 + d.rate * step_s / 2 for d in self.scene.demands.values()):
                self.held_s = world.now_s
            if watch.unsettled:
                self.other_s = world.now_s
            await asyncio.sleep(step_s / LOOKS)
        self.process.loop.call_soon(self.ending.set)
        await world.until(lambda: not self.process.alive, 60.0, "the end of the process")
        return Release(self.held_s - self.until_s, self.other_s - self.until_s) if throttled else None

    def kill_master(self) -> None:
        task_set = self.running._task_set
        self.process.loop.call_soon(task_set.tasks.mailboxes[task_set.tasks.plan.master].post, UnknownMessage())


def release(seed: int, interval_s: float, *, harmed: bool = True) -> Release | None:
    """One seed."""
    loop = world_loop(seed)
    disabled = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    try:
        with asyncio.Runner(loop_factory=lambda: loop) as runner:
            return runner.run(Releasing(loop.world, interval_s, harmed=harmed).measure())
    finally:
        logging.disable(disabled)


@dataclass(frozen=True, slots=True)
class Day:
    """24 idle hours. `steps`: of the world; `messages`: about pressure."""

    events: int
    messages: int
    steps: int
    emitted: int
    acked: int


class Idling(PressureWorkload):
    """A tuple a minute, or none."""

    def __init__(self, world: World, *, trickle: bool) -> None:
        super().__init__(world, "none", None, 100.0, kind="line", interval_s=1.0)
        self.shape = replace(self.shape, config=self.shape.config.merge({**MARKS, "spout_wait_max_ms": 60_000.0}))
        for name in self.scene.loads:
            self.scene.loads[name] = Load()
        for demand in self.scene.demands.values():
            demand.rate = 1 / 60
            demand.over = not trickle

    async def measure(self) -> Day:
        """A day."""
        world = self.world
        self.process.start()
        await asyncio.sleep(DAY_S)
        task_set = self.running._task_set
        master = task_set.tasks.master
        assert master is not None
        assert self.mailboxes is not None
        demands = self.scene.demands.values()
        result = Day(
            master.event_count,
            self.mailboxes.counts.total(),
            world.scheduler.steps,
            sum(demand.emitted for demand in demands),
            sum(demand.acked for demand in demands),
        )
        self.process.loop.call_soon(self.ending.set)
        await world.until(lambda: not self.process.alive, 60.0, "the end of the process")
        world.check()
        return result


def day(seed: int, *, trickle: bool) -> Day:
    """One seed."""
    loop = world_loop(seed)
    with asyncio.Runner(loop_factory=lambda: loop) as runner:
        return runner.run(Idling(loop.world, trickle=trickle).measure())


def _shown(values: Sequence[float]) -> str:
    cuts = statistics.quantiles(values, n=20, method="inclusive")
    return f"{statistics.median(values):.2f} | {cuts[18]:.2f} | {max(values):.2f}"


def main() -> None:
    """The table: 100 seeds that were THROTTLED, for each interval."""
    print("| check interval | faults | rate back, median | p95 | most | NORMAL, median | p95 | most |")
    print("|---|---|---|---|---|---|---|---|")
    for interval_s in (0.1, 1.0):
        for harmed in (False, True):
            found: list[Release] = []
            seed = 0
            while len(found) < 100:
                one = release(seed, interval_s, harmed=harmed)
                found += [one] if one is not None else []
                seed += 1
            rates, normals = [one.rate_s for one in found], [one.normal_s for one in found]
            how = "every third message, the master" if harmed else "none"
            print(f"| {interval_s:g} s | {how} | {_shown(rates)} | {_shown(normals)} |", flush=True)
    for trickle in (True, False):
        print(day(0, trickle=trickle))


if __name__ == "__main__":
    main()
