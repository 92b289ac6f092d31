"""Nodes whose actors tell, ask and watch one another, in a simulated world that does them every harm."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from typing import Any

from aiostorm.actors import Actor, ActorSystem, AskTimeoutError, Terminated
from aiostorm.runtime import AiostormError
from aiostorm.testing.simulation import world_loop
from aiostorm.testing.simulation.process import Process
from aiostorm.transport import Node, PeerLostError, SequenceLimits

from ..link.simulated import HEALED_S, Town


class Listener(Actor):
    """Receives numbers, in order and each once; answers with its incarnation and the number."""

    def __init__(self, village: Village, process: Process, incarnation: int) -> None:
        self.village = village
        self.process = process
        self.incarnation = incarnation
        self.last: dict[tuple[str, int, str], int] = {}

    def receive(self, message: tuple[str, int, str, int]) -> tuple[int, int]:
        sender, sender_incarnation, what, number = message
        if self.process.effect():
            self.village.happened[what] += 1
            key = sender, sender_incarnation, what
            last = self.last.get(key)
            # No tell between two incarnations is missing. There are many questions at a time, and late ones.
            if last is not None and (number != last + 1 if what == "tell" else number <= last):
                self.village.world.problem(f"{self.process.name} receives {what} {number} of {sender} after {last}")
            self.last[key] = number
            self.village.taken[sender, sender_incarnation, self.process.name, self.incarnation] = self.last.get(
                (sender, sender_incarnation, "tell"), -1
            )
        return self.incarnation, number


class Slow(Actor):
    """Answers after a while: perhaps the process that has asked is another one by then."""

    def __init__(self, process: Process) -> None:
        self.chance = process.rng.generator()

    async def receive(self, message: tuple[str, int, str, int]) -> tuple[str, int]:
        await asyncio.sleep(self.chance.choice((0.0, 0.1, 2.0)))
        return message[0], message[3]


class Watcher(Actor):
    """Is notified of each end of another's listener, and watches the next."""

    def __init__(self, village: Village, process: Process, ref: Any) -> None:
        self.village = village
        self.process = process
        self.target = ref

    def started(self) -> None:
        self.watch(self.target)

    def receive(self, message: Terminated) -> None:
        if not isinstance(message.error, PeerLostError) or message.ref != self.target:
            self.village.world.problem(f"{self.process.name} receives {message}")
        if self.process.effect():
            self.village.ends[self.process.name, self.process.incarnation, self.target.node] += 1
            self.watch(self.target)


class Village(Town):
    """As a town, but they are nodes. Every process tells and asks every other."""

    def __init__(self, world: Any, names: str) -> None:
        self.taken: dict[tuple[str, int, str, int], int] = {}
        self.sent: dict[tuple[str, int, str], int] = {}
        self.ends: Counter[tuple[str, int, str]] = Counter()
        self.met: Counter[tuple[str, int, str]] = Counter()
        self.answered: Counter[str] = Counter()
        super().__init__(world, names)

    async def _main(self, process: Process) -> None:
        me, incarnation = process.name, process.incarnation
        system = ActorSystem(me, rng=process.rng, mailbox_capacity=4)
        limits = SequenceLimits(max_frames=16, max_bytes=2000)
        self._kept.append(asyncio.current_task())
        async with system, Node(me, process.network, system, limits=limits) as node, asyncio.TaskGroup() as group:
            self.incarnations[me] = incarnation
            node.offer("listener", system.spawn(Listener(self, process, incarnation)))
            node.offer("slow", system.spawn(Slow(process)))
            node.on_peer(lambda peer, started: self._met_node(process, peer))
            for peer in self.processes:
                if peer != me:
                    self.links[me, peer] = node.link(peer, f"{peer}:1" if me < peer else None)
                    ref = node.ref(peer, "listener")
                    system.spawn(Watcher(self, process, ref), f"watcher-of-{peer}")
                    group.create_task(self._tell(process, ref))
                    group.create_task(self._ask(process, ref))
                    for _ in range(3):
                        group.create_task(self._ask(process, node.ref(peer, "slow")))
            await node.listen(f"{me}:1")

    def _met_node(self, process: Process, peer: str) -> None:
        if process.effect():
            self.met[process.name, process.incarnation, peer] += 1

    async def _tell(self, process: Process, ref: Any) -> None:
        chance, incarnation, number = process.rng.generator(), process.incarnation, 0
        while True:
            await asyncio.sleep(chance.expovariate(4.0))
            if self.talking:
                try:
                    await ref.tell((process.name, incarnation, "tell", number))
                except PeerLostError:
                    continue  # it was not sent
                self.sent[process.name, incarnation, ref.node] = number
                number += 1

    async def _ask(self, process: Process, ref: Any) -> None:
        chance, incarnation, number = process.rng.generator(), process.incarnation, 0
        if ref.key == "slow":
            number = chance.randrange(10**9)
        while True:
            await asyncio.sleep(chance.expovariate(2.0))
            if not self.talking:
                continue
            number += 1
            outcome = "answer"
            try:
                answer = await ref.ask((process.name, incarnation, "ask", number), timeout_s=chance.uniform(0.1, 10.0))
                if answer[1] != number:
                    self.world.problem(f"{process.name} asked {ref.path} {number}, and was answered {answer}")
            except (AskTimeoutError, PeerLostError) as error:
                outcome = type(error).__name__
            except AiostormError as error:
                self.world.problem(f"{process.name} asked {ref.path}: {error!r}")
            if process.effect():
                self.answered[outcome] += 1

    def _all_acked(self) -> bool:
        return super()._all_acked() and not any(self.missing())

    def missing(self) -> Any:
        """Tells that were sent between two that live, and have not come."""
        for (sender, incarnation, peer), number in self.sent.items():
            taken = self.taken.get((sender, incarnation, peer, self.incarnations[peer]), -1)
            if self.incarnations[sender] == incarnation and taken != number:
                yield sender, peer, number

    async def recover(self) -> None:
        await self.heal()
        await self.world.until(self._all_linked, HEALED_S, "every link")
        await asyncio.sleep(15.0)
        self.talking = False
        await self.world.until(self._all_acked, HEALED_S, f"every tell: {list(self.missing())}")
        for name, process in self.processes.items():
            for peer in self.processes:
                key = name, process.incarnation, peer
                if peer != name:
                    assert self.ends[key] == self.met[key] - 1, (
                        key,
                        self.ends[key],
                        self.met[key],
                        "ends that were reported, incarnations that began",
                    )


def live(seed: int, names: str = "abc", for_s: float = 60.0) -> tuple[Counter[str], Counter[str]]:
    """One world from its begin to its end. What happened, and what became of questions."""
    loop = world_loop(seed)

    async def run() -> Village:
        village = Village(loop.world, names)
        await asyncio.sleep(1.0)
        await village.suffer(random.Random(seed), for_s)
        await village.recover()
        return village

    with asyncio.Runner(loop_factory=lambda: loop) as runner:
        village = runner.run(run())
    assert not loop.world.problems, loop.world.problems
    return village.happened, village.answered
