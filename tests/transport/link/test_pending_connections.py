"""Pending connections: which peers are accepted, what a pulse reports, and how little of it is logged."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from typing import Any

import pytest

from aiostorm.testing import SimClock
from aiostorm.transport import (
    AuthenticatedNetwork,
    ConnectionLostError,
    Credentials,
    Identity,
    LinkPulse,
    Links,
    Network,
    Secret,
)
from aiostorm.transport.link.headers import VERSION, LinkAck, LinkHello

from ..parts import MemoryNetwork, SeededRng

OURS = Credentials("storm-1", Secret(bytes(range(32))))


def host(network: Network, received: list[Any], clock: SimClock) -> Links:
    return Links(
        "b",
        network,
        on_payload=lambda peer, payload: received.append((peer, payload)),
        on_pulse=lambda peer, process, note: received.append((peer, process, *filter(None, [note]))),
        rng=SeededRng("b"),
        clock=clock,
    )


async def test_a_pulse_reports_a_living_process_and_nothing_else(sim_clock: SimClock) -> None:
    memory, received = MemoryNetwork(), []  # type: ignore[var-annotated]
    async with host(memory.seen_by("b"), received, sim_clock) as links:
        await links.listen("b")
        thread = await memory.seen_by("a").connect("b")
        for _ in range(3):
            thread.send(LinkPulse(77, "a").encode())
            await asyncio.sleep(1)
        assert received == [("a", 77)] * 3
        thread.send(LinkPulse(77, "a", b"where").encode())
        await asyncio.sleep(0.1)
        assert received.pop() == ("a", 77, b"where")
        thread.send(LinkPulse(78, "a").encode())
        with pytest.raises(ConnectionLostError):
            await thread.receive()
        assert received == [("a", 77)] * 3, "of another process, over the same connection"
        silent = await memory.seen_by("a").connect("b")
        silent.send(LinkPulse(1, "a").encode())
        before_s = sim_clock.monotonic()
        with pytest.raises(ConnectionLostError):
            await silent.receive()
        assert sim_clock.monotonic() - before_s == pytest.approx(5.0, abs=0.1)


@pytest.mark.parametrize("name", ["a", "c"])
async def test_a_pulse_needs_the_authenticated_name(name: str, sim_clock: SimClock) -> None:
    memory, received = MemoryNetwork(), []  # type: ignore[var-annotated]

    def known(who: str) -> AuthenticatedNetwork:
        return AuthenticatedNetwork(memory.seen_by(who), OURS, Identity(who), rng=SeededRng(who), clock=sim_clock)

    async with known("b") as ours, known("a") as theirs, host(ours, received, sim_clock) as links:
        await links.listen("b")
        thread = await theirs.connect("b")
        thread.send(LinkPulse(7, name).encode())
        await asyncio.sleep(0.1)
        assert received == ([("a", 7)] if name == "a" else [])


@pytest.mark.parametrize(
    "frame",
    [
        *(b"", bytes([VERSION, 5]), b"\x01\x05", LinkAck(1, 1).encode()),
        *(LinkPulse(1, "").encode(), LinkPulse(1, "n" * 5000).encode()),
    ],
)
async def test_a_connection_with_another_frame_than_a_pulse_is_closed(frame: bytes, sim_clock: SimClock) -> None:
    memory, received = MemoryNetwork(), []  # type: ignore[var-annotated]
    async with host(memory.seen_by("b"), received, sim_clock) as links:
        await links.listen("b")
        thread = await memory.seen_by("a").connect("b")
        thread.send(frame)
        with pytest.raises(ConnectionLostError):
            await thread.receive()
        assert not received


async def test_a_peer_of_another_version_is_refused_by_its_name(
    sim_clock: SimClock, caplog: pytest.LogCaptureFixture
) -> None:
    memory, received = MemoryNetwork(), []  # type: ignore[var-annotated]
    async with host(memory.seen_by("b"), received, sim_clock) as links:
        await links.listen("b")
        links.open("worker-2", None)
        old = await memory.seen_by("a").connect("b")
        old.send(bytes([VERSION - 1]) + LinkHello(1, 1, greeting=b"worker-2").encode()[1:])
        with pytest.raises(ConnectionLostError):
            await old.receive()
    assert f"worker-2 speaks protocol {VERSION - 1}, this process speaks {VERSION}" in caplog.text
    assert f"{VERSION}: install the same release of aiostorm on both sides" in caplog.text


async def test_a_peer_that_connects_all_day_does_not_fill_the_log(
    sim_clock: SimClock, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    memory, received = MemoryNetwork(), []  # type: ignore[var-annotated]
    async with host(memory.seen_by("b"), received, sim_clock) as links:
        await links.listen("b")
        for _ in range(200):
            unknown = await memory.seen_by("a").connect("b")
            unknown.send(b"\x07what is this?")
            with pytest.raises(ConnectionLostError):
                await unknown.receive()
        assert len(caplog.records) == 10
        await asyncio.sleep(61)
        for _ in range(2):
            unknown = await memory.seen_by("a").connect("b")
            unknown.send(b"\x07what is this?")
        await asyncio.sleep(1)
    assert "190 more warnings like this" in caplog.text
    assert len(caplog.records) == 13


async def test_nor_does_a_peer_with_a_right_name_and_then_malformed_frames(
    sim_clock: SimClock, caplog: pytest.LogCaptureFixture
) -> None:
    memory, received = MemoryNetwork(), []  # type: ignore[var-annotated]
    async with host(memory.seen_by("b"), received, sim_clock) as links:
        await links.listen("b")
        links.open("a", None)
        for n in range(50):
            unknown = await memory.seen_by("a").connect("b")
            unknown.send(LinkHello(n + 1, 1, greeting=b"a").encode())
            unknown.send(b"\x07what is this?")
            with contextlib.suppress(ConnectionLostError):
                while True:
                    await unknown.receive()
        lines = [r.getMessage() for r in caplog.records if "the connection to a is closed" in r.getMessage()]
        assert len(lines) == 10
