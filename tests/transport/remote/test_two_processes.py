"""Refs between two real processes, over real sockets."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from aiostorm.actors import Actor, ActorSystem, Ref
from aiostorm.runtime.processes import Child, ChildLine, PythonSpawner
from aiostorm.transport import LinkTimings, Node, PeerLostError, WebSocketNetwork

from .nodes import Watcher

pytestmark = pytest.mark.sockets

TIMINGS = LinkTimings(first_retry_s=0.01, drain_s=0.5)


class Listener(Actor):
    def __init__(self) -> None:
        self.received = asyncio.Event()

    def receive(self, message: object) -> None:
        self.received.set()


@asynccontextmanager
async def far_process() -> AsyncIterator[tuple[Child, str]]:
    """A process, and the address at which its node listens."""
    started: asyncio.Future[str] = asyncio.get_running_loop().create_future()

    def printed(line: ChildLine) -> None:
        if not started.done():
            started.set_result(line.text)

    child = await PythonSpawner("tests.transport.remote.far_node", printed).spawn("far", [])
    try:
        async with asyncio.timeout(60):
            address = await started
        yield child, address
    finally:
        child.kill()
        await child.wait()


@asynccontextmanager
async def near() -> AsyncIterator[Node]:
    async with (
        WebSocketNetwork() as network,
        ActorSystem("near") as system,
        Node("near", network, system, timings=TIMINGS) as node,
    ):
        yield node


async def test_actors_of_two_processes_talk() -> None:
    async with far_process() as (child, address), near() as node:
        node.link("far", address)
        ref = node.ref("far", "far")
        assert await ref.ask("pid") == child.pid
        assert await asyncio.gather(*(ref.ask(number) for number in range(300))) == list(range(1, 301))
        for number in range(300, 2000):
            await ref.tell(number)
        assert await ref.ask("all") == tuple(range(2000))
        listener = Listener()
        await ref.tell(("tell", node.system.spawn(listener), "back"))
        async with asyncio.timeout(60):
            await listener.received.wait()
        await ref.tell("end")
        async with asyncio.timeout(60):
            assert await child.wait() == 0


async def test_a_process_that_is_killed_and_one_that_takes_its_place() -> None:
    watcher = Watcher()
    async with near() as node:
        ref: Ref = node.ref("far", "far")
        async with far_process() as (child, address):
            node.link("far", address)
            first = await ref.ask("pid")
            watching = node.system.spawn(watcher)
            await watching.tell(ref)
            await ref.tell("die")
            asked = asyncio.ensure_future(ref.ask("is it running?", timeout_s=None))
            await child.wait()
            await asyncio.sleep(0.05)
            assert not asked.done(), "no report says that it is dead, and not only cut off"
            node.lose("far", "it was seen to die")
            with pytest.raises(PeerLostError, match="it was seen to die"):
                await asked
            await ref.wait_terminated()
        async with far_process() as (child, address):
            node.link("far", address)
            assert await ref.ask("pid") == child.pid != first
        assert [type(message.error) for message in watcher.received] == [PeerLostError]


async def test_the_blocks_own_error_is_raised_as_it_was() -> None:
    with pytest.raises(ValueError, match="mine"):
        async with near():
            raise ValueError("mine")
