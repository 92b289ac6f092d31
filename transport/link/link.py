"""Link: payloads to one peer and from it, over one connection after another. The shell around a LinkSequence.

    connector ─► a connection ─► reader ─► sequence ─► on_payload         until the connection ends,
        ▲                        writer ◄─ sequence ◄─ send, source       or the silence check ends it
        └─────────────────────────────────────────────────────────────────┘

1. One side dials, the other is dialled (see links), so there are never two valid connections. Of two incoming ones, the
   later one is used.
2. One writer. It sends while the connection has capacity, so little is buffered below; what waits is in the send
   buffer, which is bounded. `send` waits for capacity there, in the order of the calls; `offer` does not wait. The
   sequence asks its source for a payload when all frames have been sent, so urgent payloads do not wait behind others
   (send_queue.py). A large payload is sent in parts, and the source is asked for urgent payloads between two parts.
3. One reader. It always reads, whatever the writer waits for. `on_payload` is called in the event loop with each
   payload, in order and once, and does not wait. Credits of the layer above control how fast the peer sends.
4. A connection that breaks, or is silent (silence.py), is replaced by another one, without loss (sequence.py).
5. A link does not give up. It ends when it is closed, when `on_payload`, `on_peer` or the source raises (their argument
   counts as delivered), or with LinkSupersededError.

From: Storm's netty Client, which also reconnects with a backoff, but drops what was under way.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..errors import ConnectionLostError, LinkClosedError, LinkSupersededError, ProtocolError
from ..net.authentication import check_identity
from .connector import Connector, Dial
from .sequence import LinkSequence, PeerStarted
from .silence import SilenceCheck

if TYPE_CHECKING:
    from ..net.network import Connection
    from .timings import LinkContext

_log = logging.getLogger(__name__)

_READ_AT_ONCE = 64  # frames, before other asyncio tasks run


@dataclass(frozen=True, slots=True)
class LinkSetup:
    """What a link is made of. `dial` is None if the peer dials. `role`: of the peer; empty: any."""

    sequence: LinkSequence
    dial: Dial | None
    context: LinkContext
    on_payload: Callable[[bytes], None]
    on_peer: Callable[[PeerStarted], None]
    role: str = ""


class Link:
    """The link to one peer. `Links` makes it and runs it."""

    def __init__(self, peer: str, setup: LinkSetup) -> None:
        self.peer = peer
        self._setup = setup
        self._sequence = setup.sequence
        self._connector = Connector(peer, setup.dial, setup.context)
        self._silence = SilenceCheck(peer, setup.sequence, setup.context)
        self._connection: Connection | None = None
        self._closing = False
        self._over = asyncio.Event()
        self._failure: Exception | None = None
        self._sending = asyncio.Lock()  # held by the senders that wait for capacity, in their order
        self._acked = asyncio.Event()  # set for senders that wait for capacity, and for `close`
        self._wakeup = asyncio.Event()  # of the writer

    # -- public methods --------------------------------------------------------------------------------------------

    @property
    def dials(self) -> bool:
        """Does this side open the connections?"""
        return self._connector.dial is not None

    @property
    def last_error(self) -> str:
        """Why the last attempt to connect failed, or the last connection ended; for people."""
        return self._connector.last_error

    @property
    def incarnation(self) -> int:
        """The peer's incarnation; 0 before the first connection is established."""
        return self._sequence.peer

    @property
    def established(self) -> bool:
        """Is there a connection on which the peer has answered?"""
        return self._sequence.established

    @property
    def over(self) -> bool:
        """Has the link ended?"""
        return self._over.is_set()

    @property
    def unacked_frames(self) -> int:
        """How many payloads were taken and are not acknowledged by the peer."""
        return self._sequence.unacked_frames

    @property
    def wake(self) -> Callable[[], None]:
        """Call it when the source has a payload."""
        return self._wakeup.set

    def offer(self, payload: bytes) -> bool:
        """Take a payload if there is capacity and no sender waits for it. Raises the errors of `send`."""
        self._check_open()
        taken = not self._sending.locked() and self._sequence.offer(payload)
        self._wakeup.set()  # also to ask for an acknowledgement, if there is no capacity
        return taken

    async def send(self, payload: bytes) -> None:
        """Wait for capacity, then take a payload. Returning does not mean that the payload has arrived.

        LinkClosedError, LinkSupersededError, FrameTooLargeError. A cancelled call has not taken the payload.
        """
        if self.offer(payload):
            return
        async with self._sending:
            self._check_open()
            while not self._sequence.offer(payload):
                self._wakeup.set()
                self._acked.clear()
                await self._acked.wait()
                self._check_open()
        self._wakeup.set()

    def redial(self, dial: Dial) -> None:
        """The peer listens again: dial it now, with this function. Does nothing if the peer dials."""
        if self.dials:
            self._connector.redial(dial)

    async def close(self) -> int:
        """Take no more payloads, wait until all are acked (at most `drain_s`), end. Returns how many are not acked.

        The payloads of the source are sent, too.
        """
        self._closing = True
        self._acked.set()  # waiting senders get LinkClosedError
        try:
            async with asyncio.timeout(self._setup.context.timings.drain_s):
                while self._sequence.has_unsent and not self._over.is_set():
                    self._sequence.request_ack()
                    self._wakeup.set()
                    self._acked.clear()
                    await self._acked.wait()
        except TimeoutError:
            left = self._sequence.unacked_frames
            _log.warning("the link to %s is closed with %d payloads that were not acked", self.peer, left)
        finally:
            self.abort()
        return self._sequence.unacked_frames

    def _send_last_ack(self) -> None:
        """Acknowledge what has arrived: the peer may be closing too, and waits for that."""
        frame = self._sequence.last_ack()
        if frame is not None and self._connection is not None:
            with contextlib.suppress(ConnectionLostError):
                self._connection.send(frame)

    # -- called by Links ---------------------------------------------------------------------------------------------

    def accept(self, connection: Connection, hello: bytes) -> None:
        """The peer has dialled; `hello` is its first frame. This connection replaces the current one."""
        if self._over.is_set():
            connection.close()
            return
        self._connector.accept(connection, hello)
        if self._connection is not None:
            self._connection.close()

    def abort(self) -> None:
        """End now."""
        if not self._over.is_set():
            self._send_last_ack()
        self._closing = True
        self._over.set()
        self._connector.close()
        if self._connection is not None:
            self._connection.close()
        self._wakeup.set()
        self._acked.set()

    async def run(self) -> None:
        """Run the link until it is closed."""
        try:
            while not self._over.is_set():
                found = await self._connector.next()
                if found is not None:
                    healthy = await self._serve(*found)
                    if not self._over.is_set():
                        await self._connector.ended(healthy=healthy)
        finally:
            self.abort()

    # -- a connection ------------------------------------------------------------------------------------------------

    async def _serve(self, connection: Connection, hello: bytes) -> bool:
        """Use the connection until it ends. Had the peer answered, and broken no rule?"""
        healthy = True
        self._connection = connection
        self._sequence.connect()
        try:
            check_identity(connection.identity, self.peer, self._setup.role)
            if hello:
                self._sequence.receive(hello, 0.0)
            async with asyncio.TaskGroup() as group:
                group.create_task(self._silence.run(connection, self._wakeup), name=f"link {self.peer}: silence")
                group.create_task(self._read(connection), name=f"link {self.peer}: reader")
                group.create_task(self._write(connection), name=f"link {self.peer}: writer")
        except* ProtocolError as errors:
            healthy = False
            self._connector.last_error = str(errors.exceptions[0])
            self._setup.context.warnings.warn("the connection to %s is closed: %s", self.peer, errors.exceptions[0])
        except* ConnectionLostError as errors:
            self._connector.last_error = str(errors.exceptions[0])
            _log.debug("the connection to %s is over: %s", self.peer, errors.exceptions[0])
        finally:
            healthy = healthy and self._sequence.established
            self._sequence.disconnect()
            self._connection = None
            connection.close()
        if self._failure is not None:
            raise self._failure
        if self._sequence.superseded:
            self._check_open()
        return healthy

    async def _read(self, connection: Connection) -> None:
        receive, monotonic = connection.receive, self._setup.context.clock.monotonic
        sequence, silence = self._sequence, self._silence
        on_payload, on_peer = self._setup.on_payload, self._setup.on_peer
        while True:
            for _ in range(_READ_AT_ONCE):
                frame = await receive()
                now_s = silence.received_s = monotonic()
                events = sequence.receive(frame, now_s)
                self._acked.set()
                if sequence.frame_due:
                    if sequence.superseded:
                        raise ConnectionLostError("another process has taken the name of this one")
                    self._wakeup.set()
                try:
                    for event in events:
                        if self._over.is_set():
                            break  # a callback has ended the link
                        if isinstance(event, PeerStarted):
                            on_peer(event)
                        else:
                            on_payload(event)
                except Exception as error:
                    self._failure = error  # raised as it is, so it is not taken for an error of the network
                    raise ConnectionLostError("a callback of the link raised an error") from error
            await asyncio.sleep(0)

    async def _write(self, connection: Connection) -> None:
        next_frame, wakeup = self._sequence.next_frame, self._wakeup
        while True:
            try:
                frame = next_frame()
            except Exception as error:
                self._failure = error
                raise ConnectionLostError("the source of payloads raised an error") from error
            if frame is not None:
                connection.send(frame)
                self._silence.sent = True
                if not connection.writable:
                    await connection.drained()
            elif self._over.is_set():
                raise ConnectionLostError("this side has ended the link")
            else:
                await wakeup.wait()
                wakeup.clear()

    # -- the end -----------------------------------------------------------------------------------------------------

    def _check_open(self) -> None:
        if self._sequence.superseded:
            raise LinkSupersededError(f"{self.peer} is linked to a newer process with our name: this process must end")
        if self._closing:
            raise LinkClosedError(f"the link to {self.peer} is closed")
