"""The programs of a cluster's processes in a simulated world: the real ones, over a store in memory."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Coroutine
from typing import NoReturn

from aiostorm import Config, LocalCluster, RunningTopology
from aiostorm.cluster import WorkerOptions, work
from aiostorm.cluster.nimbus import ParentRecord, TopologyRecord
from aiostorm.cluster.submitted import ParentPlace, ParentProcess, SubmittedTopology
from aiostorm.runtime import LoopClock
from aiostorm.testing.simulation.process import Process

from ..backend import WorldBackend, shared_store
from .topology import PLACE
from .ways import Ways

LEASE_S = 60.0
"""How long a worker goes on without its parent."""


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


async def run_parent(
    process: Process,
    ways: Ways,
    name: str,
    supervisor: str,
    address: str,
    on_leave: object,
    serve: Callable[[RunningTopology], Coroutine[None, None, None]] = _answers_none,
) -> int:
    """The program of `aiostorm parent`. `on_leave`: is called with the exit code when it leaves.

    `serve`: is called with each topology that it runs.
    """
    stop = asyncio.Event()
    process.current.on_terminate = stop.set

    def make(topology: TopologyRecord, workers: Collection[str], abandoned: Callable[[str, int], None]) -> LocalCluster:
        return LocalCluster(
            Config(state_dir=PLACE),
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
        around = ParentProcess(make, leave, serve, has_ended)
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
