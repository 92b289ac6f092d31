"""StreamConnection: a connection over a unix socket. It writes and reads frames by itself, without websockets.

    send ─► length, frame ─► transport ─► …          … ─► transport ─► FrameBuffer ─► queue ─► receive
                                └── full, drained, lost ──► WriteBuffer

1. It is an asyncio BufferedProtocol: the event loop receives straight into the FrameBuffer. Measured against
   `data_received` with slices: half the time for small frames on asyncio's loop, and for frames of 1 MiB on uvloop.
2. A frame and its length are joined to one write. (`writelines` saves the copy, but does not pause the writer in Python
   3.12.1: the buffer would have no bound.) Frames that wait in the transport leave together. Collecting the frames of a
   turn here was tried: uvloop does it anyway, and on asyncio's loop it gains for many tiny frames what it costs for all
   others.
3. It stops reading when MAX_QUEUED_BYTES have arrived that the owner has not received, and starts again at half of it.
4. Until `set_authenticated` the peer may send `budget_bytes`, and no larger frame.
5. A half-closed connection is over, as a websocket is: frames that have arrived are still received.

From: gRPC and Kafka, which precede each message by its length; HTTP/2's connection preface.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING, Final, Protocol, cast

from ..errors import ConnectionLostError, FrameTooLargeError
from .network import MAX_FRAME_BYTES
from .stream_frames import HTTP_REFUSAL, HTTP_REQUEST, LENGTH, PREFACE, FrameBuffer
from .write_buffer import WriteBuffer

if TYPE_CHECKING:
    from .authentication import Identity
    from .tls import PeerCertificate

MAX_QUEUED_BYTES: Final = 512 * 1024
"""What may have arrived and not been received, before reading stops."""

_QUEUE_ENTRY_BYTES: Final = 64
"""What a frame costs in the queue besides its bytes: so many tiny frames stop the reading, too."""


class StreamOwner(Protocol):
    """What opened or accepted the connection. `on_made` is the first call, and `on_lost` the last."""

    def on_made(self, transport: asyncio.Transport) -> None:
        """There is a transport."""
        ...

    def on_open(self) -> None:
        """The peer's preface has arrived."""
        ...

    def on_authenticated(self) -> None:
        """The peer is authenticated."""
        ...

    def on_lost(self, problem: str) -> None:
        """The connection is over. `problem`: what the peer did that is not allowed; empty: nothing."""
        ...


class StreamConnection(asyncio.BufferedProtocol):
    """A `Connection`, and a `RestrictedConnection`. `budget_bytes`: what the peer may send until it is authenticated.

    `budget_bytes` None: the peer need not authenticate.
    """

    identity: Identity | None = None
    binding: bytes = b""
    certified: frozenset[str] = frozenset()
    certificate: PeerCertificate | None = None

    def __init__(self, peer: str, owner: StreamOwner, budget_bytes: int | None) -> None:
        self.peer = peer
        self.received_bytes = 0
        self.writable = True  # an attribute, which the transport changes: senders look at it before each frame
        self._owner = owner
        self._budget_bytes = budget_bytes
        self._input = FrameBuffer(MAX_FRAME_BYTES if budget_bytes is None else min(budget_bytes, MAX_FRAME_BYTES))
        self._writes = WriteBuffer()
        self._queue: deque[bytes] = deque()
        self._queued_bytes = 0
        self._paused = False
        self._receiver: asyncio.Future[None] | None = None
        self._closed = False

    def __repr__(self) -> str:
        return f"<StreamConnection with {self.peer}{', over' if self._writes.over else ''}>"

    # -- the connection ----------------------------------------------------------------------------------------------

    @property
    def buffered_bytes(self) -> int:
        return 0 if self._closed else self._writes.buffered_bytes

    def send(self, frame: bytes) -> None:
        size = len(frame)
        if self._closed or self._writes.over or self._writes.transport.is_closing():
            raise self._lost()
        if size > MAX_FRAME_BYTES:
            raise FrameTooLargeError(f"a frame of {size:,} bytes: at most {MAX_FRAME_BYTES:,}")
        self._writes.transport.write(LENGTH.pack(size) + frame)

    async def drained(self) -> None:
        while not self.writable:
            await self._writes.next_drain()
        if self._closed or self._writes.over:
            raise self._lost()

    async def receive(self) -> bytes:
        while not self._queue:
            if self._closed or self._writes.over:
                raise self._lost()
            self._receiver = asyncio.get_running_loop().create_future()
            try:
                await self._receiver
            finally:
                self._receiver = None
        frame = self._queue.popleft()
        self._queued_bytes -= len(frame) + _QUEUE_ENTRY_BYTES
        if self._paused and self._queued_bytes <= MAX_QUEUED_BYTES // 2:
            self._paused = False
            if not self._writes.over and not self._writes.transport.is_closing():
                self._writes.transport.resume_reading()
        return frame

    def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        self._writes.close()
        self.resume_writing()
        self._wake()

    def abort(self) -> None:
        """End the connection at once, without what is in the buffer."""
        self._closed = True
        if not self._writes.over:
            self._writes.transport.abort()

    def set_authenticated(self) -> None:
        self._budget_bytes = None
        self._input.allow(MAX_FRAME_BYTES)
        self._owner.on_authenticated()

    # -- events of the transport -------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        made = cast(asyncio.Transport, transport)  # uvloop's class is no subclass
        if made.is_closing():  # the dialling was cancelled: uvloop says no more about it
            return
        self._writes.attach(made)
        made.write(PREFACE)
        self._owner.on_made(made)

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._input.space

    def buffer_updated(self, nbytes: int) -> None:
        self.received_bytes += nbytes
        was_open = self._input.opened
        frames = self._input.received(nbytes)
        if self._input.opened and not was_open:
            self._owner.on_open()
        if self._budget_bytes is not None:
            self._spend(nbytes)
        if frames:
            self._queue.extend(frames)
            self._queued_bytes += sum(map(len, frames)) + len(frames) * _QUEUE_ENTRY_BYTES
            if self._receiver is not None and not self._receiver.done():
                self._receiver.set_result(None)
        if self._input.problem:
            self._refuse()
        elif self._queued_bytes > MAX_QUEUED_BYTES and not self._paused and not self._closed:
            self._paused = True
            self._writes.transport.pause_reading()

    def pause_writing(self) -> None:
        self.writable = self._closed

    def resume_writing(self) -> None:
        self.writable = True
        self._writes.on_drained()

    def eof_received(self) -> None:
        self.close()  # within CLOSE_S, also if the peer does not read

    def connection_lost(self, exc: Exception | None) -> None:
        self.writable = True
        self._writes.on_lost()
        self._wake()
        self._owner.on_lost(self._input.problem)

    # -- the end -----------------------------------------------------------------------------------------------------

    def _spend(self, count: int) -> None:
        assert self._budget_bytes is not None  # noqa: S101 - the caller has looked
        self._budget_bytes -= count
        if self._budget_bytes < 0 and not self._input.problem:
            self._input.problem = "it sends too much before it is authenticated"

    def _refuse(self) -> None:
        """The peer has sent something that is not allowed: end the connection."""
        if self._input.problem == HTTP_REQUEST and not self._writes.transport.is_closing():
            self._writes.transport.write(HTTP_REFUSAL)
            self.close()
        elif not self._writes.over:
            self._writes.transport.abort()

    def _wake(self) -> None:
        if self._receiver is not None and not self._receiver.done():
            self._receiver.set_result(None)

    def _lost(self) -> ConnectionLostError:
        problem = self._input.problem
        return ConnectionLostError(f"the connection to {self.peer} is over{f': {problem}' if problem else ''}")
