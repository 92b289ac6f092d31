"""AuthenticatedNetwork over networks in memory: `accept` never gets unauthenticated peers."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any

import pytest

from aiostorm.testing.simulation import World
from aiostorm.testing.simulation.process import Process
from aiostorm.transport import (
    AuthenticatedNetwork,
    AuthenticationError,
    Connection,
    ConnectionLostError,
    Credentials,
    Identity,
    Links,
    NetworkError,
    Secret,
)
from aiostorm.transport.net.authentication import HELLO, REFUSED

from ...simulation.worlds import in_world
from ..parts import MemoryNetwork, SeededRng

OURS = Credentials("storm-1", Secret(bytes(range(32))))
OTHER = Credentials("storm-1", Secret(bytes(32)))
CLUSTER = Credentials("storm-2", OURS.token)


def network(memory: MemoryNetwork, name: str, credentials: Credentials = OURS, **options: Any) -> AuthenticatedNetwork:
    options.setdefault("rng", SeededRng(name))
    return AuthenticatedNetwork(memory.seen_by(name), credentials, Identity(name), **options)


class Host:
    """What has come in."""

    def __init__(self) -> None:
        self.came: list[Connection] = []

    def accept(self, connection: Connection) -> None:
        self.came.append(connection)


async def test_two_of_a_cluster_exchange_frames() -> None:
    memory, host = MemoryNetwork(), Host()
    async with network(memory, "a") as ours, network(memory, "b") as theirs:
        await theirs.listen("b", host.accept)
        near = await ours.connect("b")
        [far] = host.came
        assert (near.identity, near.peer) == (Identity("b"), "b at b")
        assert far.peer == "a at a"
        near.send(b"\x01one")
        far.send(b"\x02two")
        assert await far.receive() == b"\x01one"
        assert await near.receive() == b"\x02two"
        await near.drained()
        assert near.writable
    near.send(b"\x01alive")
    assert await far.receive() == b"\x01alive", "connections live on"
    near.close()
    with pytest.raises(ConnectionLostError):
        await far.receive()


@pytest.mark.parametrize(("credentials", "why"), [(OTHER, "token"), (CLUSTER, "another cluster|token")])
async def test_a_peer_without_the_token_is_refused_without_a_reason(
    credentials: Credentials, why: str, caplog: pytest.LogCaptureFixture
) -> None:
    memory, host = MemoryNetwork(), Host()
    async with network(memory, "a", credentials) as unknown, network(memory, "b") as theirs:
        await theirs.listen("b", host.accept)
        with pytest.raises(AuthenticationError, match=why):
            await unknown.connect("b")
        await asyncio.sleep(0.1)
        assert not memory.open
    assert not host.came
    assert len(caplog.records) == 2
    assert {record.levelno for record in caplog.records} == {logging.WARNING}
    assert str(OURS.token.reveal()) not in caplog.text


async def test_a_silent_or_incomplete_handshake_is_closed_in_time(caplog: pytest.LogCaptureFixture) -> None:
    memory, host = MemoryNetwork(), Host()
    loop = asyncio.get_running_loop()
    async with network(memory, "b") as theirs:
        await theirs.listen("b", host.accept)
        before_s = loop.time()
        silent = await memory.seen_by("x").connect("b")
        with pytest.raises(ConnectionLostError):
            await silent.receive()
        assert loop.time() - before_s == pytest.approx(5.0, abs=0.1)
        for frame in (b"", b"\x01a HELLO of a link", b"\x81", bytes(1_000_000), REFUSED, HELLO + bytes(40)):
            loud = await memory.seen_by("x").connect("b")
            loud.send(frame)
            assert await loud.receive() == REFUSED
            with pytest.raises(ConnectionLostError):
                await loud.receive()
        assert [c.sent for c in memory.connections if c.here == "b"] == [[], *[[REFUSED]] * 6]
    assert not host.came
    assert "it has not authenticated within 5 s" in caplog.text


async def test_a_false_server_gets_only_the_first_frame() -> None:
    memory = MemoryNetwork()
    received: list[bytes] = []

    def accept(connection: Connection) -> None:
        async def listen() -> None:
            try:
                while True:
                    received.append(await connection.receive())
            except ConnectionLostError:
                return

        group.create_task(listen())

    async with asyncio.TaskGroup() as group, network(memory, "a") as ours:
        await memory.seen_by("b").listen("b", accept)
        with pytest.raises(AuthenticationError, match="within 5 s"):
            await ours.connect("b")
    assert [frame[:1] for frame in received] == [HELLO], "once: a connection loses nothing"


async def test_at_most_so_many_are_between_the_two() -> None:
    memory, host = MemoryNetwork(), Host()
    async with network(memory, "b", max_pending=3) as theirs:
        await theirs.listen("b", host.accept)
        silent = [await memory.seen_by("x").connect("b") for _ in range(4)]
        with pytest.raises(ConnectionLostError):
            await silent[3].receive()
        assert len(theirs._pending) == 3
    await asyncio.sleep(0.01)
    assert not memory.open, "leaving the block ends who is between the two"


async def test_a_peer_that_connects_all_day_does_not_fill_the_log(caplog: pytest.LogCaptureFixture) -> None:
    memory, host = MemoryNetwork(), Host()
    async with network(memory, "a", OTHER) as unknown, network(memory, "b") as theirs:
        await theirs.listen("b", host.accept)
        for _ in range(300):
            with pytest.raises(AuthenticationError):
                await unknown.connect("b")
            await asyncio.sleep(1)
    assert 60 <= len(caplog.records) <= 150
    assert "more warnings like this" in caplog.text


async def test_a_cancelled_connect_leaves_nothing() -> None:
    memory, host = MemoryNetwork(), Host()
    async with network(memory, "a") as ours, network(memory, "b") as theirs:
        await theirs.listen("b", host.accept)
        for wait_s in (0.0005, 0.0015, 0.0025, 0.0035, 0.0045):
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(wait_s):
                    await ours.connect("b")
            await asyncio.sleep(10)
            for connection in host.came:
                connection.close()
            assert not memory.open


async def test_an_accept_that_fails_costs_its_connection_only() -> None:
    memory = MemoryNetwork()
    complaints: list[Any] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: complaints.append(context["exception"]))

    def accept(connection: Connection) -> None:
        raise KeyError("no")

    async with network(memory, "a") as ours, network(memory, "b") as theirs:
        await theirs.listen("b", accept)
        for _ in range(2):
            with pytest.raises(NetworkError):
                await (await ours.connect("b")).receive()
    assert [type(complaint) for complaint in complaints] == [KeyError, KeyError]


@pytest.mark.parametrize("seed", range(6))
def test_links_are_made_over_a_network_that_breaks_connections(seed: int) -> None:
    got: list[bytes] = []

    def program(name: str, peer: str, on_payload: Callable[[str, bytes], None]) -> Callable[[Process], Any]:
        async def main(process: Process) -> None:
            identity = Identity(name)
            async with (
                AuthenticatedNetwork(process.network, OURS, identity, rng=process.rng) as network,
                Links(name, network, on_payload=on_payload, rng=process.rng) as links,
            ):
                if name == "b":
                    await links.listen("b:1")
                link = links.open(peer, "b:1" if name == "a" else None)
                if name == "a":
                    for number in range(50):
                        await link.send(b"%d" % number)
                await asyncio.get_running_loop().create_future()

        return main

    async def work(world: World) -> None:
        b = world.process("b", program("b", "a", lambda peer, payload: got.append(payload)))
        a = world.process("a", program("a", "b", lambda peer, payload: None))
        for there, back in (("a", "b"), ("b", "a")):
            path = world.switch.path(there, back)
            path.breaks = 0.05
        b.start()
        await asyncio.sleep(0.1)
        a.start()
        await asyncio.sleep(120)
        a.kill()
        b.kill()

    in_world(work, seed)
    assert got == [b"%d" % number for number in range(50)]


async def test_a_link_needs_a_peer_authenticated_with_its_name_and_role(caplog: pytest.LogCaptureFixture) -> None:
    """Of the name in a HELLO of a link nothing was proved: it must be the one of the handshake."""
    memory = MemoryNetwork()
    caplog.set_level(logging.INFO)
    received: list[tuple[str, bytes]] = []

    def links(name: str, network: AuthenticatedNetwork) -> Links:
        return Links(
            name, network, on_payload=lambda peer, payload: received.append((peer, payload)), rng=SeededRng(name)
        )

    async with network(memory, "a") as ours, network(memory, "b") as theirs, links("b", theirs) as host:
        await host.listen("b")
        host.open("c", None)
        host.open("a", None)
        async with links("c", ours) as claims_c:
            link = claims_c.open("b", "b")
            assert link.offer(b"from c?")
            await asyncio.sleep(1)
            assert not link.established
            link.abort()
        assert "the peer is authenticated as node a; expected c" in caplog.text
        async with links("a", ours) as right:
            wrong = right.open("b", "b", role="parent")
            assert wrong.offer(b"to a parent")
            await asyncio.sleep(1)
            assert wrong.last_error == "the peer is authenticated as node b; expected parent b"
            wrong.abort()
            await asyncio.sleep(1)
            assert right.open("b", "b", role="node").offer(b"from a")
            await asyncio.sleep(3)
        assert received == [("a", b"from a")]
