"""The local cluster from outside: several topologies, states, ends, and use inside another program."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest
from aiohttp import ClientSession, web

import aiostorm
from aiostorm import BasicBolt, Config, LocalCluster, Spout, State, TopologyBuilder, TopologyFailedError, bolt, spout


@spout(outputs="n")
def ten() -> Any:
    yield from range(10)


class Endless(Spout):
    """Always has one more."""

    outputs = "n"

    def open(self, context: Any, collector: Any) -> None:
        self.collector = collector
        self.next = 0

    def next_tuple(self) -> None:
        self.collector.emit((self.next,), message_id=self.next)
        self.next += 1


class Total(BasicBolt):
    def __init__(self) -> None:
        self.seen: list[int] = []

    def execute(self, tup: Any, collector: Any) -> None:
        self.seen.append(tup["n"])

    def result(self) -> list[int]:
        return self.seen


@bolt(outputs="n")
async def slowly(n: int) -> int:
    await asyncio.sleep(0.01)
    return n


def topology(source: Any = ten, *, slow: bool = False) -> aiostorm.Topology:
    builder = TopologyBuilder()
    builder.set_spout("numbers", source)
    before = "numbers"
    if slow:
        builder.set_bolt("slowly", slowly).shuffle_grouping("numbers")
        before = "slowly"
    builder.set_bolt("total", Total).global_grouping(before)
    return builder.create_topology()


async def test_two_topologies_run_side_by_side_and_names_are_free_again_after_a_kill() -> None:
    async with LocalCluster() as cluster:
        first = await cluster.submit("first", topology())
        second = await cluster.submit("second", topology())
        with pytest.raises(ValueError, match="named 'first' is running"):
            await cluster.submit("first", topology())
        await asyncio.gather(first.wait_finished(), second.wait_finished())
        assert (await first.results())["total"] == (await second.results())["total"] == [list(range(10))]
        await first.kill()
        assert first.state is State.KILLED
        assert set(cluster.topologies) == {"second"}
        again = await cluster.submit("first", topology())
        await again.wait_finished()


async def test_a_kill_drains_what_is_under_way() -> None:
    async with LocalCluster() as cluster:
        running = await cluster.submit("drain", topology(Endless, slow=True), Config(max_spout_pending=20))
        await asyncio.sleep(0.5)
        await asyncio.gather(running.kill(), running.kill())
        metrics = running.metrics()
        assert metrics.pending == 0
        assert metrics["numbers"].emitted == metrics["numbers"].acked == metrics["total"].executed > 20
        assert cluster.dead_letters == 0


async def test_a_deactivated_spout_emits_nothing_until_it_is_activated() -> None:
    async with LocalCluster() as cluster:
        running = await cluster.submit("pause", topology(Endless, slow=True), Config(max_spout_pending=5))
        await asyncio.sleep(0.2)
        await running.deactivate()
        await running.wait_idle()
        assert running.state == "INACTIVE"
        emitted = running.metrics()["numbers"].emitted
        await asyncio.sleep(10)
        assert running.metrics()["numbers"].emitted == emitted > 0
        await running.activate()
        await asyncio.sleep(0.2)
        assert running.metrics()["numbers"].emitted > emitted


async def test_leaving_the_block_after_an_exception_stops_at_once() -> None:
    loop = asyncio.get_running_loop()
    before = asyncio.all_tasks()
    begun_s = loop.time()

    async def fail_after_a_second() -> None:
        async with LocalCluster() as cluster:
            await cluster.submit("endless", topology(Endless, slow=True))
            await asyncio.sleep(1)
            raise LookupError("mine")

    with pytest.raises(LookupError, match="mine"):
        await fail_after_a_second()
    assert loop.time() - begun_s < 1.1
    assert asyncio.all_tasks() == before


async def test_a_component_that_cannot_be_opened_fails_the_submit() -> None:
    class Broken(BasicBolt):
        def prepare(self, context: Any) -> None:
            raise OSError("no such device")

        def execute(self, tup: Any, collector: Any) -> None:
            raise AssertionError("never prepared")

    builder = TopologyBuilder()
    builder.set_spout("numbers", ten)
    builder.set_bolt("broken", Broken).shuffle_grouping("numbers")
    async with LocalCluster() as cluster:
        with pytest.raises(TopologyFailedError, match=r"broken.*no such device"):
            await cluster.submit("broken", builder.create_topology())
        assert not cluster.topologies
        healthy = await cluster.submit("healthy", topology())
        await healthy.wait_finished()


async def test_waiting_has_a_limit() -> None:
    async with LocalCluster() as cluster:
        running = await cluster.submit("endless", topology(Endless, slow=True))
        with pytest.raises(TimeoutError):
            await running.wait_finished(timeout_s=3)
        await running.kill(wait_s=0)


async def test_metrics_count_each_row_in_and_out() -> None:
    async with aiostorm.running(topology(slow=True)) as running:
        await running.wait_finished()
        metrics = running.metrics()
        assert metrics["numbers"].transferred == metrics["slowly"].executed == metrics["slowly"].acked == 10
        assert metrics["slowly"].transferred == metrics["total"].executed == 10
        assert metrics["numbers"].acked == 10
        assert metrics["numbers"].trees >= 1
        assert metrics["numbers"].complete_latency_s > 0
        assert metrics.pending == 0
        with pytest.raises(KeyError, match="there are: __acker, numbers, slowly, total"):
            metrics["missing"]


@pytest.mark.sockets
async def test_an_aiohttp_application_brings_its_topology_up_and_down() -> None:
    key = web.AppKey("key", aiostorm.RunningTopology)

    async def seen(request: web.Request) -> web.Response:
        await request.app[key].wait_finished()
        return web.json_response((await request.app[key].results())["total"][0])

    threads = threading.active_count()
    app = web.Application()
    app.cleanup_ctx.append(aiostorm.cleanup_ctx(topology(), key=key))
    app.router.add_get("/seen", seen)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    async with ClientSession() as session, session.get(f"{site.name}/seen") as response:
        assert await response.json() == list(range(10))
    handle = app[key]
    await runner.cleanup()
    assert handle.state is State.KILLED
    assert threading.active_count() == threads


async def test_an_asgi_lifespan_gives_its_handle_to_the_state() -> None:
    async with aiostorm.lifespan(topology())(object()) as state:
        await state["running"].wait_finished()
    assert state["running"].state is State.KILLED
