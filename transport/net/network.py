"""Network: the one way to another process: frames over connections. A seam: websockets really, a queue in a simulation.

    listener = await network.listen(address, accept)          connection = await network.connect(address)
    accept(connection)                                        connection.send(frame)
    frame = await connection.receive()      ◄── frames ──     await connection.drained()

1. A frame is a whole message of 0 to MAX_FRAME_BYTES bytes. It comes as it was sent, or it does not come: never a part
   of it, never altered.
2. **Frames of one connection may be lost, repeated, or come out of order**, as far as the layer above is concerned. A
   websocket does none of the three while it lives, but what was in its buffers when it was cut is lost without a word,
   and it is not known how much that was. A simulated network does all three at any time. What must not be lost, come
   twice or overtake is numbered by the layer above (a link), which works on both.
3. `send` never waits. Memory is bounded by who sends: one that looks at `writable` before each frame (or awaits
   `drained`) has at most MAX_BUFFERED_BYTES and one frame in the buffer. So a connection has one writer.
4. Someone receives all the time, however slow those behind are: a websocket answers the peer's pings inside of
   `receive`, and one that is not read looks dead (aiohttp: after 1.5 heartbeats). Pressure is put on the peer by
   credits, never by not reading. What has come and is not received yet is bounded too: the network then stops reading.
5. A connection ends once, for both sides. What had come before is still received; then, and for ever, `receive` and
   `send` raise ConnectionLostError. A peer that is frozen or cut off ends nothing: the layer above notices the silence,
   and closes.

An address is what the network makes of it: `host:port` really, a name in a simulation.

From: Storm's IContext and IConnection, whose Netty client also promises nothing about what was under way; WebSocket
(RFC 6455) for whole messages.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Protocol

MAX_FRAME_BYTES: Final = 1024 * 1024
"""The largest frame, the sender's header included. Decoding one of this size must not hold the loop for long."""

MAX_BUFFERED_BYTES: Final = 256 * 1024
"""What a connection holds for a peer that reads slowly, before it stops being `writable`."""


class Network(Protocol):
    """Makes connections, and takes them."""

    async def connect(self, address: str) -> Connection:
        """A connection to whoever listens at the address.

        NetworkError if nobody does, or if it is not reached. It may take as long as the network likes: bound it with
        `asyncio.timeout`; cancelled, it leaves nothing behind.
        """
        ...

    async def listen(self, address: str, accept: Callable[[Connection], None]) -> Listener:
        """Hand each connection that comes to `accept`, in the event loop. NetworkError if the address is taken.

        `accept` does not wait, and owns the connection from then on. If it raises, the connection is closed and the
        error goes to the event loop's exception handler; the listener goes on.
        """
        ...


class Listener(Protocol):
    """What waits for connections at an address."""

    @property
    def address(self) -> str:
        """Where it really listens: a port that was chosen by the system (`host:0`) is in it."""
        ...

    def close(self) -> None:
        """Take no more connections, and give the address back. Those that were accepted live on. Twice is once."""
        ...


class Connection(Protocol):
    """Frames both ways, with one peer. See the module for what it does not promise."""

    @property
    def peer(self) -> str:
        """Who is there, for people to read. It proves nothing: the handshake of the layer above does."""
        ...

    @property
    def writable(self) -> bool:
        """Is there room? False from MAX_BUFFERED_BYTES in the buffer on; True once the connection is over."""
        ...

    @property
    def buffered_bytes(self) -> int:
        """How much of what was sent has not left this process, as far as it knows."""
        ...

    @property
    def received_bytes(self) -> int:
        """How many bytes have come, those of a frame that is not whole yet included: a sign of life."""
        ...

    def send(self, frame: bytes) -> None:
        """Put a frame in the buffer; never waits. That it returns says nothing about the frame's arrival.

        ConnectionLostError when the connection is over, FrameTooLargeError above MAX_FRAME_BYTES.
        """
        ...

    async def drained(self) -> None:
        """Wait until `writable`. ConnectionLostError when the connection is over, or ends meanwhile."""
        ...

    async def receive(self) -> bytes:
        """The next frame. ConnectionLostError when there will be none. One receiver at a time.

        Cancelled, it loses no frame.
        """
        ...

    def close(self) -> None:
        """End the connection, for both sides. What is in the buffer may be lost. Twice is once; never waits."""
        ...
