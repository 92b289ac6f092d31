"""Embedded in another program: a running loop, an aiohttp application, an ASGI framework. Nothing is left behind."""

from __future__ import annotations

import asyncio
import dataclasses
import logging
import signal
import threading
from collections.abc import Iterator
from contextlib import AsyncExitStack
from typing import Any

import pytest
from aiohttp import web
from aiohttp.test_utils import TestClient, TestServer

import aiostorm
from aiostorm import BasicBolt, Config, LocalCluster, RunningTopology, State, TopologyFailedError
from aiostorm.testing import FeederSpout, FixedSpout, Recorder

from ..tasks.parts import Notes, Numbers, line, rows

RUNNING: web.AppKey[RunningTopology] = web.AppKey("running", RunningTopology)


@pytest.fixture
def _untouched() -> Iterator[None]:
    """What a library must leave alone."""
    handlers = signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)
    loggers = list(logging.getLogger().handlers), list(logging.getLogger("aiostorm").handlers)
    threads = set(threading.enumerate())
    yield
    assert handlers == (signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM))
    assert loggers == (list(logging.getLogger().handlers), list(logging.getLogger("aiostorm").handlers))
    left = {t for t in set(threading.enumerate()) - threads if t.name.startswith("aiostorm")}
    for thread in left:  # it was asked to end, and may need a moment
        thread.join(5)
    assert not [t for t in left if t.is_alive()]


pytestmark = pytest.mark.usefixtures("_untouched")


async def work(cluster: LocalCluster, name: str = "t") -> None:
    sink = Recorder()
    running = await cluster.submit(name, line(FixedSpout(rows(range(20)), "n"), sink=sink))
    await running.wait_finished()
    assert sorted(sink.values) == rows(range(20))


async def test_two_clusters_one_after_the_other_and_two_at_once() -> None:
    before = asyncio.all_tasks()
    for _ in range(2):
        async with LocalCluster() as cluster:
            await work(cluster)
        assert asyncio.all_tasks() == before
    async with LocalCluster() as first, LocalCluster() as second:
        await asyncio.gather(work(first), work(second))
    assert asyncio.all_tasks() == before


def test_two_loops_one_after_the_other() -> None:
    async def main() -> None:
        async with LocalCluster() as cluster:
            await work(cluster)

    asyncio.run(main())
    asyncio.run(main())


def test_two_loops_in_two_threads() -> None:
    async def main() -> None:
        async with LocalCluster() as cluster:
            await work(cluster)

    failed: list[BaseException] = []

    def run() -> None:
        try:
            asyncio.run(main())
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=run) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert not failed


def test_a_task_group_that_fails_takes_the_cluster_with_it() -> None:
    ended = Notes()

    class Ends(Numbers):
        def close(self) -> None:
            ended.append("closed")

    async def serve() -> None:
        async with LocalCluster() as cluster:
            await cluster.submit("t", line(Ends(1 << 60), sink=Recorder()), Config(max_spout_pending=5))
            await asyncio.Event().wait()

    async def fails() -> None:
        await asyncio.sleep(0.05)
        raise ZeroDivisionError

    async def main() -> None:
        async def both() -> None:
            async with asyncio.TaskGroup() as group:
                group.create_task(serve())
                group.create_task(fails())

        with pytest.raises(ExceptionGroup):
            await both()
        assert asyncio.all_tasks() == {asyncio.current_task()}

    asyncio.run(main())
    assert ended == ["closed"]


async def test_running_is_one_topology_for_a_block() -> None:
    source, before = Numbers(5), asyncio.all_tasks()
    async with aiostorm.running(line(source, sink=Recorder()), Config(acker_executors=2), name="mine") as running:
        assert (running.name, running.state, running.config.acker_executors) == ("mine", State.ACTIVE, 2)
        await running.wait_finished()
    assert len(source.acked) == 5
    assert running.state is State.KILLED
    assert asyncio.all_tasks() == before


async def test_running_raises_the_failure_of_its_topology() -> None:
    class Fails(BasicBolt):
        def prepare(self, context: Any) -> None:
            raise LookupError("no database")

        def execute(self, tup: Any, collector: Any) -> None: ...

    with pytest.raises(TopologyFailedError, match="no database"):
        async with AsyncExitStack() as stack:
            await stack.enter_async_context(aiostorm.running(line(Numbers(5), bolt=Fails)))


class Counts(BasicBolt):
    """Counts, for a web page."""

    def __init__(self) -> None:
        self.total = 0

    def execute(self, tup: Any, collector: Any) -> None:
        self.total += tup["n"]

    def result(self) -> Any:
        return self.total


@pytest.mark.sockets
async def test_an_aiohttp_application_with_cleanup_ctx() -> None:
    feeder = FeederSpout("n")

    async def add(request: web.Request) -> web.Response:
        await feeder.feed(int(request.match_info["n"]))
        return web.Response(status=202)

    async def total(request: web.Request) -> web.Response:
        running = request.app[RUNNING]
        await running.wait_idle(60)
        return web.json_response(await running.results())

    app = web.Application()
    app.add_routes([web.post("/add/{n}", add), web.get("/total", total)])
    app.cleanup_ctx.append(aiostorm.cleanup_ctx(line(feeder, counts=Counts()), key=RUNNING))
    async with TestClient(TestServer(app)) as client:
        running = app[RUNNING]
        for n in range(5):
            async with client.post(f"/add/{n}") as response:
                assert response.status == 202
        async with client.get("/total") as response:
            assert await response.json() == {"counts": [10]}
        assert running.state is State.ACTIVE
    assert running.state is State.KILLED
    assert sorted(feeder.acked) == [0, 1, 2, 3, 4]


@pytest.mark.sockets
async def test_an_aiohttp_application_with_a_topology_that_cannot_start() -> None:
    class Fails(BasicBolt):
        def prepare(self, context: Any) -> None:
            raise LookupError("no database")

        def execute(self, tup: Any, collector: Any) -> None: ...

    app = web.Application()
    app.cleanup_ctx.append(aiostorm.cleanup_ctx(line(Numbers(5), bolt=Fails), {"topology.restart.max": 0}))
    runner = web.AppRunner(app)
    with pytest.raises(TopologyFailedError, match="no database"):
        await runner.setup()
    await runner.cleanup()


async def test_lifespan_as_asgi_frameworks_call_it() -> None:
    """`lifespan(app)` is an async context manager that gives the state of every request."""
    feeder = FeederSpout("n")
    lifespan = aiostorm.lifespan(line(feeder, counts=Counts()), Config(acker_executors=2), name="web")

    class App:
        """A stand-in for Starlette."""

    async with lifespan(App()) as state:
        running = state["running"]
        assert isinstance(running, RunningTopology)
        assert (running.name, running.config.acker_executors) == ("web", 2)
        await feeder.feed_all(range(4))
        await running.wait_idle()
        assert await running.results() == {"counts": [6]}
    assert running.state is State.KILLED


async def test_a_cluster_left_before_anything_was_submitted() -> None:
    before = asyncio.all_tasks()
    async with LocalCluster():
        pass
    with pytest.raises(ZeroDivisionError):
        async with LocalCluster():
            raise ZeroDivisionError
    assert asyncio.all_tasks() == before


@pytest.mark.sockets
async def test_no_callback_is_left_in_the_loop() -> None:
    loop = asyncio.get_running_loop()
    scheduled = getattr(loop, "_scheduled", None)
    if scheduled is None:
        pytest.skip("uvloop does not show its timers")
    before = [handle for handle in scheduled if not handle.cancelled()]
    async with LocalCluster() as cluster:
        feeder = FeederSpout("n")
        config = Config(tick_tuple_freq_s=100, message_timeout_s=1000)
        running = await cluster.submit("t", line(feeder, sink=Recorder()), config)
        await feeder.feed(1)
        await running.wait_idle()
    left = [handle for handle in scheduled if not handle.cancelled() and handle not in before]
    assert not left


async def test_a_topology_that_is_embedded_has_its_own_name() -> None:
    named = dataclasses.replace(line(Numbers(5), sink=Recorder()), name="sums")
    async with aiostorm.running(named) as running:
        assert running.name == "sums"
    async with aiostorm.running(named, name="mine") as running:
        assert running.name == "mine"
    async with aiostorm.running(line(Numbers(5), sink=Recorder())) as running:
        assert running.name == "topology"
    async with aiostorm.lifespan(named)(object()) as state:
        assert state["running"].name == "sums"
    app = web.Application()
    app.cleanup_ctx.append(aiostorm.cleanup_ctx(named, key=RUNNING))
    async with TestServer(app):
        assert app[RUNNING].name == "sums"
