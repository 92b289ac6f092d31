"""Network: connections that carry frames to other processes. A seam: sockets in production, queues in a simulation.

    listener = await network.listen(address, accept)          connection = await network.connect(address)
    accept(connection)                                        connection.send(frame)
    frame = await connection.receive()      ◄── frames ──     await connection.drained()

1. A frame is a whole message of 0 to MAX_FRAME_BYTES bytes. It arrives as it was sent, or not at all: never in part,
   never altered.
2. A connection carries frames in the order in which they were sent, each once, as long as it lives (TCP). When it
   breaks, frames are lost from any point on, and the sender does not learn from which. The layer above (a link) numbers
   frames, and replays them on the next connection.
3. `send` never waits. The sender bounds memory: one that checks `writable` before each frame (or awaits `drained`) has
   at most MAX_BUFFERED_BYTES and one frame in the buffer. So a connection has one writer.
4. The owner always receives, however slow the consumers are: a websocket answers the peer's pings inside `receive`, and
   one that is not read looks dead (aiohttp: after 1.5 heartbeats). Credits slow the peer down, never a reader that
   stops. What was received by the process but not by the owner is bounded too: the network then stops reading.
5. A connection ends once, for both sides. Frames that arrived before are still received; after them `receive` and
   `send` raise ConnectionLostError. A peer that is frozen or cut off does not end the connection: the layer above
   notices the silence and closes it.

The network defines its addresses: `host:port` or `unix:/path` in production, a name in a simulation.

From: Storm's IContext and IConnection, whose Netty client also promises nothing about what was under way; WebSocket
(RFC 6455) for whole messages.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final, Protocol

if TYPE_CHECKING:
    from .authentication import Identity

MAX_FRAME_BYTES: Final = 1024 * 1024
"""The largest frame, with the header of the layer above. Decoding one must not block the loop for long."""

MAX_BUFFERED_BYTES: Final = 256 * 1024
"""How much a connection buffers for a slow peer before it stops being `writable`."""


class Network(Protocol):
    """Opens connections and accepts them."""

    async def connect(self, address: str) -> Connection:
        """A connection to the listener at the address.

        NetworkError if there is none or it cannot be reached. This may take as long as the network likes: use
        `asyncio.timeout`. A cancelled call leaves nothing behind.
        """
        ...

    async def listen(self, address: str, accept: Callable[[Connection], None]) -> Listener:
        """Pass each incoming connection to `accept`, in the event loop. NetworkError if the address is taken.

        `accept` does not wait, and owns the connection. If it raises, the connection is closed and the error goes to
        the event loop's exception handler; the listener continues.
        """
        ...


class Listener(Protocol):
    """Waits for connections at an address."""

    @property
    def address(self) -> str:
        """The real address: with the port that the system chose for `host:0`."""
        ...

    def close(self) -> None:
        """Accept no more connections and free the address. Accepted ones continue. A second call does nothing."""
        ...


class Connection(Protocol):
    """Frames in both directions, with one peer. The module says what a connection does not guarantee."""

    peer: str
    """The peer, for people to read. It proves nothing: authentication does."""

    identity: Identity | None
    """The name and role that an authenticated peer claims; None: it is not authenticated."""

    @property
    def writable(self) -> bool:
        """Is there free capacity? False from MAX_BUFFERED_BYTES in the buffer on; True when the connection is over."""
        ...

    @property
    def buffered_bytes(self) -> int:
        """How much of what was sent has not left this process, as far as is known."""
        ...

    @property
    def received_bytes(self) -> int:
        """How many bytes have arrived, incomplete frames included: a sign of life."""
        ...

    def send(self, frame: bytes) -> None:
        """Put a frame into the buffer; never waits. Returning does not mean that the frame has arrived.

        ConnectionLostError when the connection is over, FrameTooLargeError above MAX_FRAME_BYTES.
        """
        ...

    async def drained(self) -> None:
        """Wait until `writable`. ConnectionLostError when the connection is over, or ends meanwhile."""
        ...

    async def receive(self) -> bytes:
        """The next frame. ConnectionLostError when there are no more. One receiver at a time.

        A cancelled call loses no frame.
        """
        ...

    def close(self) -> None:
        """End the connection for both sides; never waits. Buffered frames may be lost. A second call does nothing."""
        ...
