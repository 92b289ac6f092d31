"""Resources on workers: each opens its own, before its tasks, and closes it after them; the topology is built there."""

from __future__ import annotations

import asyncio
import os
import sys
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any, ClassVar

import pytest

from aiostorm import (
    BasicBolt,
    BasicCollector,
    Config,
    LocalCluster,
    RunningTopology,
    Topology,
    TopologyBuilder,
    TopologyFailedError,
    Tuple,
    WorkerContext,
)
from aiostorm.cluster import LifecycleTimings
from aiostorm.testing.simulation import World

from .sim_workers import SimBackend, with_workers
from .test_workers import COUNT, Numbers, Twice

NOTES: list[tuple[str, str]] = []


class Stores(BasicBolt):
    stored: ClassVar[list[tuple[str, int]]] = []

    def prepare(self, context: Any) -> None:
        self.pool = context.resource("pool")
        NOTES.append(("prepare", self.pool.worker))

    async def execute(self, tup: Tuple, collector: BasicCollector) -> None:
        await asyncio.sleep(0.01)
        self.stored.append((self.pool.worker, tup["n"]))

    def cleanup(self) -> None:
        NOTES.append(("cleanup", self.pool.worker))


async def pool(context: WorkerContext) -> AsyncIterator[WorkerContext]:
    """Takes longer to open than a worker's lease is."""
    NOTES.append(("open", context.worker))
    await asyncio.sleep(40)
    yield context
    NOTES.append(("close", context.worker))
    await asyncio.sleep(0.5)
    NOTES.append(("closed", context.worker))


async def refuses(context: WorkerContext) -> AsyncIterator[None]:
    if context.worker == "worker-2":
        raise PermissionError("not from here")
    yield


def topology() -> Topology:
    builder = TopologyBuilder()
    builder.resource("pool", pool)
    builder.set_spout("numbers", Numbers)
    builder.set_bolt("stores", Stores, 4).shuffle_grouping("numbers")
    return builder.create_topology(config=Config(max_spout_pending=30, message_timeout_s=1000.0))


def refused() -> Topology:
    builder = TopologyBuilder()
    builder.resource("pool", pool)
    builder.resource("vault", refuses)
    builder.set_spout("numbers", Numbers)
    builder.set_bolt("twice", Twice, 2).shuffle_grouping("numbers")
    return builder.create_topology()


@pytest.fixture(autouse=True)
def _fresh() -> None:
    Numbers.acked.clear()
    Numbers.failures, Numbers.endless = [], False
    Stores.stored = []
    del NOTES[:]


async def submit(cluster: LocalCluster, target: str = "topology") -> RunningTopology:
    return await cluster.submit("t", f"tests.cluster.test_resources:{target}")


def of(worker: str) -> list[str]:
    return [what for what, whose in NOTES if whose == worker]


def test_each_worker_opens_its_resource_before_its_tasks_and_closes_it_after_them() -> None:
    async def story(world: World, cluster: LocalCluster, backend: SimBackend) -> None:
        running = await submit(cluster)
        assert [of(w.name)[0] for w in running.workers()] == ["open", "open"]
        assert all(set(of(w.name)[1:]) == {"prepare"} for w in running.workers())
        await running.wait_finished(100)
        await running.kill()

    backend = with_workers(story)
    for worker in ("worker-1", "worker-2"):
        prepared = of(worker).count("prepare")
        assert of(worker) == ["open", *["prepare"] * prepared, *["cleanup"] * prepared, "close", "closed"]
    assert {worker for worker, _ in Stores.stored} == {"worker-1", "worker-2"}
    assert set(backend.starts.values()) == {1}, "no lease ran out while they were opened"


def test_a_restarted_worker_opens_its_resource_again() -> None:
    async def story(world: World, cluster: LocalCluster, backend: SimBackend) -> None:
        running = await submit(cluster)
        await world.until(lambda: len(Numbers.acked) > 20, 10, "some work")
        world.processes["worker-2"].kill("is killed by the test")
        await world.until(lambda: of("worker-2").count("open") == 2, 60, "the next one")
        await running.wait_finished(200)
        assert {n for _, n in Stores.stored} == set(range(COUNT))
        await running.kill(0)
        assert of("worker-1").count("open") == 1
        assert of("worker-2").count("closed") == 1, "what was killed has closed nothing"
        assert of("worker-2")[-2:] == ["close", "closed"]

    with_workers(story)


def test_workers_that_a_user_starts_open_their_resources() -> None:
    async def story(world: World, cluster: LocalCluster, backend: SimBackend) -> None:
        backend.target = "tests.cluster.test_resources:topology"
        backend.by_hand("remote-1").start()
        running = await submit(cluster)
        await running.wait_finished(100)
        await running.kill()

    with_workers(story, workers=1, remote=1)
    assert of("remote-1")[0] == "open"
    assert of("remote-1")[-1] == "closed"


def test_a_resource_that_one_worker_cannot_open_fails_the_start_and_is_named() -> None:
    async def story(world: World, cluster: LocalCluster, backend: SimBackend) -> None:
        with pytest.raises(TopologyFailedError, match=r"resource 'vault' was given up.*not from here \(in worker-2\)"):
            await submit(cluster, "refused")

    with_workers(story)
    assert of("worker-1")[-2:] == of("worker-2")[-2:] == ["close", "closed"]


def test_errors_of_resources_are_reported_to_the_parent() -> None:
    async def story(world: World, cluster: LocalCluster, backend: SimBackend) -> None:
        submitting = asyncio.ensure_future(submit(cluster, "refused"))
        await world.until(lambda: of("worker-2") == ["open"], 10, "the first")
        await asyncio.sleep(41)
        [running] = cluster.topologies.values()
        [report] = {str(report) for report in running.errors()}
        assert report == "t: resource 'vault' failed in open: PermissionError: not from here"
        with pytest.raises(TopologyFailedError):
            await submitting

    with_workers(story)


class Log(BasicBolt):
    def prepare(self, context: Any) -> None:
        self.say = context.resource("log")
        self.say("prepare")

    def execute(self, tup: Tuple, collector: BasicCollector) -> None:
        """Nothing."""

    def cleanup(self) -> None:
        self.say("cleanup")


def held(folder: str) -> Topology:
    """A resource that holds the event loop for longer than the lease is, as it opens."""
    from .spread_jobs import Numbers as Counted

    def log() -> Iterator[Any]:
        with (Path(folder) / str(os.getpid())).open("a", buffering=1) as file:
            time.sleep(3)
            yield lambda what: file.write(f"{what}\n")
            file.write("close\n")

    builder = TopologyBuilder()
    builder.resource("log", log)
    builder.set_spout("numbers", Counted(10, 0))
    builder.set_bolt("log", Log, 4).shuffle_grouping("numbers")
    return builder.create_topology()


@pytest.mark.slow
@pytest.mark.sockets
@pytest.mark.skipif(sys.platform == "win32", reason="a worker of ours listens at a unix socket")
def test_real_workers_live_through_a_slow_start(tmp_path: Path) -> None:
    async def program() -> None:
        async with LocalCluster(workers=2, timings=LifecycleTimings(lease_s=2.0)) as cluster:
            running = await cluster.submit("t", "tests.cluster.test_resources:held", arguments=(str(tmp_path),))
            await running.wait_finished(30)
            assert [worker.restarts for worker in running.workers()] == [0, 0]
            pids.extend(worker.pid for worker in running.workers())

    pids: list[int] = []
    asyncio.run(program())
    assert {int(file.name) for file in tmp_path.iterdir()} == set(pids)
    for file in tmp_path.iterdir():
        done = file.read_text().split()
        tasks = done.count("prepare")
        assert done == [*["prepare"] * tasks, *["cleanup"] * tasks, "close"]
