"""WebSocketConnection: a connection over a websocket of aiohttp, either side of it.

    send ─► websocket ─► transport ─► …                  … ─► transport ─► tap ─► aiohttp's protocol ─► receive
                             └── full, drained, lost ──────────────────────► tap ─► WriteBuffer

1. aiohttp writes and reads the websocket's frames. A tap stands between the transport and aiohttp's protocol. It learns
   at once what aiohttp reports late or not at all: the buffer is full, the buffer has drained, the connection is lost.
   It also counts the bytes of an unauthenticated peer.
2. `send` does not wait, though aiohttp's `send_frame` is a coroutine: it writes first, and waits only if aiohttp's
   protocol knows that the buffer is full. The tap does not forward this, so one step completes the coroutine. This is
   cheap enough: our own framing and masking would be Python in the place of aiohttp's C.
3. `receive` is aiohttp's, which also answers pings. It stops reading at half a MiB that the owner has not received.
4. `close` sends a CLOSE frame and ends the transport when its buffer is empty, or after CLOSE_S: a peer that does not
   read cannot delay it. What aiohttp does after that ends when the transport is lost.
5. A frame above MAX_FRAME_BYTES, a text message, or bytes that are no websocket end the connection. No compression.
"""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Final, Protocol

import aiohttp

from ..errors import ConnectionLostError, FrameTooLargeError
from .network import MAX_FRAME_BYTES
from .security import certified_roles, peer_certificate
from .write_buffer import WriteBuffer

if TYPE_CHECKING:
    from .authentication import Identity
    from .tls import PeerCertificate

MAX_MESSAGE_BYTES: Final = MAX_FRAME_BYTES + 1
"""For aiohttp, which takes the first size that is too large."""

_GOODBYE: Final = struct.pack("!H", aiohttp.WSCloseCode.OK)


class Socket(Protocol):
    """The methods that aiohttp's websockets of client and server share."""

    async def send_frame(self, message: bytes, opcode: aiohttp.WSMsgType) -> None:
        """Write a frame."""
        ...

    async def receive(self) -> aiohttp.WSMessage:
        """The next message."""
        ...


class Tap(asyncio.Protocol):
    """Stands before aiohttp's protocol. `budget_bytes`: how much the peer may send; None: any amount."""

    def __init__(self, budget_bytes: int | None) -> None:
        self.writes = WriteBuffer()
        self.received_bytes = 0
        self.budget_bytes = budget_bytes
        self.inner: asyncio.Protocol | None = None
        self.on_close: list[Callable[[], None]] = []

    def attach(self, inner: asyncio.Protocol, transport: asyncio.Transport) -> None:
        """Stand before aiohttp's protocol."""
        self.inner = inner
        self.writes.attach(transport)

    def set_authenticated(self) -> None:
        """The peer may send any amount from now on."""
        self.budget_bytes = None

    # -- events of the transport -------------------------------------------------------------------------------------

    def data_received(self, data: bytes) -> None:
        self.received_bytes += len(data)
        if self.budget_bytes is not None:
            self.budget_bytes -= len(data)
            if self.budget_bytes < 0:
                self.writes.transport.abort()
                return
        if self.inner is not None:
            self.inner.data_received(data)

    def eof_received(self) -> bool | None:
        return self.inner.eof_received() if self.inner is not None else None

    def pause_writing(self) -> None:
        """Not forwarded to aiohttp; the module says why."""

    def resume_writing(self) -> None:
        self.writes.on_drained()

    def connection_lost(self, exc: Exception | None) -> None:
        self.writes.on_lost()
        if self.inner is not None:
            self.inner.connection_lost(exc)
        for on_close in self.on_close:
            on_close()
        self.on_close.clear()


class WebSocketConnection:
    """A `Connection`, and a `RestrictedConnection`, limited until `set_authenticated` is called."""

    identity: Identity | None = None

    def __init__(self, socket: Socket, tap: Tap, peer: str, binding: bytes = b"") -> None:
        self.peer = peer
        self.binding = binding
        self._socket = socket
        self._tap = tap
        self._writes = tap.writes
        self._closed = False
        self._ended = False

    @property
    def certified(self) -> frozenset[str]:
        return certified_roles(self._writes.transport)

    @property
    def certificate(self) -> PeerCertificate | None:
        return peer_certificate(self._writes.transport)

    def __repr__(self) -> str:
        return f"<WebSocketConnection with {self.peer}{', over' if self._writes.over else ''}>"

    def set_authenticated(self) -> None:
        self._tap.set_authenticated()

    @property
    def writable(self) -> bool:
        return self._closed or self._writes.writable

    @property
    def buffered_bytes(self) -> int:
        return 0 if self._closed else self._writes.buffered_bytes

    @property
    def received_bytes(self) -> int:
        return self._tap.received_bytes

    def send(self, frame: bytes) -> None:
        if self._closed or self._writes.over:
            raise self._lost()
        if len(frame) > MAX_FRAME_BYTES:
            raise FrameTooLargeError(f"a frame of {len(frame):,} bytes: at most {MAX_FRAME_BYTES:,}")
        try:
            _at_once(self._socket.send_frame(frame, aiohttp.WSMsgType.BINARY))
        except ConnectionError as error:
            raise self._lost() from error

    async def drained(self) -> None:
        if not self._closed:
            await self._writes.drained()
        if self._closed or self._writes.over:
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
        if not self._writes.over:
            try:
                _at_once(self._socket.send_frame(_GOODBYE, aiohttp.WSMsgType.CLOSE))
            except ConnectionError:  # it is lost: `connection_lost` is about to be called
                self._writes.transport.abort()
            self._writes.close()
            self._writes.on_drained()

    def _lost(self) -> ConnectionLostError:
        return ConnectionLostError(f"the connection to {self.peer} is over")


def _at_once(writing: Coroutine[object, None, None]) -> None:
    try:
        writing.send(None)
    except StopIteration:
        return
    writing.close()
    raise RuntimeError("aiohttp waits before it writes: this version of aiohttp is not supported")
