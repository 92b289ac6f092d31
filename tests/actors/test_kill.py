"""An end at once, and within a bound, whatever user code does about it."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from aiostorm.actors import (
    ActorCancelledError,
    ActorEscalatedError,
    ActorSystem,
    Directive,
    KillTimeoutError,
    MailboxClosedError,
    RestartPolicy,
)

from .sample_actors import Diary, Echo, Family, Stubborn, Watcher, ends, ends_with, steps, waiting_for


async def test_kill_interrupts_and_what_was_accepted_becomes_dead_letters() -> None:
    pages: list[Any] = []
    async with ActorSystem() as system:
        ref = system.spawn(Family("p", pages))
        await ref.tell(waiting_for(asyncio.Event()))
        await steps()
        for number in range(3):
            await ref.tell(number)
        ref.kill()
        assert [letter.message for letter in system.dead_letters.last] == [0, 1, 2]
        assert {letter.path for letter in system.dead_letters.last} == {"/family-1"}
        with pytest.raises(MailboxClosedError):
            ref.tell_nowait("late")
        await ref.wait_terminated()
        assert sorted(ends(pages)) == ["a", "b", "c", "p"]
        assert ends(pages)[-1] == "p"
        assert system.actors == 0


async def test_an_actor_can_be_killed_before_its_first_step() -> None:
    """Asyncio never runs a coroutine that is cancelled before its first step, nor its `finally`."""
    async with ActorSystem() as system:
        diary = Diary()
        ref = system.spawn(diary)
        ref.tell_nowait("x")
        ref.kill()
        await ref.wait_terminated()
        assert diary.pages == []
        assert system.dead_letters.count == 1

    loop = asyncio.get_running_loop()
    async with ends_with(ActorEscalatedError, "/echo was cancelled by code outside of the actor system") as system:
        echo = Echo()
        ref = system.spawn(echo, "echo")
        child = echo.spawn(Echo)
        task_of("/echo").cancel()
        begun_s = loop.time()
        await ref.wait_terminated()
        await child.wait_terminated()
        assert loop.time() == begun_s


async def test_an_exception_in_the_block_ends_everything_at_once() -> None:
    pages: list[Any] = []
    async with ends_with(KeyError) as system:
        ref = system.spawn(Family("p", pages))
        await ref.tell(waiting_for(asyncio.Event()))
        await steps()
        await ref.tell("lost")
        system.spawn(Echo, "not even begun")
        raise KeyError("x")
    assert ends(pages)[-1] == "p"
    assert system.dead_letters.count == 1
    assert system.actors == 0
    assert system.failure is None


async def test_kill_during_backoff_started_and_stopped() -> None:
    class Slow(Diary):
        slow = ""

        async def started(self) -> None:  # type: ignore[override]
            self.write("started")
            if self.slow == "started":
                await asyncio.sleep(100)

        async def stopped(self) -> None:  # type: ignore[override]
            self.write("stopping")
            if self.slow == "stopped":
                await asyncio.sleep(100)
            self.write("stopped")

    loop = asyncio.get_running_loop()
    for slow, pages in (
        ("started", ["started"]),
        ("stopped", ["started", "stopping"]),
        ("backoff", ["started", ("raises", "ValueError('x')"), "stopping", "stopped"]),
    ):
        async with ActorSystem(policy=RestartPolicy(backoff_s=(100.0,))) as system:
            diary = Slow()
            diary.slow = slow
            ref = system.spawn(diary)
            await steps()
            if slow == "backoff":
                await ref.tell(ValueError("x"))
            elif slow == "stopped":
                ref.stop()
            await asyncio.sleep(1)
            begun_s = loop.time()
            ref.kill()
            await ref.wait_terminated()
            assert loop.time() == begun_s
            assert diary.pages == pages


async def test_an_error_during_a_kill_does_not_restart_the_actor() -> None:
    class Sore(Diary):
        async def receive(self, message: Any) -> None:
            try:
                await asyncio.sleep(100)
            except asyncio.CancelledError:
                raise ValueError("in a bad moment") from None

    diary = Sore()
    async with ActorSystem(policy=RestartPolicy(backoff_s=(0.0,))) as system:
        reports: list[tuple[str, Directive]] = []
        system.on_failure = lambda path, error, decision: reports.append((repr(error), decision.directive))
        ref = system.spawn(diary)
        watcher = Watcher(ref)
        system.spawn(watcher)
        await ref.tell("x")
        await steps()
        ref.kill()
        await ref.wait_terminated()
        await steps()
        assert diary.pages == ["started", "stopped"]
        assert isinstance(watcher.notices[0].error, ValueError)
        assert reports == [("ValueError('in a bad moment')", Directive.STOP)]


async def test_stopped_is_for_an_incarnation_that_did_start() -> None:
    class SlowSecond(Diary):
        starts = 0

        async def started(self) -> None:  # type: ignore[override]
            self.starts += 1
            if self.starts == 2:
                await asyncio.sleep(100)
            self.write("started")

    diary = SlowSecond()
    async with ActorSystem(policy=RestartPolicy(backoff_s=(0.0,))) as system:
        ref = system.spawn(diary)
        await ref.tell(ValueError("x"))
        await asyncio.sleep(1)
        ref.kill()
        await ref.wait_terminated()
    assert diary.pages == ["started", ("raises", "ValueError('x')")]


async def test_one_swallowed_cancel_is_not_enough_to_go_on() -> None:
    class Swallows(Diary):
        async def receive(self, message: Any) -> None:
            self.write(message)
            try:
                await asyncio.sleep(100)
            except asyncio.CancelledError:
                self.write("swallowed")

    loop = asyncio.get_running_loop()
    async with ActorSystem() as system:
        diary = Swallows()
        ref = system.spawn(diary)
        await ref.tell("first")
        await ref.tell("second")
        await steps()
        begun_s = loop.time()
        ref.kill()
        await ref.wait_terminated()
        assert loop.time() == begun_s
        assert diary.pages == ["started", "first", "swallowed", "stopped"]


async def test_kill_while_it_waits_for_children_in_order() -> None:
    pages: list[Any] = []
    async with ActorSystem() as system:
        top = Family("p", pages)
        ref = system.spawn(top)
        await steps()
        child = next(child for child in top.children if child.path.endswith("a"))
        await child.tell(waiting_for(asyncio.Event()))
        await steps()
        ref.stop()
        await steps()
        assert ends(pages) == ["b"]
        ref.kill()
        await ref.wait_terminated()
        assert ends(pages) == ["b", "c", "a", "p"]


async def test_an_actor_may_kill_itself() -> None:
    for message in (lambda actor: actor.ref.kill(), lambda actor: [actor.ref.kill(), actor.ref.kill()]):
        async with ActorSystem() as system:
            diary = Diary()
            ref = system.spawn(diary)
            await ref.tell(message)
            await ref.tell("never")
            await ref.wait_terminated()
            assert diary.pages == ["started", "stopped"]
            assert system.dead_letters.count == 1


# -- cancelled by other code -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("when", ["it waits", "its children end", "it says its last words"])
async def test_a_cancel_from_outside_ends_the_branch_and_is_passed_on(when: str) -> None:
    class Slow(Family):
        async def stopped(self) -> None:  # type: ignore[override]
            await asyncio.sleep(10 if when == "it says its last words" and self.name == "p" else 0)
            super().stopped()

    pages: list[Any] = []
    top = Slow("p", pages)
    loop = asyncio.get_running_loop()
    async with ends_with(ActorEscalatedError, "/p was cancelled by code outside of the actor system") as system:
        ref = system.spawn(top, "p")
        watcher = Watcher(ref)
        system.spawn(watcher)
        await steps()
        if when != "it waits":
            if when == "its children end":
                await top.children[0].tell(waiting_for(asyncio.Event()))
            ref.stop()
            await asyncio.sleep(1)
        task = task_of("/p")
        begun_s = loop.time()
        task.cancel()
        await ref.wait_terminated()
        await steps()
        assert loop.time() == begun_s
        assert task.cancelled()
        assert [type(notice.error) for notice in watcher.notices] == [ActorCancelledError]
        assert system.actors == 1  # the watcher
    assert ends(pages)[:3] in (["b", "c", "a"], ["c", "b", "a"])


async def test_a_root_that_is_cancelled_from_outside_fails_the_system() -> None:
    diary = Diary()
    async with ends_with(ActorCancelledError, "/ was cancelled") as system:
        ref = system.spawn(diary)
        await steps()
        task_of("").cancel()
        await ref.wait_terminated()
    assert diary.pages == ["started", "stopped"]


def task_of(path: str) -> asyncio.Task[Any]:
    return next(task for task in asyncio.all_tasks() if task.get_name() == path)


# -- within a bound ----------------------------------------------------------------------------------------------------


async def test_an_actor_that_swallows_every_cancel_is_abandoned_and_named(caplog: pytest.LogCaptureFixture) -> None:
    class Parent(Diary):
        def started(self) -> None:
            self.child = self.spawn(stubborn, "stubborn")

    stubborn = Stubborn()
    parent = Parent("p")
    loop = asyncio.get_running_loop()
    async with ends_with(
        KillTimeoutError,
        r"/parent-1/stubborn was killed but does not end: .*sample_actors\.py",
        stop_timeout_s=7,
        kill_timeout_s=3,
    ) as system:
        parent_ref = system.spawn(parent)
        await steps()
        watcher = Watcher(parent.child, parent_ref)
        await parent.child.tell("hang")
        await parent.child.tell("never")
        await steps()
        begun_s = loop.time()
        parent_ref.kill()
        system.spawn(watcher)
        await parent_ref.wait_terminated()
        assert loop.time() - begun_s <= 3 * 3
        await steps()
        assert [type(notice.error) for notice in watcher.notices] == [KillTimeoutError, type(None)]
        assert system.actors == 1  # the watcher
    assert stubborn.cancels == 2
    assert parent.pages == [("p", "stopped")]
    assert "cancelled but does not end" not in caplog.text
    stubborn.released.set()
    await steps()  # it ends after all, without an effect on others
    assert system.dead_letters.count == 1


@pytest.mark.parametrize("drain", [True, False])
async def test_the_system_ends_within_its_bound_and_names_the_actors_that_did_not(drain: bool) -> None:
    stubborn = Stubborn()
    loop = asyncio.get_running_loop()
    system = ActorSystem(stop_timeout_s=7, kill_timeout_s=3)
    await system.start()
    await system.spawn(stubborn).tell("hang")
    for number in range(20):
        system.spawn(Echo, f"echo{number}")
    await steps()
    begun_s = loop.time()
    await system.stop(drain=drain)
    assert loop.time() - begun_s <= (7 if drain else 0) + 3 * 3
    assert isinstance(system.failure, KillTimeoutError)
    assert system.actors == 0
    stubborn.released.set()
    await steps()


async def test_stopped_has_a_bound_too() -> None:
    class Lingers(Diary):
        async def stopped(self) -> None:  # type: ignore[override]
            self.write("stopping")
            try:
                await asyncio.sleep(1000)
            finally:
                self.write("interrupted")

    diary = Lingers()
    loop = asyncio.get_running_loop()
    begun_s = loop.time()
    async with ActorSystem(stop_timeout_s=7, kill_timeout_s=3) as system:
        system.spawn(diary)
        await steps()
    assert loop.time() - begun_s == 7
    assert diary.pages == ["started", "stopping", "interrupted"]

    diary = Lingers()
    async with ActorSystem(stop_timeout_s=7, kill_timeout_s=3) as system:
        ref = system.spawn(diary)
        await steps()
        begun_s = loop.time()
        ref.kill()  # then `stopped` gets as long as a kill may take
        await ref.wait_terminated()
        assert loop.time() - begun_s == 3


async def test_stopped_gets_its_time_also_after_a_long_wait_for_children() -> None:
    class Slow(Family):
        async def stopped(self) -> None:  # type: ignore[override]
            await asyncio.sleep(2.9)
            super().stopped()

    pages: list[Any] = []
    async with ActorSystem(kill_timeout_s=3) as system:
        ref = system.spawn(Slow("a", pages))
        await steps()
        ref.kill()
        await ref.wait_terminated()
    assert ends(pages) == ["c", "a"]


async def test_an_abandoned_actor_leaves_no_timer_behind() -> None:
    class Ticking(Stubborn):
        def started(self) -> None:
            self.every(1, "tick")
            self.after(0.5, "hang")

    stubborn = Ticking()
    async with ends_with(KillTimeoutError, kill_timeout_s=2) as system:
        ref = system.spawn(stubborn)
        await asyncio.sleep(1.5)
        ref.kill()
        await ref.wait_terminated()
    scheduled = asyncio.get_running_loop()._scheduled  # type: ignore[attr-defined]
    assert all(handle.cancelled() for handle in scheduled)
    stubborn.released.set()
    await steps()


async def test_a_guarded_task_has_a_bound_too() -> None:
    released = asyncio.Event()

    async def stubborn() -> None:
        while not released.is_set():
            try:
                await released.wait()
            except asyncio.CancelledError:
                continue

    loop = asyncio.get_running_loop()
    begun_s = loop.time()
    async with ends_with(
        KillTimeoutError, r"pump was cancelled but does not end: it hangs at .*test_kill\.py", kill_timeout_s=3
    ) as system:
        system.guard(stubborn(), name="pump")
        system.guard(asyncio.sleep(1000), name="well-behaved")
        await steps()
    assert loop.time() - begun_s == 6
    released.set()
    await steps()


async def test_actors_that_run_after_the_ordered_end_are_killed_and_named(caplog: pytest.LogCaptureFixture) -> None:
    async with ActorSystem(stop_timeout_s=4) as system:
        await system.spawn(Diary, "sleeper").tell(lambda actor: asyncio.sleep(1000))
        await steps()
    assert "still running after 4 s, killed: /sleeper" in caplog.text
    assert system.failure is None
