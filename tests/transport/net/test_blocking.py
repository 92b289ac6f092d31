"""BlockingConnection speaks with AuthenticatedNetwork over real sockets, and believes as little as any other end."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import pytest

from aiostorm.runtime import SystemRng
from aiostorm.transport import (
    MAX_FRAME_BYTES,
    AuthenticationError,
    BlockingConnection,
    Connection,
    ConnectionLostError,
    Credentials,
    CredentialsError,
    ExposedError,
    FrameTooLargeError,
    Identity,
    NetworkError,
    Secret,
    Security,
    dial_blocking,
    open_network,
)
from aiostorm.transport.net.blocking_frames import WebSocketFrames

from .test_tls import Ministry

pytestmark = pytest.mark.sockets

TOKEN = Credentials("spark", Secret(bytes(range(32))))
OTHER = Credentials("spark", Secret(bytes(32)))
OURS = Identity("executor", "spark")


async def echo(connection: Connection) -> None:
    with contextlib.suppress(ConnectionLostError):
        while True:
            frame = await connection.receive()
            if frame == b"close":
                connection.close()
            await connection.drained()
            connection.send(frame)


@contextlib.asynccontextmanager
async def echoing(address: str, security: Security | None = None) -> AsyncIterator[str]:
    """A server that sends each frame back."""
    async with (
        open_network("server", security or Security(TOKEN), role="ingress", roles=("spark",)) as network,
        asyncio.TaskGroup() as group,
    ):
        came: list[Connection] = []

        def accept(connection: Connection) -> None:
            came.append(connection)
            group.create_task(echo(connection))

        listener = await network.listen(address, accept)
        yield listener.address
        listener.close()
        for connection in came:
            connection.close()


def dialled(address: str, security: Security | None = None, *, silence_s: float = 10) -> BlockingConnection:
    return dial_blocking(address, security or Security(TOKEN), OURS, roles=("ingress",), silence_s=silence_s)


def exchange(address: str) -> list[bytes]:
    received = []
    with dialled(address) as connection:
        for frame in (
            b"\x01",
            b"\x01" * 125,
            b"\x02" * 126,
            b"\x03" * 65_535,
            b"\x04" * 65_536,
            b"\x05" * MAX_FRAME_BYTES,
        ):
            connection.send(frame[:1], memoryview(frame)[1:])
            received.append(connection.receive())
            assert received[-1] == frame
        with pytest.raises(TimeoutError):
            connection.receive(0)
        with pytest.raises(TimeoutError):
            connection.receive(0.01)
        with pytest.raises(FrameTooLargeError):
            connection.send(bytes(MAX_FRAME_BYTES + 1))
        connection.send(b"close")
        with pytest.raises(ConnectionLostError):
            connection.receive()
        with pytest.raises(ConnectionLostError):
            connection.send(b"more")
    return received


@pytest.mark.parametrize("address", ["127.0.0.1:0", "[::1]:0", "unix"])
async def test_frames_go_both_ways(address: str, tmp_path: Path) -> None:
    address = f"unix:{tmp_path}/sockets/a" if address == "unix" else address
    async with echoing(address) as there:
        assert len(await asyncio.to_thread(exchange, there)) == 6


async def test_another_token_is_refused() -> None:
    async with echoing("127.0.0.1:0") as there:
        with pytest.raises(AuthenticationError, match="token"):
            await asyncio.to_thread(dialled, there, Security(OTHER))
        with pytest.raises(AuthenticationError):
            await asyncio.to_thread(dial_blocking, there, Security(TOKEN), Identity("x", "node"))
        with pytest.raises(CredentialsError, match="token"):
            await asyncio.to_thread(dialled, there, Security())


async def test_tls_both_ways(tmp_path: Path) -> None:
    ministry = Ministry(tmp_path)
    secured = Security(TOKEN, ministry.files("localhost", "127.0.0.1"))
    ours = Security(TOKEN, ministry.files("other.example"))
    async with echoing("127.0.0.1:0", secured) as there:

        def speak() -> None:
            with dialled(there, ours) as connection:
                connection.send(b"\x01hello")
                assert connection.receive() == b"\x01hello"

        await asyncio.to_thread(speak)
        with pytest.raises(NetworkError):
            await asyncio.to_thread(dialled, there, Security(TOKEN))
        foreign = Security(TOKEN, ministry.files("x.example", ca=ministry.foreign))
        with pytest.raises(NetworkError):
            await asyncio.to_thread(dialled, there, foreign)


def test_another_machine_needs_tls() -> None:
    with pytest.raises(ExposedError):
        dialled("192.0.2.1:7700")


def test_there_is_no_peer(tmp_path: Path) -> None:
    for address in ("127.0.0.1:1", f"unix:{tmp_path}/none", "no address"):
        with pytest.raises(NetworkError):
            dialled(address)


@contextlib.contextmanager
def answering(work: Callable[[socket.socket], None]) -> Iterator[str]:
    """A listener at a port that is no process of aiostorm."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            made, _ = server.accept()
            with made, contextlib.suppress(OSError):
                made.recv(10_000)
                work(made)

        thread = threading.Thread(target=serve)
        thread.start()
        yield f"127.0.0.1:{server.getsockname()[1]}"
        thread.join()


@pytest.mark.parametrize(
    "answer",
    [b"", b"HTTP/1.1 404 Not Found\r\n\r\n", b"HTTP/1.1 101 x\r\nSec-WebSocket-Accept: no\r\n\r\n", b"x" * 20_000],
)
def test_another_answer_is_not_accepted(answer: bytes) -> None:
    with answering(lambda made: made.sendall(answer)) as there, pytest.raises(NetworkError):
        dialled(there, silence_s=2)


def test_a_silent_peer_is_given_up() -> None:
    with answering(lambda made: made.recv(1) and None) as there, pytest.raises(NetworkError, match=r"0\.2 s"):
        dialled(there, silence_s=0.2)


def test_a_frame_with_a_mask_or_an_unknown_kind_ends_the_connection() -> None:
    for answer, error in ((b"\x82\x85\0\0\0\0hello", "a masked frame"), (b"\x81\x02hi", "a wrong frame")):
        with answering_bytes(answer) as connection, pytest.raises(ConnectionLostError, match=error):
            connection.receive()


@contextlib.contextmanager
def answering_bytes(data: bytes) -> Iterator[BlockingConnection]:
    """The dialling end of a websocket whose other end sends these bytes."""
    here, there = socket.socketpair()
    with here, there:
        there.sendall(data)
        yield BlockingConnection(here, "there", 2, WebSocketFrames("a:1", SystemRng()))


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", "it answers with HTTP: unix sockets carry frames without websockets"),
        (b"\0aiostorm\2", "it uses version 2 of the frames of unix sockets"),
        (b"", "it ended the connection during authentication"),
    ],
)
def test_another_framing_at_a_unix_socket_is_named(answer: bytes, error: str, short_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(short_path / "a"))
        listening.listen()

        def serve() -> None:
            made, _ = listening.accept()
            with made:
                made.recv(100)
                made.sendall(answer)

        thread = threading.Thread(target=serve)
        thread.start()
        with pytest.raises(NetworkError, match=error):
            dialled(f"unix:{short_path}/a", silence_s=2)
        thread.join()
