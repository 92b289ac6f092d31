"""W4 between two processes: ask one after the other, 64 at a time, tell from one sender, from ten. `size` is messages.

Oracle: every reply is the question plus one; the receiver's count and sum are those of the numbers sent.

Limit: a bare websocket of aiohttp between the same processes, on uvloop, one message a frame, unmasked or not as aiohttp
does it: it answers each number with one more, or adds up and answers with count and sum when it is asked.
"""

from __future__ import annotations

import asyncio
import struct
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import aiohttp
from aiohttp import web

from .cells import Outcome
from .clocking import Stopwatch, run_in
from .processes import other_process
from .w3 import check
from .w4 import check_reply

AT_A_TIME = 64
_NUMBER = struct.Struct("!q")
_PAIR = struct.Struct("!qq")


def socket_ask(size: int, loop: str, at_a_time: int = 1) -> Outcome:
    """Limit of ask: so many questions under way at a time."""
    with other_process("benchmarks.w4_processes", loop) as path:
        return run_in(loop, _ask(size, path, at_a_time))  # type: ignore[no-any-return]


def socket_tell(size: int, loop: str) -> Outcome:
    """Limit of tell: the same for one sender and for ten, since a websocket has one writer."""
    with other_process("benchmarks.w4_processes", loop) as path:
        return run_in(loop, _tell(size, path))  # type: ignore[no-any-return]


@asynccontextmanager
async def serve(path: str) -> AsyncIterator[None]:
    """The other process."""
    app = web.Application()
    app.router.add_get("/ask", _answer)
    app.router.add_get("/tell", _add_up)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.UnixSite(runner, path).start()
    yield


async def _answer(request: web.Request) -> web.WebSocketResponse:
    socket = web.WebSocketResponse(compress=False)
    await socket.prepare(request)
    async for message in socket:
        await socket.send_bytes(_NUMBER.pack(_NUMBER.unpack(message.data)[0] + 1))
    return socket


async def _add_up(request: web.Request) -> web.WebSocketResponse:
    socket = web.WebSocketResponse(compress=False)
    await socket.prepare(request)
    count = total = 0
    async for message in socket:
        if message.data:
            count += 1
            total += _NUMBER.unpack(message.data)[0]
        else:
            await socket.send_bytes(_PAIR.pack(count, total))
    return socket


@asynccontextmanager
async def _connected(path: str, what: str) -> AsyncIterator[aiohttp.ClientWebSocketResponse]:
    connector = aiohttp.UnixConnector(path)
    async with (
        aiohttp.ClientSession(connector=connector) as session,
        session.ws_connect(f"http://other/{what}") as socket,
    ):
        yield socket


async def _ask(size: int, path: str, at_a_time: int) -> Outcome:
    asked: deque[int] = deque()
    async with _connected(path, "ask") as socket:
        with Stopwatch() as watch:
            for number in range(size + at_a_time):
                if number >= at_a_time:
                    (reply,) = _NUMBER.unpack((await socket.receive()).data)
                    check_reply(asked.popleft(), reply)
                if number < size:
                    asked.append(number)
                    await socket.send_bytes(_NUMBER.pack(number))
    return Outcome(size, watch.wall_s, watch.cpu_s)


async def _tell(size: int, path: str) -> Outcome:
    async with _connected(path, "tell") as socket:
        with Stopwatch() as watch:
            for number in range(size):
                await socket.send_bytes(_NUMBER.pack(number))
            await socket.send_bytes(b"")
            count, total = _PAIR.unpack((await socket.receive()).data)
    check(size, count, total)
    return Outcome(size, watch.wall_s, watch.cpu_s)
