"""An actor that sleeps answers at once, in the caller's step; nothing else about an ask is different."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from aiostorm.actors import Actor, ActorSystem, AskFailedError, MailboxClosedError
from aiostorm.actors.ref import AT_ONCE

from .sample_actors import steps


class Plain(Actor):
    """Calls each message with itself; keeps notes."""

    def __init__(self) -> None:
        self.notes: list[Any] = []

    def receive(self, message: Any) -> Any:
        if callable(message):
            return message(self)
        if isinstance(message, BaseException):
            raise message
        self.notes.append(message)
        return len(self.notes)


async def test_no_round_of_the_loop() -> None:
    async with ActorSystem() as system:
        ref = system.spawn(Plain)
        await steps(3)
        rounds: list[None] = []
        asyncio.get_running_loop().call_soon(rounds.append, None)
        assert [await ref.ask(n) for n in range(3)] == [1, 2, 3]
        assert not rounds


async def test_no_message_is_overtaken() -> None:
    async with ActorSystem() as system:
        ref = system.spawn(Plain)
        await steps(3)
        await ref.tell("sent")
        assert await ref.ask("asked") == 2
        assert await ref.ask(lambda actor: list(actor.notes)) == ["sent", "asked"]


async def test_other_asyncio_tasks_get_the_loop() -> None:
    async with ActorSystem() as system:
        ref = system.spawn(Plain)
        rounds = 0

        async def count() -> None:
            nonlocal rounds
            while True:
                rounds += 1
                await asyncio.sleep(0)

        counting = asyncio.get_running_loop().create_task(count())
        for n in range(10 * AT_ONCE):
            await ref.ask(n)
        counting.cancel()
        assert rounds >= 9


async def test_receive_runs_as_the_task_of_its_actor_and_the_caller_goes_on_as_itself() -> None:
    async with ActorSystem() as system:
        ref = system.spawn(Plain)
        await steps(3)
        me = asyncio.current_task()
        tasks: set[Any] = set()
        for _ in range(2 * AT_ONCE):
            await ref.ask(lambda _: tasks.add(asyncio.current_task()))
        assert len(tasks) == 1
        assert me not in tasks
        assert asyncio.current_task() is me
        with pytest.raises(AskFailedError):
            await ref.ask(ValueError("no"))
        assert asyncio.current_task() is me


async def test_the_restart_policy_decides_about_a_failure() -> None:
    async with ActorSystem() as system:
        ref = system.spawn(Plain)
        await steps(3)
        assert await ref.ask("noted") == 1
        asks = [asyncio.ensure_future(ref.ask(message)) for message in (ValueError("no"), "by the next instance")]
        with pytest.raises(AskFailedError, match="no") as caught:
            await asks[0]
        assert isinstance(caught.value.__cause__, ValueError)
        assert await asks[1] == 1  # a new instance: its first note


async def test_an_answer_that_must_be_awaited_is_awaited_before_anything_else_is_received() -> None:
    gate = asyncio.Event()

    async def later(actor: Any) -> str:
        actor.notes.append("begun")
        await gate.wait()
        actor.notes.append("ended")
        return "an answer"

    def begin(actor: Any) -> Any:
        assert actor.ref.tell_nowait("to itself")
        return later(actor)

    async with ActorSystem() as system:
        ref = system.spawn(Plain)
        await steps(3)
        async with asyncio.TaskGroup() as group:
            first = group.create_task(ref.ask(begin))
            second = group.create_task(ref.ask("second"))
            await steps(5)
            assert not first.done()
            gate.set()
        assert (first.result(), second.result()) == ("an answer", 4)
        assert await ref.ask(lambda actor: actor.notes) == ["begun", "ended", "to itself", "second"]


async def test_an_answer_that_is_never_awaited_since_its_actor_was_killed() -> None:
    """The coroutine is closed: no warning that it was never awaited."""

    async def later(actor: Any) -> None:
        actor.notes.append("never")

    def begin(actor: Any) -> Any:
        actor.ref.kill()
        return later(actor)

    async with ActorSystem() as system:
        ref = system.spawn(Plain)
        await steps(3)
        with pytest.raises(MailboxClosedError):
            await ref.ask(begin)
        await ref.wait_terminated()
