"""A DistributedRuntime with exactly once, in a simulated world, and a topology whose rows say when they were made.

Each spout gives its rows the *generation* that was set last when it was opened; a test sets another one before each
rebuild. So a bolt sees whether a row comes from tasks that were ended.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Coroutine
from typing import Any, ClassVar

from aiostorm import BasicBolt, BasicCollector, Config, LocalCluster, Spout, Topology, TopologyBuilder, Tuple
from aiostorm.cluster import LifecycleTimings
from aiostorm.cluster.parent.assignment import Assignment, Deployment
from aiostorm.cluster.parent.builds import ExactlyOnce
from aiostorm.cluster.parent.distributed_runtime import DistributedRuntime
from aiostorm.cluster.snapshots import SnapshotReport, SnapshotSetup
from aiostorm.testing.simulation import World

from ..sim_workers import SimBackend, with_workers

HERE = "tests.cluster.snapshots.rebuilt"
COUNT = 200


class Seen:
    """What all tasks have done, in all workers: they are in one process."""

    generation = 1
    opened: ClassVar[Counter[int]] = Counter()
    """Generation → spout tasks opened and bolt tasks prepared."""
    rows: ClassVar[Counter[int]] = Counter()
    """Generation of the row → how many the last bolt has had, of its own generation."""
    of_others: ClassVar[list[tuple[str, int, int]]] = []
    """(component, its generation, generation of a row): rows of other tasks than those built with it."""
    gives_up: ClassVar[set[int]] = set()
    """Generations whose bolts cannot be prepared."""
    hangs: ClassVar[set[int]] = set()
    """Generations whose bolts are never prepared."""

    @classmethod
    def clear(cls) -> None:
        cls.generation = 1
        for found in (cls.opened, cls.rows, cls.of_others, cls.gives_up, cls.hangs):
            found.clear()


class Numbers(Spout):
    """Numbers for ever, or up to `last`."""

    outputs = ("n", "generation")
    last = 1 << 60

    def open(self, context: Any, collector: Any) -> None:
        self.collector, self.generation, self.at = collector, Seen.generation, 0
        Seen.opened[self.generation] += 1

    def next_tuple(self) -> None:
        if self.at < self.last:
            self.collector.emit((self.at, self.generation))
            self.at += 1
        else:
            self.collector.finish()

    def snapshot(self) -> int:
        return self.at

    def restore(self, at: int) -> None:
        self.at = at


class Few(Numbers):
    last = COUNT


class Slow(BasicBolt):
    """A while for each row: many wait before it."""

    outputs = ("n", "generation")

    async def prepare(self, context: Any) -> None:
        self.name, self.generation = context.component, Seen.generation
        Seen.opened[self.generation] += 1
        if self.generation in Seen.gives_up:
            raise ValueError(f"generation {self.generation} cannot be prepared")
        if self.generation in Seen.hangs:
            await asyncio.Event().wait()

    async def execute(self, tup: Tuple, collector: BasicCollector) -> None:
        self.look(tup)
        await asyncio.sleep(0.002)
        collector.emit((tup["n"], tup["generation"]))

    def look(self, tup: Tuple) -> None:
        if tup["generation"] != self.generation:
            Seen.of_others.append((self.name, self.generation, tup["generation"]))


class Last(Slow):
    outputs = ()

    async def execute(self, tup: Tuple, collector: BasicCollector) -> None:
        self.look(tup)
        Seen.rows[self.generation] += 1


TASKS = 8


def made(spout: type[Spout]) -> Topology:
    builder = TopologyBuilder()
    builder.set_spout("numbers", spout, 2)
    builder.set_bolt("slow", Slow, 3).shuffle_grouping("numbers")
    builder.set_bolt("last", Last, 3).fields_grouping("slow", "n")
    return builder.create_topology(config=Config(guarantee="exactly-once", restart_max=0))


def endless() -> Topology:
    return made(Numbers)


def finite() -> Topology:
    return made(Few)


class Driver:
    """Does what the manager of snapshots does: rolls back when something is lost."""

    def __init__(self, world: World, cluster: LocalCluster, backend: SimBackend, target: str) -> None:
        assert cluster._registry is not None
        self.world = world
        self.backend = backend
        self.incarnation = 1
        self.reports: list[SnapshotReport] = []
        self.lost: list[str] = []
        self.gave_up: list[tuple[str, BaseException]] = []
        self.ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        topology = endless() if target == "endless" else finite()
        config = Config().merge(topology.config).merge({"topology.workers": cluster._spread})
        timings = cluster._seams.timings or LifecycleTimings()
        assignment = Assignment(f"{HERE}:{target}", (), cluster.workers, len(cluster.remote_names), timings=timings)
        deployment = Deployment.make(cluster._registry, "job", topology, config, assignment)
        events = ExactlyOnce(SnapshotSetup(1, None, "place"), self.reports.append, self.lost.append)
        self.runtime = DistributedRuntime(
            cluster._registry, deployment, lambda path, error: self.gave_up.append((path, error)), events
        )

    async def start(self) -> None:
        await self.runtime.start(self.ended)
        self.runtime.set_mode("active")

    async def rebuild(self) -> None:
        """Build the tasks again, as another generation."""
        self.incarnation += 1
        Seen.generation = self.incarnation
        await self.runtime.rebuild(SnapshotSetup(self.incarnation, None, "place"))

    async def recover(self) -> None:
        """Wait for a loss, and rebuild until there is none."""
        await self.world.until(lambda: bool(self.lost), 60, "a loss")
        while self.lost:
            self.lost.clear()
            await self.rebuild()

    async def some_rows(self, more: int = 50) -> None:
        """Wait until tasks of this generation have processed more rows."""
        wanted = Seen.rows[Seen.generation] + more
        await self.world.until(lambda: Seen.rows[Seen.generation] >= wanted, 60, "some rows")

    def total(self) -> int:
        metrics = self.runtime.reports.metrics()
        return sum(of.emitted + of.executed for of in metrics.values())


Story = Callable[[Driver], Coroutine[Any, Any, None]]


def with_driver(story: Story, target: str = "endless", **options: Any) -> SimBackend:
    """Tell a story of a topology that has started, or (target "…?") has not yet. Afterwards nothing was mixed up."""
    Seen.clear()

    async def in_world(world: World, cluster: LocalCluster, backend: SimBackend) -> None:
        driver = Driver(world, cluster, backend, target.removesuffix("?"))
        try:
            if not target.endswith("?"):
                await driver.start()
            await story(driver)
        finally:
            await driver.runtime.kill()
        assert not Seen.of_others

    return with_workers(in_world, **options)
