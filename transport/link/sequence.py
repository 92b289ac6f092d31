"""LinkSequence: makes one link of many connections: nothing is lost, repeated or reordered. Pure; seconds.

    connected ─► HELLO(I, attempt) ──────────► the peer receives it
                 established ◄──────────────── HELLO(P, attempt', I, attempt, next)
    peer established ◄──── HELLO(I, attempt, P, attempt', next)        answers each HELLO that is not established
                 DATA(epoch, n, ack) ────────► in order, once
                 (reconnect: the same again, and all that is not acked is sent again)

Below it frames may be lost, repeated, reordered and delayed, connections cut at any moment, and either side restarted
(see network). Above it:

1. An *incarnation* is one start of a process: a random number that is never used again. What one incarnation receives
   of another is a prefix of what the other offered to it, in order, each payload once; all of it, as soon as the
   network lets enough frames through.
2. A new connection to the same incarnation resumes: HELLO contains the number of the next expected frame.
3. A new incarnation starts from 0 in both directions. What was offered to the previous one and not acked is dropped
   (PeerStarted has the number of payloads), and its frames are refused, for their epoch is another.
4. A peer counts as established only when it repeats our attempt of this connection: a late HELLO of a dead process
   changes nothing (as with TCP's three-way handshake).
5. An incarnation that was replaced gets REFUSED from then on, and becomes `superseded`: of two living copies of a
   worker one has to end. Here it is the older one; leases decide elsewhere. The last 64 replaced incarnations are
   remembered.
6. A payload that is larger than the line carries in a second is split (see parts, line_rate). Each part is a frame of
   the same sequence, so a new connection resumes at the first missing part. Urgent payloads go between the parts of
   others.
7. Frames and bytes are bounded, for what was offered and for what arrived early (see frame_buffers): `offer` refuses,
   and the sender waits for acks. Only `next_frame` sends, one frame a call; its caller checks the connection's
   capacity.

From: TCP (RFC 9293: handshake, cumulative acks, sliding window); the epochs of DTLS and Kafka, against zombies; dask,
where a reconnect was taken for a continuation of another process (distributed#6263).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from ..errors import FrameTooLargeError, ProtocolError
from ..net.network import MAX_FRAME_BYTES
from .frame_buffers import ReorderBuffer, ResendTime, SendBuffer
from .headers import (
    DATA_HEADER_BYTES,
    LinkAck,
    LinkData,
    LinkHello,
    LinkRefused,
    data_of,
    decode,
    encode_data,
    epoch_of,
)
from .line_rate import LineRate
from .parts import Lane, PartAssembler, PayloadPart, PayloadSplitter

MAX_PAYLOAD_BYTES: Final = MAX_FRAME_BYTES - DATA_HEADER_BYTES
"""The largest payload that a link takes."""

_REMEMBERED: Final = 64


@dataclass(frozen=True, slots=True)
class SequenceLimits:
    """Limits of what is under way in one direction, and the times until a resend (for HELLO the shorter one)."""

    max_frames: int = 256
    max_bytes: int = 2 * 1024 * 1024
    resend_s: float = 0.2
    max_resend_s: float = 10.0

    def __post_init__(self) -> None:
        if self.max_frames < 1 or self.max_bytes < 1 or not 0 < self.resend_s <= self.max_resend_s:
            raise ValueError(f"limits of 1 or more, and 0 < resend_s <= max_resend_s: {self}")


@dataclass(frozen=True, slots=True)
class PeerStarted:
    """The peer is a new incarnation; all later payloads are from it. `dropped`: payloads for the previous one."""

    incarnation: int
    dropped: int
    greeting: bytes


class LinkSequence:
    """One end of a link. `incarnation`: random, 1 to 2**64 - 1. `greeting` is sent with each HELLO."""

    def __init__(self, incarnation: int, *, greeting: bytes = b"", limits: SequenceLimits | None = None) -> None:
        if not 0 < incarnation < 2**64:
            raise ValueError(f"an incarnation is a number from 1 to 2**64 - 1, not {incarnation}")
        limits = limits or SequenceLimits()
        self.incarnation = incarnation
        self.peer = 0  # its incarnation, once established
        self.connected = False
        self.established = False  # on this connection: data may be sent
        self.superseded = False
        self.refused = 0  # frames of another epoch
        self._greeting = greeting
        self._limits = limits
        self._send = SendBuffer(limits.max_frames, limits.max_bytes, ResendTime(limits.resend_s, limits.max_resend_s))
        self._receive = ReorderBuffer(limits.max_frames, limits.max_bytes)
        self._splitter = PayloadSplitter()
        self._assembler = PartAssembler(MAX_PAYLOAD_BYTES)
        self._attempt = 0  # the number of this connection
        self._peer_hello = (0, 0)  # incarnation and attempt of the last HELLO on this connection
        self._hello_s = 0.0  # when to send HELLO again
        self._to_refuse: LinkRefused | None = None
        self._replaced: deque[int] = deque(maxlen=_REMEMBERED)

    # -- payloads ---------------------------------------------------------------------------------------------------

    def has_room(self, size_bytes: int, *, urgent: bool = False) -> bool:
        """Is there capacity for a payload of that size?"""
        if not self._splitter.may_begin(_lane(urgent)):
            return False
        if size_bytes <= self._send.line.frame_bytes:
            return self._send.has_room(size_bytes)
        taken, limits = self.unacked_bytes, self._limits
        return not taken or (taken + size_bytes <= limits.max_bytes and len(self._send) < limits.max_frames)

    def offer(self, payload: bytes, *, urgent: bool = False) -> bool:
        """Take a payload; False if there is no capacity. FrameTooLargeError above MAX_PAYLOAD_BYTES.

        An `urgent` payload may overtake others while they are sent in parts.
        """
        if len(payload) > MAX_PAYLOAD_BYTES:
            raise FrameTooLargeError(
                f"a payload of {len(payload):,} bytes: a link carries at most {MAX_PAYLOAD_BYTES:,}; split it"
            )
        if len(payload) <= self._send.line.frame_bytes:
            return (not self._splitter or self._splitter.may_begin(_lane(urgent))) and self._send.offer(payload)
        if not self.has_room(len(payload), urgent=urgent):
            return False
        self._splitter.begin(_lane(urgent), payload)
        return True

    @property
    def all_sent(self) -> bool:
        """Was each payload sent at least once, except one that is sent in parts?"""
        return self._send.all_sent

    @property
    def accepts_ordinary(self) -> bool:
        """May an ordinary payload be offered, or is another one being split?"""
        return self._splitter.may_begin(Lane.ORDINARY)

    @property
    def line(self) -> LineRate:
        """The measured speed of the line to the peer."""
        return self._send.line

    @property
    def unacked_frames(self) -> int:
        """How many payloads were offered and not acked by the peer."""
        return len(self._send) - self._send.unfinished + len(self._splitter)

    @property
    def unacked_bytes(self) -> int:
        """The bytes of these payloads, without the parts that were acked."""
        return self._send.size_bytes + self._splitter.size_bytes

    @property
    def held_bytes(self) -> int:
        """How many bytes arrived early and wait for earlier frames."""
        return self._receive.held_bytes

    @property
    def assembled_bytes(self) -> int:
        """How many bytes of incomplete payloads have arrived."""
        return self._assembler.held_bytes

    # -- connections -------------------------------------------------------------------------------------------------

    def connect(self, now_s: float) -> None:
        """There is a new connection; the state of the previous one is dropped."""
        self.disconnect()
        self.connected = True
        self._attempt += 1
        self._hello_s = now_s

    def disconnect(self) -> None:
        """The connection has ended. What is not acked waits for the next one."""
        self.connected = self.established = False
        self._peer_hello = (0, 0)
        self._to_refuse = None

    def heartbeat(self) -> None:
        """Send an ACK as a sign of life if there is no other frame to send."""
        self._receive.owes_ack = True

    # -- frames ------------------------------------------------------------------------------------------------------

    def receive(self, frame: bytes, now_s: float) -> Sequence[bytes | PeerStarted]:
        """Take a frame. Returns the payloads to deliver, in order, and PeerStarted before the first of an incarnation.

        ProtocolError if the frame is wrong: end the connection.
        """
        data = data_of(frame)
        if data is not None:
            epoch, sequence, ack = data
            if not self._is_current(epoch):
                return []
            self._send.acked(ack, now_s)
            return self._complete(self._receive.accept(sequence, frame[DATA_HEADER_BYTES:]))
        match decode(frame):
            case LinkData(epoch, sequence, ack, part):  # a part: whole payloads are handled above
                if self._is_current(epoch):
                    self._send.acked(ack, now_s)
                    return self._complete(self._receive.accept(sequence, part))
            case LinkAck(epoch, ack):
                if self._is_current(epoch):
                    self._send.acked(ack, now_s)
            case LinkHello() as hello:
                return self._on_hello(hello, now_s)
            case LinkRefused(incarnation, attempt):
                if (incarnation, attempt) == (self.incarnation, self._attempt):
                    self.superseded = True
        return []

    def next_frame(self, now_s: float, *, resend: bool = True) -> bytes | None:
        """The next frame to send on this connection; None if there is none. It counts as sent.

        `resend`: may frames be sent again? False while earlier frames have not left this process.
        """
        if not self.connected or self.superseded:
            return None
        if self._to_refuse is not None:
            refused, self._to_refuse = self._to_refuse, None
            return refused.encode()
        if now_s >= self._hello_s:
            self._hello_s = float("inf") if self.established else now_s + self._limits.resend_s
            return self._hello().encode()
        if not self.established:
            return None
        epoch = epoch_of(self.incarnation, self.peer)
        due = self._send.next(now_s, resend=resend)
        if due is None and self._splitter and self._split():
            due = self._send.next(now_s, resend=resend)
        if due is not None:
            self._receive.owes_ack = False  # each DATA carries an ack
            return encode_data(epoch, due[0], self._receive.next, due[1])
        if self._receive.owes_ack:
            self._receive.owes_ack = False
            return LinkAck(epoch, self._receive.next).encode()
        return None

    def due_s(self) -> float:
        """When to call `next_frame` again if nothing happens before: -inf now, inf never."""
        if not self.connected or self.superseded:
            return float("inf")
        if self._to_refuse is not None or (self.established and (self._receive.owes_ack or self._can_split())):
            return float("-inf")
        return min(self._hello_s, self._send.due_s()) if self.established else self._hello_s

    # -- parts -------------------------------------------------------------------------------------------------------

    def _can_split(self) -> bool:
        """Is there a part to send, and capacity for it?"""
        return bool(self._splitter) and self._send.has_room(self._splitter.next_size(self._send.line.frame_bytes))

    def _split(self) -> bool:
        part = self._splitter.next_part(self._send.line.frame_bytes) if self._can_split() else None
        return part is not None and self._send.offer(part)

    def _complete(self, arrived: list[bytes | PayloadPart]) -> Sequence[bytes]:
        """The payloads that these frames complete, in order."""
        if len(arrived) == 1 and isinstance(arrived[0], bytes):
            return [arrived[0]]  # the usual case
        found: list[bytes] = []
        for item in arrived:
            payload = self._assembler.add(item) if isinstance(item, PayloadPart) else item
            if payload is not None:
                found.append(payload)
        return found

    # -- the handshake -----------------------------------------------------------------------------------------------

    def _hello(self) -> LinkHello:
        peer, attempt = self._peer_hello
        expected = self._receive.next if peer == self.peer else 0  # a new incarnation has sent nothing yet
        return LinkHello(self.incarnation, self._attempt, peer, attempt, expected, self.established, self._greeting)

    def _on_hello(self, hello: LinkHello, now_s: float) -> list[bytes | PeerStarted]:
        if hello.incarnation == self.incarnation:
            raise ProtocolError("the peer has our own incarnation: a process is linked to itself, or was copied")
        if hello.incarnation in self._replaced:
            self._to_refuse = LinkRefused(hello.incarnation, hello.attempt)
            return []
        self._peer_hello = (hello.incarnation, hello.attempt)
        events: list[bytes | PeerStarted] = []
        if not self.established and (hello.peer, hello.peer_attempt) == (self.incarnation, self._attempt):
            events += self._establish(hello, now_s)
        if not hello.established:
            self._hello_s = now_s  # answer, so that the peer can become established
        return events

    def _establish(self, hello: LinkHello, now_s: float) -> list[PeerStarted]:
        events = []
        if hello.incarnation != self.peer:
            dropped = 0
            if self.peer:
                self._replaced.append(self.peer)
                dropped = self._send.restart() + self._splitter.restart()
            self._receive.restart()
            self._assembler.restart()
            self.peer = hello.incarnation
            events.append(PeerStarted(self.peer, dropped, hello.greeting))
        self._send.resume(hello.next, now_s)
        self.established = True
        self._hello_s = float("inf")
        return events

    def _is_current(self, epoch: int) -> bool:
        if self.peer and epoch == epoch_of(self.peer, self.incarnation):
            return True
        self.refused += 1
        return False


def _lane(urgent: bool) -> Lane:
    return Lane.URGENT if urgent else Lane.ORDINARY
