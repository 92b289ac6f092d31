"""Actors of two processes: ask, tell and watch, as if they were in one.

    python -m examples.actors_two_processes

One process starts another, asks its counter, hands it a ref of its own, and sees it die.
"""

from __future__ import annotations

import asyncio
import sys

from aiostorm.actors import Actor, ActorSystem, Ref, Terminated
from aiostorm.runtime import ChildLine, PythonSpawner, die_with_parent
from aiostorm.transport import Node, WebSocketNetwork


class Counter(Actor):
    """Counts words, and notifies the interested actors of each tenth."""

    def __init__(self) -> None:
        self.words = 0

    async def receive(self, message: tuple[str, Ref | None]) -> int:
        """What it returns is the reply, if it was asked."""
        text, interested = message
        for _ in text.split():
            self.words += 1
            if interested is not None and self.words % 10 == 0:
                await interested.tell(self.words)
        return self.words


class Reader(Actor):
    """Receives a message for every tenth word, and one at the counter's end."""

    def __init__(self, counter: Ref) -> None:
        self.counter = counter
        self.over = asyncio.Event()

    def started(self) -> None:
        """Watch: the counter may be anywhere."""
        self.watch(self.counter)

    def receive(self, message: object) -> None:
        """Print what was received."""
        match message:
            case Terminated(ref, error):
                print(f"{ref.path} has ended: {error}")
                self.over.set()
            case words:
                print(f"received: {words} words")


async def count() -> None:
    """The other process: a node that offers a counter. It says where it listens, and lives as long as its parent."""
    async with (
        WebSocketNetwork() as network,
        ActorSystem("counting") as system,
        Node("counting", network, system) as node,
    ):
        node.offer("counter", system.spawn(Counter))
        node.link("reading")  # it dials us
        print(await node.listen("127.0.0.1:0"))
        await asyncio.Event().wait()


async def read() -> None:
    """This process: start the other one, and use its counter."""
    address: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    spawner = PythonSpawner("examples.actors_two_processes", lambda line: said(line, address))
    child = await spawner.spawn("counting", ["count"])
    async with (
        WebSocketNetwork() as network,
        ActorSystem("reading") as system,
        Node("reading", network, system) as node,
    ):
        node.link("counting", await address)
        counter = node.ref("counting", "counter")
        reader = Reader(counter)
        interested = system.spawn(reader)
        print("words so far:", await counter.ask(("the cow jumped over the moon", interested)))
        print("and now:", await counter.ask(("an apple a day keeps the doctor away", interested)))
        child.kill()
        await child.wait()
        node.lose("counting", "it was killed")  # it has ended; the link would wait for it
        await reader.over.wait()


def said(line: ChildLine, address: asyncio.Future[str]) -> None:
    """The first line that the other process prints is where it listens."""
    if not address.done():
        address.set_result(line.text)


if __name__ == "__main__":
    die_with_parent()
    asyncio.run(count() if sys.argv[1:] == ["count"] else read())
