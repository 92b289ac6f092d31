"""The system: its end, cancelled or not; several of them; and failures that no other code handles."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from aiostorm.actors import (
    Actor,
    ActorSystem,
    Mailbox,
    MailboxClosedError,
    Question,
    Ref,
    Terminated,
)
from aiostorm.testing import VirtualTimeLoop

from .sample_actors import Diary, Echo, Family, Watcher, ends, ends_with, steps, waiting_for


async def test_a_cancel_during_the_end_is_passed_on_when_everything_has_ended() -> None:
    system = ActorSystem()
    diary = Diary()

    async def block() -> None:
        async with system:
            ref = system.spawn(diary)
            await ref.tell(waiting_for(asyncio.Event()))
            await steps()

    task = asyncio.create_task(block())
    await asyncio.sleep(1)
    assert not task.done()
    task.cancel()
    await asyncio.wait((task,))
    assert task.cancelled()
    assert system.actors == 0
    assert diary.pages == ["started", "stopped"]


async def test_many_cancels_during_the_end() -> None:
    class Slow(Diary):
        async def stopped(self) -> None:  # type: ignore[override]
            await asyncio.sleep(2)
            self.write("stopped")

    system = ActorSystem()
    diary = Slow()

    async def block() -> None:
        async with system:
            system.spawn(diary)
            system.guard(asyncio.sleep(1000), name="guarded")
            await steps()
            raise KeyError("x")

    task = asyncio.create_task(block())
    for _ in range(5):
        await asyncio.sleep(0.3)
        task.cancel()
    await asyncio.wait((task,))
    assert task.cancelled()
    assert diary.pages == ["started", "stopped"]
    assert system.actors == 0


async def test_entered_in_one_asyncio_task_and_left_in_another() -> None:
    system = ActorSystem()
    async with asyncio.TaskGroup() as group:
        await group.create_task(system.__aenter__())
        ref = await group.create_task(spawn_in(system))
        assert await ref.ask("hello") == "hello"
        await group.create_task(system.__aexit__(None, None, None))
    assert not ref.is_alive


async def spawn_in(system: ActorSystem) -> Ref:
    return system.spawn(Echo)


async def test_two_systems_in_one_loop() -> None:
    async with ActorSystem("one") as one:
        first = one.spawn(Diary, "a")
        async with ActorSystem("two") as two:
            second = two.spawn(Echo, "a")
            assert await first.ask(lambda actor: second.ask("across")) == "across"
            await first.ask(lambda actor: actor.watch(second))
        diary = first.cell.supervision.actor
        assert isinstance(diary, Diary)
        await first.ask("after")
        assert ("terminated", "/a") in diary.pages
        assert first.is_alive
        with pytest.raises(MailboxClosedError):
            await second.ask("late")


async def test_starting_and_stopping_twice() -> None:
    system = ActorSystem()
    await system.stop()
    for use in (lambda: system.spawn(Echo), lambda: system.loop):
        with pytest.raises(RuntimeError, match="use `async with"):
            use()
    await system.start()
    with pytest.raises(RuntimeError, match="already been started"):
        await system.start()
    async with asyncio.TaskGroup() as group:
        for _ in range(3):
            group.create_task(system.stop())
    await system.stop(drain=False)
    with pytest.raises(MailboxClosedError, match="starts no new actors"):
        system.spawn(Echo)


async def test_while_it_drains_actors_may_spawn_children_but_not_top_level_actors() -> None:
    diary = Diary()
    problems: list[Exception] = []

    def late(actor: Actor) -> None:
        actor.spawn(Diary("child", diary.pages), "child")
        try:
            actor.system.spawn(Echo)
        except MailboxClosedError as error:
            problems.append(error)

    async with ActorSystem() as system:
        ref = system.spawn(diary)
        await ref.tell(lambda actor: asyncio.sleep(1))
        await ref.tell(late)
    assert len(problems) == 1
    assert diary.pages[-2:] == [("child", "stopped"), "stopped"]


async def test_an_actor_cannot_wait_for_the_end_of_its_own_system() -> None:
    async with ActorSystem() as system:
        ref = system.spawn(Diary)
        with pytest.raises(Exception, match="cannot wait for the end of its own actor system"):
            await ref.ask(lambda actor: actor.system.stop())


async def test_a_guarded_task_that_raises_fails_the_system() -> None:
    async def work() -> None:
        raise ValueError("not awaited")

    async with ends_with(ValueError, "not awaited") as system:
        system.guard(work(), name="worker")
        await steps()


async def test_every_failure_is_logged_and_the_first_is_raised(caplog: pytest.LogCaptureFixture) -> None:
    async def work(name: str) -> None:
        raise ValueError(name)

    async with ends_with(ValueError, "first") as system:
        system.guard(work("first"), name="a")
        system.guard(work("second"), name="b")
        await steps()
    assert "'second'" in caplog.text


@pytest.mark.parametrize("interrupt", [KeyboardInterrupt, SystemExit])
def test_an_interrupt_in_an_actor_goes_through_the_loop_and_everything_ends(
    interrupt: type[BaseException],
) -> None:
    pages: list[Any] = []
    system = ActorSystem()
    interrupted = Diary("q", pages)

    async def main() -> None:
        async with system:
            ref = system.spawn(Family("p", pages))
            await steps()
            await ref.tell("accepted")
            ref = system.spawn(interrupted)
            interrupted.spawn(Diary("child of q", pages))
            await steps()
            await ref.tell(interrupt("now"))
            await ref.tell("never received")
            await asyncio.sleep(1000)

    with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
        with pytest.raises(interrupt):
            runner.run(main())
        # At once, before the loop is shut down: nothing waits for it any more, and nothing below it goes on.
        cell = interrupted.ref.cell
        assert not interrupted.ref.is_alive
        assert isinstance(cell.termination.error, interrupt)
        assert all(child.termination.killed for child in cell.children)
        assert [letter.message for letter in system.dead_letters.last] == ["never received"]
    assert sorted(ends(pages)) == ["a", "b", "c", "child of q", "p"]  # not q: it is the one that was interrupted
    assert system.actors == 0


async def test_a_base_exception_of_another_kind_ends_the_block() -> None:
    class OutOfTheOrdinary(BaseException):
        pass

    diary = Diary()
    async with ends_with(OutOfTheOrdinary) as system:
        ref = system.spawn(diary)
        watcher = Watcher(ref)
        system.spawn(watcher)
        child = diary.spawn(Diary)
        await child.tell(waiting_for(asyncio.Event()))
        await ref.tell(OutOfTheOrdinary())
        await ref.wait_terminated()
        await steps()
        assert [type(notice.error) for notice in watcher.notices] == [OutOfTheOrdinary]


async def test_control_messages_to_the_dead_are_dead_letters_and_questions_are_refused() -> None:
    """Others may hold a mailbox (the cluster does): what they post after the end must not vanish."""
    async with ActorSystem() as system:
        box = Mailbox(3)
        ref = system.spawn(Echo, mailbox=box)
        ref.kill()
        await ref.wait_terminated()
        reply: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        box.post(Question("hello?", reply))
        box.post("is it running?")
        box.post(Terminated(ref))
        with pytest.raises(MailboxClosedError, match="stopped before it answered"):
            await reply
        assert [letter.message for letter in system.dead_letters.last] == ["hello?", "is it running?"]
        assert not box.has_control
