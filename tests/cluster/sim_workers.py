"""A parent and its workers in a simulated world: the real programs of both, processes and network simulated."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from aiostorm import LocalCluster
from aiostorm.cluster import LifecycleTimings
from aiostorm.testing.simulation import World
from aiostorm.testing.simulation.process import Process

from ..simulation.backend import WorldBackend, shared_store
from ..simulation.worlds import in_world


class SimBackend(WorldBackend):
    """Also counts how often each process has started, and keeps the exit codes."""

    target = "tests.cluster.test_workers:topology"
    """What workers that are started by hand may import."""

    def __init__(self, parent: Process) -> None:
        super().__init__(parent)
        self.starts: dict[str, int] = {}
        self.codes: list[tuple[str, int]] = []

    def by_hand(self, name: str) -> Process:
        """A process that a user starts on another machine: `aiostorm worker --name NAME --connect …`."""

        async def program(process: Process) -> None:
            await self.run(process, name, self.address, self.listen(name), self.target)

        return self.parent.world.process(name, program)

    async def run(self, process: Process, name: str, parent: str, listen: str, target: str) -> int:
        self.starts[process.name] = self.starts.get(process.name, 0) + 1
        code = await super().run(process, name, parent, listen, target)
        self.codes.append((process.name, code))
        return code


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
                    workers=workers,
                    remote_workers=remote,
                    backend=backend,
                    rng=process.rng,
                    timings=timings,
                    open_store=lambda place: shared_store(process, place),
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
