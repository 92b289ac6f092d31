"""Workers with the real parent: a LocalCluster in a process of its own starts them, and starts them again.

    parent: LocalCluster(workers=N, backend=…) ── SimSpawner ──► worker-1 … worker-N: cluster.work

Task sets are observed as they are made: each is given a router that looks (workers/program.py).
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

from aiostorm import LocalCluster, RunningTopology, Topology, TopologyFailedError
from aiostorm.cluster import WorkerError
from aiostorm.cluster.hosting import Hosting
from aiostorm.cluster.local_runtime import LocalRuntime
from aiostorm.cluster.worker.peer_links import PeerLinks
from aiostorm.testing.simulation.process import Process
from aiostorm.transport import Node

from ..backend import WorldBackend
from ..planted.planting import replaced
from .program import Watched

if TYPE_CHECKING:
    from .world import WorkersWorkload

PARENT = "parent"
TARGET = f"{__name__}:current"
ENDS = (0, 69, 143)
"""Exit codes of a worker that are no error."""

_topologies: list[Topology] = []


def current() -> Topology:
    """The topology of the world that runs: what workers import."""
    return _topologies[-1]


class SpawnedWorker(Watched):
    """A worker that its parent has started."""

    def __init__(self, work: WorkersWorkload, name: str) -> None:
        super().__init__(work, name)
        self._result = 0

    async def main(self, process: Process) -> None:
        """Its parent says what it runs."""

    @property
    def emits(self) -> bool:
        return self.process.alive and self._result == self.process.incarnation and self.exchange.begun

    def begins(self, system: Any, node: Node) -> Any:
        """Its tasks are about to be made. Returns the router for them."""
        self.incarnation = self.work.model.begins(self.name, self.process)
        self._result = self.process.incarnation
        return self.watch(system, node)


@contextlib.contextmanager
def observed_task_sets(work: WorkersWorkload) -> Iterator[None]:
    """In the block, every task set of the world is observed by its worker."""
    real = LocalRuntime.__init__
    of = {program.process.name: program for program in work.programs if isinstance(program, SpawnedWorker)}

    def init(self: LocalRuntime, system: Any, *args: Any, hosting: Hosting | None = None, **options: Any) -> None:
        if hosting is None or not work.spawned:
            real(self, system, *args, hosting=hosting, **options)
            return
        worker, links = of[work.world.current.name], cast("PeerLinks", hosting.router)
        router = worker.begins(system, cast("Node", links._node))
        real(self, system, *args, hosting=replace(hosting, router=router), **options)
        worker.task_set = self.task_set

    _topologies.append(work.topology)
    try:
        # Where this machine has its modules goes to the workers, and frames would be as long as that.
        with replaced(LocalRuntime, "__init__", init):
            yield
    finally:
        _topologies.pop()


class SpawnedBackend(WorldBackend):
    """Where the parent's workers run. An error that ends one is a problem."""

    def __init__(self, work: WorkersWorkload, parent: Process) -> None:
        super().__init__(parent)
        self._work = work

    async def run(self, process: Process, name: str, parent: str, listen: str, target: str) -> int:
        try:
            return await super().run(process, name, parent, listen, target)
        except Exception as error:
            if process.alive:
                self._work.world.problem(f"{process.name} ended with {error!r}")
            raise


class Parent:
    """The parent's program."""

    def __init__(self, work: WorkersWorkload) -> None:
        self.work = work
        self.process: Process
        self.running: RunningTopology | None = None
        self.failures: list[str] = []
        self._ending: asyncio.Future[None] | None = None

    def stop(self) -> None:
        """End it all."""
        if self._ending is not None and not self._ending.done():
            self._ending.set_result(None)

    async def main(self, process: Process) -> None:
        work = self.work
        ending = self._ending = asyncio.get_running_loop().create_future()
        try:
            async with LocalCluster(
                workers=len(work.names), backend=SpawnedBackend(work, process), rng=process.rng
            ) as cluster:
                running = self.running = await cluster.submit("spread", TARGET, work.config)
                failed = asyncio.ensure_future(running.wait_ended())
                await asyncio.wait((ending, failed), return_when=asyncio.FIRST_COMPLETED)
                if failed.done():
                    await failed
                failed.cancel()
                try:
                    await running.wait_idle(30.0)
                except TimeoutError:
                    work.world.problem("everything is at rest, and the parent does not find that it is idle")
        except (WorkerError, TopologyFailedError) as error:
            # Workers that do not stay alive while there are faults: the submitter submits it again.
            self.failures.append(str(error))
            if not work.fleet.operator.faulty and process.alive:
                work.world.problem(f"the topology failed: {error!r}")
        finally:
            if process.alive:
                self.running = None
