"""Workers that a user starts on another machine: they join early or late, die, leave, and join again."""

from __future__ import annotations

import asyncio
from collections import Counter

import pytest

from aiostorm import LocalCluster, RunningTopology
from aiostorm.actors import ActorSystem
from aiostorm.testing.simulation import World
from aiostorm.testing.simulation.process import Process
from aiostorm.transport import LinkPulse, Node

from .sim_workers import SimBackend, with_workers
from .test_workers import COUNT, Numbers, Sum

ALL = Counter(range(COUNT))


@pytest.fixture(autouse=True)
def _fresh() -> None:
    Numbers.acked, Numbers.failures, Numbers.endless = Counter(), [], False
    Sum.seen = Counter()


async def submit(cluster: LocalCluster) -> RunningTopology:
    return await cluster.submit("sums", "tests.cluster.test_workers:topology")


async def some_work(world: World) -> None:
    await world.until(lambda: len(Numbers.acked) > 40, 10, "some work")


def test_a_remote_worker_that_joins_early_waits_and_gets_its_tasks() -> None:
    async def story(world: World, cluster: LocalCluster, backend: SimBackend) -> None:
        remote = backend.by_hand("remote-1")
        remote.start()
        await asyncio.sleep(60)
        assert remote.alive
        running = await submit(cluster)
        here, there = running.workers()
        assert (here.name, there.name) == ("worker-1", "remote-1")
        assert there.tasks
        await running.wait_finished(60)
        assert sum((Counter(part) for part in (await running.results())["sum"]), Counter()) == ALL
        await running.kill()
        await world.until(lambda: not remote.alive, 1, "its end")

    backend = with_workers(story, workers=1, remote=1)
    assert sorted(backend.codes) == [("remote-1", 0), ("worker-1", 0)]
    assert Sum.seen == ALL
    assert not Numbers.failures


def test_the_start_waits_for_a_remote_worker_that_joins_late(caplog: pytest.LogCaptureFixture) -> None:
    async def story(world: World, cluster: LocalCluster, backend: SimBackend) -> None:
        starting = asyncio.ensure_future(submit(cluster))
        await asyncio.sleep(400)
        assert cluster.topologies["sums"].degraded == "remote-1: it has not joined for 60 s"
        backend.by_hand("remote-1").start()
        running = await starting
        assert not running.degraded
        await running.wait_finished(60)
        assert Sum.seen == ALL

    with_workers(story, workers=1, remote=1)
    assert "remote-1 is degraded: it has not joined for 60 s; it is started again" in caplog.text


@pytest.mark.parametrize("away_s", [0.0, 7.0, 100.0])
def test_a_killed_remote_worker_is_replaced_by_another_of_its_name(away_s: float) -> None:
    async def story(world: World, cluster: LocalCluster, backend: SimBackend) -> None:
        remote = backend.by_hand("remote-1")
        remote.start()
        running = await submit(cluster)
        await some_work(world)
        remote.kill("is killed by the test")
        await asyncio.sleep(away_s)
        remote.start()
        began_s = world.now_s
        await running.wait_finished(100)
        assert world.now_s - began_s < 10, "no message waited for the timeout"
        assert set(Sum.seen) == set(ALL)
        assert [w.restarts for w in running.workers()] == [0, 1]

    backend = with_workers(story, workers=1, remote=1)
    assert backend.starts == {"worker-1": 1, "remote-1": 2}


@pytest.mark.parametrize("away_s", [0.0, 30.0])
def test_a_remote_worker_that_is_killed_before_its_first_task_is_waited_for(away_s: float) -> None:
    async def story(world: World, cluster: LocalCluster, backend: SimBackend) -> None:
        remote = backend.by_hand("remote-1")
        remote.start()
        await asyncio.sleep(20)
        remote.kill("is killed by the test")
        starting = asyncio.ensure_future(submit(cluster))
        await asyncio.sleep(away_s)
        remote.start()
        running = await starting
        assert world.now_s < 20 + away_s + 5
        await running.wait_finished(60)
        assert Sum.seen == ALL

    with_workers(story, workers=1, remote=1)


def test_a_remote_worker_ends_on_sigterm_without_a_replay_and_at_once_without_tasks() -> None:
    async def story(world: World, cluster: LocalCluster, backend: SimBackend) -> None:
        remote = backend.by_hand("remote-1")
        remote.start()
        await asyncio.sleep(2)
        assert remote.current.on_terminate is not None
        remote.loop.call_soon(remote.current.on_terminate)
        await world.until(lambda: not remote.alive, 1, "its end")
        remote.start()
        running = await submit(cluster)
        await some_work(world)
        remote.loop.call_soon(remote.current.on_terminate)
        await world.until(lambda: not remote.alive, 20, "its end")
        await asyncio.sleep(3)
        remote.start()
        await running.wait_finished(100)
        assert Sum.seen == ALL, "each once"
        assert not Numbers.failures

    backend = with_workers(story, workers=1, remote=1)
    assert [code for name, code in backend.codes if name == "remote-1"] == [143, 143, 0]


def test_a_remote_worker_runs_one_topology_at_a_time() -> None:
    async def story(world: World, cluster: LocalCluster, backend: SimBackend) -> None:
        remote = backend.by_hand("remote-1")
        remote.start()
        one = await submit(cluster)
        with pytest.raises(ValueError, match="1 remote workers are requested, and 0 are free"):
            await cluster.submit("other", "tests.cluster.test_workers:topology")
        assert list(cluster.topologies) == ["sums"]
        await one.wait_finished(60)
        await one.kill()
        await world.until(lambda: not remote.alive, 1, "its end")
        remote.start()
        await (await submit(cluster)).wait_finished(60)

    with_workers(story, workers=1, remote=1)


def test_a_remote_worker_with_a_blocked_loop_stays_alive_while_its_thread_sends_heartbeats() -> None:
    """User code may hold it for 30 s. The process is frozen here; what its thread does is done by another."""

    async def story(world: World, cluster: LocalCluster, backend: SimBackend) -> None:
        remote = backend.by_hand("remote-1")
        remote.start()
        running = await submit(cluster)
        await some_work(world)
        process = remote.incarnation

        async def thread(other: Process) -> None:
            connection = await other.network.connect(backend.address)
            for _ in range(12):
                connection.send(LinkPulse(process, "remote-1").encode())
                await asyncio.sleep(1)
            connection.close()

        world.process("its thread", thread).start()
        remote.pause(12)
        await asyncio.sleep(12)
        await running.wait_finished(100)
        assert [w.restarts for w in running.workers()] == [0, 0]
        assert set(Sum.seen) == set(ALL)

    backend = with_workers(story, workers=1, remote=1)
    assert backend.starts["remote-1"] == 1


def test_heartbeats_of_another_process_with_the_same_name_do_not_count() -> None:
    async def story(world: World, cluster: LocalCluster, backend: SimBackend) -> None:
        remote = backend.by_hand("remote-1")
        remote.start()
        running = await submit(cluster)
        await some_work(world)
        process = remote.incarnation

        async def thread(other: Process) -> None:
            connection = await other.network.connect(backend.address)
            for _ in range(12):
                connection.send(LinkPulse(process + 1, "remote-1").encode())
                await asyncio.sleep(1)

        world.process("its thread", thread).start()
        remote.pause(100)
        await asyncio.sleep(12)
        assert running.workers()[1].phase != "RUNNING"
        remote.kill("is killed by the test")
        remote.start()
        await running.wait_finished(100)

    with_workers(story, workers=1, remote=1)


def test_an_earlier_connection_under_its_name_does_not_keep_a_remote_worker_out(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def story(world: World, cluster: LocalCluster, backend: SimBackend) -> None:
        async def intruder(process: Process) -> None:
            async with ActorSystem("remote-1") as system, Node("remote-1", process.network, system) as node:
                node.link("parent", backend.address)
                node.send_queue("parent").post(b"\xff what is this?")
                await asyncio.sleep(1)
                node.lose("parent", "all was said")

        bad = world.process("intruder", intruder)
        for _ in range(2):  # before anything is submitted, and while it is waited for
            bad.start()
            await world.until(lambda: not bad.alive, 10, "its end")
        starting = asyncio.ensure_future(submit(cluster))
        await asyncio.sleep(1)
        bad.start()
        await world.until(lambda: not bad.alive, 10, "its end")
        backend.by_hand("remote-1").start()
        running = await starting
        await running.wait_finished(60)
        assert Sum.seen == ALL
        assert [w.restarts for w in running.workers()] == [0, 0]

    with_workers(story, workers=1, remote=1)
    assert "parent: the link to remote-1 is closed" in caplog.text


def test_a_remote_worker_with_a_taken_name_ends_with_one_line(caplog: pytest.LogCaptureFixture) -> None:
    async def story(world: World, cluster: LocalCluster, backend: SimBackend) -> None:
        first = backend.by_hand("remote-1")
        first.start()
        running = await submit(cluster)
        await some_work(world)
        first.pause(4)

        async def second(process: Process) -> None:
            await backend.run(process, "remote-1", backend.address, "second:1", backend.target)

        world.process("second", second).start()
        await world.until(lambda: not first.alive, 30, "its end")
        await running.wait_finished(100)
        assert set(Sum.seen) == set(ALL)

    backend = with_workers(story, workers=1, remote=1)
    assert ("remote-1", 69) in backend.codes
    assert "another process has taken the name remote-1: this one ends" in caplog.text
    assert "Traceback" not in caplog.text


# -- its parent --------------------------------------------------------------------------------------------------------


def test_a_remote_worker_without_tasks_ends_with_its_parent() -> None:
    async def story(world: World, cluster: LocalCluster, backend: SimBackend) -> None:
        backend.by_hand("remote-1").start()
        await asyncio.sleep(10)

    assert with_workers(story, workers=1, remote=1).codes == [("remote-1", 69)]


@pytest.mark.parametrize("down_s", [0.1, 3.0])
def test_a_worker_ends_when_its_parent_was_restarted(down_s: float) -> None:
    backends: list[SimBackend] = []

    async def story(world: World, cluster: LocalCluster, backend: SimBackend) -> None:
        backends.append(backend)
        if len(backends) == 1:
            backend.by_hand("remote-1").start()
            await asyncio.sleep(10)
            world.call_at(world.now_s, backend.parent.kill)
            world.call_at(world.now_s + down_s, backend.parent.start)
            await asyncio.sleep(1000)
        remote = world.processes["remote-1"]
        await world.until(lambda: not remote.alive, 5, "its end")
        remote.start()
        await (await submit(cluster)).wait_finished(60)
        assert Sum.seen == ALL

    with_workers(story, workers=1, remote=1)
    assert backends[0].codes == [("remote-1", 69), ("remote-1", 0)]


def test_a_worker_without_a_parent_logs_why(caplog: pytest.LogCaptureFixture) -> None:
    async def story(world: World, cluster: LocalCluster, backend: SimBackend) -> None:
        typo = backend.by_hand("remote-2")
        typo.start()
        await world.until(lambda: not typo.alive, 40, "its end")

    assert with_workers(story, workers=1, remote=1).codes == [("remote-2", 69)]
    assert "parent: no link here is dialled by 'remote-2'" in caplog.text
    assert "no parent at parent:1: the connection to parent is over" in caplog.text


def test_the_next_remote_worker_of_a_name_may_listen_on_another_address() -> None:
    async def story(world: World, cluster: LocalCluster, backend: SimBackend) -> None:
        backend.listen = lambda worker, before="": f"{worker}:{backend.starts.get(worker, 0) + 1}"  # type: ignore[method-assign]
        first, second = backend.by_hand("remote-1"), backend.by_hand("remote-2")
        first.start()
        second.start()
        running = await submit(cluster)
        await some_work(world)
        first.kill("is killed by the test")  # it is the second who dials
        first.start()
        began_s = world.now_s
        await running.wait_finished(100)
        assert world.now_s - began_s < 10
        assert set(Sum.seen) == set(ALL)

    with_workers(story, workers=1, remote=2)


def test_the_end_of_a_finished_topology_does_not_wait_for_a_remote_worker_that_has_left() -> None:
    async def story(world: World, cluster: LocalCluster, backend: SimBackend) -> None:
        remote = backend.by_hand("remote-1")
        remote.start()
        running = await submit(cluster)
        await running.wait_finished(60)
        remote.kill("is killed by the test")
        await world.until(lambda: running.workers()[1].phase != "RUNNING", 20, "its end is noticed")
        began_s = world.now_s
        await running.kill()
        assert world.now_s - began_s < 2.0
        assert running.metrics()["numbers"].acked == COUNT

    with_workers(story, workers=1, remote=1)
