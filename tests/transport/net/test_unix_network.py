"""Connections over unix sockets: hostile peers, cuts at any byte, back pressure, and the end. On both event loops."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
import struct
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from aiostorm.transport import (
    MAX_FRAME_BYTES,
    AdmissionLimits,
    AuthenticatedNetwork,
    AuthenticationError,
    Connection,
    ConnectionLostError,
    Credentials,
    Identity,
    NetworkError,
    Secret,
    Security,
    UnixNetwork,
    WebSocketNetwork,
)
from aiostorm.transport.net.stream_connection import MAX_QUEUED_BYTES
from aiostorm.transport.net.stream_frames import PREFACE

pytestmark = [
    pytest.mark.sockets,
    pytest.mark.skipif(sys.platform == "win32", reason="unix sockets"),
]

TOKEN = Credentials("storm-1", Secret(bytes(range(32))))
PATIENCE_S = 20


def framed(frame: bytes) -> bytes:
    return struct.pack("!I", len(frame)) + frame


class Server:
    """A listener, and raw sockets that connect to it."""

    def __init__(self, network: UnixNetwork, address: str, accepted: list[Connection]) -> None:
        self.network = network
        self.address = address
        self.accepted = accepted
        self.path = address.removeprefix("unix:")

    async def raw(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        return await asyncio.open_unix_connection(self.path)

    async def connection(self, number: int = 0) -> Connection:
        """An accepted connection, once it is there."""
        async with asyncio.timeout(PATIENCE_S):
            while len(self.accepted) <= number:  # noqa: ASYNC110 - a raw socket does not know when it is accepted
                await asyncio.sleep(0.001)
        return self.accepted[number]

    @property
    def counted(self) -> int:
        assert self.network._listeners is not None
        return self.network._listeners.admission._addresses.total()

    async def nothing_is_left(self) -> None:
        async with asyncio.timeout(PATIENCE_S):
            while self.network._connections or self.counted:  # noqa: ASYNC110 - the loop closes them
                await asyncio.sleep(0.001)


@contextlib.asynccontextmanager
async def serving(path: Path, security: Security | None = None, **limits: float) -> AsyncIterator[Server]:
    accepted: list[Connection] = []
    limits.setdefault("authenticate_within_s", 10.0)
    async with UnixNetwork(security, limits=AdmissionLimits(**limits)) as network:  # type: ignore[arg-type]
        listener = await network.listen(f"unix:{path}/s/a", accepted.append)
        yield Server(network, listener.address, accepted)


async def read_all(reader: asyncio.StreamReader) -> bytes:
    async with asyncio.timeout(PATIENCE_S):
        with contextlib.suppress(ConnectionResetError):  # an end is as good as a reset
            return await reader.read()
    return b""


# -- bytes of all kinds ------------------------------------------------------------------------------------------------


async def test_every_cut_of_the_stream_is_the_same_and_every_end_is_an_end(short_path: Path) -> None:
    stream = PREFACE + framed(b"") + framed(b"first") + framed(b"second")
    async with serving(short_path) as server:
        for number, size in enumerate(range(len(PREFACE), len(stream) + 1)):
            reader, writer = await server.raw()
            writer.write(stream[: size // 2])
            await asyncio.sleep(0)
            writer.write(stream[size // 2 : size])
            writer.write_eof()
            far = await server.connection(number)
            received: list[bytes] = []
            with contextlib.suppress(ConnectionLostError):
                while True:
                    received.append(await far.receive())
            content = stream[len(PREFACE) : size]
            whole = [frame for frame, end in ((b"", 4), (b"first", 13), (b"second", 23)) if len(content) >= end]
            assert received == whole
            assert far.received_bytes == size, "bytes of an incomplete frame are progress, too"
            assert await read_all(reader) == PREFACE
            writer.close()
        await server.nothing_is_left()


async def test_a_peer_that_ends_within_the_preface_is_not_accepted(short_path: Path) -> None:
    async with serving(short_path) as server:
        for size in range(len(PREFACE)):
            reader, writer = await server.raw()
            writer.write(PREFACE[:size])
            writer.write_eof()
            await read_all(reader)
            writer.close()
        await server.nothing_is_left()
        assert not server.accepted


@pytest.mark.parametrize("length", [MAX_FRAME_BYTES + 1, 1 << 31, (1 << 32) - 1])
async def test_a_length_that_is_too_large_ends_the_connection_at_once(
    length: int, short_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with serving(short_path) as server:
        reader, writer = await server.raw()
        writer.write(PREFACE + framed(b"before") + struct.pack("!I", length))
        far = await server.connection()
        assert await far.receive() == b"before"
        with pytest.raises(ConnectionLostError, match=f"it announces a frame of {length:,} bytes"):
            await far.receive()
        with pytest.raises(ConnectionLostError, match="announces"):
            far.send(b"")
        await read_all(reader)
        writer.close()
        await server.nothing_is_left()
    assert f"the connection of unix is closed: it announces a frame of {length:,} bytes" in caplog.text


async def test_a_websocket_is_refused_by_name_on_both_sides(short_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    request = b"GET /aiostorm/link HTTP/1.1\r\nHost: localhost:0\r\nUpgrade: websocket\r\n\r\n"
    async with serving(short_path) as server:
        reader, writer = await server.raw()
        writer.write(request)
        answer = await read_all(reader)
        assert answer.removeprefix(PREFACE).startswith(b"HTTP/1.1 400 unix sockets of aiostorm carry frames without")
        writer.close()
        await server.nothing_is_left()
        assert not server.accepted
    assert "it sends an HTTP request: unix sockets carry frames without websockets" in caplog.text


@contextlib.contextmanager
def answering(path: Path, answer: bytes) -> Iterator[str]:
    """A listener that accepts and sends those bytes, when the event loop lets a connection in."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listening:
        listening.bind(str(path / "other"))
        listening.listen()
        listening.setblocking(False)
        loop, made = asyncio.get_running_loop(), []

        def accept() -> None:
            one, _ = listening.accept()
            made.append(one)
            one.sendall(answer)
            one.shutdown(socket.SHUT_WR)

        loop.add_reader(listening, accept)
        yield f"unix:{path}/other"
        loop.remove_reader(listening)
        for one in made:
            one.close()


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", "it answers with HTTP: unix sockets carry frames without websockets"),
        (b"\0aiostorm\7", "it uses version 7 of the frames of unix sockets, this is version 1"),
        (b"SSH-2.0", "it begins with b'SSH-2.0', which no process of aiostorm does"),
        (b"", "the connection was lost while it was opened"),
        (PREFACE[:4], "the connection was lost while it was opened"),
    ],
)
async def test_a_listener_with_another_framing_is_an_error_that_says_so(
    answer: bytes, error: str, short_path: Path
) -> None:
    async with UnixNetwork() as network:
        with answering(short_path, answer) as address, pytest.raises(NetworkError, match=error) as caught:
            await network.connect(address)
        assert str(caught.value).startswith(address)


async def test_each_network_names_the_addresses_that_it_does_not_have(short_path: Path) -> None:
    async with UnixNetwork() as network, WebSocketNetwork() as websockets:
        with pytest.raises(NetworkError, match="is no unix socket"):
            await network.connect("127.0.0.1:1")
        with pytest.raises(NetworkError, match="is no unix socket"):
            await network.listen("127.0.0.1:0", lambda connection: None)
        with pytest.raises(NetworkError, match="use SocketNetwork"):
            await websockets.connect(f"unix:{short_path}/a")
        with pytest.raises(NetworkError, match="use SocketNetwork"):
            await websockets.listen(f"unix:{short_path}/a", lambda connection: None)
    with pytest.raises(RuntimeError, match="async with"):
        await UnixNetwork().connect(f"unix:{short_path}/a")


# -- back pressure -----------------------------------------------------------------------------------------------------


async def test_a_reader_that_does_not_receive_stops_the_peer(short_path: Path) -> None:
    async with serving(short_path) as server, UnixNetwork() as network:
        near = await network.connect(server.address)
        far = await server.connection()
        sent, frame = 0, bytes(20_000)
        for _ in range(3):
            while near.writable:
                near.send(frame)
                sent += 1
                await asyncio.sleep(0)
            await asyncio.sleep(0.02)
        assert far._paused  # type: ignore[attr-defined]
        assert far._queued_bytes <= MAX_QUEUED_BYTES + 256 * 1024  # type: ignore[attr-defined]
        assert far.received_bytes < sent * len(frame)
        async with asyncio.timeout(PATIENCE_S):
            for _ in range(sent):
                assert await far.receive() == frame
        assert not far._paused  # type: ignore[attr-defined]
        assert far.received_bytes == len(PREFACE) + sent * (len(frame) + 4)
        assert far._queued_bytes == 0  # type: ignore[attr-defined]
        near.send(b"still")
        assert await far.receive() == b"still"


async def test_many_tiny_frames_stop_the_reading_too(short_path: Path) -> None:
    async with serving(short_path) as server:
        reader, writer = await server.raw()
        writer.write(PREFACE + framed(b"") * 200_000)
        far = await server.connection()
        await asyncio.sleep(0.05)
        assert len(far._queue) < 60_000  # type: ignore[attr-defined]
        async with asyncio.timeout(PATIENCE_S):
            for _ in range(200_000):
                assert await far.receive() == b""
        writer.close()
        reader.feed_eof()


async def test_a_frame_that_arrives_slowly_is_progress_at_each_byte(short_path: Path) -> None:
    async with serving(short_path) as server:
        _, writer = await server.raw()
        writer.write(PREFACE)
        far = await server.connection()
        before = far.received_bytes
        for byte in framed(b"slow")[:-1]:
            writer.write(bytes([byte]))
            async with asyncio.timeout(PATIENCE_S):
                while far.received_bytes == before:  # noqa: ASYNC110 - nothing is complete yet
                    await asyncio.sleep(0.001)
            before += 1
            assert far.received_bytes == before
        writer.write(b"w")
        assert await far.receive() == b"slow"
        writer.close()


# -- the end -----------------------------------------------------------------------------------------------------------


async def test_frames_sent_before_close_arrive_although_the_peer_was_sending(short_path: Path) -> None:
    async with serving(short_path) as server, UnixNetwork() as network:
        near = await network.connect(server.address)
        far = await server.connection()
        for end in (near, far):
            end.send(bytes(200_000))
        far.send(b"last")
        far.close()
        async with asyncio.timeout(PATIENCE_S):
            assert len(await near.receive()) == 200_000
            assert await near.receive() == b"last"
            with pytest.raises(ConnectionLostError):
                await near.receive()
        await server.nothing_is_left()


async def test_a_peer_that_does_not_read_cannot_delay_the_end(short_path: Path) -> None:
    async with serving(short_path) as server:
        _, writer = await server.raw()
        writer.write(PREFACE)
        far = await server.connection()
        while far.writable:
            far.send(bytes(100_000))
            await asyncio.sleep(0)
        waiting = asyncio.ensure_future(far.receive())
        await asyncio.sleep(0)
        far.close()
        with pytest.raises(ConnectionLostError):
            await waiting
        await server.nothing_is_left()
        writer.transport.abort()


async def test_a_half_closed_connection_is_over_for_a_sender_that_waits(short_path: Path) -> None:
    async with serving(short_path) as server:
        _, writer = await server.raw()
        writer.write(PREFACE + framed(b"last"))
        far = await server.connection()
        while far.writable:
            far.send(bytes(100_000))
            await asyncio.sleep(0)
        waiting = asyncio.ensure_future(far.drained())
        await asyncio.sleep(0)
        writer.write_eof()
        with pytest.raises(ConnectionLostError):
            await waiting
        assert far.writable
        assert await far.receive() == b"last"
        await server.nothing_is_left()
        writer.transport.abort()


async def test_leaving_the_network_ends_its_connections(short_path: Path) -> None:
    async with serving(short_path) as server:
        async with UnixNetwork() as network:
            near = await network.connect(server.address)
            receiving = asyncio.ensure_future(near.receive())
            await asyncio.sleep(0)
        with pytest.raises(ConnectionLostError):
            await receiving
        far = await server.connection()
        with pytest.raises(ConnectionLostError):
            await far.receive()
        await server.nothing_is_left()


async def test_a_cancelled_connect_leaves_nothing(short_path: Path) -> None:
    with answering(short_path, b"") as address:
        async with serving(short_path) as server, UnixNetwork() as network:
            for steps in range(6):
                dialling = asyncio.ensure_future(network.connect(server.address if steps % 2 else address))
                for _ in range(steps):
                    await asyncio.sleep(0)
                dialling.cancel()
                with contextlib.suppress(asyncio.CancelledError, NetworkError):
                    await dialling
            async with asyncio.timeout(PATIENCE_S):
                while network._connections:
                    for accepted in server.accepted:
                        accepted.close()
                    await asyncio.sleep(0.001)


# -- peers that are not authenticated ----------------------------------------------------------------------------------


async def test_an_unauthenticated_peer_may_send_four_kib_and_stays_some_seconds(
    short_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    async with serving(short_path, Security(TOKEN), authenticate_within_s=0.5) as server, UnixNetwork() as network:
        large = await network.connect(server.address)
        large.send(bytes(5000))
        with pytest.raises(ConnectionLostError):
            await large.receive()
        assert "it announces a frame of 5,000 bytes: at most 4,096 are accepted" in caplog.text
        many = await network.connect(server.address)
        for _ in range(50):
            many.send(bytes(100))
        with pytest.raises(ConnectionLostError):
            await many.receive()
        assert "it sends too much before it is authenticated" in caplog.text
        silent = await network.connect(server.address)
        with pytest.raises(ConnectionLostError):
            await silent.receive()
        assert "has not authenticated in time" in caplog.text
        known = await network.connect(server.address)
        far = server.accepted[-1]
        far.set_authenticated()  # type: ignore[attr-defined]
        known.send(bytes(500_000))
        assert len(await far.receive()) == 500_000
        await asyncio.sleep(0.6)
        known.send(b"still there")
        assert await far.receive() == b"still there"


async def test_peers_without_a_preface_do_not_keep_others_out(short_path: Path) -> None:
    async with serving(short_path, max_unauthenticated=8) as server, UnixNetwork() as network:
        silent = [await server.raw() for _ in range(100)]
        near = await network.connect(server.address)
        near.send(b"here")
        far = await server.connection()
        assert await far.receive() == b"here"
        assert server.network._listeners is not None
        assert server.network._listeners.admission.unauthenticated <= 8
        for _, writer in silent:
            writer.close()


async def test_both_ends_prove_that_they_have_the_token(short_path: Path) -> None:
    accepted: list[Connection] = []
    other = Credentials("storm-1", Secret(bytes(32)))
    async with (
        UnixNetwork(Security(TOKEN)) as below,
        UnixNetwork(Security(TOKEN)) as dialling,
        AuthenticatedNetwork(below, TOKEN, Identity("b")) as theirs,
        AuthenticatedNetwork(dialling, TOKEN, Identity("a")) as ours,
        AuthenticatedNetwork(dialling, other, Identity("c")) as foreign,
    ):
        address = (await theirs.listen(f"unix:{short_path}/s/a", accepted.append)).address
        near = await ours.connect(address)
        near.send(bytes(100_000))
        assert len(await accepted[0].receive()) == 100_000
        assert accepted[0].peer == "a at unix"
        with pytest.raises(AuthenticationError):
            await foreign.connect(address)
        assert len(accepted) == 1


# -- what is imported --------------------------------------------------------------------------------------------------

SCRIPT = """
import asyncio, sys
from aiostorm.transport import Security, open_network

async def main():
    async with open_network("a", Security()) as network:
        listener = await network.listen("unix:" + sys.argv[1], lambda connection: None)
        connection = await network.connect(listener.address)
        connection.close()
    assert "aiohttp" not in sys.modules

asyncio.run(main())
"""


def test_aiohttp_is_not_imported_for_unix_sockets(short_path: Path) -> None:
    subprocess.run([sys.executable, "-c", SCRIPT, str(short_path / "s" / "a")], check=True, timeout=60)
