"""Actors: one message at a time, in order, control first; children, names, and when an actor may be spawned."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from aiostorm.actors import (
    Actor,
    ActorSystem,
    Mailbox,
    MailboxClosedError,
    Ref,
    Terminated,
    maybe_await,
)

from .sample_actors import Diary, Echo, steps, waiting_for


async def test_messages_come_one_at_a_time_and_in_order() -> None:
    class Slow(Actor):
        def __init__(self) -> None:
            self.inside = 0
            self.received: list[int] = []

        async def receive(self, message: int) -> None:
            self.inside += 1
            assert self.inside == 1
            await asyncio.sleep(1)
            self.received.append(message)
            self.inside -= 1

    slow = Slow()
    async with ActorSystem() as system:
        ref = system.spawn(slow)
        for number in range(5):
            await ref.tell(number)
    assert slow.received == [0, 1, 2, 3, 4]


async def test_many_senders_through_a_small_mailbox_lose_nothing_and_keep_their_order() -> None:
    diary = Diary()

    async def send(ref: Ref, sender: int) -> None:
        for number in range(50):
            await ref.tell((sender, number))

    async with ActorSystem() as system:
        ref = system.spawn(diary, mailbox=Mailbox(2))
        async with asyncio.TaskGroup() as group:
            for sender in range(8):
                group.create_task(send(ref, sender))
    received = [page for page in diary.pages if isinstance(page, tuple)]
    assert len(received) == 400
    for sender in range(8):
        assert [number for name, number in received if name == sender] == list(range(50))


async def test_control_comes_before_data() -> None:
    diary = Diary()
    async with ActorSystem() as system:
        ref = system.spawn(diary)
        other = system.spawn(Echo, "other")
        await steps(2)
        for number in range(3):
            await ref.tell(number)
        # Nothing has been received yet: this loop has not turned.
        await ref.tell(lambda actor: actor.watch(other))
        diary.watch(other)
        other.kill()
        await other.wait_terminated()
    assert diary.pages.index(("terminated", "/other")) < diary.pages.index("stopped")


async def test_a_busy_actor_lets_others_run() -> None:
    async with ActorSystem() as system:
        busy = system.spawn(Echo, "busy")
        quick = system.spawn(Echo, "quick")
        assert all(busy.tell_nowait(number) for number in range(800))
        await quick.ask("are you there?")
        assert busy._mailbox.gate.fill > 0


async def test_tell_nowait_does_not_wait() -> None:
    gate = asyncio.Event()
    async with ActorSystem() as system:
        ref = system.spawn(Diary, mailbox=Mailbox(2))
        assert ref.tell_nowait(waiting_for(gate))
        await steps()
        assert ref.tell_nowait(1)
        assert ref.tell_nowait(2)
        assert not ref.tell_nowait(3)
        gate.set()
    with pytest.raises(MailboxClosedError, match="/diary-1"):
        ref.tell_nowait(4)
    with pytest.raises(MailboxClosedError, match="/diary-1"):
        await ref.tell(4)


async def test_the_properties_of_an_actor() -> None:
    found: dict[str, Any] = {}

    def look(actor: Actor) -> None:
        found.update(ref=actor.ref, system=actor.system, fill=actor.mailbox.gate.fill, children=actor.children)

    async with ActorSystem() as system:
        ref = system.spawn(Diary, "a")
        await ref.ask(lambda actor: actor.spawn(Echo, "b"))
        await ref.ask(lambda actor: actor.spawn(Echo))
        await ref.ask(look)
        assert found["ref"] is ref
        assert found["system"] is system
        assert found["fill"] == 0
        assert [child.path for child in found["children"]] == ["/a/b", "/a/echo-1"]
        assert repr(ref) == "Ref(/a)"
        assert system.actors == 3
        assert all(child.is_alive for child in found["children"])
    assert not ref.is_alive
    assert not any(child.is_alive for child in found["children"])
    assert system.actors == 0


async def test_receive_must_be_defined() -> None:
    async with ActorSystem() as system:
        ref = system.spawn(Actor)
        with pytest.raises(Exception, match="must define receive"):
            await ref.ask(1)


async def test_an_actor_has_no_surroundings_before_it_is_started() -> None:
    class Hasty(Actor):
        def __init__(self) -> None:
            self.spawn(Echo)

    with pytest.raises(RuntimeError, match="use `started`"):
        Hasty()


async def test_an_instance_can_be_sent_messages_as_soon_as_it_was_spawned() -> None:
    """Before its own first step: its parent may already give it children."""
    parent = Diary()
    async with ActorSystem() as system:
        system.spawn(parent)
        child = parent.spawn(Echo, "early")
        assert await child.ask("hello") == "hello"


async def test_names_are_checked() -> None:
    async with ActorSystem() as system:
        system.spawn(Echo, "a")
        with pytest.raises(ValueError, match="already has a child named 'a'"):
            system.spawn(Echo, "a")
        for wrong in ("", "a/b"):
            with pytest.raises(ValueError, match="must not be empty or contain '/'"):
                system.spawn(Echo, wrong)
        system.spawn(Echo, "echo-1")
        assert system.spawn(Echo).path == "/echo-2"
        assert system.spawn(Diary()).path == "/diary-3"
        assert system.spawn(lambda: Echo()).path == "/lambda-4"


async def test_a_name_is_free_again_when_its_actor_has_ended() -> None:
    async with ActorSystem() as system:
        first = system.spawn(Echo, "a")
        first.kill()
        with pytest.raises(ValueError, match="already has"):
            system.spawn(Echo, "a")
        await first.wait_terminated()
        assert await system.spawn(Echo, "a").ask(1) == 1


async def test_spawning_a_wrong_object_is_an_error() -> None:
    echo = Echo()
    async with ActorSystem() as system:
        with pytest.raises(TypeError, match="an Actor, its class or a factory"):
            system.spawn("echo")  # type: ignore[arg-type]
        first = system.spawn(echo)
        with pytest.raises(ValueError, match="already runs as /echo-"):
            system.spawn(echo)
        box = Mailbox(3)
        system.spawn(Echo, "x", mailbox=box)
        with pytest.raises(ValueError, match="one reader"):
            system.spawn(Echo, "y", mailbox=box)
        first.kill()
        await first.wait_terminated()
        assert await system.spawn(echo).ask("again") == "again"


async def test_children_are_refused_once_the_actor_ends() -> None:
    class Late(Actor):
        problem: Exception | None = None

        def receive(self, message: Any) -> None: ...

        def stopped(self) -> None:
            try:
                self.spawn(Echo, "late")
            except MailboxClosedError as error:
                self.problem = error
            with pytest.raises(MailboxClosedError, match="timers"):
                self.after(1, "late")

    late = Late()
    async with ActorSystem() as system:
        ref = system.spawn(late)
        ref.stop()
        await ref.wait_terminated()
        assert "cannot start children" in str(late.problem)
        assert system.actors == 0


async def test_maybe_await_takes_both() -> None:
    async def later() -> int:
        return 2

    assert await maybe_await(1) == 1
    assert await maybe_await(None) is None
    assert await maybe_await(later()) == 2


async def test_terminated_is_received_like_any_message() -> None:
    diary = Diary()
    async with ActorSystem() as system:
        ref = system.spawn(diary)
        other = system.spawn(Echo, "other")
        await ref.ask(lambda actor: actor.watch(other))
        other.stop()
        await other.wait_terminated()
        await ref.ask("after")
    assert diary.pages == ["started", ("terminated", "/other"), "after", "stopped"]
    assert Terminated(other) == Terminated(other, None)
