"""Link: payloads to one peer and from it, over one connection after another. The shell around a LinkSequence.

    a connection ─► reader ─► sequence ─► on_payload         until the connection ends,
         ▲          writer ◄─ sequence ◄─ send               or 3 s of silence end it
         └── wait 50 ms, 100 ms … 2 s, with jitter ◄──────────────────────┘

1. One side dials, the other is dialled (see links), so there are never two valid connections. Of two incoming ones, the
   later one is used.
2. One writer. It sends while the connection has capacity, so little is buffered below; what waits is in the send
   buffer, which is bounded. `send` waits for capacity there, in the order of the calls; `offer` does not wait. The link
   asks its `source` for a payload when all frames have been sent once, so urgent payloads do not wait behind others
   (send_queue.py). A large payload is sent in parts, and the source is asked for urgent payloads between two parts.
3. One reader. It always reads, whatever the writer waits for. `on_payload` is called in the event loop with each
   payload, in order and once, and does not wait. Credits of the layer above control how fast the peer sends.
4. A side that has sent nothing for `heartbeat_s` sends a heartbeat. If no byte arrives for `dead_s`, the connection is
   closed and another one opened, without loss (see sequence). Bytes of incomplete frames count. Frames that may still
   be in our own buffer are not sent again. A slow line is logged once.
5. A link does not give up. It ends when it is closed, when `on_payload` or `on_peer` raises (their argument counts as
   delivered), or with LinkSupersededError.

From: Storm's netty Client, which also reconnects with a backoff, but drops what was under way.
"""

from __future__ import annotations

import asyncio
import logging
import math
import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace

from ...runtime import LIVENESS, Clock
from ..errors import ConnectionLostError, LinkClosedError, LinkSupersededError, NetworkError, ProtocolError
from ..net.authentication import check_identity
from ..net.limited_warnings import LimitedWarnings
from ..net.network import Connection
from .headers import greeting_of, is_data
from .send_queue import PayloadSource
from .sequence import LinkSequence, PeerStarted
from .timed_wakeup import TimedWakeup

_log = logging.getLogger(__name__)

_READ_AT_ONCE = 64  # frames, before other asyncio tasks run
_LEAST_WAIT_S = 0.001
_CHECKS = 3  # of the peer's silence, within `dead_s`


@dataclass(frozen=True, slots=True)
class LinkTimings:
    """Times of a link, in seconds."""

    heartbeat_s: float = LIVENESS.link_heartbeat_s
    dead_s: float = LIVENESS.link_timeout_s
    first_retry_s: float = 0.05
    max_retry_s: float = 2.0
    connect_s: float = LIVENESS.link_connect_timeout_s
    drain_s: float = LIVENESS.link_drain_timeout_s

    def __post_init__(self) -> None:
        if not 0 < self.heartbeat_s < self.dead_s:
            raise ValueError(f"0 < heartbeat_s < dead_s, or every silence ends the connection: {self}")
        if not 0 < self.first_retry_s <= self.max_retry_s or self.connect_s <= 0 or self.drain_s < 0:
            raise ValueError(f"0 < first_retry_s <= max_retry_s, 0 < connect_s, 0 <= drain_s: {self}")


@dataclass(frozen=True, slots=True)
class LinkSetup:
    """What a link is made of. `dial` is None if the peer dials; `greeting`: the greeting of the peer's HELLOs.

    `role`: the role that the peer must be authenticated for; empty: any.
    """

    sequence: LinkSequence
    greeting: bytes
    dial: Callable[[], Awaitable[Connection]] | None
    clock: Clock
    jitter: random.Random
    timings: LinkTimings
    on_payload: Callable[[bytes], None]
    on_peer: Callable[[PeerStarted], None]
    limited_warnings: LimitedWarnings
    source: PayloadSource | None = None
    role: str = ""


class Link:
    """The link to one peer. `Links` makes it and runs it."""

    def __init__(self, peer: str, setup: LinkSetup) -> None:
        self.peer = peer
        self.last_error = ""
        """Why the last attempt to connect failed, or the last connection ended; for people."""
        self._setup = setup
        self._dial = setup.dial
        self._sequence = setup.sequence
        self._timings = setup.timings
        self._connection: Connection | None = None
        self._incoming: tuple[Connection, bytes] | None = None  # dialled by the peer, with its HELLO
        self._retry_s = setup.timings.first_retry_s
        self._sent_s = self._received_s = 0.0
        self._received_bytes = 0
        self._warned_slow = False
        self._closing = False
        self._over = asyncio.Event()
        self._again = asyncio.Event()  # set: dial now
        self._failure: Exception | None = None
        self._dialling: asyncio.Timeout | None = None
        self._sending = asyncio.Lock()  # held by the senders that wait for capacity, in their order
        self._next_payload: tuple[bytes, bool] | None = None  # from the source, and is it urgent?
        self._wakeup = TimedWakeup()  # of the writer, or of `run` while it waits for a connection
        self._acked = asyncio.Event()  # set for senders that wait for capacity, and for `close`

    # -- public methods --------------------------------------------------------------------------------------------

    @property
    def dials(self) -> bool:
        """Does this side open the connections?"""
        return self._dial is not None

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
        """How many payloads were taken and are not acked by the peer."""
        return self._sequence.unacked_frames

    def offer(self, payload: bytes) -> bool:
        """Take a payload if there is capacity and no sender waits for it. Raises the errors of `send`."""
        self._check_open()
        if self._sending.locked() or not self._sequence.offer(payload):
            return False
        self._wakeup.set()
        return True

    async def send(self, payload: bytes) -> None:
        """Wait for capacity, then take a payload. Returning does not mean that the payload has arrived.

        LinkClosedError, LinkSupersededError, FrameTooLargeError. A cancelled call has not taken the payload.
        """
        if self.offer(payload):
            return
        async with self._sending:
            self._check_open()
            while not self._sequence.offer(payload):
                self._acked.clear()
                await self._acked.wait()
                self._check_open()
        self._wakeup.set()

    def wake(self) -> None:
        """The source has a payload."""
        self._wakeup.set()

    def redial(self, dial: Callable[[], Awaitable[Connection]]) -> None:
        """The peer listens again: dial it now, with this function. Does nothing if the peer dials."""
        if self._dial is None:
            return
        self._dial = dial
        self._retry_s = self._timings.first_retry_s
        self._again.set()

    async def close(self) -> int:
        """Take no more payloads, wait until all are acked (at most `drain_s`), end. Returns how many are not acked.

        The payloads of the source are sent, too.
        """
        self._closing = True
        self._acked.set()  # waiting senders get LinkClosedError
        try:
            async with asyncio.timeout(self._timings.drain_s):
                while self._has_unsent() and not self._over.is_set():
                    self._acked.clear()
                    await self._acked.wait()
        except TimeoutError:
            left = self._sequence.unacked_frames
            _log.warning("the link to %s is closed with %d payloads that were not acked", self.peer, left)
        finally:
            self.abort()
        return self._sequence.unacked_frames

    def _has_unsent(self) -> bool:
        source = self._setup.source
        return bool(
            self._sequence.unacked_frames
            or self._next_payload is not None
            or (source is not None and not source.is_empty)
        )

    # -- called by Links ---------------------------------------------------------------------------------------------

    def accept(self, connection: Connection, hello: bytes) -> None:
        """The peer has dialled; `hello` is its first frame. This connection replaces the current one."""
        if self._over.is_set():
            connection.close()
            return
        if self._incoming is not None:
            self._incoming[0].close()
        self._incoming = (connection, hello)
        if self._connection is not None:
            self._connection.close()
        self._wakeup.set()

    def abort(self) -> None:
        """End now. (Cancelling `run` is not enough: a TaskGroup loses a cancel that arrives while a task fails.)"""
        self._closing = True
        self._over.set()
        self._again.set()
        if self._dialling is not None and not self._dialling.expired():
            self._dialling.reschedule(0.0)  # a time in the past: it ends now
        if self._connection is not None:
            self._connection.close()
        if self._incoming is not None:
            self._incoming[0].close()
        self._wakeup.set()
        self._acked.set()

    async def run(self) -> None:
        """Run the link until it is closed."""
        try:
            while not self._over.is_set():
                found = await self._next_connection()
                if found is not None:
                    await self._serve(*found)
        finally:
            self.abort()

    # -- connections -------------------------------------------------------------------------------------------------

    async def _next_connection(self) -> tuple[Connection, bytes] | None:
        if self._dial is not None:
            return await self._dialled(self._dial)
        while self._incoming is None and not self._over.is_set():
            self._wakeup.clear()
            await self._wakeup.wait()
        found, self._incoming = self._incoming, None
        return found

    async def _dialled(self, dial: Callable[[], Awaitable[Connection]]) -> tuple[Connection, bytes] | None:
        try:
            async with asyncio.timeout(self._timings.connect_s) as self._dialling:
                return await dial(), b""
        except (NetworkError, TimeoutError) as error:
            self.last_error = str(error) or f"no answer within {self._timings.connect_s:g} s"
            _log.debug("cannot connect to %s: %r", self.peer, error)
        finally:
            self._dialling = None
        await self._pause()
        return None

    async def _pause(self) -> None:
        # Half to all of the delay: peers that were cut off together do not reconnect together.
        delay_s = self._retry_s * (0.5 + self._setup.jitter.random() / 2)
        self._retry_s = min(2 * self._retry_s, self._timings.max_retry_s)
        if not self._over.is_set():
            self._again.clear()
        await _set_within(self._again, delay_s)

    async def _serve(self, connection: Connection, hello: bytes) -> None:
        healthy = True
        self._connection = connection
        self._sequence.connect(self._now_s())
        try:
            check_identity(connection, self.peer, self._setup.role)
            if hello:
                self._on_frame(hello)
            async with asyncio.TaskGroup() as group:
                group.create_task(self._read(connection), name=f"link {self.peer}: reader")
                group.create_task(self._write(connection), name=f"link {self.peer}: writer")
        except* ProtocolError as errors:
            healthy = False
            self.last_error = str(errors.exceptions[0])
            self._setup.limited_warnings.warn("the connection to %s is closed: %s", self.peer, errors.exceptions[0])
        except* ConnectionLostError as errors:
            self.last_error = str(errors.exceptions[0])
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
        if healthy:
            self._retry_s = self._timings.first_retry_s
        if self.dials and not self._over.is_set():
            await self._pause()

    async def _read(self, connection: Connection) -> None:
        while True:
            for _ in range(_READ_AT_ONCE):
                self._on_frame(await connection.receive())
            await asyncio.sleep(0)

    async def _write(self, connection: Connection) -> None:
        self._sent_s = self._received_s = self._now_s()
        self._received_bytes = 0
        try:
            while True:
                if not connection.writable:
                    await self._drained(connection)
                now_s = self._now_s()
                frame = self._next_frame(now_s, resend=not connection.buffered_bytes)
                if frame is not None:
                    connection.send(frame)
                    self._sent_s = now_s
                    continue
                if self._over.is_set() or self._sequence.superseded:
                    raise ConnectionLostError("this side has ended the link")
                due_s = min(self._sequence.due_s(), self._deadline_s(connection, now_s))
                if self._sequence.established:  # before that, HELLOs are sent often enough
                    due_s = min(due_s, self._sent_s + self._timings.heartbeat_s)
                self._wakeup.clear()
                await self._wakeup.wait_until(due_s, now_s)
        finally:
            self._wakeup.cancel()

    def _deadline_s(self, connection: Connection, now_s: float) -> float:
        """When to check the peer's silence again. (The writer does it: a timer for each received frame costs more.)"""
        dead_s = self._timings.dead_s
        received = connection.received_bytes
        if received != self._received_bytes:
            self._received_bytes, self._received_s = received, max(self._received_s, now_s)
            if self._sequence.line.is_slow and not self._warned_slow:
                self._warn_slow()
        deadline_s = self._received_s + dead_s
        if now_s >= deadline_s:
            raise ConnectionLostError(f"no data from the peer for {dead_s:g} s")
        return min(deadline_s, now_s + dead_s / _CHECKS)

    def _warn_slow(self) -> None:
        self._warned_slow = True
        _log.warning(
            "the line to %s is slow: it carries %.0f kB a second. Nothing is lost: large values are sent in parts, "
            "and urgent messages wait about 2 s behind them. Send fewer or smaller values, or use a faster line",
            self.peer,
            self._sequence.line.bytes_s / 1000,
        )

    async def _drained(self, connection: Connection) -> None:
        while not connection.writable:
            now_s = self._now_s()
            try:
                async with asyncio.timeout(max(self._deadline_s(connection, now_s) - now_s, _LEAST_WAIT_S)):
                    await connection.drained()
            except TimeoutError:
                continue  # data may have arrived meanwhile

    def _next_frame(self, now_s: float, *, resend: bool) -> bytes | None:
        if now_s - self._sent_s >= self._timings.heartbeat_s:
            self._sequence.heartbeat()
        if self._sequence.all_sent:  # first, so that an ACK goes with a payload if there is one
            self._poll_source()
        return self._sequence.next_frame(now_s, resend=resend)

    def _poll_source(self) -> None:
        """All frames have been sent once: take a payload of the source, if it has one."""
        source = self._setup.source
        if source is None or not self._sequence.established:
            return
        taken = self._next_payload
        if taken is None:
            try:
                payload = source.next_payload(urgent=not self._sequence.accepts_ordinary)
            except Exception as error:
                self._failure = error
                raise ConnectionLostError("the source of payloads raised an error") from error
            taken = None if payload is None else (payload, source.last_was_urgent)
        self._next_payload = None
        if taken is not None and not self._sequence.offer(taken[0], urgent=taken[1]):
            self._next_payload = taken

    def _on_frame(self, frame: bytes) -> None:
        if not is_data(frame):
            greeting = greeting_of(frame)
            if greeting is not None and greeting != self._setup.greeting:
                raise ProtocolError(f"another process answers in the place of {self.peer}: {greeting[:140]!r}")
        try:
            now_s = self._received_s = self._now_s()
            for event in self._sequence.receive(frame, now_s):
                if self._over.is_set():
                    break  # a callback has ended the link
                self._deliver(event)
        finally:
            self._wakeup.set()
            self._acked.set()

    def _deliver(self, event: bytes | PeerStarted) -> None:
        try:
            if isinstance(event, PeerStarted):
                if self._next_payload is not None:  # meant for the previous incarnation
                    self._next_payload = None
                    event = replace(event, dropped=event.dropped + 1)
                self._setup.on_peer(event)
            else:
                self._setup.on_payload(event)
        except Exception as error:
            self._failure = error  # raised as it is, so it is not taken for an error of the network
            raise ConnectionLostError("a callback of the link raised an error") from error

    # -- the end -----------------------------------------------------------------------------------------------------

    def _check_open(self) -> None:
        if self._sequence.superseded:
            raise LinkSupersededError(f"{self.peer} is linked to a newer process with our name: this process must end")
        if self._closing:
            raise LinkClosedError(f"the link to {self.peer} is closed")

    def _now_s(self) -> float:
        return self._setup.clock.monotonic()


async def _set_within(event: asyncio.Event, timeout_s: float) -> None:
    try:
        async with asyncio.timeout(None if timeout_s == math.inf else timeout_s):
            await event.wait()
    except TimeoutError:
        return
