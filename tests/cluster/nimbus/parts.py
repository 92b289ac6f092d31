"""A store, nimbuses, and supervisors that only say that they are there, in virtual time."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from aiostorm.cluster.coordination import (
    Coordination,
    Create,
    MemoryStore,
)
from aiostorm.cluster.coordination.polled import open_polled
from aiostorm.cluster.nimbus import (
    ASSIGNMENTS,
    SUPERVISORS,
    TOPOLOGIES,
    AssignmentRecord,
    Nimbus,
    SupervisorRecord,
    TopologyRecord,
    make_folders,
    pack,
    path_of,
    unpack,
)
from aiostorm.runtime import LoopClock

SOON_S = 1.0
TWO = TopologyRecord("words:topology", workers=2)


class Cluster:
    """A store, the client of a submitter, and supervisors that only say that they are there."""

    def __init__(self, store: MemoryStore, client: Coordination, stack: contextlib.AsyncExitStack) -> None:
        self.store = store
        self.client = client
        self.ends_at_once = True
        self._stack = stack
        self._daemons: dict[str, contextlib.AsyncExitStack] = {}

    async def nimbus(self, name: str) -> Nimbus:
        """Start one; `end` ends it."""
        own = self._daemons[name] = await self._stack.enter_async_context(contextlib.AsyncExitStack())
        opened = open_polled(self.store.backend(), LoopClock(), "the store", ends_at_once=self.ends_at_once)
        coordination = await own.enter_async_context(opened)
        nimbus = Nimbus(coordination, LoopClock(), name.encode())
        own.callback(_cancel, asyncio.create_task(nimbus.run()))
        return nimbus

    async def supervisor(self, name: str, slots: int) -> None:
        own = self._daemons[name] = await self._stack.enter_async_context(contextlib.AsyncExitStack())
        coordination = await own.enter_async_context(self.store.client())
        record = SupervisorRecord("host", "address", slots)
        await coordination.commit([Create(path_of(SUPERVISORS, name), pack(record), ephemeral=True)])

    async def end(self, name: str) -> None:
        """A daemon ends, and its session with it."""
        await self._daemons.pop(name).aclose()

    async def assignment(self, name: str) -> AssignmentRecord | None:
        path = path_of(ASSIGNMENTS, name)
        node = await self.client.get(path)
        return None if node is None else unpack(AssignmentRecord, path, node.value)

    async def topology(self, name: str) -> TopologyRecord:
        path = path_of(TOPOLOGIES, name)
        node = await self.client.get(path)
        assert node is not None
        return unpack(TopologyRecord, path, node.value)


def _cancel(task: asyncio.Task[None]) -> None:
    task.cancel()


@asynccontextmanager
async def cluster() -> AsyncIterator[Cluster]:
    store = MemoryStore(LoopClock())
    async with contextlib.AsyncExitStack() as stack:
        client = await stack.enter_async_context(store.client(session_s=3600))
        await make_folders(client)
        yield Cluster(store, client, stack)
    await asyncio.sleep(0)  # cancelled tasks end
