"""Socket activation: listen at a unix socket, and load the network only when a peer connects.

    bound (a file, the kernel's queue) ─► the first connection waits in the queue ─► aiohttp is loaded, in a thread
                                                                                 ─► the network takes the socket over

1. Until then nothing is loaded and no asyncio task runs: the event loop watches the socket. Loading aiohttp takes a
   third of a second, which a short run would have to wait for.
2. No connection is lost meanwhile: the kernel queues them, and the network accepts them later.
3. After that it is a network like any other, with its limits for unauthenticated peers (see admission).

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


async def serve_on_demand(path: str, accept: Callable[[Connection], None], limits: AdmissionLimits) -> NoReturn:
    """Pass each incoming connection to `accept`, as `Network.listen` does, until the call is cancelled.

    NetworkError if the socket's file cannot be made; bound_sockets says which users can open it. It is removed at the
    end.
    """
    bound = await bound_unix(path)
    try:
        await _first_connection(bound)
        await asyncio.to_thread(import_module, f"{__package__}.websockets")
        from .websockets import WebSocketNetwork

        async with WebSocketNetwork(limits=limits) as network:
            network.take_over(bound, UnixAddress(path), accept)
            await asyncio.get_running_loop().create_future()
        raise AssertionError("this future is never done")
    finally:
        bound.close()


async def _first_connection(bound: BoundSocket) -> None:
    """Wait until a connection is in the queue, and leave it there."""
    loop = asyncio.get_running_loop()
    arrived = loop.create_future()

    def ready() -> None:
        if not arrived.done():
            arrived.set_result(None)

    loop.add_reader(bound.socket, ready)
    try:
        await arrived
    finally:
        loop.remove_reader(bound.socket)
