"""LinkSequence: makes one link of many connections: nothing is lost, repeated or reordered. Pure; seconds.

    connected ─► handshake ─► established ─► DATA(epoch, n, ack) ─► in order, once       send buffer ◄── offer, source
                    ▲                                                                         │
                    └── the connection ends; the next HELLO names the next expected frame ◄───┘ replay from there

While a connection lives, it carries frames in order, each once. When it ends, frames that were sent may be lost from
any point on, and the sender does not know where; so frames are numbered, kept, acknowledged and replayed. Either side
may be restarted at any moment.

1. An *incarnation* is one start of a process: a random number that is never used again. What one incarnation receives
   of another is a prefix of what the other offered to it, in order, each payload once; all of it, as soon as a
   connection lives long enough.
2. A new connection to the same incarnation resumes: HELLO has the number of the next expected frame (handshake.py). All
   frames from there on are sent again. A frame that has arrived before is dropped, if it comes before the first new
   one. Every other number but the next one is a ProtocolError: the connection is closed, and another one opened.
3. A new incarnation starts from 0 in both directions. What was offered to the previous one and not acknowledged is
   dropped (PeerStarted has the number of payloads). Each frame names its epoch, which is made of both incarnations; a
   frame of another epoch is a ProtocolError.
4. Every DATA acknowledges all frames that have arrived. An ACK is sent if the peer asks for one and there is no
   payload, and as a heartbeat (send_buffer.py says when a sender asks).
5. A payload that is larger than the line carries in a second is split (see parts, line_rate). Each part is a frame of
   the same sequence, so a new connection resumes at the first missing part. Urgent payloads go between the parts of
   others.
6. Frames and bytes are bounded (see send_buffer): `offer` refuses, and the `source` is not asked; the last payload of
   the source may exceed the limit. Only `next_frame` sends, one frame a call; its caller checks the connection's
   capacity.

From: MQTT's and XMPP's session resumption; Pekko's Artery, which numbers system messages and replays them; Kafka's
idempotent producer (epoch and sequence); dask, where a reconnect was taken for a continuation of another process
(distributed#6263).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from ..errors import FrameTooLargeError, ProtocolError
from ..net.network import MAX_FRAME_BYTES
from .handshake import Handshake
from .headers import (
    ASKS,
    DATA,
    DATA_BEGINS,
    KIND_DATA,
    VERSION,
    LinkAck,
    LinkData,
    LinkHello,
    LinkRefused,
    decode,
    epoch_of,
)
from .parts import Lane, PartAssembler, PayloadPart, PayloadSplitter
from .send_buffer import SendBuffer

if TYPE_CHECKING:
    from .send_queue import PayloadSource

MAX_PAYLOAD_BYTES: Final = MAX_FRAME_BYTES - DATA.size
"""The largest payload that a link takes."""

_NO_EPOCH: Final = -1


@dataclass(frozen=True, slots=True)
class SequenceLimits:
    """Limits of what is in flight in one direction."""

    max_frames: int = 256
    max_bytes: int = 2 * 1024 * 1024

    def __post_init__(self) -> None:
        if self.max_frames < 1 or self.max_bytes < 1:
            raise ValueError(f"limits of 1 or more: {self}")


@dataclass(frozen=True, slots=True)
class PeerStarted:
    """The peer is a new incarnation; all later payloads are from it. `dropped`: payloads for the previous one."""

    incarnation: int
    dropped: int
    greeting: bytes


class LinkSequence:
    """One end of a link. `incarnation`: random, 1 to 2**64 - 1. `greeting` is sent with each HELLO.

    `expected_greeting`: that of the peer; empty: any. `source` is asked for payloads when nothing else is to be sent.
    """

    __slots__ = (
        "_assembler",
        "_blocked",
        "_expected",
        "_handshake",
        "_receive_epoch",
        "_resumed_at",
        "_send",
        "_send_epoch",
        "_source",
        "_splitter",
        "ack_due",
        "frame_due",
    )

    def __init__(
        self,
        incarnation: int,
        *,
        greeting: bytes = b"",
        expected_greeting: bytes = b"",
        limits: SequenceLimits | None = None,
        source: PayloadSource | None = None,
    ) -> None:
        limits = limits or SequenceLimits()
        self.ack_due = False
        """Send an ACK if there is no payload to send. (Set it for a heartbeat.)"""
        self.frame_due = False
        """After `receive`: does the writer have something to do because of what has arrived?"""
        self._handshake = Handshake(incarnation, greeting, expected_greeting)
        self._send = SendBuffer(limits.max_frames, limits.max_bytes)
        self._source = source
        self._splitter = PayloadSplitter()
        self._assembler = PartAssembler(MAX_PAYLOAD_BYTES)
        self._expected = 0  # the number of the next frame of the peer
        self._resumed_at = 0  # that number when the connection was established
        self._send_epoch = self._receive_epoch = _NO_EPOCH  # on this connection, once it is established
        self._blocked = False  # something waits for capacity in the send buffer

    # -- what it is --------------------------------------------------------------------------------------------------

    @property
    def incarnation(self) -> int:
        """This end's incarnation."""
        return self._handshake.incarnation

    @property
    def peer(self) -> int:
        """The peer's incarnation; 0 before the first connection is established."""
        return self._handshake.peer

    @property
    def established(self) -> bool:
        """Has the peer answered on this connection?"""
        return self._handshake.established

    @property
    def superseded(self) -> bool:
        """Has another process taken this one's name at the peer?"""
        return self._handshake.superseded

    @property
    def line_bytes_s(self) -> float:
        """What a slow line to the peer carries in a second; 0 if it is not slow, or not measured."""
        line = self._send.line
        return line.bytes_s if line.is_slow else 0.0

    @property
    def unacked_frames(self) -> int:
        """How many payloads were taken and not acknowledged by the peer."""
        return self._send.payloads + len(self._splitter.open)

    @property
    def has_unsent(self) -> bool:
        """Has a payload been taken and not acknowledged, or does one wait in the source?"""
        source = self._source
        return self.unacked_frames > 0 or (source is not None and not source.is_empty)

    @property
    def unacked_bytes(self) -> int:
        """The bytes of these payloads, without the parts that were acknowledged."""
        return self._send.size_bytes + self._splitter.size_bytes

    @property
    def assembled_bytes(self) -> int:
        """How many bytes of incomplete payloads have arrived."""
        return self._assembler.held_bytes

    # -- payloads ----------------------------------------------------------------------------------------------------

    def has_capacity(self, size_bytes: int, *, urgent: bool = False) -> bool:
        """Is there capacity for a payload of that size?"""
        send = self._send
        if not self._splitter.may_begin(Lane.URGENT if urgent else Lane.ORDINARY):
            return False
        if size_bytes <= send.line.frame_bytes:
            return send.has_capacity(size_bytes)
        max_frames, max_bytes = send.limits
        taken = self.unacked_bytes
        return not taken or (taken + size_bytes <= max_bytes and len(send.frames) < max_frames)

    def offer(self, payload: bytes, *, urgent: bool = False) -> bool:
        """Take a payload; False if there is no capacity. FrameTooLargeError above MAX_PAYLOAD_BYTES.

        An `urgent` payload may overtake others while they are sent in parts.
        """
        if not self.has_capacity(len(payload), urgent=urgent):
            _check_size(payload)
            self._wait_for_capacity()
            return False
        self._take(payload, urgent)
        return True

    def _take(self, payload: bytes, urgent: bool) -> None:
        if len(payload) <= self._send.line.frame_bytes:
            self._send.add(payload)
        else:
            _check_size(payload)
            self._splitter.begin(Lane.URGENT if urgent else Lane.ORDINARY, payload)

    def request_ack(self) -> None:
        """Ask the peer to acknowledge at once what has arrived, unless it was asked already."""
        self._send.ask_if_none()

    def _wait_for_capacity(self) -> None:
        self._blocked = True
        self._send.ask_if_none()

    # -- connections -------------------------------------------------------------------------------------------------

    def connect(self) -> None:
        """There is a new connection; the state of the previous one is dropped."""
        self.disconnect()
        self._handshake.connect()

    def disconnect(self) -> None:
        """The connection has ended. What is not acknowledged waits for the next one."""
        self._handshake.disconnect()
        self._send_epoch = self._receive_epoch = _NO_EPOCH
        self.ack_due = False

    # -- frames from the peer ----------------------------------------------------------------------------------------

    def receive(self, frame: bytes, now_s: float) -> Sequence[bytes | PeerStarted]:
        """Take a frame. Returns the payloads to deliver, in order, and PeerStarted before the first of an incarnation.

        ProtocolError if the frame is wrong: end the connection.
        """
        self.frame_due = False
        if frame[:2] in DATA_BEGINS and len(frame) >= DATA.size:  # nearly always
            _, kind, epoch, number, ack = DATA.unpack_from(frame)
            return (frame[DATA.size :],) if self._accept(epoch, number, ack, kind > ASKS, now_s) else ()
        match decode(frame):
            case LinkData(epoch, number, ack, PayloadPart() as part, asks):
                if self._accept(epoch, number, ack, asks, now_s):
                    payload = self._assembler.add(part)
                    return () if payload is None else (payload,)
            case LinkAck(epoch, ack, asks):
                self._accept(epoch, None, ack, asks, now_s)
            case LinkHello() as hello:
                self.frame_due = True
                if self._handshake.on_hello(hello):
                    return self._establish(hello)
            case LinkRefused() as refused:
                self.frame_due = True
                self._handshake.on_refused(refused)
            case found:
                raise ProtocolError(f"{type(found).__name__} on the connection of a link")
        return ()

    def _accept(self, epoch: int, number: int | None, ack: int, asks: bool, now_s: float) -> bool:
        """Take the header of a frame. Is it the next numbered frame? No if it has arrived before, or has no number."""
        if epoch != self._receive_epoch:
            raise ProtocolError("a frame of another incarnation, or before the handshake is complete")
        if ack != self._send.base:
            self._send.acked(ack, now_s)
            self.frame_due, self._blocked = self._blocked, False
        if asks:
            self.ack_due = self.frame_due = True
        if number == self._expected:
            self._expected += 1
            return True
        if number is None or number < self._expected == self._resumed_at:
            return False  # an ACK, or a replay from an earlier point than necessary
        raise ProtocolError(f"frame {number} has arrived; the next one is {self._expected}")

    def _establish(self, hello: LinkHello) -> list[bytes | PeerStarted]:
        events: list[bytes | PeerStarted] = []
        first = not self._handshake.peer
        if self._handshake.establish(hello.incarnation):
            dropped = 0 if first else self._send.restart() + self._splitter.restart()
            self._expected = 0
            self._assembler.restart()
            events.append(PeerStarted(hello.incarnation, dropped, hello.greeting))
        self._send.resume(hello.next)
        self._resumed_at = self._expected
        self._send_epoch = epoch_of(self.incarnation, hello.incarnation)
        self._receive_epoch = epoch_of(hello.incarnation, self.incarnation)
        return events

    # -- frames to the peer ------------------------------------------------------------------------------------------

    def next_frame(self) -> bytes | None:
        """The next frame to send on this connection; None if there is none. It counts as sent."""
        handshake = self._handshake
        if handshake.hello_due or handshake.refusal is not None:
            return handshake.next_frame(self._expected)
        epoch, send, source = self._send_epoch, self._send, self._source
        if epoch == _NO_EPOCH or handshake.superseded:
            return None
        has_more = self._splitter.open or not (source is None or source.is_empty)
        if send.cursor < len(send.frames) or (has_more and self._add_frame()):
            self.ack_due = False  # each DATA carries an ack
            number, payload, asks = send.next()
            if isinstance(payload, PayloadPart):
                return LinkData(epoch, number, self._expected, payload, asks).encode()
            return DATA.pack(VERSION, KIND_DATA | ASKS if asks else KIND_DATA, epoch, number, self._expected) + payload
        if self.ack_due or send.ask_due:
            asks, self.ack_due = send.ask_due, False
            if asks:
                send.ask()
            return LinkAck(epoch, self._expected, asks).encode()
        return None

    def last_ack(self) -> bytes | None:
        """An ACK to send before this end closes the connection; None if it is not established."""
        if self._send_epoch == _NO_EPOCH or self.superseded:
            return None
        return LinkAck(self._send_epoch, self._expected).encode()

    def _add_frame(self) -> bool:
        """Add a payload of the source to the send buffer, or the next part of a large one."""
        send, splitter, source = self._send, self._splitter, self._source
        if source is not None and not source.is_empty and Lane.URGENT not in splitter.open:
            if send.frames and not send.takes_more:
                self._wait_for_capacity()
            else:
                payload = source.next_payload(urgent=bool(splitter.open))
                if payload is not None and len(payload) <= send.line.frame_bytes:
                    send.add(payload)
                    return True
                if payload is not None:
                    self._take(payload, source.last_was_urgent)
        if not splitter.open:
            return False
        frame_bytes = send.line.frame_bytes
        if not send.has_capacity(splitter.next_size(frame_bytes)):
            self._wait_for_capacity()
            return False
        part = splitter.next_part(frame_bytes)
        if part is not None:
            send.add(part)
        return part is not None


def _check_size(payload: bytes) -> None:
    if len(payload) > MAX_PAYLOAD_BYTES:
        raise FrameTooLargeError(
            f"a payload of {len(payload):,} bytes: a link carries at most {MAX_PAYLOAD_BYTES:,}; split it"
        )
