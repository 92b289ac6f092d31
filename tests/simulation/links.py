"""The workload of links: 2 to 5 processes, a link between each two, each sends numbered messages to all.

    run(seed) ─► a fleet of processes: Links over SimNetwork, some with a journal in their SimStore ─► LinksResult

Each message names its sender, the sender's incarnation, and its number; the model (links_model.py) checks them.
    python -m tests.simulation --world links         runs many seeds, and says what they found

The next incarnation finds what a journal has synced. A journal that fails ends its process, which is started again. The
process of the lowest name has a spare, which may be started while it runs: the links make one of them end.
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Any

from aiostorm.runtime import StoreError
from aiostorm.testing.simulation import World, world_loop
from aiostorm.testing.simulation.fleet import Fleet, FleetOutcome
from aiostorm.testing.simulation.process import Process
from aiostorm.transport import (
    MAX_BUFFERED_BYTES,
    Link,
    LinkClosedError,
    Links,
    LinkSupersededError,
    LinkTimings,
    PeerStarted,
    SequenceLimits,
)

from .journal import Journal
from .links_model import Incarnation, Model
from .narrow import is_narrow, large_size, lines_of
from .runner import WorldResult, run_world
from .workload import FleetWorkload

LOAD_AFTER_S = 2.0
"""All processes send for this time after the faults are healed."""

LIVENESS_S = 40.0
QUIET_S = (4.0, 12.0)
"""From and until then, after everything has arrived, no connection ends. (Before, one direction may be dead.)"""

WATCH_S = 0.5
LARGEST_BYTES = 100_000


@dataclass(frozen=True, slots=True, kw_only=True)
class LinksResult(WorldResult):
    processes: int
    messages: int
    frames: int
    faults: int


def run(
    seed: int,
    *,
    faults: str | Collection[str] | None = None,
    only: Collection[int] | None = None,
    faults_s: float = 60.0,
    last: int = 0,
    max_steps: int = 2_000_000,
    **options: Any,
) -> LinksResult:
    """One seed; problems are returned, not raised. `last`: how many events of the trace are in the result."""
    loop = world_loop(seed, max_steps=max_steps, **options)
    world = loop.world
    work = LinksWorkload(world, faults, only)
    with lines_of(world):
        result = run_world(seed, loop, lambda: work.run(faults_s), lambda: work.fleet.faults.script, last)
    return LinksResult(
        **result,
        processes=len(work.fleet.processes),
        messages=work.model.messages,
        frames=world.switch.counts["sent"],
        faults=len(work.fleet.faults.script),
    )


class LinksWorkload(FleetWorkload["Program"]):
    def __init__(self, world: World, faults: str | Collection[str] | None, only: Collection[int] | None) -> None:
        super().__init__(world)
        self.model = Model(world)
        self.fleet = Fleet(world, faults, only)
        self.chance = world.chance.stream("links")
        self.limits = SequenceLimits(
            max_frames=self.chance.choice((4, 16, 64, 256)),
            max_bytes=self.chance.choice((20_000, 200_000, 2_000_000)),
        )
        self.names = [f"p{i}" for i in range(self.chance.randint(2, 5))]
        self.chance.shuffle(self.names)
        self.large = 0.05 if is_narrow(world) else 0.0
        for name in self.names:
            program = Program(self, name, keeps=self.chance.random() < 0.5)
            self.add(program)
            if name == "p0":  # no peer dials it, so it may be anywhere
                self.add_spare(Program(self, name, program.keeps))
        self._starts: Counter[str] = Counter()

    def next_incarnation(self, name: str) -> Incarnation:
        """A process and its spare are of one name: their incarnations are counted together."""
        self._starts[name] += 1
        return name, self._starts[name]

    async def run(self, faults_s: float) -> FleetOutcome:
        self.load_until_s = self.world.now_s + 2.0 + faults_s + LOAD_AFTER_S
        self.quiet_from_s = float("inf")
        self.connections = 0
        self.watch()
        return await self.fleet.run(
            settled=self.settled,
            stop=self.stop,
            unsettled=self.unsettled,
            check=self.model.at_the_end,
            faults_s=faults_s,
            liveness_s=LIVENESS_S + QUIET_S[1],
        )

    def settled(self) -> bool:
        """Has everything arrived, and do idle connections live?"""
        if any(self.unsettled()):
            self.quiet_from_s = float("inf")
            return False
        now_s, connections = self.world.now_s, self.world.switch.counts["connections"]
        if now_s < self.quiet_from_s:
            self.quiet_from_s = now_s
        if now_s < self.quiet_from_s + QUIET_S[0]:
            self.connections = connections
        if connections != self.connections:
            self.world.problem("a connection ended although nothing was wrong, and another one was made")
        return now_s >= self.quiet_from_s + QUIET_S[1]

    def stop(self) -> None:
        for program in self.running:
            program.process.loop.call_soon(program.stop)

    def watch(self) -> None:
        """Every now and then: are buffers bounded?"""
        limits = self.limits
        for program in self.running:
            for link in program.links.values():
                sequence = link._sequence
                if link.unacked_frames > limits.max_frames:
                    self.world.problem(f"{program.name} has {link.unacked_frames} frames under way to {link.peer}")
                for held_bytes in (sequence.unacked_bytes, sequence.assembled_bytes):
                    if held_bytes > max(limits.max_bytes, LARGEST_BYTES):
                        self.world.problem(f"{program.name} holds {held_bytes} bytes of its link to {link.peer}")
        if self.world.switch.most_buffered_bytes > MAX_BUFFERED_BYTES + LARGEST_BYTES + 1000:
            self.world.problem(f"a connection's buffer had {self.world.switch.most_buffered_bytes} bytes")
        self.world.call_at(self.world.now_s + WATCH_S, self.watch)

    def unfinished(self) -> Iterator[str]:
        for program in self.running:
            for link in program.links.values():
                if link.unacked_frames or not link.established:
                    how = "established" if link.established else "not established"
                    yield f"{program.name} has {link.unacked_frames} unacked frames for {link.peer}, {how}"
        yield from self.model.missing([program.incarnation for program in self.running])


class Program:
    """What a process runs: the one called `name` sends to all others."""

    def __init__(self, work: LinksWorkload, name: str, keeps: bool) -> None:
        self.work = work
        self.name = name
        self.keeps = keeps
        self.chance: random.Random
        self.incarnation: Incarnation = (name, 0)
        self.links: dict[str, Link] = {}
        self.synced = 0
        self.stopping: asyncio.Event
        self.process: Process

    def stop(self) -> None:
        self.stopping.set()

    async def main(self, process: Process) -> None:
        self.links = {}
        self.stopping = asyncio.Event()
        self.incarnation = self.work.next_incarnation(self.name)
        self.chance = self.work.world.chance.stream(f"load {self.incarnation}")
        try:
            await self.run_incarnation(process)
        except* (StoreError, LinkSupersededError, LinkClosedError) as errors:
            # The disk, or another process of our name: this incarnation ends. (A send while the links end raises.)
            if errors.subgroup((StoreError, LinkSupersededError)) is None:
                raise

    async def run_incarnation(self, process: Process) -> None:
        model = self.work.model
        journal = Journal(process.store, "sent") if self.keeps else None
        if journal is not None:
            found = await journal.open()
            if len(found) < self.synced or found[: self.synced] != list(range(self.synced)):
                self.work.world.problem(f"{self.name} had {self.synced} records synced, and finds {len(found)}")
            self.synced = len(found)
        async with Links(
            self.name,
            process.network,
            on_payload=self.on_payload,
            on_peer=self.on_peer,
            rng=process.rng,
            limits=self.work.limits,
            timings=LinkTimings(),
        ) as links:
            model.begins(self.incarnation, links.incarnation)
            await links.listen(f"{process.name}:1")
            async with asyncio.TaskGroup() as group:
                for peer in self.work.names:
                    if peer != self.name:
                        self.links[peer] = links.open(peer, f"{peer}:1" if self.name < peer else None)
                        group.create_task(self.load(self.links[peer]), name=f"{self.name} loads {peer}")
                if journal is not None:
                    group.create_task(self.keep(journal), name=f"{self.name} keeps")
            await self.stopping.wait()

    async def load(self, link: Link) -> None:
        """Send, in bursts; now and then a large one; here and there by `offer`, which does not wait."""
        world, chance = self.work.world, self.chance
        pace_s = 10 ** chance.uniform(-0.5, 2.0)
        while world.now_s < self.work.load_until_s:
            for _ in range(int(10 ** chance.uniform(0, 1.7))):
                payload = self.message(link.peer)
                if chance.random() < 0.2:
                    taken = link.offer(payload)
                else:
                    await link.send(payload)
                    taken = True
                if taken:
                    self.work.model.sends(self.incarnation, link.peer)
            await asyncio.sleep(min(pace_s * chance.random(), max(0.1, self.work.load_until_s - world.now_s)))

    def message(self, peer: str) -> bytes:
        size = int(10 ** self.chance.uniform(0, 3))
        if self.chance.random() < 0.01:
            size = self.chance.randint(1, LARGEST_BYTES - 100)
        if self.work.large and self.chance.random() < self.work.large:
            size = large_size(self.chance, LARGEST_BYTES - 100)
        number = self.work.model.next_number(self.incarnation, peer)
        return (
            f"{self.incarnation[0]} {self.incarnation[1]} {peer} {number} {size} ".encode()
            + bytes([number % 256]) * size
        )

    async def keep(self, journal: Journal) -> None:
        """Put numbers into the journal; what was synced is never lost."""
        added = self.synced
        while self.work.world.now_s < self.work.load_until_s:
            numbers = list(range(added, added + self.chance.randint(1, 5)))
            await journal.add(numbers)
            added += len(numbers)
            self.synced = added
            await asyncio.sleep(self.chance.random())

    def on_payload(self, peer: str, payload: bytes) -> None:
        if self.process.alive:
            source, incarnation, target, number, size, rest = payload.split(b" ", 5)
            if (source.decode(), target.decode()) != (peer, self.name):
                self.work.world.problem(f"{self.name} gets from {peer} a message of {source!r} to {target!r}")
            if not len(rest) == rest.count(int(number) % 256) == int(size):
                self.work.world.problem(f"{self.name} gets message {int(number)} of {peer}, and it is another's bytes")
            self.work.model.comes(self.incarnation, (peer, int(incarnation)), int(number))

    def on_peer(self, peer: str, started: PeerStarted) -> None:
        if self.process.alive:
            self.work.model.on_peer_started(self.incarnation, peer, started.incarnation, started.dropped)
