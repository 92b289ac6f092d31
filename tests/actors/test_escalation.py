"""Escalation: which actors are notified when an actor fails for good, and how they fail with it."""

from __future__ import annotations

import asyncio
from typing import Any

from aiostorm.actors import (
    ESCALATE_ON_FAILURE,
    Actor,
    ActorCancelledError,
    ActorEscalatedError,
    ActorSystem,
    Directive,
    Ref,
    RestartPolicy,
)

from .sample_actors import Diary, Reports, Watcher, ends_with, steps


async def test_escalation_goes_up_the_tree() -> None:
    """leaf fails for good ─► middle's hook raises ─► middle fails for good ─► top restarts, with new children."""
    made = {"top": 0, "middle": 0, "leaf": 0}

    class Leaf(Actor):
        def __init__(self) -> None:
            made["leaf"] += 1

        def receive(self, message: Any) -> None:
            raise ValueError("leaf")

    class Middle(Actor):
        def __init__(self) -> None:
            made["middle"] += 1

        def started(self) -> None:
            self.leaf = self.spawn(Leaf, "leaf", policy=ESCALATE_ON_FAILURE)

        async def receive(self, message: Any) -> None:
            await self.leaf.tell(message)

    class Top(Actor):
        def __init__(self) -> None:
            made["top"] += 1

        def started(self) -> None:
            self.middle = self.spawn(Middle, "middle", policy=ESCALATE_ON_FAILURE)

        async def receive(self, message: Any) -> None:
            await self.middle.tell(message)

    async with ActorSystem() as system:
        reports = Reports(system)
        ref = system.spawn(Top, "top")
        await ref.tell("go")
        await asyncio.sleep(1)
        assert made == {"top": 2, "middle": 2, "leaf": 2}
        assert [(path, directive) for path, _, directive in reports.all] == [
            ("/top/middle/leaf", Directive.ESCALATE),
            ("/top/middle", Directive.ESCALATE),
            ("/top", Directive.RESTART),
        ]
        assert system.actors == 3
        assert system.failure is None


async def test_escalation_to_the_root_is_raised_at_the_end_of_the_block() -> None:
    class Top(Diary):
        def started(self) -> None:
            super().started()
            self.leaf = self.spawn(Diary, "leaf", policy=ESCALATE_ON_FAILURE)

    reached = False
    async with ends_with(ActorEscalatedError, r"/top gave up: ActorEscalatedError") as system:
        top = Top()
        ref = system.spawn(top, "top", policy=RestartPolicy(max_restarts=0))
        await ref.ask("x")
        await top.leaf.tell(ValueError("deep down"))
        await ref.wait_terminated()
        reached = True
    assert reached
    assert system.failure is not None
    chain = system.failure.__cause__
    assert isinstance(chain, ActorEscalatedError)
    assert isinstance(chain.__cause__, ValueError)


async def test_an_error_in_the_block_comes_before_a_failure_of_the_system() -> None:
    async with ends_with(KeyError) as system:
        ref = system.spawn(Diary, policy=ESCALATE_ON_FAILURE)
        await ref.tell(ValueError("x"))
        await ref.wait_terminated()
        raise KeyError("mine")
    assert isinstance(system.failure, ActorEscalatedError)


async def test_a_parent_may_forgive() -> None:
    class Forgiving(Diary):
        def child_escalated(self, ref: Ref, error: BaseException) -> None:
            self.write(("forgiven", ref.path))

    diary = Forgiving()
    async with ActorSystem() as system:
        system.spawn(diary, "p")
        child = diary.spawn(Diary, "c", policy=ESCALATE_ON_FAILURE)
        await child.tell(ValueError("x"))
        await child.wait_terminated()
        await steps()
        assert diary.ref.is_alive
    assert diary.pages == ["started", ("forgiven", "/p/c"), "stopped"]


async def test_children_that_fail_together_cost_their_parent_one_restart() -> None:
    """Their parent's restart ends the old children: their escalations are outdated."""

    class Family(Actor):
        incarnations = 0

        def started(self) -> None:
            Family.incarnations += 1
            for i in range(10):
                child = self.spawn(Diary, f"c{i}", policy=ESCALATE_ON_FAILURE)
                if Family.incarnations == 1:
                    child.tell_nowait(ValueError("all of us"))

        def receive(self, message: Any) -> Any:
            return len(self.children)

    async with ActorSystem() as system:
        ref = system.spawn(Family)
        await asyncio.sleep(1)
        assert await ref.ask("how many?") == 10
    assert Family.incarnations == 2


async def test_a_cancel_from_outside_is_reported_escalated_and_passed_on() -> None:
    async with ends_with(ActorEscalatedError, "by code outside of the actor system") as system:
        reports = Reports(system)
        ref = system.spawn(Diary)
        watcher = Watcher(ref)
        system.spawn(watcher)
        await steps()
        assert reports.causes == []
        task = next(task for task in asyncio.all_tasks() if task.get_name() == "/diary-1")
        task.cancel()
        await ref.wait_terminated()
        await steps()
        assert task.cancelled()
        assert isinstance(watcher.notices[0].error, ActorCancelledError)
        assert reports.all[0][2] is Directive.ESCALATE
        assert isinstance(reports.causes[0], asyncio.CancelledError)


async def test_a_policy_that_raises_escalates() -> None:
    def decide(error: BaseException) -> Directive:
        raise KeyError("decide")

    async with ends_with(ActorEscalatedError, "'x'") as system:
        reports = Reports(system)
        ref = system.spawn(Diary, policy=RestartPolicy(decide=decide))
        await ref.tell(ValueError("x"))
        await ref.wait_terminated()
    assert [error for _, error, _ in reports.all] == ["'decide'", "x"]
