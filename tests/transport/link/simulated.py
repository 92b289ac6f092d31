"""Processes with links to one another in a simulated world, which does them every harm; and what must hold there."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from functools import partial

from aiostorm.testing.simulation import World, world_loop
from aiostorm.testing.simulation.process import Process
from aiostorm.transport import Link, Links, PeerStarted, SequenceLimits

HEALED_S = 60.0
"""Within that all must have come, once nothing is wrong any more: silence costs 3 s, a try to connect 5 s."""


FAULTS = ("weather", "cut", "hang_up", "crash", "freeze", "clock")


class Town:
    """Every process has a link to every other, and always sends: the numbers 0, 1, 2 … in each incarnation."""

    def __init__(self, world: World, names: str) -> None:
        self.world = world
        self.incarnations: dict[str, int] = {}  # name → incarnation
        self.links: dict[tuple[str, str], Link] = {}
        self.offered: dict[tuple[str, str], int] = {}  # how many, by its present incarnation
        self.last: dict[tuple[int, str], tuple[int, int]] = {}  # (sender, receiver) → (receiver's incarnation, number)
        self.happened: Counter[str] = Counter()
        self.talking = True
        self._kept: list[object] = []
        self.processes = {name: world.process(name, self._main) for name in names}
        for process in self.processes.values():
            process.start()

    # -- a process ---------------------------------------------------------------------------------------------------

    async def _main(self, process: Process) -> None:
        me = process.name
        links = Links(
            me,
            process.network,
            on_payload=partial(self._got, process),
            on_peer=partial(self._met, process),
            rng=process.rng,
            limits=SequenceLimits(max_frames=16, max_bytes=2000),
        )
        self.incarnations[me] = links.incarnation
        self._kept.append(asyncio.current_task())  # a dead process's tasks are left where they stand
        async with links, asyncio.TaskGroup() as group:
            for peer in self.processes:
                if peer != me:
                    self.offered[me, peer] = 0
                    link = self.links[me, peer] = links.open(peer, f"{peer}:1" if me < peer else None)
                    group.create_task(self._talk(process, link))
            await links.listen(f"{me}:1")

    async def _talk(self, process: Process, link: Link) -> None:
        chance = process.rng.generator()
        words = b"%d %%d " % self.incarnations[process.name]
        while True:
            await asyncio.sleep(chance.expovariate(5.0))
            if self.talking:
                number = self.offered[process.name, link.peer]
                await link.send(words % number + bytes(chance.randrange(300)))
                self.offered[process.name, link.peer] = number + 1

    def _met(self, process: Process, peer: str, started: PeerStarted) -> None:
        if process.effect():
            self.happened["incarnations"] += 1
            self.happened["dropped"] += started.dropped
            if started.greeting != peer.encode():
                self.world.problem(f"{process.name} takes {started.greeting!r} for {peer}")

    def _got(self, process: Process, peer: str, payload: bytes) -> None:
        if not process.effect():
            return
        self.happened["came"] += 1
        incarnation = self.incarnations[process.name]
        sender, number = map(int, payload.split()[:2])
        before_incarnation, before = self.last.get((sender, process.name), (0, -1))
        # To one incarnation nothing is missing, before a later one there may be; nothing comes twice, nothing early.
        if number != before + 1 if before_incarnation == incarnation else number <= before:
            self.world.problem(f"{process.name} gets number {number} of {peer} after {before}")
        self.last[sender, process.name] = (incarnation, number)

    # -- what happens to them ----------------------------------------------------------------------------------------

    async def suffer(self, faults: random.Random, for_s: float) -> None:
        """Faults, one after another, some of them at the same time."""
        end_s = self.world.now_s + for_s
        kinds = [kind for kind in FAULTS if faults.random() < 0.6] or [faults.choice(FAULTS)]
        async with asyncio.TaskGroup() as group:
            while self.world.now_s < end_s:
                await asyncio.sleep(faults.expovariate(1.0))
                kind = faults.choice(kinds)
                self.happened[kind] += 1
                group.create_task(getattr(self, f"_{kind}")(faults, 10.0 ** faults.uniform(-2, 1.3)))

    async def _weather(self, faults: random.Random, for_s: float) -> None:
        path = self.world.switch.path(*faults.sample(sorted(self.processes), 2))
        path.breaks, path.refuses = faults.choice((0.0, 0.01, 0.1)), faults.choice((0.0, 0.0, 1.0))
        path.lag_s = faults.choice((0.0, 0.0, 0.5, 3.0))
        path.narrowed_bytes_s = faults.choice((0.0, 0.0, 2e3, 1e5))
        await asyncio.sleep(for_s)
        path.breaks = path.refuses = path.lag_s = path.narrowed_bytes_s = 0.0

    async def _cut(self, faults: random.Random, for_s: float) -> None:
        path = self.world.switch.path(*faults.sample(sorted(self.processes), 2))
        self.world.switch.set_cut(path, True)
        await asyncio.sleep(for_s)
        self.world.switch.set_cut(path, False)

    async def _hang_up(self, faults: random.Random, for_s: float) -> None:
        one, other = faults.sample(sorted(self.processes), 2)
        switch = self.world.switch
        faults.choice((switch.break_between, switch.halve_between, switch.silence_between))(one, other)

    async def _crash(self, faults: random.Random, for_s: float) -> None:
        process = self.processes[faults.choice(sorted(self.processes))]
        process.crash()
        await asyncio.sleep(for_s)
        if not process.alive:
            process.start()

    async def _freeze(self, faults: random.Random, for_s: float) -> None:
        self.processes[faults.choice(sorted(self.processes))].pause(for_s)

    async def _clock(self, faults: random.Random, for_s: float) -> None:
        process = self.processes[faults.choice(sorted(self.processes))]
        process.clock.set_rate(faults.uniform(0.9, 1.1), self.world.now_s)
        await asyncio.sleep(for_s)
        process.clock.set_rate(1.0, self.world.now_s)

    # -- what must be, once all is well ------------------------------------------------------------------------------

    async def heal(self) -> None:
        """Nothing is wrong any more."""
        for path in self.world.switch.paths():
            self.world.switch.set_cut(path, False)
        for process in self.processes.values():
            if not process.alive:
                process.start()
        await asyncio.sleep(
            max(0.0, *(process.processor.paused_until_s - self.world.now_s for process in self.processes.values()))
        )

    async def recover(self) -> None:
        """All links come back, and all that is said from then on comes."""
        await self.heal()
        await self.world.until(self._all_linked, HEALED_S, "every link")
        await asyncio.sleep(5.0)
        self.talking = False
        await self.world.until(self._all_acked, HEALED_S, "every payload")
        for (me, peer), offered in self.offered.items():
            assert self.last[self.incarnations[me], peer] == (self.incarnations[peer], offered - 1), (
                f"{me} to {peer}: {offered} were offered"
            )

    def _all_linked(self) -> bool:
        return all(link.established for link in self.links.values())

    def _all_acked(self) -> bool:
        return not any(link.unacked_frames for link in self.links.values())


def live(seed: int, names: str = "abc", for_s: float = 60.0) -> Counter[str]:
    """One world from its begin to its end. What happened in it."""
    loop = world_loop(seed)

    async def run() -> Counter[str]:
        town = Town(loop.world, names)
        await asyncio.sleep(1.0)
        await town.suffer(random.Random(seed), for_s)
        await town.recover()
        return town.happened

    with asyncio.Runner(loop_factory=lambda: loop) as runner:
        happened = runner.run(run())
    assert not loop.world.problems, loop.world.problems
    return happened
