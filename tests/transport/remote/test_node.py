"""A node: payloads by kind, and what happens to a peer that sends malformed ones."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

import pytest

from aiostorm.testing import SimClock
from aiostorm.transport import (
    LinkTimings,
    PayloadKind,
    PeerLostError,
    PeerStarted,
    ProtocolError,
    pack_payload,
)
from aiostorm.transport.remote.notes import ASK, ENDED, OPEN, TAKEN, TELL, ask_note, note, pack_key, taken_note

from ..parts import MemoryConnection, MemoryNetwork
from .nodes import Echo, NodeProcess, Slow, two

log = logging.getLogger("aiostorm.transport")


async def test_payloads_go_to_the_handler_of_their_kind(sim_clock: SimClock) -> None:
    async with two() as (a, b):
        came: list[object] = []
        b.node.handle(PayloadKind.TASK, lambda peer, target, body: came.append((peer, target, bytes(body))))
        b.node.handle(PayloadKind.CREDIT, lambda peer, target, body: came.append((peer, target, bytes(body))))
        with pytest.raises(ValueError, match="TASK have a handler already"):
            b.node.handle(PayloadKind.TASK, lambda peer, target, body: None)
        a.node.send_queue("b").post(pack_payload(PayloadKind.TASK, 7, b"one"))
        a.node.send_queue("b").post(pack_payload(PayloadKind.CREDIT, 0, b"two"))
        await sim_clock.advance(1)
        assert came == [("a", 7, b"one"), ("a", 0, b"two")]
        b.node.handle(PayloadKind.TASK, lambda peer, target, body: came.append("another"), replace=True)
        a.node.send_queue("b").post(pack_payload(PayloadKind.TASK, 7, b"three"))
        await sim_clock.advance(1)
        assert came[2:] == ["another"]
        assert a.node.peers == ("b",)
        assert (link := a.node.state("b")) is not None
        assert link.established


def unknown_kind() -> bytes:
    return b"\x63\0\0\0\0"


def no_handler() -> bytes:
    return pack_payload(PayloadKind.SEGMENTS, 1, b"")


def cut_short() -> bytes:
    return pack_payload(PayloadKind.ACTOR, 0, note(TELL, 1, b"\xc0")[:-1])


def unknown_note() -> bytes:
    return pack_payload(PayloadKind.ACTOR, 0, note(99, 1))


def no_key() -> bytes:
    return pack_payload(PayloadKind.ACTOR, 0, note(OPEN, 1, b"x"))


def twice_open() -> bytes:
    return pack_payload(PayloadKind.ACTOR, 0, 2 * note(OPEN, 1, pack_key("slow")))


def question_without_number() -> bytes:
    return pack_payload(PayloadKind.ACTOR, 0, note(ASK, 1, b"1234"))


def no_reason() -> bytes:
    return pack_payload(PayloadKind.ACTOR, 0, note(ENDED, 1, b"\x63"))


def no_amount() -> bytes:
    return pack_payload(PayloadKind.ACTOR, 0, note(TAKEN, 1, b"1"))


def beyond_the_window() -> bytes:
    return pack_payload(PayloadKind.ACTOR, 0, note(OPEN, 1, pack_key("slow")) + 2000 * note(TELL, 1, b"\xc0"))


@pytest.mark.parametrize(
    "garbage",
    [
        unknown_kind,
        no_handler,
        cut_short,
        unknown_note,
        no_key,
        twice_open,
        question_without_number,
        no_reason,
        no_amount,
        beyond_the_window,
    ],
)
async def test_a_peer_that_sends_garbage_is_lost_and_the_others_are_not(
    garbage: Callable[[], bytes], sim_clock: SimClock, caplog: pytest.LogCaptureFixture
) -> None:
    network = MemoryNetwork()
    async with two(network) as (a, b):
        c = await NodeProcess("c", network).begin()
        try:
            c.node.link("b", "b")
            b.node.link("c")
            b.spawn(Slow, "slow")
            a.spawn(Slow, "slow")
            b.spawn(Echo, "echo")
            asked = asyncio.ensure_future(b.node.ref("a", "slow").ask("?"))
            assert await a.node.ref("b", "echo").ask("before") == "before"
            with caplog.at_level(logging.WARNING):
                a.node.send_queue("b").post(garbage())
                await sim_clock.advance(1)
            assert "b: the link to a is closed: " in caplog.text
            with pytest.raises(PeerLostError, match="a is lost: "):
                await asked
            assert len(b.lost) == 1
            assert await c.node.ref("b", "echo").ask("well?") == "well?"
            # Linked again it is as new, for both.
            waiting = asyncio.ensure_future(a.node.ref("b", "echo").ask("sent to one that does not listen"))
            await sim_clock.advance(1)
            assert not waiting.done()
            b.node.link("a")
            with pytest.raises(PeerLostError, match="b was restarted"):
                await waiting
            assert await a.node.ref("b", "echo").ask("again") == "again"
        finally:
            await c.end()


async def test_a_report_of_more_messages_taken_than_sent_closes_the_link(sim_clock: SimClock) -> None:
    async with two() as (a, b):
        b.spawn(Echo, "echo")
        await a.node.ref("b", "echo").ask("?")
        (channel,) = a.node.peer("b")._channels.values()
        b.node.send_queue("a").post(pack_payload(PayloadKind.ACTOR, 0, taken_note(channel.number, 9, 9)))
        await sim_clock.advance(1)
        assert a.lost == ["b: the peer reports more messages taken than were sent"]


async def test_a_late_or_unknown_answer_does_no_harm(sim_clock: SimClock) -> None:
    async with two() as (a, b):
        b.spawn(Echo, "echo")
        late = [note(op, 4711, b"\0" * 8) for op in (TELL, ASK, 4, 5, TAKEN, ENDED)]
        unreadable = note(OPEN, 5, pack_key("echo")) + note(TELL, 5, b"\xc1") + ask_note(5, 6, b"\xc1")
        a.node.send_queue("b").post(pack_payload(PayloadKind.ACTOR, 0, b"".join(late) + unreadable))
        assert await a.node.ref("b", "echo").ask("well?") == "well?"
        assert b.lost == a.lost == []
        assert [letter.message for letter in b.system.dead_letters.last] == [b"\0" * 8, b"\xc1"]


async def test_an_error_in_a_handler_closes_that_link_alone(
    sim_clock: SimClock, caplog: pytest.LogCaptureFixture
) -> None:
    async with two() as (a, b):

        def broken(peer: str, target: int, body: memoryview) -> None:
            raise RuntimeError("a defect")

        b.node.handle(PayloadKind.TASK, broken)
        b.node.on_lost(lambda peer, error: 1 / 0)
        with caplog.at_level(logging.ERROR):
            a.node.send_queue("b").post(pack_payload(PayloadKind.TASK, 7, b""))
            await sim_clock.advance(1)
        assert "RuntimeError: a defect" in caplog.text
        assert "a listener to the loss of a failed" in caplog.text
        assert b.lost == ["a: a defect"]


async def test_an_error_in_a_listener_to_incarnations_closes_that_link_alone(
    sim_clock: SimClock, caplog: pytest.LogCaptureFixture
) -> None:
    network = MemoryNetwork()
    a, b = await NodeProcess("a", network).begin(), await NodeProcess("b", network).begin()
    try:

        def broken(peer: str, started: PeerStarted) -> None:
            raise RuntimeError("a defect")

        b.node.on_peer(broken)
        with caplog.at_level(logging.ERROR):
            a.node.link("b", "b")
            b.node.link("a")
            await sim_clock.advance(1)
        assert b.lost == ["a: a defect"]
    finally:
        await a.end()
        await b.end()


async def test_a_link_is_closed_in_order_or_at_once(sim_clock: SimClock) -> None:
    async with two() as (a, b):
        echo = Echo()
        b.spawn(echo, "echo")
        ref = a.node.ref("b", "echo")
        for number in range(100):
            await ref.tell(number)
        await a.node.unlink("b")
        await a.node.unlink("b")
        assert echo.got == list(range(100)), "what was sent has come"
        assert a.lost == ["b: the link from a to b was closed"]
        with pytest.raises(PeerLostError, match="a has no link to b: nothing was sent"):
            await ref.tell("?")
        with pytest.raises(PeerLostError):
            a.node.send_queue("b")
        assert a.node.state("b") is None
        a.node.link("b", "b")
        assert await ref.ask("linked again") == "linked again"
        with pytest.raises(ValueError, match="a link to b already"):
            a.node.link("b", "b")
        a.node.lose("b", "it was seen to die")
        assert a.lost[1:] == ["b: it was seen to die"]


async def test_a_listener_to_the_loss_may_open_the_link_again(sim_clock: SimClock) -> None:
    async with two() as (a, b):
        b.spawn(Echo, "echo")
        b.node.on_lost(lambda peer, error: b.node.link(peer) and None)
        ref = a.node.ref("b", "echo")
        assert await ref.ask("before") == "before"
        send_queue = a.node.send_queue("b")
        for payload in (unknown_kind(), pack_payload(PayloadKind.ACTOR, 0, note(TELL, 1, b"\xc0"))):
            send_queue.post(payload)  # the second one is not read: it was for the link before
        await sim_clock.advance(1)
        assert b.system.dead_letters.count == 0
        assert await ref.ask("after") == "after"
        assert a.began == ["b", "b"]


def test_an_error_of_the_protocol_is_one_of_the_network() -> None:
    assert issubclass(ProtocolError, ConnectionError)


async def test_an_error_of_one_link_ends_that_link_alone(
    sim_clock: SimClock, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    real = MemoryConnection.send

    def send(self: MemoryConnection, frame: bytes) -> None:
        if self.peer == "c":
            raise AttributeError("a defect of ours, or of the network")
        real(self, frame)

    monkeypatch.setattr(MemoryConnection, "send", send)
    network = MemoryNetwork()
    async with two(network) as (a, b):
        c = await NodeProcess("c", network, timings=LinkTimings(drain_s=0.1)).begin()
        b.spawn(Echo, "echo")
        a.node.link("c", "c")
        c.node.link("a")
        with pytest.raises(PeerLostError):
            await a.node.ref("c", "echo").ask("hello", timeout_s=10)
        assert await a.node.ref("b", "echo").ask("hello") == "hello"
        assert a.lost == ["c: a defect of ours, or of the network"]
        assert "the link to c has failed and is closed" in caplog.text
        await c.end()
        assert a.node.peers == ("b",)
