"""Link: payloads to one peer and from it, over one connection after another. The shell around a LinkSequence.

    a connection ─► reader ─► sequence ─► on_payload         until the connection ends,
         ▲          writer ◄─ sequence ◄─ send               or 3 s of silence end it
         └── wait 50 ms, 100 ms … 2 s, with jitter ◄──────────────────────┘

1. One side dials, the other waits to be dialled (see links): there is never a question which of two connections counts.
   Of two that came in, the later one does.
2. One writer: it sends when the connection has room, so little is buffered below, and what waits is the send window,
   which is bounded. `send` waits for room in it, in the order of the calls; `offer` does not wait. A `source` is asked
   for a payload when all that was taken has been sent: so what is urgent need not wait behind what is not
   (send_queue.py), not even behind a large one: that is cut into parts, and it is asked for what is urgent between two
   of them.
3. One reader: it reads all the time, whatever the writer waits for. `on_payload` is called with each payload, in order
   and once, in the event loop; it does not wait. How fast the peer may send is said by credits, in the layer above.
4. Whoever has sent nothing for `heartbeat_s` says that it lives. A peer of which not a byte has come for `dead_s` is
   taken for gone: the connection is closed, and another one tried. That loses nothing (see sequence). Bytes of a frame
   that is not whole count. Nothing is sent again that may still be in our own buffer. People are told once of a line
   that is slow.
5. A link does not give up. It ends when it is closed, when `on_payload` or `on_peer` raises (what it was called with
   counts as delivered), or with LinkSupersededError.

From: Storm's netty Client, which reconnects with a backoff but drops what was under way.
"""

from __future__ import annotations

import asyncio
import logging
import math
import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace

from ...runtime import Clock
from ..errors import ConnectionLostError, LinkClosedError, LinkSupersededError, NetworkError, ProtocolError
from ..net.authentication import check_identity
from ..net.limited_warnings import LimitedWarnings
from ..net.network import Connection
from .headers import greeting_of, is_data
from .send_queue import PayloadSource
from .sequence import LinkSequence, PeerStarted
from .timed_wakeup import TimedWakeup

_log = logging.getLogger(__name__)

_READ_AT_ONCE = 64  # frames, before others get the loop
_LEAST_WAIT_S = 0.001
_LOOKS = 3  # in the time after which a silent peer is dead


@dataclass(frozen=True, slots=True)
class LinkTimings:
    """Seconds."""

    heartbeat_s: float = 2.0
    dead_s: float = 3.0
    first_retry_s: float = 0.05
    max_retry_s: float = 2.0
    connect_s: float = 5.0
    drain_s: float = 5.0

    def __post_init__(self) -> None:
        if not 0 < self.heartbeat_s < self.dead_s:
            raise ValueError(f"0 < heartbeat_s < dead_s, or every silence is a death: {self}")
        if not 0 < self.first_retry_s <= self.max_retry_s or self.connect_s <= 0 or self.drain_s < 0:
            raise ValueError(f"0 < first_retry_s <= max_retry_s, 0 < connect_s, 0 <= drain_s: {self}")


@dataclass(frozen=True, slots=True)
class LinkSetup:
    """What a link is made of. `dial` is None where the peer dials; `greeting` is what the peer's HELLOs must say.

    `role`: what the peer must have proved to be; empty: anything.
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
    """The link to one peer. Links makes it and runs it."""

    def __init__(self, peer: str, parts: LinkSetup) -> None:
        self.peer = peer
        self.trouble = ""
        """Why the last attempt to connect failed, or what ended the last connection; for people."""
        self._parts = parts
        self._dial = parts.dial
        self._sequence = parts.sequence
        self._timings = parts.timings
        self._connection: Connection | None = None
        self._came: tuple[Connection, bytes] | None = None  # dialled by the peer, with its HELLO
        self._retry_s = parts.timings.first_retry_s
        self._sent_s = self._heard_s = 0.0
        self._heard_bytes = 0
        self._told_slow = False
        self._closing = False
        self._over = asyncio.Event()
        self._again = asyncio.Event()  # it is time to dial again
        self._failure: Exception | None = None
        self._dialling: asyncio.Timeout | None = None
        self._sending = asyncio.Lock()  # those that wait for room, in their order
        self._asked_for: tuple[bytes, bool] | None = None  # from the source, and is it urgent? There was no room
        self._work = TimedWakeup()  # for the writer, and for who waits for a connection
        self._acked = asyncio.Event()  # for those that wait for room or for the end

    # -- what its users do -------------------------------------------------------------------------------------------

    @property
    def dials(self) -> bool:
        """Is it this side that connects?"""
        return self._dial is not None

    @property
    def incarnation(self) -> int:
        """The peer's, as far as it is known; 0 before its first HELLO was believed."""
        return self._sequence.peer

    @property
    def established(self) -> bool:
        """Is there a connection now, and has the peer answered on it?"""
        return self._sequence.established

    @property
    def over(self) -> bool:
        """Has it ended, for good?"""
        return self._over.is_set()

    @property
    def unacked_frames(self) -> int:
        """Payloads that were taken, and that the peer has not acked yet."""
        return self._sequence.unacked_frames

    def offer(self, payload: bytes) -> bool:
        """Take a payload for the peer, if there is room and nobody waits for it. Raises what `send` raises."""
        self._check_open()
        if self._sending.locked() or not self._sequence.offer(payload):
            return False
        self._work.set()
        return True

    async def send(self, payload: bytes) -> None:
        """Wait for room, then take a payload for the peer. That it was taken does not mean that it has come.

        LinkClosedError, LinkSupersededError, FrameTooLargeError. Cancelled, the payload was not taken.
        """
        if self.offer(payload):
            return
        async with self._sending:
            self._check_open()
            while not self._sequence.offer(payload):
                self._acked.clear()
                await self._acked.wait()
                self._check_open()
        self._work.set()

    def wake(self) -> None:
        """The source has something."""
        self._work.set()

    def redial(self, dial: Callable[[], Awaitable[Connection]]) -> None:
        """The peer is known to listen (again): dial it so, and now, not when it is time. (Not if it is who dials.)"""
        if self._dial is None:
            return
        self._dial = dial
        self._retry_s = self._timings.first_retry_s
        self._again.set()

    async def close(self) -> int:
        """Take nothing more, wait until all is acked (at most `drain_s`), end. How many payloads were not acked.

        What the source has is sent, too.
        """
        self._closing = True
        self._acked.set()  # who waits for room is told
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
        source = self._parts.source
        return bool(
            self._sequence.unacked_frames or self._asked_for is not None or (source is not None and not source.is_empty)
        )

    # -- what Links does ---------------------------------------------------------------------------------------------

    def accept(self, connection: Connection, hello: bytes) -> None:
        """The peer has dialled, and this was its first frame. It counts more than one that is there."""
        if self._over.is_set():
            connection.close()
            return
        if self._came is not None:
            self._came[0].close()
        self._came = (connection, hello)
        if self._connection is not None:
            self._connection.close()
        self._work.set()

    def abort(self) -> None:
        """End now. (To cancel `run` is not enough: a TaskGroup loses a cancel that comes as one of its tasks fails.)"""
        self._closing = True
        self._over.set()
        self._again.set()
        if self._dialling is not None and not self._dialling.expired():
            self._dialling.reschedule(0.0)  # long ago: it is over now
        if self._connection is not None:
            self._connection.close()
        if self._came is not None:
            self._came[0].close()
        self._work.set()
        self._acked.set()

    async def run(self) -> None:
        """Be the link, until it is closed."""
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
        while self._came is None and not self._over.is_set():
            self._work.clear()
            await self._work.wait()
        found, self._came = self._came, None
        return found

    async def _dialled(self, dial: Callable[[], Awaitable[Connection]]) -> tuple[Connection, bytes] | None:
        try:
            async with asyncio.timeout(self._timings.connect_s) as self._dialling:
                return await dial(), b""
        except (NetworkError, TimeoutError) as error:
            self.trouble = str(error) or f"no answer within {self._timings.connect_s:g} s"
            _log.debug("cannot connect to %s: %r", self.peer, error)
        finally:
            self._dialling = None
        await self._pause()
        return None

    async def _pause(self) -> None:
        # Between half of it and all of it: those that were cut off together do not come back together.
        delay_s = self._retry_s * (0.5 + self._parts.jitter.random() / 2)
        self._retry_s = min(2 * self._retry_s, self._timings.max_retry_s)
        if not self._over.is_set():
            self._again.clear()
        await _set_within(self._again, delay_s)

    async def _serve(self, connection: Connection, hello: bytes) -> None:
        well = True
        self._connection = connection
        self._sequence.connect(self._now_s())
        try:
            check_identity(connection, self.peer, self._parts.role)
            if hello:
                self._heard(hello)
            async with asyncio.TaskGroup() as group:
                group.create_task(self._read(connection), name=f"link {self.peer}: reader")
                group.create_task(self._write(connection), name=f"link {self.peer}: writer")
        except* ProtocolError as errors:
            well = False
            self.trouble = str(errors.exceptions[0])
            self._parts.limited_warnings.warn("the connection to %s is closed: %s", self.peer, errors.exceptions[0])
        except* ConnectionLostError as errors:
            self.trouble = str(errors.exceptions[0])
            _log.debug("the connection to %s is over: %s", self.peer, errors.exceptions[0])
        finally:
            well = well and self._sequence.established
            self._sequence.disconnect()
            self._connection = None
            connection.close()
        if self._failure is not None:
            raise self._failure
        if self._sequence.superseded:
            self._check_open()
        if well:
            self._retry_s = self._timings.first_retry_s
        if self.dials and not self._over.is_set():
            await self._pause()

    async def _read(self, connection: Connection) -> None:
        while True:
            for _ in range(_READ_AT_ONCE):
                self._heard(await connection.receive())
            await asyncio.sleep(0)

    async def _write(self, connection: Connection) -> None:
        self._sent_s = self._heard_s = self._now_s()
        self._heard_bytes = 0
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
                if self._sequence.established:  # until then HELLOs say that we live
                    due_s = min(due_s, self._sent_s + self._timings.heartbeat_s)
                self._work.clear()
                await self._work.wait_until(due_s, now_s)
        finally:
            self._work.cancel()

    def _deadline_s(self, connection: Connection, now_s: float) -> float:
        """When to look again whether it lives. (Here and not where one reads: a timer for each frame costs more.)"""
        dead_s = self._timings.dead_s
        came = connection.received_bytes
        if came != self._heard_bytes:
            self._heard_bytes, self._heard_s = came, max(self._heard_s, now_s)
            if self._sequence.line.is_slow and not self._told_slow:
                self._tell_slow()
        deadline_s = self._heard_s + dead_s
        if now_s >= deadline_s:
            raise ConnectionLostError(f"not a word for {dead_s:g} s")
        return min(deadline_s, now_s + dead_s / _LOOKS)

    def _tell_slow(self) -> None:
        self._told_slow = True
        _log.warning(
            "the line to %s is slow: it carries %.0f kB a second. Nothing is lost: large values go in parts, and what "
            "is urgent waits about 2 s behind them. Send fewer or smaller values there, or use a faster line",
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
                continue  # perhaps it was heard meanwhile

    def _next_frame(self, now_s: float, *, resend: bool) -> bytes | None:
        if now_s - self._sent_s >= self._timings.heartbeat_s:
            self._sequence.heartbeat()
        if self._sequence.all_sent:  # before an ACK goes alone: it goes with a payload, if there is one
            self._ask_source()
        return self._sequence.next_frame(now_s, resend=resend)

    def _ask_source(self) -> None:
        """All that was taken has been sent: take more, if there is."""
        source = self._parts.source
        if source is None or not self._sequence.established:
            return
        asked = self._asked_for
        if asked is None:
            try:
                payload = source.next_payload(urgent=not self._sequence.takes)
            except Exception as error:
                self._failure = error
                raise ConnectionLostError("there was nothing to send, but an error") from error
            asked = None if payload is None else (payload, source.took_urgent)
        self._asked_for = None
        if asked is not None and not self._sequence.offer(asked[0], urgent=asked[1]):
            self._asked_for = asked

    def _heard(self, frame: bytes) -> None:
        if not is_data(frame):
            greeting = greeting_of(frame)
            if greeting is not None and greeting != self._parts.greeting:
                raise ProtocolError(f"it is not {self.peer} who answers there: {greeting[:140]!r}")
        try:
            now_s = self._heard_s = self._now_s()
            for told in self._sequence.receive(frame, now_s):
                if self._over.is_set():
                    break  # who was told of the one before has ended the link
                self._tell(told)
        finally:
            self._work.set()
            self._acked.set()

    def _tell(self, told: bytes | PeerStarted) -> None:
        try:
            if isinstance(told, PeerStarted):
                if self._asked_for is not None:  # it was meant for the incarnation before, as what was under way was
                    self._asked_for = None
                    told = replace(told, dropped=told.dropped + 1)
                self._parts.on_peer(told)
            else:
                self._parts.on_payload(told)
        except Exception as error:
            self._failure = error  # an error of theirs is none of the network's, whatever it is called
            raise ConnectionLostError("what came could not be taken") from error

    # -- the end -----------------------------------------------------------------------------------------------------

    def _check_open(self) -> None:
        if self._sequence.superseded:
            raise LinkSupersededError(f"{self.peer} is linked to a later process of our name: this one must end")
        if self._closing:
            raise LinkClosedError(f"the link to {self.peer} is closed")

    def _now_s(self) -> float:
        return self._parts.clock.monotonic()


async def _set_within(event: asyncio.Event, timeout_s: float) -> None:
    try:
        async with asyncio.timeout(None if timeout_s == math.inf else timeout_s):
            await event.wait()
    except TimeoutError:
        return
