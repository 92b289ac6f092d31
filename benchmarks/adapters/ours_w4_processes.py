"""aiostorm does W4 between two processes: a node each, refs by name."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

from aiostorm import Actor, ActorSystem, Ref
from aiostorm.transport import Node, SocketNetwork

from ..cells import Outcome
from ..clocking import Stopwatch, run_in
from ..processes import other_process
from ..w3 import check
from ..w4 import CAPACITY, check_reply


class Answer(Actor):
    def receive(self, message: int) -> int:
        return message + 1


class Receiver(Actor):
    """Adds up, and says what it has when it is asked."""

    def __init__(self) -> None:
        self.count = 0
        self.total = 0

    def receive(self, message: int | None) -> tuple[int, int] | None:
        if message is None:
            return self.count, self.total
        self.count += 1
        self.total += message
        return None


def ask(size: int, loop: str, at_a_time: int = 1) -> Outcome:
    """Round trips, each with the default timeout, from so many asyncio tasks."""
    return _measured(loop, lambda node: _ask(node.ref("other", "answer"), size, at_a_time))


def tell(size: int, loop: str, senders: int = 1) -> Outcome:
    """Messages to one actor, from plain asyncio tasks, until it has said that all have come."""
    return _measured(loop, lambda node: _tell(node.ref("other", "receiver"), size, senders))


@asynccontextmanager
async def serve(path: str) -> AsyncIterator[None]:
    """The other process."""
    async with (
        SocketNetwork() as network,
        ActorSystem("other", mailbox_capacity=CAPACITY) as system,
        Node("other", network, system) as node,
    ):
        node.link("measuring")
        node.offer("answer", system.spawn(Answer))
        node.offer("receiver", system.spawn(Receiver))
        await node.listen(f"unix:{path}")
        yield


def _measured(loop: str, work: Callable[[Node], Awaitable[Outcome]]) -> Outcome:
    with other_process("benchmarks.adapters.ours_w4_processes", loop) as path:
        return run_in(loop, _linked(path, work))  # type: ignore[no-any-return]


async def _linked(path: str, work: Callable[[Node], Awaitable[Outcome]]) -> Outcome:
    async with (
        SocketNetwork() as network,
        ActorSystem("measuring") as system,
        Node("measuring", network, system) as node,
    ):
        node.link("other", f"unix:{path}")
        await node.ref("other", "answer").ask(0)
        return await work(node)


async def _ask(actor: Ref, size: int, at_a_time: int) -> Outcome:
    async def asks(first: int) -> None:
        for number in range(first, size, at_a_time):
            check_reply(number, await actor.ask(number))

    with Stopwatch() as watch:
        async with asyncio.TaskGroup() as group:
            for first in range(at_a_time):
                group.create_task(asks(first))
    return Outcome(size, watch.wall_s, watch.cpu_s)


async def _tell(actor: Ref, size: int, senders: int) -> Outcome:
    async def tells(first: int) -> None:
        for number in range(first, size, senders):
            await actor.tell(number)

    with Stopwatch() as watch:
        async with asyncio.TaskGroup() as group:
            for first in range(senders):
                group.create_task(tells(first))
        count, total = await actor.ask(None)
    check(size, count, total)
    return Outcome(size, watch.wall_s, watch.cpu_s)
