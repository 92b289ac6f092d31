"""User code that blocks the event loop is reported with its line. In real time only."""

from __future__ import annotations

import asyncio
import threading
import time
from typing import Any

import pytest

from aiostorm import BasicBolt, Config, LocalCluster, TopologyBuilder
from aiostorm.testing import FixedSpout, Recorder

from ..tasks.parts import Does, Numbers, line, rows

pytestmark = pytest.mark.blocks_loop


def watches() -> list[str]:
    return [thread.name for thread in threading.enumerate() if thread.name == "aiostorm-stall-watch"]


def burn(cpu_s: float) -> None:
    """Take so much of the processor's time: whatever else the machine does, it is long enough to be seen."""
    until_s = time.process_time() + cpu_s
    while time.process_time() < until_s:
        pass


async def _watched() -> None:
    async with asyncio.timeout(60):
        while not watches():  # noqa: ASYNC110 - a thread starts
            await asyncio.sleep(0.001)


class Blocks(BasicBolt):
    def execute(self, tup: Any, collector: Any) -> None:
        if tup["n"] == 1:
            burn(0.4)  # this line


@pytest.mark.sockets
async def test_a_blocking_execute_is_reported_with_component_and_line(caplog: pytest.LogCaptureFixture) -> None:
    source = FixedSpout(rows(range(3)), "n")
    async with LocalCluster() as cluster:
        running = await cluster.submit("t", line(source, slow=Blocks()), Config(stall_report_s=0.1))
        await running.wait_finished()
        [stall] = running.stalls()
    assert stall.task == "/t/slow[2]"
    assert stall.function == "execute"
    assert stall.line == "burn(0.4)  # this line"
    assert stall.filename == __file__
    assert stall.blocked_s >= 0.1
    assert any("/t/slow[2] has blocked the event loop" in record.getMessage() for record in caplog.records)
    assert not watches()


@pytest.mark.sockets
async def test_a_blocking_next_tuple_is_reported() -> None:
    class Slow(Numbers):
        def next_tuple(self) -> None:
            if self.next == 1:
                burn(0.4)
            super().next_tuple()

    async with LocalCluster() as cluster:
        running = await cluster.submit("t", line(Slow(3), sink=Recorder()), Config(stall_report_s=0.1))
        await running.wait_finished()
        assert [(stall.task, stall.function) for stall in running.stalls()] == [("/t/spout[1]:emit", "next_tuple")]


@pytest.mark.sockets
async def test_each_component_has_its_own_limit() -> None:
    builder = TopologyBuilder()
    builder.set_spout("spout", FixedSpout(rows([1]), "n"))
    for name, limit_s in (("short", 0.1), ("long", 30), ("never", 0)):
        builder.set_bolt(name, Blocks()).shuffle_grouping("spout").set_config(stall_report_s=limit_s)
    async with LocalCluster() as cluster:
        running = await cluster.submit("t", builder.create_topology())
        await running.wait_finished()
        assert [stall.task for stall in running.stalls()] == ["/t/short[2]"]
    assert not watches()


@pytest.mark.sockets
async def test_two_topologies_report_their_own() -> None:
    async with LocalCluster() as cluster:
        config = Config(stall_report_s=0.1)
        slow = await cluster.submit("slow", line(FixedSpout(rows([1]), "n"), bolt=Blocks()), config)
        quick = await cluster.submit("quick", line(FixedSpout(rows([0]), "n"), bolt=Blocks()), config)
        await slow.wait_finished()
        await quick.wait_finished()
        assert len(slow.stalls()) == 1
        assert quick.stalls() == []


@pytest.mark.sockets
async def test_zero_turns_it_off() -> None:
    async with LocalCluster() as cluster:
        await cluster.submit("t", line(Numbers(3), sink=Recorder()), Config(stall_report_s=0))
        assert not watches()


async def test_stall_detection_is_off_in_virtual_time() -> None:
    async with LocalCluster() as cluster:
        config = Config(stall_report_s=0.01)
        running = await cluster.submit("t", line(FixedSpout(rows([0, 1]), "n"), bolt=Blocks()), config)
        assert not watches()
        await running.wait_finished()
        assert running.stalls() == []


@pytest.mark.sockets
async def test_the_watch_ends_when_the_start_fails_or_is_cancelled() -> None:
    class Never(Numbers):
        async def open(self, context: Any, collector: Any) -> None:  # type: ignore[override]
            await asyncio.Event().wait()

    async with LocalCluster() as cluster:
        submitting = asyncio.ensure_future(cluster.submit("t", line(Never(1), sink=Recorder())))
        await _watched()
        submitting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await submitting
        assert not watches()


@pytest.mark.sockets
async def test_the_watch_ends_though_the_end_is_cancelled() -> None:
    async def hold(tup: Any, collector: Any) -> None:
        await asyncio.Event().wait()

    async def serve() -> None:
        async with LocalCluster() as cluster:
            await cluster.submit("t", line(Numbers(1), bolt=Does(hold)))

    serving = asyncio.ensure_future(serve())
    await _watched()
    serving.cancel()
    with pytest.raises(asyncio.CancelledError):
        await serving
    assert not watches()
