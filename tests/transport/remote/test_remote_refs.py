"""Refs that lead to another process: tell, ask, death watch, refs in messages; what a cut, a death, a slow one do."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from aiostorm.actors import (
    STOP_ON_FAILURE,
    Actor,
    AskFailedError,
    AskTimeoutError,
    MailboxClosedError,
    Ref,
    RestartPolicy,
)
from aiostorm.testing import SimClock
from aiostorm.transport import (
    MAX_MESSAGE_BYTES,
    NoSuchActorError,
    NotHereError,
    PeerLostError,
    RemoteFailureError,
    RemoteRef,
    UnsendableError,
)

from ..parts import MemoryNetwork
from .nodes import Echo, NodeProcess, Slow, Watcher, two


async def test_ask_and_tell(sim_clock: SimClock) -> None:
    async with two() as (a, b):
        echo = Echo()
        b.spawn(echo, "echo")
        ref = a.node.ref("b", "echo")
        assert await ref.ask("hello") == "hello"
        assert await ref.ask([1, ("two", {3.0})], timeout_s=1) == [1, ("two", {3.0})]
        await ref.tell("first")
        assert ref.tell_nowait("first at once")
        await ref.ask("last")
        assert echo.got[-3:] == ["first", "first at once", "last"]
        assert ref.path == "//b/echo"
        assert repr(ref) == "Ref(//b/echo)"
        assert ref == a.node.ref("b", "echo") != a.node.ref("b", "other")


async def test_many_asks_at_the_same_time_are_answered_each_with_its_own() -> None:
    async with two() as (a, b):
        b.spawn(Echo, "echo")
        ref = a.node.ref("b", "echo")
        assert await asyncio.gather(*(ref.ask(number) for number in range(2000))) == list(range(2000))


async def test_messages_of_one_sender_stay_in_order_under_network_faults(sim_clock: SimClock) -> None:
    network = MemoryNetwork(seed=3)
    async with two(network) as (a, b):
        echo = Echo()
        b.spawn(echo, "echo")
        ref = a.node.ref("b", "echo")
        await ref.ask(-1, timeout_s=None)
        network.weather.breaks, network.weather.jitter_s = 0.05, 0.01
        for number in range(1000):
            if number % 3:
                await ref.tell(number)
            else:
                assert await ref.ask(number, timeout_s=None) == number
            if number % 100 == 0:
                network.cut()
        await ref.ask(1000, timeout_s=None)
        assert echo.got == list(range(-1, 1001))


async def test_an_actor_that_fails_answers_with_the_error_and_continues(sim_clock: SimClock) -> None:
    async with two() as (a, b):
        b.spawn(Echo, "echo", policy=RestartPolicy(backoff_s=(0.0,)))
        ref = a.node.ref("b", "echo")
        with pytest.raises(
            AskFailedError, match="//b/echo failed to answer the question: ValueError: as it was asked to"
        ) as failed:
            await ref.ask("raise")
        assert isinstance(failed.value.__cause__, RemoteFailureError)
        assert (failed.value.__cause__.kind, failed.value.__cause__.text) == ("ValueError", "as it was asked to")
        assert await ref.ask("again") == "again"


async def test_no_such_actor(sim_clock: SimClock) -> None:
    async with two() as (a, b):
        hidden = b.system.spawn(Echo, "hidden")
        for name in ("missing", "hidden", "/hidden"):
            with pytest.raises(NoSuchActorError, match="offer it there"):
                await a.node.ref("b", name).ask("is it running?")
        await a.node.ref("b", "missing").tell("lost")
        await sim_clock.advance(1)
        assert [letter.message for letter in b.system.dead_letters.last] == ["lost"]
        b.node.offer("missing", hidden)
        assert await a.node.ref("b", "missing").ask("now?") == "now?"
        b.node.withdraw("missing")
        with pytest.raises(NoSuchActorError):
            b.node.ref("b", "missing")


async def test_names_are_one_living_actors_each() -> None:
    async with two() as (_, b):
        first = b.spawn(Echo, "first")
        with pytest.raises(ValueError, match="withdraw that first"):
            b.node.offer("first", b.system.spawn(Echo))
        b.node.offer("first", first)
        first.stop()
        await first.wait_terminated()
        b.node.offer("first", b.system.spawn(Echo))
        with pytest.raises(NotHereError):
            b.node.offer("far", b.node.ref("a", "echo"))
        with pytest.raises(ValueError, match="1 to 256 bytes"):
            b.node.offer("n" * 257, first)


async def test_the_end_of_an_actor_is_reported_and_ends_its_asks(sim_clock: SimClock) -> None:
    async with two() as (a, b):
        slow = Slow()
        far = b.spawn(slow, "slow")
        ref = a.node.ref("b", "slow")
        watcher = Watcher()
        watching = a.system.spawn(watcher)
        for _ in range(2):
            await watching.tell(ref)
        asks = [asyncio.ensure_future(ref.ask(number)) for number in range(40)]  # more than its mailbox takes
        await sim_clock.advance(1)
        far.kill()
        done = await asyncio.gather(*asks, return_exceptions=True)
        assert {type(error) for error in done} == {MailboxClosedError}
        await sim_clock.advance(1)
        assert [message.ref for message in watcher.received] == [ref]
        assert watcher.received[0].error is None
        with pytest.raises(NoSuchActorError):
            await ref.ask("still there?")
        await ref.wait_terminated()


async def test_a_watcher_gets_the_reason(sim_clock: SimClock) -> None:
    async with two() as (a, b):
        far = b.system.spawn(Echo, policy=STOP_ON_FAILURE)
        b.node.offer("echo", far)
        watcher = Watcher()
        await a.system.spawn(watcher).tell(ref := a.node.ref("b", "echo"))
        with pytest.raises(AskFailedError):
            await ref.ask("raise")
        await sim_clock.advance(1)
        assert [str(message.error) for message in watcher.received] == ["ValueError: as it was asked to"]


async def test_an_actor_that_stops_watching_gets_nothing(sim_clock: SimClock) -> None:
    async with two() as (a, b):
        far = b.spawn(Echo, "echo")
        ref = a.node.ref("b", "echo")
        watcher = Watcher()
        watching = a.system.spawn(watcher)
        await watching.tell(ref)
        await sim_clock.advance(1)
        await watching.tell(("not", ref))
        far.stop()
        await sim_clock.advance(1)
        assert watcher.received == []


async def test_a_cut_is_no_end(sim_clock: SimClock) -> None:
    network = MemoryNetwork()
    async with two(network) as (a, b):
        b.spawn(Echo, "echo")
        ref = a.node.ref("b", "echo")
        watcher = Watcher()
        await a.system.spawn(watcher).tell(ref)
        await ref.ask("before")
        network.weather.cut_off.add("b")
        with pytest.raises(AskTimeoutError, match="no reply from //b/echo within 10 s"):
            await ref.ask("during", timeout_s=10)
        waiting = asyncio.ensure_future(ref.ask("through", timeout_s=60))
        await sim_clock.advance(20)
        network.weather.cut_off.clear()
        assert await waiting == "through"
        assert watcher.received == []


async def test_a_restart_of_the_peer_ends_open_questions(sim_clock: SimClock) -> None:
    network = MemoryNetwork()
    async with two(network) as (a, b):
        b.spawn(Slow, "slow")
        ref = a.node.ref("b", "slow")
        watcher = Watcher()
        await a.system.spawn(watcher).tell(ref)
        asked = asyncio.ensure_future(ref.ask("?", timeout_s=None))
        await sim_clock.advance(1)
        network.weather.cut_off.add("b")
        await b.end()
        network.cut()
        network.weather.cut_off.clear()
        assert not asked.done()
        again = await NodeProcess("b", network).begin()
        try:
            again.spawn(Echo, "slow")
            again.node.link("a")
            with pytest.raises(PeerLostError, match="was restarted"):
                await asked
            await sim_clock.advance(1)
            assert [type(message.error) for message in watcher.received] == [PeerLostError]
            assert await ref.ask("hello again") == "hello again", "the same name, the next incarnation"
            assert a.began == ["b", "b"]
            assert a.lost == []
        finally:
            await again.end()


async def test_a_ref_from_a_message_leads_to_one_actor_for_good(sim_clock: SimClock) -> None:
    network = MemoryNetwork()
    async with two(network) as (a, b):
        b.spawn(Giver, "giver")
        given = await a.node.ref("b", "giver").ask("give")
        assert isinstance(given, RemoteRef)
        assert await given.ask("works") == "works"
        assert await a.node.ref("b", "giver").ask(given) == "it is mine", "it comes home as what it is"
        watcher = Watcher()
        await a.system.spawn(watcher).tell(given)
        await given.tell("stop")
        await sim_clock.advance(1)
        assert [message.ref for message in watcher.received] == [given]
        assert not given.is_alive
        for send in (given.ask, given.tell):
            with pytest.raises(MailboxClosedError):
                await send("still there?")
        with pytest.raises(MailboxClosedError):
            given.tell_nowait("still there?")
        dead = await a.node.ref("b", "giver").ask(("back", given))
        assert dead == given


async def test_refs_to_a_third_process(sim_clock: SimClock) -> None:
    network = MemoryNetwork()
    async with two(network) as (a, b):
        c = await NodeProcess("c", network).begin()
        try:
            c.node.link("b", "b")
            b.node.link("c")
            echo = c.system.spawn(Echo, "echo")
            b.spawn(Giver, "giver")
            await c.node.ref("b", "giver").ask(("keep", echo))
            given = await a.node.ref("b", "giver").ask("what is kept")
            with pytest.raises(PeerLostError, match=r"a has no link to c: nothing was sent\. Open one with node.link"):
                await given.ask("?")
            watcher = Watcher()
            await a.system.spawn(watcher).tell(given)
            await sim_clock.advance(1)
            assert [type(message.error) for message in watcher.received] == [PeerLostError]
            a.node.link("c", "c")
            c.node.link("a")
            assert await given.ask("linked") == "linked"
        finally:
            await c.end()


async def test_a_slow_actor_delays_only_its_own_senders(sim_clock: SimClock) -> None:
    async with two() as (a, b):
        slow = Slow()
        b.spawn(slow, "slow")
        b.spawn(Echo, "echo")
        ref = a.node.ref("b", "slow")
        sent = 0

        async def flood() -> None:
            nonlocal sent
            for number in range(3000):
                await ref.tell(number)
                sent += 1

        flooding = asyncio.ensure_future(flood())
        await sim_clock.advance(5)
        assert 500 < sent < 700
        assert not ref.tell_nowait("no capacity")
        with pytest.raises(AskTimeoutError):
            await ref.ask("no answer either", timeout_s=1)
        for number in range(100):
            assert await a.node.ref("b", "echo").ask(number, timeout_s=1) == number
        slow.go.set()
        await flooding
        await ref.ask("last")
        assert slow.got == [*range(3000), "last"]


async def test_large_messages_fill_the_channel_and_one_too_large_is_an_error(sim_clock: SimClock) -> None:
    async with two() as (a, b):
        slow = Slow()
        b.spawn(slow, "slow")
        ref = a.node.ref("b", "slow")
        large = b"x" * 600_000
        sends = [asyncio.ensure_future(ref.tell(large)) for _ in range(30)]
        await sim_clock.advance(5)
        assert 2 <= sum(send.done() for send in sends) < 20
        slow.go.set()
        await asyncio.gather(*sends)
        await ref.ask("last")
        assert len(slow.got) == 31
        with pytest.raises(UnsendableError, match="at most 1,048,524"):
            await ref.tell(b"x" * (MAX_MESSAGE_BYTES + 1))
        assert len(await ref.ask(b"x" * (MAX_MESSAGE_BYTES - 5))) == MAX_MESSAGE_BYTES - 5
        with pytest.raises(UnsendableError):
            await ref.ask(object())


async def test_an_answer_that_cannot_be_sent_is_an_error_for_the_caller(sim_clock: SimClock) -> None:
    async with two() as (a, b):
        b.spawn(Giver, "giver")
        with pytest.raises(AskFailedError, match="answered, but the answer cannot be sent: UnsendableError"):
            await a.node.ref("b", "giver").ask("an object")
        assert await a.node.ref("b", "giver").ask("back") is None


async def test_an_ask_costs_two_frames(sim_clock: SimClock) -> None:
    network = MemoryNetwork()
    async with two(network) as (a, b):
        b.spawn(Echo, "echo")
        ref = a.node.ref("b", "echo")
        await ref.ask("first")
        before = sum(len(connection.sent) for connection in network.open)
        for number in range(100):
            await ref.ask(number)
        assert sum(len(connection.sent) for connection in network.open) - before <= 210, "acks go with what is said"


async def test_a_caller_that_gives_up_leaves_nothing_behind(sim_clock: SimClock) -> None:
    async with two() as (a, b):
        b.spawn(Slow, "slow")
        ref = a.node.ref("b", "slow")
        for _ in range(2000):
            with pytest.raises(AskTimeoutError):
                await ref.ask("?", timeout_s=0.001)
        peer = a.node.peer("b")
        (channel,) = peer._channels.values()
        assert not peer.asks
        assert channel.waiting == 0
        assert channel.flow.messages <= 512


async def test_only_its_own_process_may_end_an_actor() -> None:
    async with two() as (a, b):
        b.spawn(Echo, "echo")
        ref = a.node.ref("b", "echo")
        for forbidden in (ref.stop, ref.kill, lambda: ref.inbox, lambda: ref.ask_nowait(1, None)):
            with pytest.raises(NotHereError, match="send it a message that asks for this"):
                forbidden()


async def test_leaving_the_block_ends_what_was_asked() -> None:
    async with two() as (a, b):
        b.spawn(Slow, "slow")
        asked = asyncio.ensure_future(a.node.ref("b", "slow").ask("?"))
        await asyncio.sleep(0.1)
        await a.end()
        with pytest.raises(PeerLostError, match="a has closed its links"):
            await asked


class Giver(Actor):
    """Hands out refs."""

    def __init__(self) -> None:
        self.kept: Any = None

    def receive(self, message: Any) -> Any:
        match message:
            case "give":
                self.kept = self.spawn(Echo)
                return self.kept
            case "what is kept":
                return self.kept
            case "an object":
                return object()
            case Ref():
                return "it is mine" if message is self.kept else "it is another's"
            case ("keep", kept):
                self.kept = kept
            case ("back", ref):
                return ref
        return None


async def test_an_actor_offered_to_some_peers_is_not_found_by_others(sim_clock: SimClock) -> None:
    async with two() as (a, b):
        secret = b.system.spawn(Echo, "secret")
        b.node.offer("secret", secret, to=("c",))
        with pytest.raises(NoSuchActorError):
            await a.node.ref("b", "secret").ask("hello")
        echo = Echo()
        b.spawn(echo, "echo")
        await a.node.ref("b", "echo").tell(a.node.ref("b", "secret"))
        await a.node.ref("b", "echo").ask("came")
        assert isinstance(echo.got[0], RemoteRef), "nor is it handed to our actors by a ref that names it"
        assert b.node.ref("b", "secret") == secret, "in its own process it is found"
        b.node.offer("secret", secret, to=("c", "a"))
        assert await a.node.ref("b", "secret").ask("hello") == "hello"
        b.node.withdraw("secret")
        b.node.offer("secret", secret)
        await a.node.ref("b", "secret").tell("all")
