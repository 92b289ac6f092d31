"""Failures: what is restarted, resumed, stopped or escalated; what survives it; and what must not follow."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from aiostorm.actors import (
    RESUME_ON_FAILURE,
    STOP_ON_FAILURE,
    Actor,
    ActorEscalatedError,
    ActorSystem,
    AskFailedError,
    Directive,
    Mailbox,
    RestartPolicy,
)

from .sample_actors import Diary, Echo, Reports, Watcher, ends_with, steps

AT_ONCE = RestartPolicy(backoff_s=(0.0,))


async def test_a_restart_makes_a_new_instance_and_keeps_the_mailbox() -> None:
    pages: list[Any] = []
    numbers = iter("abc")
    async with ActorSystem(policy=AT_ONCE) as system:
        ref = system.spawn(lambda: Diary(next(numbers), pages))
        for message in (1, ValueError("x"), 2, ValueError("y"), 3):
            await ref.tell(message)
    assert [page for page in pages if not isinstance(page[1], tuple)] == [
        ("a", "started"),
        ("a", 1),
        ("b", "started"),
        ("b", 2),
        ("c", "started"),
        ("c", 3),
        ("c", "stopped"),
    ]


async def test_a_restart_of_an_instance_starts_the_same_one_again() -> None:
    diary = Diary()
    async with ActorSystem(policy=AT_ONCE) as system:
        ref = system.spawn(diary)
        await ref.tell(ValueError("x"))
        await ref.ask("after")
    assert diary.pages == ["started", ("raises", "ValueError('x')"), "started", "after", "stopped"]


async def test_backoff_is_waited_for_and_senders_with_it() -> None:
    diary = Diary()
    loop = asyncio.get_running_loop()
    async with ActorSystem(policy=RestartPolicy(backoff_s=(0.0, 0.2, 1.0, 5.0))) as system:
        ref = system.spawn(diary, mailbox=Mailbox(2))
        waits = []
        for number in range(5):
            await ref.tell(ValueError(str(number)))
            begun_s = loop.time()
            await ref.ask(number)
            waits.append(round(loop.time() - begun_s, 9))
    assert waits == [0.0, 0.2, 1.0, 5.0, 5.0]


async def test_arrivals_do_not_shorten_the_backoff() -> None:
    loop = asyncio.get_running_loop()
    async with ActorSystem(policy=RestartPolicy(backoff_s=(3.0,))) as system:
        ref = system.spawn(Diary)
        await ref.tell(ValueError("x"))
        begun_s = loop.time()
        for number in range(10):
            await asyncio.sleep(0.1)
            await ref.tell(number)
        await ref.ask("there?")
        assert loop.time() - begun_s == pytest.approx(3.0)


async def test_control_messages_keep_their_order_over_a_restart() -> None:
    diary = Diary()
    async with ActorSystem(policy=RestartPolicy(backoff_s=(1.0,))) as system:
        ref = system.spawn(diary)
        await ref.tell(ValueError("x"))
        await asyncio.sleep(0.5)
        for number in range(3):
            diary.mailbox.post(number)
            await asyncio.sleep(0.1)
        # In the very instant at which the wait is over.
        asyncio.get_running_loop().call_later(0.2, diary.mailbox.post, 3)
        await asyncio.sleep(1)
    assert diary.pages == ["started", ("raises", "ValueError('x')"), "started", 0, 1, 2, 3, "stopped"]


async def test_resume_keeps_state_children_and_timers() -> None:
    diary = Diary()
    async with ActorSystem() as system:
        ref = system.spawn(diary, policy=RESUME_ON_FAILURE)
        await ref.ask(lambda actor: actor.spawn(Echo, "child"))
        await ref.ask(lambda actor: actor.after(1, "tick"))
        await ref.tell(ValueError("x"))
        await asyncio.sleep(2)
        await ref.ask("after")
        assert [child.path for child in diary.children] == ["/diary-1/child"]
    assert diary.pages == ["started", ("raises", "ValueError('x')"), "tick", "after", "stopped"]


async def test_failure_after_failure_does_not_keep_the_loop_from_others() -> None:
    class Hopeless(Actor):
        failures = 0

        def receive(self, message: Any) -> None:
            self.failures += 1
            raise ValueError(message)

    hopeless = Hopeless()
    async with ActorSystem(mailbox_capacity=2000) as system:
        system.on_failure = lambda path, error, decision: None
        ref = system.spawn(hopeless, policy=RESUME_ON_FAILURE)
        await steps(3)
        for number in range(1000):
            ref.tell_nowait(number)
        await steps(10)
        assert 0 < hopeless.failures < 20


async def test_restart_after_restart_does_not_keep_the_loop_from_others() -> None:
    class Unable(Actor):
        starts = 0

        def started(self) -> None:
            Unable.starts += 1
            raise ValueError("unable")

    async with ActorSystem() as system:
        system.on_failure = lambda path, error, decision: None
        ref = system.spawn(Unable, policy=RestartPolicy(max_restarts=10_000, backoff_s=(0.0,)))
        await steps(20)
        assert 5 < Unable.starts < 50
        ref.kill()


async def test_an_actor_that_cannot_start_is_not_resumed_for_ever() -> None:
    """It once was, and blocked the event loop."""

    class Unable(Actor):
        def started(self) -> None:
            raise ValueError("unable")

    async with ends_with(ActorEscalatedError, "unable") as system:
        reports = Reports(system)
        ref = system.spawn(Unable, policy=RESUME_ON_FAILURE)
        watcher = Watcher(ref)
        system.spawn(watcher)
        await ref.wait_terminated()
        await steps()
        assert isinstance(watcher.notices[0].error, ValueError)
    assert [directive for _, _, directive in reports.all] == [Directive.RESTART] * 5 + [Directive.ESCALATE]


@pytest.mark.parametrize("where", ["factory", "not an actor", "started", "async started", "receive"])
async def test_repeated_failures_escalate(where: str) -> None:
    class Bad(Actor):
        ended = 0

        def started(self) -> Any:
            if where == "started":
                raise ValueError("bad")
            return self.start_later() if where == "async started" else None

        async def start_later(self) -> None:
            await asyncio.sleep(1)
            raise ValueError("bad")

        def receive(self, message: Any) -> None:
            raise ValueError("bad")

        def stopped(self) -> None:
            Bad.ended += 1

    def make() -> Actor:
        if where == "factory":
            raise ValueError("bad")
        return Bad() if where != "not an actor" else "bad"  # type: ignore[return-value]

    async with ends_with(ActorEscalatedError, "gave up") as system:
        reports = Reports(system)
        ref = system.spawn(make)
        for number in range(10):
            await ref.tell(number)
        await ref.wait_terminated()
        left = system.dead_letters.count
    assert system.failure is not None
    assert isinstance(system.failure.__cause__, TypeError if where == "not an actor" else ValueError)
    assert [directive for _, _, directive in reports.all] == [Directive.RESTART] * 5 + [Directive.ESCALATE]
    assert Bad.ended == (where == "receive")  # `stopped` is for an actor that did start
    assert left == (4 if where == "receive" else 10)


async def test_stop_on_failure_ends_the_actor_only() -> None:
    async with ActorSystem() as system:
        reports = Reports(system)
        ref = system.spawn(Diary, policy=STOP_ON_FAILURE)
        watcher = Watcher(ref)
        system.spawn(watcher)
        await ref.tell(ValueError("x"))
        await ref.wait_terminated()
        await steps()
        assert isinstance(watcher.notices[0].error, ValueError)
        assert system.failure is None
    assert reports.all == [("/diary-1", "x", Directive.STOP)]


async def test_children_end_before_their_parent_starts_again() -> None:
    pages: list[Any] = []

    class Parent(Diary):
        def started(self) -> None:
            super().started()
            for name in "ab":
                self.spawn(lambda name=name: Diary(name, pages), name)

    async with ActorSystem(policy=AT_ONCE) as system:
        ref = system.spawn(lambda: Parent("p", pages))
        await ref.tell(ValueError("x"))
        await ref.ask("after")
        order = [pages.index(("b", "stopped")), pages.index(("a", "stopped"))]
        starts = [i for i, page in enumerate(pages) if page == ("p", "started")]
        assert len(starts) == 2
        assert order[0] < order[1] < starts[1]


async def test_a_child_that_waits_for_the_mailbox_of_a_restarting_parent_does_not_hang_it() -> None:
    """The child waits for its parent to read, the parent for its child to end."""

    class Slow(Diary):
        async def stopped(self) -> None:  # type: ignore[override]
            await asyncio.sleep(0.5)

    class Parent(Actor):
        starts = 0

        def started(self) -> None:
            Parent.starts += 1
            parent = self.ref

            async def flood(child: Actor) -> None:
                for number in range(100):
                    await parent.tell(number)

            self.child = self.spawn(Slow, "child")  # the name must be free again
            if Parent.starts == 1:
                self.child.tell_nowait(flood)

        async def receive(self, message: Any) -> Any:
            if message == "fail":
                await asyncio.sleep(1)
                raise ValueError("with a full mailbox")
            return message

    async with ActorSystem(stop_timeout_s=3) as system:
        ref = system.spawn(Parent, mailbox=Mailbox(4))
        ref.tell_nowait("fail")
        loop = asyncio.get_running_loop()
        begun_s = loop.time()
        assert await ref.ask("back?") == "back?"
        assert loop.time() - begun_s == pytest.approx(1 + 3 + 0.5)
        assert Parent.starts == 2


async def test_a_cancelled_future_in_user_code_is_a_failure_like_any_other() -> None:
    """Asyncio raises CancelledError for it, and a CancelledError would end the actor silently."""

    async def await_something_cancelled(actor: Actor) -> None:
        future = asyncio.get_running_loop().create_future()
        future.cancel()
        await future

    async with ActorSystem() as system:
        reports = Reports(system)
        ref = system.spawn(Diary)
        await ref.tell(await_something_cancelled)
        assert await ref.ask("still here") == "still here"
        with pytest.raises(Exception, match="failed to answer the question") as caught:
            await ref.ask(await_something_cancelled)
        assert isinstance(caught.value.__cause__, asyncio.CancelledError)
        assert [directive for _, _, directive in reports.all] == [Directive.RESTART] * 2
        assert "something that it awaited was cancelled" in reports.all[0][1]
        assert all(isinstance(cause, asyncio.CancelledError) for cause in reports.causes)


async def test_a_listener_that_raises_changes_nothing(caplog: pytest.LogCaptureFixture) -> None:
    def broken(*arguments: object) -> None:
        raise KeyError("the listener")

    async with ActorSystem(policy=AT_ONCE) as system:
        system.on_failure = broken
        system.dead_letters.listener = broken
        ref = system.spawn(Diary)
        await ref.tell(ValueError("x"))
        assert await ref.ask("still here") == "still here"
        ref.tell_nowait("lost")
        ref.kill()
        await ref.wait_terminated()
        assert system.dead_letters.count == 1
        assert system.failure is None
    assert "on_failure itself failed" in caplog.text
    assert "listener of dead letters failed" in caplog.text


async def test_failures_are_logged_with_what_was_decided(caplog: pytest.LogCaptureFixture) -> None:
    async with ActorSystem() as system:
        ref = system.spawn(Diary)
        await ref.tell(ValueError("x"))
        await ref.ask("after")
    assert "actor /diary-1 failed (restart 1 in 0 s): ValueError('x')" in caplog.text


async def test_stop_iteration_is_a_failure_like_any_other() -> None:
    """An exhausted generator, called with `next`; a coroutine turns it into RuntimeError on the way."""

    class Dry(Actor):
        def receive(self, message: Any) -> Any:
            return next(iter(())) if message == "next" else message

    async with ActorSystem() as system:
        reports = Reports(system)
        ref = system.spawn(Dry)
        await ref.tell("next")
        with pytest.raises(AskFailedError, match="StopIteration"):
            await ref.ask("next")
        assert await ref.ask("still there") == "still there"
        assert [directive for _, _, directive in reports.all] == [Directive.RESTART] * 2
