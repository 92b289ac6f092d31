"""Ask: an answer, or an error that says why there is none, within the time. Nothing is left behind either way."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from aiostorm.actors import (
    RESUME_ON_FAILURE,
    Actor,
    ActorSystem,
    AskFailedError,
    AskTimeoutError,
    Mailbox,
    MailboxClosedError,
    Ref,
)

from .sample_actors import Diary, Echo, steps, waiting_for


async def full(system: ActorSystem, gate: asyncio.Event) -> Ref:
    """An actor that waits in `receive`, with a full mailbox."""
    ref = system.spawn(Diary, mailbox=Mailbox(1))
    await ref.tell(waiting_for(gate))
    await steps()
    assert ref.tell_nowait("filler")
    return ref


async def test_the_reply_is_what_receive_returns() -> None:
    async with ActorSystem() as system:
        ref = system.spawn(Echo)
        assert await ref.ask("hello") == "hello"
        assert await ref.ask(None) is None
        assert await ref.ask("for ever", timeout_s=None) == "for ever"


async def test_no_reply_in_time() -> None:
    async with ActorSystem(ask_timeout_s=7) as system:
        ref = system.spawn(Diary)
        loop = asyncio.get_running_loop()
        begun_s = loop.time()
        with pytest.raises(AskTimeoutError, match=r"no reply from /diary-1 within 7 s"):
            await ref.ask(lambda actor: asyncio.sleep(60))
        assert loop.time() == begun_s + 7
        with pytest.raises(TimeoutError):
            await ref.ask("behind the first", timeout_s=3)
        assert loop.time() == begun_s + 10


async def test_an_accepted_question_is_handled_though_no_caller_waits_any_more() -> None:
    diary = Diary()
    async with ActorSystem() as system:
        ref = system.spawn(diary)
        await ref.tell(lambda actor: asyncio.sleep(60))
        with pytest.raises(AskTimeoutError):
            await ref.ask("late", timeout_s=1)
        await ref.ask("next", timeout_s=None)
    assert diary.pages == ["started", "late", "next", "stopped"]


async def test_a_question_that_fails() -> None:
    async with ActorSystem() as system:
        ref = system.spawn(Diary)
        with pytest.raises(AskFailedError, match="/diary-1 failed to answer the question") as caught:
            await ref.ask(ValueError("no"))
        assert isinstance(caught.value.__cause__, ValueError)
        assert await ref.ask("still there") == "still there"


async def test_questions_in_the_mailbox_survive_a_restart() -> None:
    async with ActorSystem() as system:
        ref = system.spawn(Diary)
        await ref.tell(ValueError("first restart, at once"))
        await ref.tell(ValueError("second restart, after a wait"))
        assert await ref.ask("patience") == "patience"


async def test_questions_behind_a_resumed_failure_are_answered() -> None:
    async with ActorSystem() as system:
        ref = system.spawn(Diary, policy=RESUME_ON_FAILURE)
        await ref.tell(ValueError("never mind"))
        assert await ref.ask("well?") == "well?"


async def test_a_caller_gets_an_error_when_the_actor_is_killed_in_the_middle_and_is_not_cancelled_itself() -> None:
    gate = asyncio.Event()
    async with ActorSystem() as system:
        ref = system.spawn(Diary)

        async def ask() -> str:
            try:
                await ref.ask(waiting_for(gate))
            except MailboxClosedError as error:
                return str(error)
            return "answered"

        async with asyncio.TaskGroup() as group:
            handled = group.create_task(ask())
            await steps()
            queued = group.create_task(ask())
            await steps()
            ref.kill()
        assert handled.result() == "actor /diary-1 was stopped while it handled the question"
        assert queued.result() == "actor /diary-1 stopped before it answered"
        with pytest.raises(MailboxClosedError, match="has stopped"):
            await ref.ask("too late")


async def test_an_actor_that_asks_a_killed_actor_goes_on() -> None:
    """It was once cancelled too: a cancelled reply looks like a cancellation of the caller."""
    gate = asyncio.Event()

    class Asker(Actor):
        def __init__(self, other: Ref) -> None:
            self.other = other

        async def receive(self, message: Any) -> str:
            try:
                await self.other.ask(waiting_for(gate))
            except MailboxClosedError:
                return "answered"
            return "answered"

    async with ActorSystem() as system:
        other = system.spawn(Diary)
        asker = system.spawn(Asker(other))
        async with asyncio.TaskGroup() as group:
            reply = group.create_task(asker.ask("go"))
            await steps()
            other.kill()
        assert reply.result() == "answered"
        assert asker.is_alive


async def test_an_ordered_stop_answers_what_was_accepted() -> None:
    gate = asyncio.Event()
    async with ActorSystem() as system:
        ref = system.spawn(Diary)
        async with asyncio.TaskGroup() as group:
            group.create_task(ref.ask(waiting_for(gate)))
            await steps()
            accepted = group.create_task(ref.ask("accepted"))
            await steps()
            ref.stop()
            await steps()
            gate.set()
        assert accepted.result() == "accepted"
        assert not ref.is_alive


async def test_parked_questions_are_refused_when_the_mailbox_closes() -> None:
    gate = asyncio.Event()
    async with ActorSystem() as system:
        ref = await full(system, gate)
        async with asyncio.TaskGroup() as group:
            parked = group.create_task(_outcome(ref.ask("parked")))
            await steps()
            assert ref._mailbox.parked == 1
            ref.stop()
            gate.set()
        assert isinstance(parked.result(), MailboxClosedError)
        assert "is stopping" in str(parked.result())


async def test_a_parked_question_that_times_out_is_not_handled() -> None:
    gate = asyncio.Event()
    async with ActorSystem() as system:
        ref = await full(system, gate)
        with pytest.raises(AskTimeoutError):
            await ref.ask("parked", timeout_s=2)
        assert ref._mailbox.parked == 0
        diary = ref.cell.supervision.actor
        gate.set()
        await ref.ask("end")
        assert isinstance(diary, Diary)
        assert diary.pages == ["started", "filler", "end"]


async def test_a_parked_question_gets_its_turn() -> None:
    gate = asyncio.Event()
    async with ActorSystem() as system:
        ref = await full(system, gate)
        async with asyncio.TaskGroup() as group:
            parked = group.create_task(ref.ask("parked"))
            await steps()
            gate.set()
        assert parked.result() == "parked"


@pytest.mark.parametrize("step", range(12))
@pytest.mark.parametrize("outcome", ["answers", "fails", "times out", "stops"])
async def test_a_parked_caller_can_be_cancelled_at_any_step(outcome: str, step: int) -> None:
    """Whatever happens to the question, asyncio reports no unhandled error (see conftest)."""
    gate = asyncio.Event()
    async with ActorSystem() as system:
        ref = await full(system, gate)
        asker = asyncio.create_task(ref.ask(ValueError("x") if outcome == "fails" else "parked", timeout_s=5))
        await steps(2)
        if outcome == "times out":
            asyncio.get_running_loop().call_later(5 - 0.1, lambda: None)
            await asyncio.sleep(5)
        elif outcome == "stops":
            ref.kill()
        else:
            gate.set()
        await steps(step)
        asker.cancel()
        await asyncio.wait((asker,))
        gate.set()
    assert ref._mailbox.parked == 0


async def test_time_out_and_cancel_in_the_same_step() -> None:
    gate = asyncio.Event()
    async with ActorSystem() as system:
        for has_capacity in (True, False):
            ref = system.spawn(Diary) if has_capacity else await full(system, gate)
            asker = asyncio.create_task(ref.ask(waiting_for(gate), timeout_s=5))
            await steps(2)
            asyncio.get_running_loop().call_later(5, asker.cancel)
            await asyncio.wait((asker,))
        gate.set()


async def test_an_actor_that_asks_itself_times_out() -> None:
    async with ActorSystem(ask_timeout_s=2) as system:
        ref = system.spawn(Diary)
        with pytest.raises(AskFailedError, match="no reply from /diary-1 within 2 s"):
            await ref.ask(lambda actor: actor.ref.ask("me"), timeout_s=None)


@pytest.mark.parametrize("options", [{}, {"timeout_s": 5}], ids=["the system's limit", "a limit of its own"])
async def test_timers_do_not_pile_up(options: dict[str, float]) -> None:
    scheduled = asyncio.get_running_loop()._scheduled  # type: ignore[attr-defined]
    async with ActorSystem() as system:
        ref = system.spawn(Echo)
        for number in range(500):
            await ref.ask(number, **options)
        assert sum(not handle.cancelled() for handle in scheduled) == (not options)
        # asyncio drops cancelled timers in bulk, once they are half of all and more than a hundred.
        assert len(scheduled) <= 250
    assert all(handle.cancelled() for handle in scheduled)
    with pytest.raises(MailboxClosedError):
        await ref.ask("late", **options)
    assert all(handle.cancelled() for handle in scheduled)


async def _outcome(work: Any) -> Any:
    try:
        return await work
    except Exception as error:
        return error
