"""Topologies on workers that do what they should not: long errors and ids, results that cannot be had; odd moments."""

from __future__ import annotations

import asyncio
import gc
from typing import Any

import aiohttp  # noqa: F401  (it takes a while, and would block the loop)
import pytest

from aiostorm import BasicCollector, Bolt, Config, LocalCluster, State, Topology, TopologyBuilder, Tuple
from aiostorm.cluster import ProcessBackend, WorkerError
from aiostorm.testing.simulation import World
from aiostorm.transport import Credentials, NetworkError, Node

from . import test_workers
from .sim_workers import SimBackend, with_workers
from .test_workers import Numbers, Twice, _fresh, breaks, submit  # noqa: F401  (a fixture)

HERE = "tests.cluster.test_workers_hard"


class Talkative(Twice):
    """Its errors are long."""

    async def execute(self, tup: Tuple, collector: BasicCollector) -> None:
        error = ValueError("it is long")
        error.add_note("€" * 20_000)
        raise error

    def result(self) -> None:
        raise ValueError("no result")


class Named(Numbers):
    """Its message ids are long."""

    def next_tuple(self) -> None:
        if self.left:
            n = self.left.pop()
            self.collector.emit((n,), f"{n}{'i' * 4000}")

    def ack(self, message_id: Any) -> None:
        raise AssertionError("nothing is acked")

    def fail(self, message_id: Any, failure: Any) -> None:
        return None


class Keeps(Bolt):
    """Neither acks nor fails what it has."""

    def execute(self, tup: Tuple) -> None:
        return None


def talkative() -> Topology:
    return breaks(Talkative)


def long_names() -> Topology:
    builder = TopologyBuilder()
    builder.set_spout("numbers", Named)
    builder.set_bolt("keeps", Keeps, 2).shuffle_grouping("numbers")
    return builder.create_topology(config=Config(max_spout_pending=1000))


@pytest.mark.slow
def test_long_errors_of_many_tuples_do_not_end_a_worker() -> None:
    Numbers.endless = True

    async def story(world: World, cluster: LocalCluster, backend: SimBackend) -> None:
        running = await cluster.submit("job", f"{HERE}:talkative")
        await world.until(lambda: running.metrics()["broken"].errors > 60, 30, "errors")
        assert running.state is State.ACTIVE
        assert running.errors()[-1].component == "broken"
        assert len(running.errors()[-1].traceback) > 10_000
        for _ in range(10):
            with pytest.raises(WorkerError, match=r"broken\[\d+\].result\(\) failed: ValueError: no result"):
                await running.results()
        await running.kill(0)

    backend = with_workers(story)
    assert set(backend.starts.values()) == {1}


def test_many_long_message_ids_do_not_break_reports(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(test_workers, "COUNT", 600)

    async def story(world: World, cluster: LocalCluster, backend: SimBackend) -> None:
        running = await cluster.submit("job", f"{HERE}:long_names")
        await world.until(lambda: running.metrics().pending > 500, 30, "messages")
        await world.until(lambda: bool(running.pending()["numbers"]), 30, "ids")
        assert 40 < len(running.pending()["numbers"]) < 60
        await running.kill(0)

    with_workers(story)


class SlowToEnd(Twice):
    async def cleanup(self) -> None:
        await asyncio.sleep(15)


def slow_to_end() -> Topology:
    return breaks(SlowToEnd, graceful_stop_s=30)


def node_of(name: str) -> Node:
    [found] = [one for one in gc.get_objects() if isinstance(one, Node) and one.name == name and one.peers]
    return found


@pytest.mark.parametrize("peer", ["worker-1", "parent"])
def test_a_worker_with_a_closed_link_to_another_is_restarted(peer: str) -> None:
    async def story(world: World, cluster: LocalCluster, backend: SimBackend) -> None:
        running = await submit(cluster)
        await world.until(lambda: len(Numbers.acked) > 40, 10, "some work")
        node_of("worker-2").lose(peer, "what came over it could not be taken")
        began_s = world.now_s
        await running.wait_finished(900)
        assert world.now_s - began_s < 30, "no message waited for the timeout"
        assert [w.restarts for w in running.workers()] == [0, 1]

    assert ("worker-2", 1) in with_workers(story).codes


def test_a_topology_is_not_idle_while_its_spouts_wait_for_a_replaced_worker() -> None:
    Numbers.endless = True

    async def story(world: World, cluster: LocalCluster, backend: SimBackend) -> None:
        running = await submit(cluster)
        await world.until(lambda: len(Numbers.acked) > 20, 10, "some work")
        process = world.processes["worker-2"]
        assert process.current.on_terminate is not None
        process.loop.call_soon(process.current.on_terminate)
        await running.wait_idle(60)
        assert len(Numbers.acked) == test_workers.COUNT
        assert backend.starts["worker-2"] == 2

    with_workers(story)


def test_commands_to_spouts_during_a_replacement_apply_afterwards() -> None:
    Numbers.endless = True

    async def story(world: World, cluster: LocalCluster, backend: SimBackend) -> None:
        running = await submit(cluster)
        await world.until(lambda: len(Numbers.acked) > 20, 10, "some work")
        process = world.processes["worker-2"]
        assert process.current.on_terminate is not None
        process.loop.call_soon(process.current.on_terminate)
        await asyncio.sleep(0.3)
        await running.deactivate()
        await world.until(lambda: backend.starts["worker-2"] == 2, 20, "another")
        await asyncio.sleep(2)
        assert len(Numbers.acked) < test_workers.COUNT
        await running.activate()
        await running.wait_idle(60)
        assert len(Numbers.acked) == test_workers.COUNT

    with_workers(story)


def test_results_are_waited_for_while_a_worker_is_started_again() -> None:
    async def story(world: World, cluster: LocalCluster, backend: SimBackend) -> None:
        running = await submit(cluster)
        await running.wait_finished(60)
        world.processes["worker-2"].kill("is killed by the test")
        await asyncio.sleep(0.001)
        found = await asyncio.gather(running.results(), running.results())
        assert found[0] == found[1]
        assert len(found[0]["sum"]) == 2

    backend = with_workers(story)
    assert set(backend.starts.values()) == {1, 2}


def test_a_worker_has_the_configured_time_to_end() -> None:
    async def story(world: World, cluster: LocalCluster, backend: SimBackend) -> None:
        running = await cluster.submit("job", f"{HERE}:slow_to_end")
        began_s = world.now_s
        await running.deactivate()
        await running.kill()
        assert 15 <= world.now_s - began_s < 20

    assert with_workers(story).codes == [("worker-1", 0), ("worker-2", 0)]


class CountedSite(SimBackend):
    left = 0
    address = "parent:2"

    async def __aexit__(self, *error: Any) -> None:
        self.left += 1


@pytest.mark.parametrize("after_s", [0.0, 0.001, 0.01, 0.1])
def test_a_cluster_that_is_cancelled_twice_while_it_ends_leaves_nothing(after_s: float) -> None:
    async def story(world: World, cluster: LocalCluster, backend: SimBackend) -> None:
        other = CountedSite(backend.parent)
        inner = LocalCluster(workers=2, backend=other, rng=backend.parent.rng)
        await inner.start()
        await inner.submit("job", f"{HERE}:slow_to_end")
        begun = asyncio.Event()

        async def stop() -> None:
            begun.set()
            await inner.stop()

        ending = asyncio.get_running_loop().create_task(stop())
        await begun.wait()
        for _ in range(2):
            await asyncio.sleep(after_s)
            ending.cancel()
        with pytest.raises(asyncio.CancelledError):
            await ending
        assert other.left == 1
        assert not any(p.alive for name, p in world.processes.items() if name.startswith("worker"))

    with_workers(story)


@pytest.mark.sockets
async def test_a_parent_with_a_taken_address_leaves_nothing() -> None:
    server = await asyncio.start_server(lambda reader, writer: None, "127.0.0.1", 0)
    async with server:
        host, port = server.sockets[0].getsockname()
        before = asyncio.all_tasks()
        cluster = LocalCluster(workers=1, backend=ProcessBackend(f"{host}:{port}", Credentials.new("taken")))
        with pytest.raises(NetworkError):
            await cluster.start()
        assert asyncio.all_tasks() == before


class Large(Twice):
    async def execute(self, tup: Tuple, collector: BasicCollector) -> None:
        return None

    def result(self) -> dict[int, str]:
        return {n: str(n) for n in range(200_000)}


def large() -> Topology:
    return breaks(Large)


def test_a_result_may_be_larger_than_a_message() -> None:
    async def story(world: World, cluster: LocalCluster, backend: SimBackend) -> None:
        running = await cluster.submit("job", f"{HERE}:large")
        await running.wait_finished(60)
        found = await running.results()
        assert found["broken"] == [{n: str(n) for n in range(200_000)}] * 2

    with_workers(story)
