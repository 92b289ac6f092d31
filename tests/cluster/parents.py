"""Parents of one topology, one after the other, in a simulated world; workers that outlive them, and a supervisor.

parents(first story, second story, …) ─► parent is killed at the end of each story but the last, and started again
supervisor ─► workers: started again when they end; one that a parent has given up is killed
"""

from __future__ import annotations

import asyncio
import itertools
from collections import Counter
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, ClassVar

from aiostorm import (
    BasicBolt,
    BasicCollector,
    Config,
    LocalCluster,
    RunningTopology,
    Spout,
    Topology,
    TopologyBuilder,
    Tuple,
)
from aiostorm.testing.simulation import World
from aiostorm.testing.simulation.process import Process

from ..simulation.backend import WorldBackend, shared_store
from ..simulation.worlds import in_world

HERE = "tests.cluster.parents"
EVERY_S = 0.01

Story = Callable[["Parents", LocalCluster], Coroutine[Any, Any, None]]


class Ticks(Spout):
    """A number each EVERY_S, until it is to finish; each again until it is acked."""

    outputs = ("task", "n")
    now: ClassVar[Callable[[], float]]
    emitted: ClassVar[dict[int, list[float]]] = {}
    """Task → when it has called emit."""
    offered: ClassVar[Counter[int]] = Counter()
    acked: ClassVar[Counter[tuple[int, int]]] = Counter()
    failures: ClassVar[list[Any]] = []
    finishes = breaks = False

    @classmethod
    def begin(cls, now: Callable[[], float]) -> None:
        cls.now, cls.finishes, cls.breaks = now, False, False
        cls.emitted, cls.offered, cls.acked, cls.failures = {}, Counter(), Counter(), []

    def open(self, context: Any, collector: Any) -> None:
        self.task, self.collector = context.task_id, collector
        self.left = [n for n in range(self.offered[self.task]) if not self.acked[self.task, n]]

    async def next_tuple(self) -> None:
        await asyncio.sleep(EVERY_S)
        if self.breaks:
            raise LookupError("the source is lost")
        if not self.left and self.finishes:
            if all(self.acked[self.task, n] for n in range(self.offered[self.task])):
                self.collector.finish()
            return
        if not self.left:
            self.left.append(self.offered[self.task])
            self.offered[self.task] += 1
        n = self.left.pop()
        Ticks.emitted.setdefault(self.task, []).append(Ticks.now())
        self.collector.emit((self.task, n), (self.task, n))

    def ack(self, message_id: tuple[int, int]) -> None:
        self.acked[message_id] += 1

    def fail(self, message_id: tuple[int, int], failure: Any) -> None:
        self.failures.append(failure)
        self.left.append(message_id[1])


class Seen(BasicBolt):
    """What has arrived, and when."""

    rows: ClassVar[Counter[tuple[int, int]]] = Counter()
    at_s: ClassVar[list[float]] = []

    def execute(self, tup: Tuple, collector: BasicCollector) -> None:
        self.rows[tup["task"], tup["n"]] += 1
        self.at_s.append(Ticks.now())


class Pass(BasicBolt):
    outputs = ("task", "n")

    def execute(self, tup: Tuple, collector: BasicCollector) -> None:
        collector.emit((tup["task"], tup["n"]))


def ticks() -> Topology:
    builder = TopologyBuilder()
    builder.set_spout("ticks", Ticks, 2)
    builder.set_bolt("pass", Pass, 2).shuffle_grouping("ticks")
    builder.set_bolt("seen", Seen, 2).shuffle_grouping("pass")
    return builder.create_topology(config=Config(message_timeout_s=1000.0, acker_executors=2))


def gap_s(times: Sequence[float], from_s: float = 0.0, to_s: float = float("inf")) -> float:
    """The longest time between two of them, of those that touch the interval."""
    return max(
        (after - before for before, after in itertools.pairwise(times) if after > from_s and before < to_s),
        default=0.0,
    )


class Parents(WorldBackend):
    """The backend of all parents, in turn; and the supervisor of their workers."""

    outlive_s = 60.0

    def __init__(self, parent: Process, names: Sequence[str]) -> None:
        super().__init__(parent)
        self.names = tuple(names)
        self.codes: list[tuple[str, int]] = []
        self.abandoned: list[tuple[str, int]] = []
        self.supervised = True
        self.target = f"{HERE}:ticks"
        self.begun = 0
        """How many stories were begun."""

    @property
    def world(self) -> World:
        return self.parent.world

    @property
    def workers_by_name(self) -> dict[str, Process]:
        return {name: self.world.processes[name] for name in self.names}

    def pids(self) -> list[int]:
        """Which process of each worker runs."""
        return [process.incarnation if process.alive else 0 for process in self.workers_by_name.values()]

    def make_workers(self) -> None:
        for name in self.names:

            async def program(process: Process, name: str = name) -> None:
                code = await self.run(process, name, self.address, self.listen(name), self.target)
                self.codes.append((name, code))

            self.world.process(name, program).start()
        self._supervise()

    def _supervise(self) -> None:
        if not self.supervised:
            return
        for process in self.workers_by_name.values():
            if not process.alive:
                process.start()
        self.world.call_at(self.world.now_s + 0.2, self._supervise)

    def on_abandoned(self, name: str, pid: int) -> None:
        self.abandoned.append((name, pid))
        process = self.world.processes[name]
        if self.supervised and process.incarnation == pid:
            self.world.call_at(self.world.now_s, process.kill, "is killed by its supervisor")

    async def replace_parent(self, away_s: float = 0.5) -> None:
        """Kill -9, and another one after some time. Does not return."""
        self.world.call_at(self.world.now_s, self.parent.kill)
        self.world.call_at(self.world.now_s + away_s, self.parent.start)
        await asyncio.sleep(100_000)

    async def submit(self, cluster: LocalCluster, **settings: Any) -> RunningTopology:
        return await cluster.submit("ticks", f"{HERE}:ticks", settings)

    async def finish(self, running: RunningTopology) -> None:
        """All that was emitted arrives."""
        Ticks.finishes = True
        await running.wait_finished(300)
        assert all(Ticks.acked[task, n] for task, count in Ticks.offered.items() for n in range(count))
        assert set(Seen.rows) == set(Ticks.acked)


def parents(
    *stories: Story, names: Sequence[str] = ("worker-1", "worker-2"), seed: int = 0, **attributes: Any
) -> Parents:
    """Tell each story in a parent of its own; all but the last end with `replace_parent`."""
    backends: list[Parents] = []

    async def run(world: World) -> None:
        ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        errors: list[BaseException] = []
        Ticks.begin(lambda: world.now_s)
        Seen.rows, Seen.at_s = Counter(), []

        async def parent(process: Process) -> None:
            if not backends:
                backends.append(Parents(process, names))
                for name, value in attributes.items():
                    setattr(backends[0], name, value)
                backends[0].make_workers()
            backend = backends[0]
            story, incarnation = stories[backend.begun], process.incarnation
            backend.begun += 1

            def on_abandoned(name: str, pid: int) -> None:
                if process.alive and process.incarnation == incarnation:  # else it is what the killed one leaves behind
                    backend.on_abandoned(name, pid)

            try:
                async with LocalCluster(
                    remote_workers=names,
                    backend=backend,
                    rng=process.rng,
                    open_store=lambda place: shared_store(process, place),
                    on_abandoned=on_abandoned,
                ) as cluster:
                    try:
                        await story(backend, cluster)
                    finally:
                        if process.alive:
                            backend.supervised = False
            except BaseException as error:
                errors.append(error)
            finally:
                if process.alive:
                    world.driver.loop.call_soon(ended.set_result, None)

        world.process("parent", parent).start()
        await ended
        await world.until(lambda: not any(p.alive for p in world.processes.values()), 70, "the end of all")
        if errors:
            raise errors[0]

    in_world(run, seed)
    return backends[0]
