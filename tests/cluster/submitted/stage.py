"""A parent and the workers of one submitted topology in a simulated world: real programs, a store in memory.

There is no nimbus and no supervisor: the test writes the records, and starts the processes again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import replace
from typing import Any

from aiostorm import RunningTopology
from aiostorm.cluster.coordination import Coordination, Create, MemoryStore, Put
from aiostorm.cluster.nimbus import (
    ASSIGNMENTS,
    ERRORS,
    PARENTS,
    TOPOLOGIES,
    AssignmentRecord,
    ErrorsRecord,
    ParentRecord,
    TopologyRecord,
    make_folders,
    pack,
    path_of,
    unpack,
    worker_names,
)
from aiostorm.runtime import LoopClock
from aiostorm.testing.simulation import World
from aiostorm.testing.simulation.process import Process

from ...simulation.cluster.programs import run_parent, run_worker
from ...simulation.cluster.ways import Ways
from ...simulation.worlds import in_world

NAME = "sums"
LEASE_S = 60.0


class Stage:
    """One topology, which supervisor "s" runs."""

    def __init__(self, world: World, store: MemoryStore, client: Coordination, target: str) -> None:
        self.world = world
        self.store = store
        self.client = client
        self.target = target
        self.codes: list[tuple[str, int]] = []
        self.served: list[RunningTopology] = []
        self.ways = Ways(world, store)
        self.record = TopologyRecord(target, workers=2)
        self.assignment = AssignmentRecord(1, "s", ("s", "s"))

    # -- records -------------------------------------------------------------------------------------------------------

    async def submit(self, **changes: Any) -> None:
        self.record = replace(self.record, **changes)
        await self.client.commit(
            [
                Create(path_of(TOPOLOGIES, NAME), pack(self.record)),
                Create(path_of(ASSIGNMENTS, NAME), pack(self.assignment)),
            ]
        )

    def place(self, **changes: Any) -> None:
        """Before it is submitted."""
        self.assignment = replace(self.assignment, **changes)

    async def change(self, **changes: Any) -> None:
        self.record = replace(self.record, **changes)
        await self.client.commit([Put(path_of(TOPOLOGIES, NAME), pack(self.record)), Put(TOPOLOGIES, b"")])

    async def change_in_a_new_session(self, **changes: Any) -> None:
        """As `change`, when the store has ended that of the test, too."""
        async with self.store.client() as self.client:
            await self.change(**changes)

    async def assign(self, **changes: Any) -> None:
        self.assignment = replace(self.assignment, **changes)
        await self.client.commit([Put(path_of(ASSIGNMENTS, NAME), pack(self.assignment)), Put(ASSIGNMENTS, b"")])

    async def stored(self) -> TopologyRecord:
        """The record, as it is in the store now."""
        path = path_of(TOPOLOGIES, NAME)
        node = await self.client.get(path)
        assert node is not None
        return unpack(TopologyRecord, path, node.value)

    async def parent_record(self) -> ParentRecord | None:
        path = path_of(PARENTS, NAME)
        node = await self.client.get(path)
        return None if node is None else unpack(ParentRecord, path, node.value)

    async def errors(self) -> ErrorsRecord | None:
        path = path_of(ERRORS, NAME)
        node = await self.client.get(path)
        return None if node is None else unpack(ErrorsRecord, path, node.value)

    async def state(self) -> str:
        record = await self.parent_record()
        return "" if record is None else record.state

    async def wait_state(self, *states: str, within_s: float = 20.0) -> None:
        watch = await self.client.watch(PARENTS)
        async with asyncio.timeout(within_s):
            while await self.state() not in states:
                await watch.changed()
        watch.close()

    # -- processes -----------------------------------------------------------------------------------------------------

    def parent(self, name: str = "parent", supervisor: str = "s") -> Process:
        """A parent, which is not started."""

        async def serve(running: RunningTopology) -> None:
            self.served.append(running)

        def left(code: int) -> None:
            self.codes.append((name, code))

        async def program(process: Process) -> None:
            code = await run_parent(process, self.ways, NAME, supervisor, "parent:1", left, serve)
            self.codes.append((process.name, code))

        return self._process(name, program)

    def worker(self, name: str) -> Process:
        """A worker, which is not started."""

        async def program(process: Process) -> None:
            self.codes.append((name, await run_worker(process, name, "parent:1", self.target, 0, process.incarnation)))

        return self._process(name, program)

    def start(self) -> list[Process]:
        """Start a parent, and the workers of the assignment. The parent is the first."""
        processes = [self.parent(), *map(self.worker, worker_names(len(self.assignment.workers)))]
        for process in processes:
            process.start()
        return processes

    def terminate(self, process: Process) -> None:
        """SIGTERM."""
        assert process.current.on_terminate is not None
        process.loop.call_soon(process.current.on_terminate)

    async def until_ended(self, *processes: Process, within_s: float = 60.0) -> None:
        await self.world.until(lambda: not any(p.alive for p in processes), within_s, "the end of processes")

    def _process(self, name: str, program: Callable[[Process], Coroutine[Any, Any, None]]) -> Process:
        return self.world.processes.get(name) or self.world.process(name, program)


Story = Callable[[Stage], Coroutine[Any, Any, None]]


def on_stage(story: Story, target: str = "tests.cluster.test_workers:topology", seed: int = 0) -> Stage:
    """Tell a story; nothing is left at its end."""
    stages: list[Stage] = []

    async def run(world: World) -> None:
        store = MemoryStore(LoopClock())
        async with store.client() as client:
            await make_folders(client)
            stage = Stage(world, store, client, target)
            stages.append(stage)
            await story(stage)
            await world.until(lambda: not any(p.alive for p in world.processes.values()), 90, "the end of all")

    in_world(run, seed)
    return stages[0]
