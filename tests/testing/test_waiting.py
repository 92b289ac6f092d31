"""Where asyncio tasks wait: the whole chain, down to the user's line, through whatever awaits what."""

from __future__ import annotations

import asyncio
import types
from collections.abc import AsyncIterator, Generator
from typing import Any

import pytest

from aiostorm.cluster import LocalCluster
from aiostorm.testing import Recorder, pending_tasks
from aiostorm.topology import Spout, SpoutCollector, TopologyBuilder, TopologyContext

pytest_plugins = ["pytester"]


def text() -> str:
    return pending_tasks(asyncio.get_running_loop())


async def test_through_coroutines_generators_and_async_generators() -> None:
    event = asyncio.Event()

    async def inner() -> None:
        await event.wait()  # innermost

    @types.coroutine
    def old_style() -> Generator[Any, Any, None]:
        yield from inner().__await__()

    async def numbers() -> AsyncIterator[int]:
        await old_style()
        yield 1

    async def outer() -> None:
        async for _ in numbers():
            event.clear()

    async with asyncio.TaskGroup() as group:
        group.create_task(outer(), name="chain")
        await asyncio.sleep(0)
        found = text()
        event.set()
    chain = found[found.index("chain waits at") :]
    assert "in outer: async for _ in numbers():" in chain
    assert "in old_style" in chain
    assert "in inner: await event.wait()  # innermost" in chain


async def test_a_task_that_has_not_started() -> None:
    async with asyncio.TaskGroup() as group:
        group.create_task(asyncio.sleep(0), name="new")
        assert "new has not started" in text()


async def test_a_deep_chain_is_cut_at_its_outer_end() -> None:
    async def dig(depth: int) -> None:
        if depth:
            await dig(depth - 1)
        else:
            await asyncio.sleep(1)  # bottom

    async with asyncio.TaskGroup() as group:
        group.create_task(dig(20), name="deep")
        await asyncio.sleep(0)
        found = text()
    assert "… 14 outer frames" in found
    assert "await asyncio.sleep(1)  # bottom" in found


async def test_tasks_are_listed_in_the_order_of_their_numbers() -> None:
    async with asyncio.TaskGroup() as group:
        for n in (10, 9, 2):
            group.create_task(asyncio.sleep(0), name=f"walk-{n}")
        found = text()
    assert found.index("walk-2 ") < found.index("walk-9 ") < found.index("walk-10 ")


async def test_a_users_line_under_the_frameworks_own_steps(local_cluster: LocalCluster) -> None:
    class Waits(Spout):
        outputs = "n"

        def open(self, context: TopologyContext, collector: SpoutCollector) -> None:
            self.never = asyncio.Event()

        async def next_tuple(self) -> None:
            await self.never.wait()  # the user's line

    builder = TopologyBuilder()
    builder.set_spout("waits", Waits)
    builder.set_bolt("out", Recorder()).shuffle_grouping("waits")
    running = await local_cluster.submit("t", builder.create_topology())
    await running.wait_idle()
    assert "in next_tuple: await self.never.wait()  # the user's line" in text()


async def test_a_loop_without_pending_tasks() -> None:
    loop = asyncio.new_event_loop()
    try:
        assert pending_tasks(loop) == "  (no asyncio task is pending)"
    finally:
        loop.close()


def test_a_deadlock_in_a_topology_shows_the_users_line(pytester: pytest.Pytester) -> None:
    pytester.makeini("[pytest]\nasyncio_mode = auto\nasyncio_default_fixture_loop_scope = function\n")
    pytester.makepyfile(
        """
        import asyncio
        from aiostorm.testing import bolt_harness
        from aiostorm.topology import bolt

        @bolt
        async def stuck(n):
            await asyncio.Event().wait()

        async def test_stuck(sim_clock):
            async with bolt_harness(stuck, fields="n") as h:
                await h.execute(1, timeout_s=None)
        """
    )
    result = pytester.runpytest()
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*DeadlockError*", "*in stuck: await asyncio.Event().wait()"])
