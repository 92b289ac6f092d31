"""Turns that begin outside of the asyncio task: user code does not notice, and what has to wait goes on inside."""

from __future__ import annotations

import asyncio
import contextvars
import itertools
from collections.abc import Coroutine, Iterator
from typing import Any

import pytest

from aiostorm import BasicBolt, Bolt, Config, LocalCluster, bolt, spout
from aiostorm.testing import FixedSpout, Recorder, SimClock

from .parts import Gate, Notes, Numbers, line, rows


async def test_a_plain_method_that_returns_a_coroutine_may_wait_with_a_timeout(local_cluster: LocalCluster) -> None:
    """The timeout cancels the asyncio task; the task takes that for what it is."""

    class Waits(BasicBolt):
        outputs = "n"

        def execute(self, tup: Any, collector: Any) -> Coroutine[Any, Any, None]:
            return self.wait(tup["n"], collector)

        async def wait(self, n: int, collector: Any) -> None:
            async with asyncio.timeout(0 if n % 3 == 0 else 1):
                await asyncio.sleep(5 if n % 2 else 0.5)
            collector.emit((n,))

    source, sink = Numbers(12), Recorder()
    running = await local_cluster.submit("t", line(source, waits=Waits(), sink=sink))
    await running.wait_finished()
    kept = [n for n in range(12) if n % 3 and not n % 2]
    assert sorted(sink.values) == rows(kept)
    assert sorted(source.acked) == kept
    assert {n: failure.error for n, failure in source.failed.items()} == {
        n: "TimeoutError" for n in range(12) if n not in kept
    }


async def test_prepare_and_execute_see_one_task_and_one_context(local_cluster: LocalCluster) -> None:
    variable: contextvars.ContextVar[str] = contextvars.ContextVar("variable", default="none")
    seen = Notes()

    class Looks(BasicBolt):
        def prepare(self, context: Any) -> None:
            variable.set(f"task {context.task_id}")
            self.task = asyncio.current_task()

        def execute(self, tup: Any, collector: Any) -> None:
            seen.append((variable.get(), asyncio.current_task() is self.task is not None))

    running = await local_cluster.submit("t", line(Numbers(3), looks=Looks))
    await running.wait_finished()
    assert len(set(seen)) == 1
    assert seen[0][0].startswith("task ")
    assert seen[0][1]
    assert variable.get() == "none"


async def test_a_turn_that_waits_for_capacity_is_ended_by_a_kill(
    local_cluster: LocalCluster, sim_clock: SimClock
) -> None:
    """A generator has given more than its targets take; the turn waits for capacity that never comes."""
    gate, given = Gate(), Notes()

    @bolt(outputs="n")
    def many(n: int) -> Iterator[int]:
        for number in range(100_000):
            given.append(number)
            yield number

    class Stuck(BasicBolt):
        async def execute(self, tup: Any, collector: Any) -> None:
            await gate.wait()

    source = FixedSpout(rows(range(2)), "n")
    running = await local_cluster.submit("t", line(source, many=many, stuck=Stuck()), Config(message_timeout_s=1000))
    await sim_clock.advance(100)
    assert 0 < len(given) < 20_000
    await running.kill(0)
    assert not source.acked


async def test_a_kill_that_comes_between_an_error_and_its_report_to_the_guardian(local_cluster: LocalCluster) -> None:
    """The step has raised, its asyncio task has not woken up yet: the error is reported once and kept nowhere."""
    raised = Gate()

    class Raises(Bolt):
        def prepare(self, context: Any, collector: Any) -> None:
            """Nothing to keep."""

        def execute(self, tup: Any) -> None:
            raised.open()
            raise LookupError

    running = await local_cluster.submit("t", line(Numbers(1), raises=Raises))
    await raised.wait()
    (task,) = running._task_set.tasks.bolts
    assert task.steps.raised is not None
    assert not task.is_idle
    running._task_set.abort()
    await running.kill(0)
    assert task.steps.raised is None
    assert [report.error for report in running.errors()] == ["LookupError"]


@pytest.mark.sockets
async def test_timers_and_sockets_are_served_while_a_source_is_always_ready() -> None:
    """In real time: a chain of bolts that never runs dry, a timer every 5 ms, and an echo over a socket."""

    @spout(outputs="n", tracked=False)
    def endless() -> Iterator[int]:
        yield from itertools.count()

    @bolt(outputs="n")
    def same(n: int) -> int:
        return n

    @bolt
    def sink(n: int) -> None:
        """Nothing to do."""

    loop = asyncio.get_running_loop()
    late_s: list[float] = []
    echoes_s: list[float] = []

    async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while text := await reader.readline():
            writer.write(text)
        writer.close()

    async with LocalCluster() as cluster, await asyncio.start_server(echo, "127.0.0.1", 0) as server:
        running = await cluster.submit("t", line(endless, one=same, two=same, three=same, sink=sink))
        reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
        for _ in range(40):
            due_s = loop.time() + 0.005
            await asyncio.sleep(0.005)
            late_s.append(loop.time() - due_s)
            begun_s = loop.time()
            writer.write(b"x\n")
            await reader.readline()
            echoes_s.append(loop.time() - begun_s)
        writer.close()
        await writer.wait_closed()
        executed = running.metrics()["sink"].executed
        await running.kill(0)
    assert executed > 1000  # it was busy all the while
    assert sorted(late_s)[20] < 0.05
    assert sorted(echoes_s)[20] < 0.15  # three rounds of the loop or four
