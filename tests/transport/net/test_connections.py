"""SocketNetwork keeps the contract of Network, over real sockets of each kind."""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from aiostorm.transport import (
    MAX_BUFFERED_BYTES,
    MAX_FRAME_BYTES,
    Connection,
    ConnectionLostError,
    FrameTooLargeError,
    Links,
    NetworkError,
    SocketNetwork,
)

pytestmark = pytest.mark.sockets

PATIENCE_S = 20


class Pair:
    """Two ends of a connection."""

    def __init__(self, network: SocketNetwork, address: str) -> None:
        self.network = network
        self.address = address
        self.accepted: list[Connection] = []
        self._came = asyncio.Event()

    def accept(self, connection: Connection) -> None:
        self.accepted.append(connection)
        self._came.set()

    async def connect(self) -> tuple[Connection, Connection]:
        self._came.clear()
        async with asyncio.timeout(PATIENCE_S):
            near = await self.network.connect(self.address)
            await self._came.wait()
        return near, self.accepted[-1]


@pytest.fixture(params=["127.0.0.1:0", "[::1]:0", "unix"])
async def pair(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Pair]:
    address = request.param
    if address == "unix":
        address = f"unix:{tmp_path}/sockets/a"
    async with SocketNetwork() as network:
        pair = Pair(network, address)
        try:
            listener = await network.listen(address, pair.accept)
        except NetworkError as error:
            pytest.skip(str(error))  # no IPv6 here
        pair.address = listener.address
        yield pair


def connections_of(network: SocketNetwork) -> int:
    websockets = 0 if network._websockets is None else len(network._websockets.result()._taps)
    return websockets + len(network._unix._connections)


async def patiently(condition: Callable[[], object]) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while not condition():  # noqa: ASYNC110 - aiohttp's tasks do not report their end
            await asyncio.sleep(0.001)


async def test_frames_come_as_they_were_sent_both_ways(pair: Pair) -> None:
    near, far = await pair.connect()
    sizes = (0, 1, 125, 126, 65_535, 65_536, MAX_FRAME_BYTES)
    for one, other in ((near, far), (far, near)):
        for size in sizes:
            frame = os.urandom(size)
            one.send(frame)
            assert await other.receive() == frame


async def test_a_frame_that_is_too_large_is_refused_and_harms_nothing(pair: Pair) -> None:
    near, far = await pair.connect()
    for one, other in ((near, far), (far, near)):
        with pytest.raises(FrameTooLargeError, match="1,048,577 bytes: at most 1,048,576"):
            one.send(bytes(MAX_FRAME_BYTES + 1))
        one.send(b"small")
        assert await other.receive() == b"small"


@pytest.mark.parametrize("who", ["who dialled", "who was dialled"])
async def test_a_connection_ends_once_for_both_sides(pair: Pair, who: str) -> None:
    near, far = await pair.connect()
    one, other = (near, far) if who == "who dialled" else (far, near)
    other.send(b"a word before")
    one.send(b"the last word")
    assert await one.receive() == b"a word before"
    one.close()
    one.close()
    assert await other.receive() == b"the last word", "what had come is still received"
    for end in (other, one):
        for _ in range(7):
            with pytest.raises(ConnectionLostError):
                await end.receive()
        with pytest.raises(ConnectionLostError):
            end.send(b"")
        with pytest.raises(ConnectionLostError):
            await end.drained()
        assert end.writable


async def test_a_sender_waits_for_a_slow_reader(pair: Pair) -> None:
    near, far = await pair.connect()
    for one, other in ((near, far), (far, near)):
        sent = 0
        while one.writable:
            one.send(bytes(64_000))
            sent += 1
            await asyncio.sleep(0)  # the kernel takes what it can
            assert sent * 64_000 < 64 * MAX_BUFFERED_BYTES, "what is not read is bounded"
        waiting = asyncio.ensure_future(one.drained())
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(0.02):
                await asyncio.shield(waiting)
        if not waiting.done():
            waiting.cancel()
            with pytest.raises(asyncio.CancelledError):
                await waiting
        async with asyncio.TaskGroup() as group:
            group.create_task(one.drained())
            for _ in range(sent):
                assert len(await other.receive()) == 64_000
        assert one.writable


async def test_a_sender_that_waits_for_capacity_gets_the_end(pair: Pair) -> None:
    near, far = await pair.connect()
    while near.writable:
        near.send(bytes(64_000))
        await asyncio.sleep(0)
    waiting = asyncio.ensure_future(near.drained())
    await asyncio.sleep(0)
    far.close()
    with pytest.raises(ConnectionLostError):
        async with asyncio.timeout(PATIENCE_S):
            await waiting


async def test_a_cancelled_receive_loses_nothing(pair: Pair) -> None:
    near, far = await pair.connect()
    for number in range(30):
        waiting = asyncio.ensure_future(far.receive())
        near.send(b"%d" % number)
        for _ in range(number % 6):
            await asyncio.sleep(0)
        waiting.cancel()
        try:
            frame = await waiting
        except asyncio.CancelledError:
            async with asyncio.timeout(PATIENCE_S):
                frame = await far.receive()
        assert frame == b"%d" % number


async def test_there_is_no_listener(pair: Pair, tmp_path: Path) -> None:
    for address in ("127.0.0.1:1", f"unix:{tmp_path}/none", "no-such-host.invalid:6700"):
        with pytest.raises(NetworkError, match=address.split(":")[0]):
            await pair.network.connect(address)


async def test_a_taken_address_is_refused(pair: Pair) -> None:
    async with SocketNetwork() as another:
        with pytest.raises(NetworkError):
            await another.listen(pair.address, pair.accept)
    await pair.connect()


async def test_a_closed_listener_gives_its_address_back_and_its_connections_live(tmp_path: Path) -> None:
    for address in ("127.0.0.1:0", f"unix:{tmp_path}/sockets/a"):
        async with SocketNetwork() as network:
            pair = Pair(network, address)
            listener = await network.listen(address, pair.accept)
            pair.address = listener.address
            near, far = await pair.connect()
            listener.close()
            listener.close()
            with pytest.raises(NetworkError):
                await network.connect(pair.address)
            again = await network.listen(pair.address, pair.accept)
            assert again.address == pair.address
            await pair.connect()
            near.send(b"alive")
            assert await far.receive() == b"alive"


async def test_a_listener_follows_another_at_once(tmp_path: Path) -> None:
    async with SocketNetwork() as network:
        pair = Pair(network, "127.0.0.1:0")
        for address in [None, f"unix:{tmp_path}/sockets/a"] * 10:
            listener = await network.listen(address or pair.address, pair.accept)
            await asyncio.sleep(0)
            pair.address = listener.address
            await pair.connect()
            listener.close()
            pair.address = "127.0.0.1:0"


async def test_an_accept_that_fails_costs_its_connection_only(pair: Pair) -> None:
    complaints: list[Any] = []
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(lambda _, context: complaints.append(context["exception"]))
    pair.accept = accept = lambda connection: (_ for _ in ()).throw(KeyError("no"))  # type: ignore[method-assign]
    address = pair.address if pair.address.startswith("unix") else "127.0.0.1:0"
    address = address + "2" if address.startswith("unix") else address
    listener = await pair.network.listen(address, accept)
    near = await pair.network.connect(listener.address)
    with pytest.raises(ConnectionLostError):
        await near.receive()
    assert [type(complaint) for complaint in complaints] == [KeyError]
    await pair.connect()


async def test_two_hundred_connections_leave_nothing(pair: Pair) -> None:
    if sys.platform != "linux":
        pytest.skip("counts descriptors in /proc")
    counts: list[int] = []
    for number in range(100):
        near, far = await pair.connect()
        near.send(b"a frame")
        assert await far.receive() == b"a frame"
        (near if number % 2 else far).close()
        with pytest.raises(ConnectionLostError):
            await (far if number % 2 else near).receive()
        pair.accepted.clear()
        if number in (10, 99):
            await patiently(lambda: not connections_of(pair.network))
            counts.append(len(os.listdir("/proc/self/fd")))
            await patiently(lambda: len(asyncio.all_tasks()) <= 3)
    assert counts[0] == counts[1]


async def test_a_network_is_used_as_a_context_manager() -> None:
    with pytest.raises(RuntimeError, match="async with"):
        await SocketNetwork().connect("127.0.0.1:1")


async def test_a_pair_of_links_speaks_over_it() -> None:
    got: list[bytes] = []
    async with (
        SocketNetwork() as network,
        Links("b", network, on_payload=lambda peer, payload: got.append(payload)) as theirs,
        Links("a", network, on_payload=lambda peer, payload: None) as ours,
    ):
        address = await theirs.listen("127.0.0.1:0")
        theirs.open("a", None)
        link = ours.open("b", address)
        for number in range(200):
            await link.send(b"%d" % number)
        await patiently(lambda: len(got) == 200)
    assert got == [b"%d" % number for number in range(200)]
