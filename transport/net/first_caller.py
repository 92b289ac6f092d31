"""First caller: listening at a unix socket at no cost, until somebody calls.

    bound (a file, the kernel's queue) ─► the first caller waits in the queue ─► aiohttp is loaded, in a thread
                                                                             ─► the network takes the socket over

1. Until then nothing is loaded and nothing runs: a reader of the loop's waits for the socket. What loads aiohttp takes
   a third of a second, which a short run would have to wait for.
2. Nobody is turned away meanwhile: the kernel holds who calls, and the network finds them there.
3. From then on it is a network like any other, with its limits for strangers (see admission).

From: inetd, and systemd's socket activation.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from importlib import import_module
from typing import NoReturn

from .addresses import UnixAddress
from .admission import AdmissionLimits
from .bound_sockets import BoundSocket, bound_unix
from .network import Connection


async def serve_callers(path: str, accept: Callable[[Connection], None], limits: AdmissionLimits) -> NoReturn:
    """Hand each connection that comes to `accept`, as `Network.listen` does, until it is cancelled.

    NetworkError if there can be no socket with that file; see bound_sockets for who may reach it. It goes at the end.
    """
    bound = await bound_unix(path)
    try:
        await _called(bound)
        await asyncio.to_thread(import_module, f"{__package__}.websockets")
        from .websockets import WebSocketNetwork

        async with WebSocketNetwork(limits=limits) as network:
            network.take_over(bound, UnixAddress(path), accept)
            await asyncio.get_running_loop().create_future()
        raise AssertionError("nobody sets what was waited for")
    finally:
        bound.close()


async def _called(bound: BoundSocket) -> None:
    """Wait until somebody is in the queue, and leave him there."""
    loop = asyncio.get_running_loop()
    called = loop.create_future()

    def ready() -> None:
        if not called.done():
            called.set_result(None)

    loop.add_reader(bound.socket, ready)
    try:
        await called
    finally:
        loop.remove_reader(bound.socket)
