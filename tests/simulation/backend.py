"""WorldBackend: where the workers of a parent in a simulated world run: as simulated processes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import replace
from types import TracebackType
from typing import Self

from aiostorm import Topology
from aiostorm.cluster import WorkerOptions, work
from aiostorm.cluster.worker.importing import import_target
from aiostorm.runtime.processes import ChildLine, Spawner
from aiostorm.testing.simulation.disk import SimStore
from aiostorm.testing.simulation.process import Process
from aiostorm.testing.simulation.spawner import SimSpawner
from aiostorm.transport import Network, Node


class WorldBackend:
    """A WorkerBackend whose workers are simulated processes. `importer`: how they find a topology."""

    workers = 0
    start_limit_s = None
    is_apart = False
    paths: Sequence[str] = ()
    arguments: Sequence[str] = ()
    secret = b""
    any_code = False
    outlive_s: float | None = None
    """How long workers go on without a parent; None: they end with it."""

    def __init__(self, parent: Process) -> None:
        self.parent = parent
        self.importer: Callable[[str, tuple[str, ...]], Topology] = import_target

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

    async def run(self, process: Process, name: str, parent: str, listen: str, target: str) -> int:
        """Run a worker to its end; the exit code."""
        leave = asyncio.Event()
        process.current.on_terminate = leave.set
        options = WorkerOptions(name, parent, listen, process.incarnation, targets=(target,), any_code=self.any_code)
        return await work(
            replace(options, outlive_s=self.outlive_s),
            process.network,
            leave,
            importer=self.importer,
            open_store=lambda place: shared_store(process, place),
            rng=process.rng,
        )

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        return None


def shared_store(process: Process, place: str) -> SimStore:
    """The store of a place that all processes reach, for one of them."""
    store = SimStore(process.current, process.world.disk(place))
    process.current.at_death.append(store.process_died)
    return store
