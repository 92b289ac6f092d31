"""An ordered end: of one actor, of a branch; what was accepted is processed, and no caller waits for ever."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from aiostorm.actors import (
    ESCALATE_ON_FAILURE,
    STOP_ON_FAILURE,
    Actor,
    ActorEscalatedError,
    ActorSystem,
    Directive,
    Mailbox,
    MailboxClosedError,
    Ref,
    RestartPolicy,
    Stop,
)

from .sample_actors import Diary, Echo, Family, Watcher, ends, ends_with, steps


async def test_a_stopping_actor_processes_its_mailbox_then_ends_its_children_then_itself() -> None:
    pages: list[Any] = []
    async with ActorSystem() as system:
        ref = system.spawn(Family("p", pages))
        await steps()
        await ref.tell("one")
        await ref.tell("two")
        ref.stop()
        ref.stop()
        await ref.wait_terminated()
        assert pages[-6:] == [
            ("p", "one"),
            ("p", "two"),
            ("b", "stopped"),
            ("c", "stopped"),
            ("a", "stopped"),
            ("p", "stopped"),
        ]
        assert system.dead_letters.count == 0


async def test_the_end_of_the_block_is_an_ordered_end() -> None:
    pages: list[Any] = []
    async with ActorSystem() as system:
        ref = system.spawn(Family("p", pages))
        for number in range(10):
            await ref.tell(number)
    assert [page for name, page in pages if isinstance(page, int)] == list(range(10))
    assert ends(pages) == ["b", "c", "a", "p"]
    assert system.actors == 0
    assert system.dead_letters.count == 0


async def test_stop_is_a_message_that_others_may_post() -> None:
    """A sender with only the mailbox (as in the cluster)."""
    diary = Diary()
    async with ActorSystem() as system:
        ref = system.spawn(diary)
        await ref.tell("accepted")
        diary.mailbox.post(Stop())
        await ref.wait_terminated()
    assert diary.pages == ["started", "accepted", "stopped"]


async def test_an_actor_that_ends_may_wait_for_its_own_child() -> None:
    class Parent(Diary):
        def started(self) -> None:
            self.child = self.spawn(Diary("child", self.pages), "child")

        async def receive(self, message: Any) -> None:
            await self.child.tell(message)
            self.child.stop()
            await self.child.wait_terminated()
            self.write("child has ended")

    parent = Parent("parent")
    async with ActorSystem() as system:
        ref = system.spawn(parent)
        await ref.tell("work")
    assert parent.pages == [
        ("child", "started"),
        ("child", "work"),
        ("child", "stopped"),
        ("parent", "child has ended"),
        ("parent", "stopped"),
    ]


async def test_a_child_cannot_hang_on_a_parent_that_ends() -> None:
    """It waits for its parent's full mailbox, or for an answer: it is refused."""
    outcomes: list[str] = []

    class Parent(Actor):
        def started(self) -> None:
            parent = self.ref

            async def tell(child: Actor) -> None:
                for number in range(10):
                    await note(parent.tell(number))

            async def ask(child: Actor) -> None:
                await asyncio.sleep(5)
                await note(parent.ask("well?"))

            for talk in (tell, ask):
                self.spawn(Diary).tell_nowait(talk)

        async def receive(self, message: Any) -> None:
            await asyncio.sleep(2)
            self.stop()

    async def note(work: Any) -> None:
        try:
            await work
            outcomes.append("accepted")
        except MailboxClosedError:
            outcomes.append("refused")

    loop = asyncio.get_running_loop()
    begun_s = loop.time()
    async with ActorSystem() as system:
        ref = system.spawn(Parent, mailbox=Mailbox(2))
        await ref.wait_terminated()
    assert loop.time() - begun_s < 10
    assert outcomes.count("refused") >= 2
    assert outcomes.count("accepted") + outcomes.count("refused") == 11


async def test_a_failure_on_the_way_to_the_end_does_not_stop_the_end() -> None:
    """The next incarnation did not know of the stop, and waited for ever."""
    diary = Diary()
    async with ActorSystem(policy=RestartPolicy(backoff_s=(0.0,))) as system:
        ref = system.spawn(diary)
        for message in ("a", ValueError("x"), "b", ValueError("y"), "c"):
            await ref.tell(message)
        ref.stop()
        await ref.wait_terminated()
        assert [page for page in diary.pages if isinstance(page, str) and len(page) == 1] == ["a", "b", "c"]
        assert diary.pages[-1] == "stopped"


@pytest.mark.parametrize("asked", ["before the failure", "in the same instant", "during the wait"])
async def test_an_actor_that_is_to_stop_does_not_wait_for_a_backoff(asked: str) -> None:
    diary = Diary()
    loop = asyncio.get_running_loop()
    async with ActorSystem(policy=RestartPolicy(backoff_s=(60.0,))) as system:
        ref = system.spawn(diary)
        await steps()
        await ref.tell(ValueError("x"))
        await ref.tell("never received")
        if asked == "before the failure":
            ref.stop()
        elif asked == "in the same instant":
            await ref.tell(lambda actor: actor.stop())
            diary.mailbox.post(ValueError("y"))
            diary.mailbox.post(lambda actor: actor.stop())
            diary.stop()
        else:
            await asyncio.sleep(1)
            ref.stop()
        begun_s = loop.time()
        await ref.wait_terminated()
        assert loop.time() == begun_s
        assert "never received" not in diary.pages
        assert diary.pages[-1] == "stopped"
        assert "never received" in [letter.message for letter in system.dead_letters.last]


async def test_stopped_may_fail_and_everything_ends_all_the_same(caplog: pytest.LogCaptureFixture) -> None:
    class Bad(Echo):
        def __init__(self, cancelled: bool) -> None:
            self.cancelled = cancelled

        async def stopped(self) -> None:
            if self.cancelled:
                future = asyncio.get_running_loop().create_future()
                future.cancel()
                await future
            raise ValueError("cannot close")

    async with ActorSystem() as system:
        refs = [system.spawn(Bad(cancelled)) for cancelled in (True, False)]
        watcher = Watcher(*refs)
        system.spawn(watcher)
        await steps()
        for ref in refs:
            ref.stop()
            await ref.wait_terminated()
        await steps()
        assert [letter.ref for letter in watcher.notices] == refs
    assert "cannot close" in caplog.text
    assert "/bad-1 failed (stop): CancelledError()" in caplog.text


async def test_a_child_that_gives_up_while_its_parent_ends_is_reported() -> None:
    """It posted to a mailbox without a reader: the block ended as if nothing had happened."""

    class Parent(Diary):
        def child_escalated(self, ref: Ref, error: BaseException) -> None:
            self.write(("gave up", ref.path))

    diary = Parent()
    async with ActorSystem() as system:
        system.spawn(diary, "p")
        child = diary.spawn(Diary, "c", policy=ESCALATE_ON_FAILURE)
        await child.tell(ValueError("at the end"))
    assert diary.pages == ["started", ("gave up", "/p/c"), "stopped"]

    failed: list[tuple[str, Directive]] = []
    async with ends_with(ActorEscalatedError, r"/p gave up.*/p/c gave up.*at the end") as system:
        system.on_failure = lambda path, error, decision: failed.append((path, decision.directive))
        diary = Diary()
        ref = system.spawn(diary, "p")
        watcher = Watcher(ref)
        system.spawn(watcher)
        child = diary.spawn(Diary, "c", policy=ESCALATE_ON_FAILURE)
        await child.tell(ValueError("at the end"))
        ref.stop()
        await ref.wait_terminated()
        await steps()
        assert [type(notice.error) for notice in watcher.notices] == [ActorEscalatedError]
    assert failed == [("/p/c", Directive.ESCALATE), ("/p", Directive.ESCALATE)]


async def test_a_child_that_gives_up_under_a_parent_that_never_started_is_reported_too() -> None:
    class Unable(Diary):
        def started(self) -> None:
            raise ValueError("unable")

    parent = Unable()
    async with ends_with(ValueError, "the child") as system:
        ref = system.spawn(parent, policy=STOP_ON_FAILURE)
        child = parent.spawn(Diary, policy=ESCALATE_ON_FAILURE)
        await child.tell(ValueError("the child"))
        await ref.wait_terminated()


@pytest.mark.parametrize("policy", [STOP_ON_FAILURE, ESCALATE_ON_FAILURE])
async def test_a_child_that_waits_for_the_mailbox_of_a_parent_that_failed_for_good_is_refused(
    policy: RestartPolicy,
) -> None:
    class Parent(Actor):
        def started(self) -> None:
            parent = self.ref

            async def flood(child: Actor) -> None:
                for number in range(100):
                    await parent.tell(number)

            self.spawn(Diary, policy=STOP_ON_FAILURE).tell_nowait(flood)

        async def receive(self, message: Any) -> Any:
            await asyncio.sleep(1)
            raise ValueError("for good")

    loop = asyncio.get_running_loop()
    async with ActorSystem() as system:
        begun_s = loop.time()
        ref = system.spawn(Parent, mailbox=Mailbox(4), policy=policy)
        await ref.wait_terminated()
        assert loop.time() == begun_s + 1
        system.failure = None


async def test_a_child_that_gives_up_at_the_end_of_the_block_is_reported() -> None:

    async with ends_with(ActorEscalatedError, "/c gave up: ValueError") as system:
        child = system.spawn(Diary, "c", policy=ESCALATE_ON_FAILURE)
        await child.tell(ValueError("at the end"))
