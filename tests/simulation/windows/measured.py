"""Measured in one process, on virtual time: how long silent inputs hold windows back, and what an idle day costs.

    python -m tests.simulation.windows.measured      the table in docs/reliability.md

Input tasks speak every 50 ms, until one after another falls silent without an end. A window is *held back* from when it
has ended, and each silent input has been silent for the idle timeout, until it fires.
"""

from __future__ import annotations

import asyncio
import random
from dataclasses import dataclass, field
from typing import Any

from aiostorm import BasicBolt, Bolt, Config, Fields, LocalCluster, Spout, Topology, TopologyBuilder
from aiostorm.testing.simulation import World, world_loop
from aiostorm.testing.simulation.process import Process
from aiostorm.windows import Count, Tumbling, WindowedBolt

IDLE_MS = 2_000
INTERVAL_MS = 200
SIZE_MS = 500
STEP_S = 0.05
SPEAK_S = 15.0
DAY_S = 86_400.0


@dataclass
class Talk:
    """What happens. `stops_s`: when each input task falls silent (true seconds); or do they emit watermarks?"""

    world: World
    stops_s: list[float]
    emits_watermarks: bool
    through: bool
    said_s: dict[int, float] = field(default_factory=dict)
    """Input task → when it spoke last; if never, when it could have."""
    fired_s: dict[int, float] = field(default_factory=dict)

    def __deepcopy__(self, memo: Any) -> Talk:
        return self

    @property
    def held_s(self) -> list[float]:
        """Of each window."""
        held = []
        for end_ms, at_s in self.fired_s.items():
            silent = [said_s + IDLE_MS / 1000 for said_s in self.said_s.values() if int(said_s * 1000) < end_ms]
            held.append(at_s - max([end_ms / 1000, *silent]))
        return held


class Speaker(Spout):
    outputs = Fields("at")

    def __init__(self, talk: Talk) -> None:
        self.talk = talk
        self.watermarks = talk.emits_watermarks  # type: ignore[misc]

    def open(self, context: Any, collector: Any) -> None:
        self.collector = collector
        self.index = context.task_index
        self.talk.said_s[self.index] = self.talk.world.now_s

    async def next_tuple(self) -> None:
        now_s = self.talk.world.now_s
        if now_s >= self.talk.stops_s[self.index]:
            await asyncio.Event().wait()  # for ever
        self.talk.said_s[self.index], at_ms = now_s, int(now_s * 1000)
        self.collector.emit((at_ms,))
        if self.talk.emits_watermarks:
            self.collector.emit_watermark(at_ms)
        await asyncio.sleep(STEP_S)


class Pass(BasicBolt):
    outputs = Fields("at")

    def execute(self, tup: Any, collector: Any) -> None:
        collector.emit(tup.values)


class Clerk(Bolt):
    """Notes when a window fires."""

    def __init__(self, talk: Talk) -> None:
        self.talk = talk

    def prepare(self, context: Any, collector: Any) -> None:
        self.collector = collector

    def execute(self, tup: Any) -> None:
        self.talk.fired_s[tup["end"]] = self.talk.world.now_s
        self.collector.ack(tup)


def _topology(talk: Talk) -> Topology:
    builder = TopologyBuilder()
    builder.set_spout("speakers", Speaker(talk), len(talk.stops_s))
    source = "speakers"
    if talk.through:
        builder.set_bolt("pass", Pass()).shuffle_grouping(source)
        source = "pass"
    counted = WindowedBolt(Tumbling(SIZE_MS), Count(), timestamp="at")
    builder.set_bolt("windows", counted).global_grouping(source)
    builder.set_bolt("clerk", Clerk(talk)).global_grouping("windows")
    return builder.create_topology()


async def _run(world: World, talk: Talk, after_s: float) -> int:
    """Until all are silent, and so long after that. How many callbacks were run then, in all of that time."""
    ending = asyncio.Event()
    config = Config(watermark_idle_timeout_ms=IDLE_MS, watermark_interval_ms=INTERVAL_MS)

    async def main(process: Process) -> None:
        async with LocalCluster(rng=process.rng) as cluster:
            running = await cluster.submit("talk", _topology(talk), config)
            await ending.wait()
            await running.kill()

    process = world.process("talk", main)
    process.start()
    await asyncio.sleep(max(talk.stops_s) + 3 * IDLE_MS / 1000)
    before = world.scheduler.steps
    await asyncio.sleep(after_s)
    steps = world.scheduler.steps - before
    process.loop.call_soon(ending.set)
    await world.until(lambda: not process.alive, 60.0, "the end of the process")
    world.check()
    return steps


def idle(seed: int) -> Talk:
    """Two to five input tasks; all but one fall silent, some before they have said anything."""
    loop = world_loop(seed)
    chance = random.Random(seed)
    stops_s = [0.0 if chance.random() < 0.2 else chance.uniform(0.5, SPEAK_S - 4) for _ in range(chance.randint(1, 4))]
    emits_watermarks = chance.random() < 0.5
    talk = Talk(
        loop.world,
        [*stops_s, SPEAK_S],
        emits_watermarks=emits_watermarks,
        through=emits_watermarks and chance.random() < 0.5,
    )
    with asyncio.Runner(loop_factory=lambda: loop) as runner:
        runner.run(_run(loop.world, talk, 0.0))
    return talk


def day(seed: int, *, emits_watermarks: bool) -> int:
    """24 hours after the last word: steps of the world, of which the one that sleeps through it takes a few."""
    loop = world_loop(seed)
    talk = Talk(loop.world, [1.0, 2.0, 3.0], emits_watermarks=emits_watermarks, through=emits_watermarks)
    with asyncio.Runner(loop_factory=lambda: loop) as runner:
        return runner.run(_run(loop.world, talk, DAY_S))


def main() -> None:
    """Figures of 100 seeds, and of a day."""
    talks = [idle(seed) for seed in range(100)]
    held = sorted(held_s for talk in talks for held_s in talk.held_s)
    print(
        f"{len(talks)} seeds, {len(held)} windows: held back {held[len(held) // 2]:.3f} s in the median, "
        f"{held[-1]:.3f} s at most (interval {INTERVAL_MS / 1000:g} s)"
    )
    print(f"24 idle hours: {day(0, emits_watermarks=False)} and {day(0, emits_watermarks=True)} steps")


if __name__ == "__main__":
    main()
