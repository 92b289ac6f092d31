"""Timers: when, how often, and never after they were cancelled or their actor has ended."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from aiostorm.actors import RESUME_ON_FAILURE, ActorSystem, RestartPolicy

from .sample_actors import Diary


class Clocked(Diary):
    """Records its messages with their times."""

    async def receive(self, message: Any) -> Any:
        if isinstance(message, str):
            self.write((message, asyncio.get_running_loop().time() - 1_000))
            return None
        return await super().receive(message)


async def test_after_once_and_every_again_and_again() -> None:
    diary = Clocked()
    async with ActorSystem() as system:
        ref = system.spawn(diary)
        await ref.ask(lambda actor: actor.after(2.5, "once"))
        await ref.ask(lambda actor: actor.every(1, "tick"))
        await asyncio.sleep(3.2)
    assert diary.pages == ["started", ("tick", 1), ("tick", 2), ("once", 2.5), ("tick", 3), "stopped"]


async def test_a_busy_actor_gets_one_tick_and_not_ten() -> None:
    diary = Clocked()
    async with ActorSystem() as system:
        ref = system.spawn(diary)
        await ref.ask(lambda actor: actor.every(1, "tick"))
        await ref.ask(lambda actor: asyncio.sleep(10.5))
        await asyncio.sleep(1)
    assert diary.pages == ["started", ("tick", 10.5), ("tick", 11), "stopped"]


async def test_cancel_takes_back_what_is_in_the_mailbox() -> None:
    diary = Clocked()
    async with ActorSystem() as system:
        ref = system.spawn(diary)
        timers: list[Any] = []
        await ref.ask(lambda actor: timers.append(actor.after(1, "once")))
        await ref.ask(lambda actor: timers.append(actor.every(1, "tick")))
        await ref.tell(lambda actor: asyncio.sleep(5))
        await asyncio.sleep(3)
        assert all(timer.under_way for timer in timers)
        for timer in timers:
            timer.cancel()
            timer.cancel()
        await asyncio.sleep(10)
        assert not any(timer.active for timer in timers)
    assert diary.pages == ["started", "stopped"]


async def test_a_restart_ends_the_timers_of_the_last_incarnation() -> None:
    diary = Clocked()
    async with ActorSystem(policy=RestartPolicy(backoff_s=(2.0,))) as system:
        ref = system.spawn(diary)
        for make in (lambda a: a.every(1, "tick"), lambda a: a.after(0, "under way"), lambda a: a.after(9, "later")):
            await ref.ask(make)
        await ref.tell(ValueError("x"))
        await asyncio.sleep(20)
    assert [page for page in diary.pages if isinstance(page, tuple) and page[0] in ("tick", "later")] == []


async def test_resume_keeps_them() -> None:
    diary = Clocked()
    async with ActorSystem() as system:
        ref = system.spawn(diary, policy=RESUME_ON_FAILURE)
        await ref.ask(lambda actor: actor.every(1, "tick"))
        await ref.ask(lambda actor: actor.after(1.5, ValueError("x")))
        await asyncio.sleep(3.2)
    ticks = [page for page in diary.pages if isinstance(page, tuple) and page[0] == "tick"]
    assert ticks == [("tick", 1), ("tick", 2), ("tick", 3)]


async def test_no_timer_outlives_its_actor() -> None:
    async with ActorSystem() as system:
        ref = system.spawn(Diary)
        await ref.ask(lambda actor: actor.every(1, "tick"))
        await ref.ask(lambda actor: actor.after(1000, "once"))
        ref.kill()
        await ref.wait_terminated()
        assert system.dead_letters.count == 0
    scheduled = asyncio.get_running_loop()._scheduled  # type: ignore[attr-defined]
    assert all(handle.cancelled() for handle in scheduled)


async def test_an_interval_is_greater_than_zero() -> None:
    async with ActorSystem() as system:
        ref = system.spawn(Diary)
        with pytest.raises(Exception, match="more than 0 seconds"):
            await ref.ask(lambda actor: actor.every(0, "tick"))
