"""W4 between two processes: ask one after the other, 64 at a time, tell from one sender, from ten. `size` is messages.

Oracle: every reply is the question plus one; the receiver's count and sum are those of the numbers sent.

Limit: a bare socket between the same two processes: streams of asyncio, 8 bytes a number, on the standard library's
loop. The other side answers each with one more, or adds up and answers with count and sum at the end.
"""

from __future__ import annotations

import asyncio
import struct
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from .cells import Outcome
from .clocking import Stopwatch, run_in
from .processes import other_process
from .w3 import check
from .w4 import check_reply

_NUMBER = struct.Struct("!q")
_PAIR = struct.Struct("!qq")
_ASK, _TELL = b"a", b"t"
_END = -1


def socket_ask(size: int, loop: str, at_a_time: int = 1) -> Outcome:
    """Limit of ask: so many questions under way at a time."""
    with other_process("benchmarks.w4_processes", loop) as path:
        return run_in(loop, _ask(size, path, at_a_time))  # type: ignore[no-any-return]


def socket_tell(size: int, loop: str) -> Outcome:
    """Limit of tell: the same for one sender and for ten, since a socket has one writer."""
    with other_process("benchmarks.w4_processes", loop) as path:
        return run_in(loop, _tell(size, path))  # type: ignore[no-any-return]


@asynccontextmanager
async def serve(path: str) -> AsyncIterator[None]:
    """The other process."""
    server = await asyncio.start_unix_server(_serve, path)
    async with server:
        yield


async def _serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    asked = await reader.readexactly(1) == _ASK
    count = total = 0
    while True:
        try:
            (number,) = _NUMBER.unpack(await reader.readexactly(_NUMBER.size))
        except asyncio.IncompleteReadError:
            return  # that was all
        if asked:
            writer.write(_NUMBER.pack(number + 1))
            await writer.drain()
        elif number == _END:
            writer.write(_PAIR.pack(count, total))
        else:
            count += 1
            total += number


async def _ask(size: int, path: str, at_a_time: int) -> Outcome:
    asked: deque[int] = deque()
    reader, writer = await asyncio.open_unix_connection(path)
    writer.write(_ASK)
    with Stopwatch() as watch:
        for number in range(size + at_a_time):
            if number >= at_a_time:
                (reply,) = _NUMBER.unpack(await reader.readexactly(_NUMBER.size))
                check_reply(asked.popleft(), reply)
            if number < size:
                asked.append(number)
                writer.write(_NUMBER.pack(number))
                await writer.drain()
    writer.close()
    return Outcome(size, watch.wall_s, watch.cpu_s)


async def _tell(size: int, path: str) -> Outcome:
    reader, writer = await asyncio.open_unix_connection(path)
    writer.write(_TELL)
    with Stopwatch() as watch:
        for number in range(size):
            writer.write(_NUMBER.pack(number))
            await writer.drain()
        writer.write(_NUMBER.pack(_END))
        count, total = _PAIR.unpack(await reader.readexactly(_PAIR.size))
    writer.close()
    check(size, count, total)
    return Outcome(size, watch.wall_s, watch.cpu_s)
