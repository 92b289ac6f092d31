"""A cluster of many nodes in virtual time: the real nimbus, supervisors and parents, over a store in memory."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from typing import Final, NoReturn

from aiostorm.cluster.coordination import CoordinationError, MemoryStore
from aiostorm.cluster.nimbus import (
    PARENTS,
    Nimbus,
    ParentRecord,
    SupervisorRecord,
    TopologyRecord,
    make_folders,
    path_of,
    submit,
    unpack,
)
from aiostorm.cluster.submitted import ParentPlace, ParentProcess, SubmittedTopology
from aiostorm.cluster.supervisor import Supervisor, SupervisorSeams
from aiostorm.runtime import LoopClock

from .counted import Book, Counted
from .stand_ins import Launching, Notes, Processes, hosted

SLOTS: Final = 2
WORKERS: Final = 10
"""Of a topology."""

CONFIG: Final[dict[str, str | int | float | bool | None]] = {
    "topology.max.spout.pending": 1000,
    "topology.message.timeout.secs": 60,
    "topology.acker.executors": 2,
    "topology.state.interval": 10.0,
}


class CountedCluster:
    """Some daemons. `daemons`: their tasks, by name."""

    def __init__(self, group: asyncio.TaskGroup) -> None:
        self.clock = LoopClock()
        self.store = MemoryStore(self.clock)
        self.book = Book()
        self.daemons: dict[str, asyncio.Task[None]] = {}
        self._group = group

    @contextlib.asynccontextmanager
    async def client(self, role: str) -> AsyncIterator[Counted]:
        """A client with a session of its own, whose requests are counted."""
        async with self.store.client() as client:
            yield Counted(client, self.book, role)

    def start_nimbus(self, name: str) -> None:
        """Start one."""

        async def program() -> None:
            async with self.client("nimbus") as client:
                await Nimbus(client, self.clock, name.encode()).run()

        self.daemons[name] = self._group.create_task(program(), name=name)

    def start_supervisor(self, name: str) -> None:
        """Start one, with the parents and the workers that it will have."""

        async def program() -> None:
            async with asyncio.TaskGroup() as group:
                processes = Processes(group, lambda topology, stop: self._parent(topology, name, stop))
                seams = SupervisorSeams(lambda: self.client("supervisor"), processes, Notes(), Launching())
                record = SupervisorRecord(name, f"{name}.example", SLOTS, "0.1.0", boot="0" * 36)
                await Supervisor(name, record, seams, self.clock).run(asyncio.Event())

        self.daemons[name] = self._group.create_task(program(), name=name)

    async def kill(self, name: str) -> None:
        """The machine is away: its daemon, and the parents and workers that it runs."""
        task = self.daemons.pop(name)
        task.cancel()
        await asyncio.wait([task])

    async def submit(self, name: str) -> None:
        """Submit a topology of WORKERS workers."""
        record = TopologyRecord(
            "jobs.orders:topology",
            blob="0" * 64,
            config=CONFIG,
            workers=WORKERS,
            submitted_by="user@host",
            submitted_s=self.clock.now(),
        )
        async with self.client("client") as client:
            await submit(client, name, record)

    def states(self, names: list[str]) -> list[str]:
        """What the parents have written; read from the tree, and not counted."""
        found = []
        for name in names:
            node = self.store.tree.nodes.get(path_of(PARENTS, name))
            found.append("" if node is None else unpack(ParentRecord, PARENTS, node.value).state)
        return found

    async def until(self, condition: Callable[[], bool], within_s: float = 120.0) -> None:
        """Wait until something is so."""
        async with asyncio.timeout(within_s):
            while not condition():  # noqa: ASYNC110  (the store has no watch for this)
                await asyncio.sleep(0.1)

    async def make(self) -> None:
        """The folders."""
        async with self.store.client() as client:
            await make_folders(client)

    # -- inside --------------------------------------------------------------------------------------------------------

    async def _parent(self, name: str, supervisor: str, stop: asyncio.Event) -> None:
        async def serve(running: object) -> None:
            await asyncio.Event().wait()

        def leave(code: int) -> NoReturn:
            raise asyncio.CancelledError

        place = ParentPlace(supervisor, f"{supervisor}.example", 4711, "4026531836-4711-123456")
        around = ParentProcess(lambda *_: hosted(), leave, serve, lambda record: False)
        with contextlib.suppress(CoordinationError):
            async with self.client("parent") as client:
                await SubmittedTopology(name, client, self.clock, place, around).run(stop)
