"""The other process of test_two_processes.py: a node with an actor, which prints its address.

python -m tests.transport.remote.far_node
"""

from __future__ import annotations

import asyncio
import os
import signal
from typing import Any

from aiostorm.actors import Actor, ActorSystem, Ref
from aiostorm.runtime.processes import die_with_parent
from aiostorm.transport import Node, WebSocketNetwork


class Far(Actor):
    """Answers, tells others, and ends its process in several ways."""

    def __init__(self, over: asyncio.Event) -> None:
        self.over = over
        self.got: list[int] = []

    async def receive(self, message: Any) -> Any:
        match message:
            case "pid":
                return os.getpid()
            case "die":
                os.kill(os.getpid(), signal.SIGKILL)
            case "end":
                self.over.set()
            case "all":
                return tuple(self.got)
            case ("tell", Ref() as ref, what):
                await ref.tell(what)
            case int():
                self.got.append(message)
                return message + 1
        return None


async def main() -> None:
    over = asyncio.Event()
    async with (
        WebSocketNetwork() as network,
        ActorSystem("far") as system,
        Node("far", network, system) as node,
    ):
        node.link("near")
        node.offer("far", system.spawn(Far(over)))
        print(await node.listen("127.0.0.1:0"), flush=True)
        await over.wait()


if __name__ == "__main__":
    die_with_parent()
    asyncio.run(main())
