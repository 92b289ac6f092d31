"""The programs of a cluster's processes in a simulated world: the real ones, over a store in memory."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Collection
from contextlib import asynccontextmanager
from typing import NoReturn

from aiostorm import Config, LocalCluster, RunningTopology
from aiostorm.cluster import WorkerOptions, work
from aiostorm.cluster.coordination import Coordination, MemoryStore
from aiostorm.cluster.coordination.memory import MemoryBackend
from aiostorm.cluster.coordination.polled import open_polled
from aiostorm.cluster.nimbus import ParentRecord, TopologyRecord
from aiostorm.cluster.submitted import ParentPlace, ParentProcess, SubmittedTopology
from aiostorm.runtime import LoopClock
from aiostorm.testing.simulation.process import Process

from ..backend import WorldBackend, shared_store

LEASE_S = 60.0
"""How long a worker goes on without its parent."""


class Ways:
    """The store, and each process's way to it. `at_once`: does a session end with its process, as on one machine?"""

    def __init__(self, store: MemoryStore, *, at_once: bool = True) -> None:
        self.store = store
        self.at_once = at_once
        self.by_process: dict[str, MemoryBackend] = {}

    @asynccontextmanager
    async def client(self, process: Process) -> AsyncIterator[Coordination]:
        """A client with a session of its own."""
        way = self.by_process[process.name] = self.store.backend()
        async with open_polled(way, LoopClock(), "the store", ends_at_once=self.at_once) as client:
            process.current.at_death.append(way.process_died if self.at_once else lambda crashed: way.forgotten())
            yield client


class _AtAddress(WorldBackend):
    """A parent listens at this address."""

    def __init__(self, parent: Process, address: str) -> None:
        super().__init__(parent)
        self._address = address

    @property
    def address(self) -> str:
        return self._address


async def _answers_none(running: RunningTopology) -> None:
    """There are no control sockets in a simulated world."""


async def run_parent(process: Process, ways: Ways, name: str, supervisor: str, address: str, on_leave: object) -> int:
    """The program of `aiostorm parent`. `on_leave`: is called with the exit code when it leaves."""
    stop = asyncio.Event()
    process.current.on_terminate = stop.set

    def make(topology: TopologyRecord, workers: Collection[str], abandoned: Callable[[str, int], None]) -> LocalCluster:
        return LocalCluster(
            Config(state_dir="sim://state"),
            remote_workers=list(workers),
            backend=_AtAddress(process, address),
            rng=process.rng,
            open_store=lambda place: shared_store(process, place),
            on_abandoned=abandoned,
        )

    def leave(code: int) -> NoReturn:
        if callable(on_leave):
            on_leave(code)
        process.kill("leaves")
        raise asyncio.CancelledError  # nothing of it runs any more

    def has_ended(record: ParentRecord) -> bool:
        return False  # the store says it

    async with ways.client(process) as coordination:
        place = ParentPlace(supervisor, "host", process.incarnation)
        around = ParentProcess(make, leave, _answers_none, has_ended)
        return await SubmittedTopology(name, coordination, LoopClock(), place, around).run(stop)


async def run_worker(
    process: Process, name: str, parent: str | Callable[[], str], target: str, generation: int, pid: int
) -> int:
    """The program of `aiostorm worker`, as supervisors start it. `parent`: its address, or what reads that."""
    leave = asyncio.Event()
    process.current.on_terminate = leave.set
    at, find = (parent, None) if isinstance(parent, str) else ("", parent)
    options = WorkerOptions(
        name,
        at,
        f"{process.name}:1",
        pid,
        targets=(target,),
        outlive_s=LEASE_S,
        find_parent=find,
        generation=generation,
    )
    return await work(
        options,
        process.network,
        leave,
        open_store=lambda place: shared_store(process, place),
        rng=process.rng,
    )
