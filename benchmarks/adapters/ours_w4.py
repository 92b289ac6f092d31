"""aiostorm does W4 with bare actors: no Storm noun in sight."""

from __future__ import annotations

import asyncio

from aiostorm import Actor, ActorSystem, Ref

from ..cells import Outcome
from ..clocking import Stopwatch, run_in
from ..w3 import check
from ..w4 import CAPACITY, check_reply


class Answer(Actor):
    def receive(self, message: int) -> int:
        return message + 1


class Receiver(Actor):
    """Adds up so many messages, then says so."""

    def __init__(self, size: int, everything: asyncio.Event) -> None:
        self.size = size
        self.everything = everything
        self.count = 0
        self.total = 0

    def receive(self, message: int) -> None:
        self.count += 1
        self.total += message
        if self.count == self.size:
            self.everything.set()


def ask(size: int, loop: str) -> Outcome:
    """Round trips, one after the other, each with the default timeout."""
    return run_in(loop, _ask(size))  # type: ignore[no-any-return]


def tell(size: int, loop: str, senders: int = 1) -> Outcome:
    """Messages to one actor, from plain asyncio tasks."""
    return run_in(loop, _tell(size, senders))  # type: ignore[no-any-return]


async def _ask(size: int) -> Outcome:
    async with ActorSystem(mailbox_capacity=CAPACITY) as system:
        actor = system.spawn(Answer)
        with Stopwatch() as watch:
            for number in range(size):
                check_reply(number, await actor.ask(number))
    return Outcome(size, watch.wall_s, watch.cpu_s)


async def _tell(size: int, senders: int) -> Outcome:
    everything = asyncio.Event()
    receiver = Receiver(size, everything)
    async with ActorSystem(mailbox_capacity=CAPACITY) as system:
        actor = system.spawn(receiver)
        with Stopwatch() as watch:
            async with asyncio.TaskGroup() as group:
                for first in range(senders):
                    group.create_task(_send(actor, first, size, senders))
            await everything.wait()
    check(size, receiver.count, receiver.total)
    return Outcome(size, watch.wall_s, watch.cpu_s)


async def _send(actor: Ref, first: int, size: int, senders: int) -> None:
    for number in range(first, size, senders):
        await actor.tell(number)
