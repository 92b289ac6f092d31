"""Nodes of a test: processes with a system each, over one memory network."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

from aiostorm.actors import Actor, ActorSystem, Ref, RestartPolicy, Terminated
from aiostorm.transport import LinkTimings, Node

from ..parts import MemoryNetwork, SeededRng


class NodeProcess:
    """One incarnation of a process: an actor system and its node, which listens under its name. `end` is a crash."""

    def __init__(self, name: str, network: MemoryNetwork, **options: Any) -> None:
        network.processes += 1
        rng = SeededRng(f"{network.seed} {name} {network.processes}")
        self.name = name
        self.options = options
        self.system = ActorSystem(name, rng=rng, mailbox_capacity=options.pop("mailbox_capacity", 16))
        self.network = network
        self.node: Node
        self.lost: list[str] = []
        self.began: list[str] = []
        self._stack = AsyncExitStack()

    async def begin(self) -> NodeProcess:
        await self._stack.enter_async_context(self.system)
        self.node = Node(self.name, self.network.seen_by(self.name), self.system, **self.options)
        await self._stack.enter_async_context(self.node)
        await self.node.listen(self.name)
        self.node.on_lost(lambda peer, error: self.lost.append(f"{peer}: {error}"))
        self.node.on_peer(lambda peer, started: self.began.append(peer))
        return self

    async def end(self) -> None:
        await self._stack.aclose()

    def spawn(self, actor: Actor | Callable[[], Actor], name: str, policy: RestartPolicy | None = None) -> Ref:
        """An actor that others may use."""
        ref = self.system.spawn(actor, name, policy=policy)
        self.node.offer(name, ref)
        return ref


@asynccontextmanager
async def two(network: MemoryNetwork | None = None, **options: Any) -> AsyncIterator[tuple[NodeProcess, NodeProcess]]:
    """a and b, linked: a dials."""
    network = network or MemoryNetwork()
    options.setdefault("timings", LinkTimings(drain_s=0.1))
    a = await NodeProcess("a", network, **dict(options)).begin()
    b = await NodeProcess("b", network, **dict(options)).begin()
    try:
        a.node.link("b", "b")
        b.node.link("a")
        yield a, b
    finally:
        await a.end()
        await b.end()


class Echo(Actor):
    """Gives back what it is asked; calls a function that it is sent; keeps the rest."""

    def __init__(self) -> None:
        self.got: list[Any] = []

    def receive(self, message: Any) -> Any:
        if message == "raise":
            raise ValueError("as it was asked to")
        if message == "stop":
            self.stop()
        self.got.append(message)
        return message


class Slow(Actor):
    """Handles nothing until it is let go."""

    def __init__(self) -> None:
        self.go = asyncio.Event()
        self.got: list[Any] = []

    async def receive(self, message: Any) -> Any:
        await self.go.wait()
        self.got.append(message)
        return message


class Watcher(Actor):
    """Watches each ref that it is sent."""

    def __init__(self) -> None:
        self.received: list[Terminated] = []

    def receive(self, message: Any) -> None:
        match message:
            case Terminated():
                self.received.append(message)
            case Ref():
                self.watch(message)
            case ("not", Ref() as ref):
                self.unwatch(ref)
