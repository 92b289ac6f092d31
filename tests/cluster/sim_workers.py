"""A parent and its workers in a simulated world: the real programs of both, processes and network simulated."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from types import TracebackType
from typing import Any, Self

from aiostorm import LocalCluster, Topology
from aiostorm.cluster import LifecycleTimings, WorkerOptions, work
from aiostorm.cluster.worker.importing import import_target
from aiostorm.runtime import ChildLine, Spawner
from aiostorm.testing.simulation import World
from aiostorm.testing.simulation.process import Process
from aiostorm.testing.simulation.spawner import SimSpawner
from aiostorm.transport import Network, Node

from ..simulation.worlds import in_world


class SimBackend:
    """A WorkerBackend whose workers are simulated processes. `importer`: how they find a topology."""

    workers = 0
    start_limit_s = None
    is_apart = False
    paths: Sequence[str] = ()
    arguments: Sequence[str] = ()
    secret = b""
    target = "tests.cluster.test_workers:topology"
    """What those that are started by hand may import."""
    any_code = False

    def __init__(self, parent: Process) -> None:
        self.parent = parent
        self.importer: Callable[[str, tuple[str, ...]], Topology] = import_target
        self.starts: dict[str, int] = {}
        self.codes: list[tuple[str, int]] = []

    @property
    def network(self) -> Network:
        return self.parent.network

    @property
    def address(self) -> str:
        return f"{self.parent.name}:1"

    def listen(self, worker: str, before: str = "") -> str:
        return before or f"{worker}:1"

    def spawner(self, on_line: Callable[[ChildLine], None], node: Node) -> Spawner:
        return SimSpawner(self.parent, {"worker": self.worker}, on_line)

    async def worker(self, process: Process, arguments: Sequence[str]) -> None:
        """The program of `aiostorm worker`, without its command line."""
        given = dict(zip(arguments[::2], arguments[1::2], strict=True))
        code = await self.run(process, given["--name"], given["--connect"], given["--listen"], given["--target"])
        if code:
            raise SystemExit(code)

    def by_hand(self, name: str) -> Process:
        """A process that a user starts on another machine: `aiostorm worker --name NAME --connect …`."""

        async def program(process: Process) -> None:
            await self.run(process, name, self.address, self.listen(name), self.target)

        return self.parent.world.process(name, program)

    async def run(self, process: Process, name: str, parent: str, listen: str, target: str) -> int:
        """From its start to its end; the exit code."""
        self.starts[process.name] = self.starts.get(process.name, 0) + 1
        leave = asyncio.Event()
        process.current.on_terminate = leave.set
        options = WorkerOptions(name, parent, listen, process.incarnation, targets=(target,), any_code=self.any_code)
        code = await work(
            options,
            process.network,
            leave,
            importer=self.importer,
            rng=process.rng,
        )
        self.codes.append((process.name, code))
        return code

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        return None


Story = Callable[[World, LocalCluster, SimBackend], Coroutine[Any, Any, None]]


def with_workers(
    story: Story,
    *,
    workers: int = 2,
    remote: int = 0,
    seed: int = 0,
    order: str | None = None,
    timings: LifecycleTimings | None = None,
) -> SimBackend:
    """Tell a story in the parent of so many workers, and of so many that are started by hand. `order`: see World."""
    backends: list[SimBackend] = []

    async def run(world: World) -> None:
        ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        errors: list[BaseException] = []

        async def parent(process: Process) -> None:
            backend = SimBackend(process)
            backends.append(backend)
            try:
                cluster = LocalCluster(
                    workers=workers, remote_workers=remote, backend=backend, rng=process.rng, timings=timings
                )
                async with cluster:
                    await story(world, cluster, backend)
            except BaseException as error:
                errors.append(error)
            finally:
                if process.alive:
                    world.driver.loop.call_soon(ended.set_result, None)

        world.process("parent", parent).start()
        await ended
        await world.until(lambda: not any(p.alive for p in world.processes.values()), 30, "the end of all")
        if errors:
            raise errors[0]

    in_world(run, seed, order=order)
    return backends[0]
