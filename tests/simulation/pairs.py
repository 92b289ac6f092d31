"""Two processes with a connection: what tests of the simulated network use."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from aiostorm.testing.simulation import World
from aiostorm.testing.simulation.connection import SimConnection
from aiostorm.testing.simulation.process import Process
from aiostorm.transport import (
    ConnectionLostError,
)

from .worlds import in_world


class Pair:
    """Processes a and b, connected; `received` is what each has received."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.ends: dict[str, SimConnection] = {}
        self.received: dict[str, list[bytes]] = {"a": [], "b": []}
        self.lost: dict[str, float] = {}
        self.reading = {"a": True, "b": True}
        self.a = world.process("a", self._connect)
        self.b = world.process("b", self._listen)

    async def begin(self) -> None:
        self.b.start()
        await asyncio.sleep(0.01)
        self.a.start()
        await asyncio.sleep(2)

    async def _listen(self, process: Process) -> None:
        await process.network.listen("b:1", lambda connection: self._serve(process, connection))
        await asyncio.get_running_loop().create_future()

    async def _connect(self, process: Process) -> None:
        self._serve(process, await process.network.connect("b:1"))
        await asyncio.get_running_loop().create_future()

    def _serve(self, process: Process, connection: object) -> None:
        assert isinstance(connection, SimConnection)
        self.ends[process.name] = connection
        if self.reading[process.name]:
            process.spawn(self._read(process.name, connection), "reader")

    async def _read(self, name: str, connection: SimConnection) -> None:
        try:
            while True:
                self.received[name].append(await connection.receive())
        except ConnectionLostError:
            self.lost[name] = self.world.now_s


def pair_test(work: Callable[[Pair], Awaitable[None]], seed: int = 0, *, b_reads: bool = True) -> None:
    async def run(world: World) -> None:
        pair = Pair(world)
        pair.reading["b"] = b_reads
        await pair.begin()
        await work(pair)

    in_world(run, seed)
