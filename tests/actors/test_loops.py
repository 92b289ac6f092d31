"""On real loops, and on loops that start asyncio tasks eagerly: the same, and an end under load is quick."""

from __future__ import annotations

import asyncio
import sys
from typing import Any

import pytest

from aiostorm.actors import (
    RESUME_ON_FAILURE,
    Actor,
    ActorSystem,
    Mailbox,
    MailboxClosedError,
    Ref,
    RestartPolicy,
)
from aiostorm.testing import VirtualTimeLoop

from .sample_actors import Diary, Echo, Family, ends, steps


@pytest.mark.sockets
async def test_tell_ask_restart_and_end() -> None:
    pages: list[Any] = []
    async with ActorSystem(policy=RestartPolicy(backoff_s=(0.0, 0.001))) as system:
        ref = system.spawn(Family("p", pages))
        async with asyncio.TaskGroup() as group:
            for sender in range(10):
                group.create_task(_talk(ref, sender))
        for number in range(3):
            await ref.tell(ValueError(str(number)))
        assert await ref.ask("still there") == "still there"
    assert ends(pages)[-1] == "p"
    assert system.dead_letters.count == 0


async def _talk(ref: Ref, sender: int) -> None:
    for number in range(50):
        await ref.tell((sender, number))
        assert await ref.ask(number) == number


@pytest.mark.sockets
@pytest.mark.parametrize("drain", [True, False])
async def test_an_end_under_load_is_quick(drain: bool) -> None:
    """A hundred times, with senders, parked senders and callers of ask."""
    loop = asyncio.get_running_loop()
    longest_s = 0.0
    for round_ in range(100):
        async with ActorSystem(stop_timeout_s=30) as system:
            refs = [system.spawn(Echo, f"echo{i}", mailbox=Mailbox(4)) for i in range(4)]
            async with asyncio.TaskGroup() as group:
                for sender in range(12):
                    group.create_task(_until_closed(refs[sender % 4], sender % 3 == 0))
                await steps(round_ % 10)
                begun_s = loop.time()
                await system.stop(drain=drain)
                longest_s = max(longest_s, loop.time() - begun_s)
        assert not any(ref._mailbox.parked or ref._mailbox.has_data for ref in refs)
    assert longest_s < 10, "no caller waited until its timeout"


async def _until_closed(ref: Ref, asks: bool) -> None:
    try:
        while True:
            await (ref.ask("q") if asks else ref.tell("m"))
            await asyncio.sleep(0)
    except MailboxClosedError:
        return


async def test_structured_concurrency_inside_receive_is_no_cancel_of_the_actor() -> None:
    """TaskGroup and timeout cancel the asyncio task that they are in; the kernel must not react to that."""

    async def group_fails(actor: Actor) -> None:
        async def fail() -> None:
            raise ValueError("in the group")

        async with asyncio.TaskGroup() as group:
            group.create_task(fail())
            await asyncio.sleep(100)

    async def runs_out_of_time(actor: Actor) -> None:
        async with asyncio.timeout(1):
            await asyncio.sleep(100)

    async def cancelled(actor: Actor) -> None:
        future = asyncio.get_running_loop().create_future()
        future.cancel()
        await future

    failures: list[str] = []
    async with ActorSystem() as system:
        system.on_failure = lambda path, error, decision: failures.append(type(error).__name__)
        ref = system.spawn(Diary, policy=RESUME_ON_FAILURE)
        for _ in range(3):
            for message in (group_fails, runs_out_of_time, cancelled):
                await ref.tell(message)
        assert await ref.ask("still there") == "still there"
    assert failures == ["ExceptionGroup", "TimeoutError", "ActorCancelledError"] * 3


@pytest.mark.skipif(sys.version_info < (3, 12), reason="eager tasks came with Python 3.12")
def test_asyncio_tasks_may_start_eagerly() -> None:
    """Then an actor starts, and may even end, within `spawn`."""

    class Brief(Diary):
        def started(self) -> None:
            super().started()
            if self.name == "kills itself":
                self.ref.kill()
            if self.name == "stops itself":
                self.stop()
            if self.name == "has a child":
                self.spawn(Brief("kills itself", self.pages), "child")
            if self.name == "fails":
                raise ValueError("at once")

    async def work() -> None:
        pages: list[Any] = []
        async with ActorSystem(policy=RestartPolicy(max_restarts=0)) as system:
            refs = {}
            for name in ("kills itself", "stops itself", "has a child", "fails"):
                refs[name] = system.spawn(Brief(name, pages))
            echo = system.spawn(Echo)
            assert await echo.ask("hello") == "hello"
            await steps()
            assert not refs["kills itself"].is_alive
            assert not refs["stops itself"].is_alive
            assert refs["has a child"].is_alive
            assert not refs["fails"].is_alive
            assert len(system.cells) == 2
            assert system.failure is not None
            system.failure = None
        assert ends(pages) == ["kills itself", "stops itself", "kills itself", "has a child"]

    with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
        runner.get_loop().set_task_factory(asyncio.eager_task_factory)  # type: ignore[attr-defined, unused-ignore]
        runner.run(work())
