"""WebSocketConnection: a connection over a websocket of aiohttp, either side of it.

    send ─► websocket ─► transport ─► …                  … ─► transport ─► tap ─► aiohttp's protocol ─► receive
                             └── full, drained, lost ──────────────────────► tap

1. aiohttp makes and reads the websocket's frames; between the transport and aiohttp's protocol stands a tap. It sees at
   once what aiohttp tells nobody, or only to who receives: that the buffer is full, that it has drained, that the
   connection is lost. And it counts what a stranger sends.
2. `send` does not wait, though aiohttp's is a coroutine: it writes first, and then waits if aiohttp's protocol was told
   that the buffer is full. It is not: the tap keeps that for itself. So one step of the coroutine is all of it. That
   is cheap enough: frames and masks of our own would be code of ours in the place of aiohttp's, which is in C.
3. `receive` is aiohttp's, which answers pings on its way. At half a MiB that nobody has received it stops reading.
4. A close is said to the peer and made after what is in the buffer, or after CLOSE_S without: who does not read does
   not hold it up. What aiohttp does then is over when the transport is lost.
5. A frame above MAX_FRAME_BYTES, text, or what is no websocket ends the connection. Nothing is ever compressed.
"""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Callable, Coroutine
from typing import Any, Final, Protocol

import aiohttp

from ..errors import ConnectionLostError, FrameTooLargeError
from .network import MAX_BUFFERED_BYTES, MAX_FRAME_BYTES
from .security import certified_roles

CLOSE_S: Final = 1.0
"""How long a close waits for the buffer to drain."""

MAX_MESSAGE_BYTES: Final = MAX_FRAME_BYTES + 1
"""As aiohttp counts: the first size that is too large."""

_GOODBYE: Final = struct.pack("!H", aiohttp.WSCloseCode.OK)


class Socket(Protocol):
    """What a websocket of aiohttp's client and one of its server have in common."""

    async def send_frame(self, message: bytes, opcode: aiohttp.WSMsgType) -> None:
        """Write a frame."""
        ...

    async def receive(self) -> aiohttp.WSMessage:
        """What comes."""
        ...


class Tap(asyncio.Protocol):
    """Stands before aiohttp's protocol, from when there is one. `budget_bytes`: None: as much as comes."""

    def __init__(self, budget_bytes: int | None) -> None:
        self.over = False
        self.received_bytes = 0
        self.budget_bytes = budget_bytes
        self.transport: asyncio.Transport
        self.inner: asyncio.Protocol | None = None
        self.closes: asyncio.TimerHandle | None = None
        self.at_end: list[Callable[[], None]] = []
        self._waiters: list[asyncio.Future[None]] = []

    @property
    def writable(self) -> bool:
        """Is there room in the buffer, or is all over?"""
        return self.buffered_bytes < MAX_BUFFERED_BYTES

    @property
    def buffered_bytes(self) -> int:
        """What has not left this process. Nothing of a transport that ends: asyncio's TLS has no buffer left then."""
        return 0 if self.over or self.transport.is_closing() else self.transport.get_write_buffer_size()

    async def drained(self) -> None:
        """Wait until `writable`."""
        while not self.writable:
            waiter = asyncio.get_running_loop().create_future()
            self._waiters.append(waiter)
            try:
                await waiter
            finally:
                self._waiters.remove(waiter)

    def stand_before(self, inner: asyncio.Protocol, transport: asyncio.Transport) -> None:
        """From now on."""
        self.inner = inner
        self.transport = transport
        # Full is what `writable` says: so who waits for room is always told.
        transport.set_write_buffer_limits(high=MAX_BUFFERED_BYTES - 1, low=MAX_BUFFERED_BYTES // 2)

    def close(self) -> None:
        """End it, after what is in the buffer, or after CLOSE_S without."""
        if not self.over and self.closes is None:
            self.transport.close()
            self.closes = asyncio.get_running_loop().call_later(CLOSE_S, self.transport.abort)

    def trust(self) -> None:
        """Whoever is there may send as much as it likes."""
        self.budget_bytes = None

    # -- what the transport tells ------------------------------------------------------------------------------------

    def data_received(self, data: bytes) -> None:
        """Of a stranger, only so much."""
        self.received_bytes += len(data)
        if self.budget_bytes is not None:
            self.budget_bytes -= len(data)
            if self.budget_bytes < 0:
                self.transport.abort()
                return
        if self.inner is not None:
            self.inner.data_received(data)

    def eof_received(self) -> bool | None:
        """The peer will send no more."""
        return self.inner.eof_received() if self.inner is not None else None

    def pause_writing(self) -> None:
        """Aiohttp is not told: see the module."""

    def resume_writing(self) -> None:
        """There is room."""
        self._wake()

    def connection_lost(self, exc: Exception | None) -> None:
        """It is over. Said once."""
        self.over = True
        if self.closes is not None:
            self.closes.cancel()
        if self.inner is not None:
            self.inner.connection_lost(exc)
        for at_end in self.at_end:
            at_end()
        self.at_end.clear()
        self._wake()

    def _wake(self) -> None:
        for waiter in self._waiters:
            if not waiter.done():
                waiter.set_result(None)


class WebSocketConnection:
    """A `Connection`, and a `RestrictedConnection` one: strangers are kept short until `trust` is called."""

    def __init__(self, socket: Socket, tap: Tap, peer: str, binding: bytes = b"") -> None:
        self.peer = peer
        self.binding = binding
        self._socket = socket
        self._tap = tap
        self._closed = False
        self._ended = False

    @property
    def certified(self) -> frozenset[str]:
        return certified_roles(self._tap.transport)

    def __repr__(self) -> str:
        return f"<WebSocketConnection with {self.peer}{', over' if self._tap.over else ''}>"

    def trust(self) -> None:
        self._tap.trust()

    @property
    def writable(self) -> bool:
        return self._closed or self._tap.writable

    @property
    def buffered_bytes(self) -> int:
        return 0 if self._closed else self._tap.buffered_bytes

    @property
    def received_bytes(self) -> int:
        return self._tap.received_bytes

    def send(self, frame: bytes) -> None:
        if self._closed or self._tap.over:
            raise self._lost()
        if len(frame) > MAX_FRAME_BYTES:
            raise FrameTooLargeError(f"a frame of {len(frame):,} bytes: at most {MAX_FRAME_BYTES:,}")
        try:
            _at_once(self._socket.send_frame(frame, aiohttp.WSMsgType.BINARY))
        except ConnectionError as error:
            raise self._lost() from error

    async def drained(self) -> None:
        if not self._closed:
            await self._tap.drained()
        if self._closed or self._tap.over:
            raise self._lost()

    async def receive(self) -> bytes:
        if self._ended:
            raise self._lost()
        message = await self._socket.receive()
        if message.type is aiohttp.WSMsgType.BINARY:
            frame: bytes = message.data
            return frame
        self._ended = True
        self.close()
        raise self._lost()

    def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        if not self._tap.over:
            try:
                _at_once(self._socket.send_frame(_GOODBYE, aiohttp.WSMsgType.CLOSE))
            except ConnectionError:  # it is lost, and we are about to be told
                self._tap.transport.abort()
            self._tap.close()
            self._tap.resume_writing()

    def _lost(self) -> ConnectionLostError:
        return ConnectionLostError(f"the connection to {self.peer} is over")


def _at_once(writing: Coroutine[Any, Any, None]) -> None:
    try:
        writing.send(None)
    except StopIteration:
        return
    writing.close()
    raise RuntimeError("aiohttp waits to write, though nobody has told it to: this version of it is not known here")
