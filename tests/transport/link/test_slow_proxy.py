"""A slow line of real sockets: a proxy that lets through so many bytes a second, and may cut its connections."""

from __future__ import annotations

import asyncio
import contextlib
from pathlib import Path
from typing import Final

import pytest

from aiostorm.transport import Links, LinkTimings
from aiostorm.transport.net.socket_network import SocketNetwork

pytestmark = pytest.mark.sockets

_CHUNK_BYTES: Final = 1024


class Proxy:
    """Between who dials `path` and who listens at `target`: each direction of a connection has a pace of its own.

    Over unix sockets: the Host that a websocket names is the same for both.
    """

    def __init__(self, path: Path, target: Path, bytes_s: float) -> None:
        self.connections = 0
        self.begun = asyncio.Event()
        self._path = path
        self._target = target
        self._bytes_s = bytes_s
        self._writers: list[asyncio.StreamWriter] = []

    async def serve(self) -> None:
        """Until it is cancelled."""
        async with asyncio.TaskGroup() as group:

            def took(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
                group.create_task(self._carry(reader, writer))

            server = await asyncio.start_unix_server(took, self._path)
            self.begun.set()
            try:
                await asyncio.Event().wait()
            finally:
                server.close()
                self.cut()

    def cut(self) -> None:
        """All connections, and what is under way with them."""
        for writer in self._writers:
            writer.transport.abort()
        self._writers.clear()

    async def _carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        there, back = await asyncio.open_unix_connection(self._target)
        self._writers += [writer, back]
        async with asyncio.TaskGroup() as group:
            group.create_task(self._pump(reader, back))
            group.create_task(self._pump(there, writer))

    async def _pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        loop = asyncio.get_running_loop()
        due_s = loop.time()
        with contextlib.suppress(OSError):
            while data := await reader.read(_CHUNK_BYTES):
                due_s = max(due_s, loop.time()) + len(data) / self._bytes_s
                await asyncio.sleep(due_s - loop.time())
                if writer.transport.is_closing():
                    break
                writer.write(data)
                await writer.drain()
        if not writer.transport.is_closing():
            writer.transport.abort()


async def through(
    folder: Path,
    values: list[bytes],
    bytes_s: float,
    *,
    cut_every_s: float = 0.0,
    timings: LinkTimings | None = None,
    within_s: float = 20.0,
) -> int:
    """Send them over a proxy; how many connections that took."""
    got: list[bytes] = []
    all_here = asyncio.Event()

    def came(peer: str, payload: bytes) -> None:
        got.append(payload)
        if len(got) == len(values):
            all_here.set()

    async with (
        SocketNetwork() as network,
        Links("b", network, on_payload=came, timings=timings) as theirs,
        Links("a", network, on_payload=lambda peer, payload: None, timings=timings) as ours,
    ):
        await theirs.listen(f"unix:{folder / 'b'}")
        proxy = Proxy(folder / "proxy", folder / "b", bytes_s)
        serving = asyncio.create_task(proxy.serve())
        await proxy.begun.wait()
        theirs.open("a", None)
        link = ours.open("b", f"unix:{folder / 'proxy'}")
        cutting = asyncio.create_task(_cut(proxy, cut_every_s)) if cut_every_s else None
        async with asyncio.timeout(within_s):
            for value in values:
                await link.send(value)
            await all_here.wait()
        if cutting is not None:
            cutting.cancel()
        link.abort()
        serving.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await serving
    assert got == values
    return proxy.connections


async def _cut(proxy: Proxy, every_s: float) -> None:
    while True:
        await asyncio.sleep(every_s)
        proxy.cut()


HASTY = LinkTimings(heartbeat_s=0.2, dead_s=0.5)


async def test_a_value_takes_three_times_as_long_as_a_silence_may_last(tmp_path: Path) -> None:
    value = bytes(range(250)) * 240
    assert await through(tmp_path, [value], 40_000.0, timings=HASTY) == 1


async def test_values_come_although_no_connection_lives_as_long_as_one_takes(tmp_path: Path) -> None:
    value = bytes(range(250)) * 300
    assert await through(tmp_path, [value], 40_000.0, cut_every_s=1.2, timings=HASTY) > 1
