"""LinkSequence: what makes one link of many connections: nothing lost, nothing twice, all in order. Pure; seconds.

    connected ─► HELLO(I, attempt) ──────────► peer hears it
                 established ◄──────────────── HELLO(P, attempt', I, attempt, next)
    peer established ◄──── HELLO(I, attempt, P, attempt', next)        answers each HELLO of one that is not established
                 DATA(epoch, n, ack) ────────► in order, once
                 (reconnect: the same again, and all that is not acked is sent again)

Beneath it frames may be lost, repeated, reordered and delayed, connections cut at any moment, and either side restarted
(see network). Above it:

1. An *incarnation* is one life of a process: a random number that is never used again. What is delivered of one
   incarnation to another is a prefix of what was offered between these two, in order, each frame once. All of it, as
   soon as the network lets enough through.
2. A new connection to the same incarnation resumes: HELLO says which frame is expected next.
3. A new incarnation starts afresh: both sides count from 0, what was offered to the old one and not acked is dropped
   (PeerStarted says how many payloads), and frames of the old one are refused, for their epoch is another.
4. A peer is believed only when it echoes our attempt of this connection: a HELLO that was under way since before its
   sender's death changes nothing (TCP's three-way handshake is against the same).
5. An incarnation that another has replaced is REFUSED from then on, and learns that it is `superseded`: of two living
   copies of a worker one is told to end. Which of the two, leases decide; here it is the one that came first. The last
   64 are remembered.
6. A payload that is larger than the line carries in a second is cut into parts (see parts, line_rate), each a frame of
   its own in the same sequence: so a new connection resumes at the first part that has not come. Urgent payloads go
   between the parts of one that is not.
7. Room is bounded in frames and bytes, for what was offered and for what came early (see sliding): `offer` refuses,
   and who offers waits for acks. Only `next_frame` sends, one frame a call: its caller looks for room below first.

From: TCP (RFC 9293: handshake, cumulative acks, sliding window); DTLS's and Kafka's epochs, against zombies; dask's
lesson that a reconnect must never be taken for a continuation of another life (distributed#6263).
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
"""The largest payload that a link carries."""

_REMEMBERED: Final = 64


@dataclass(frozen=True, slots=True)
class SequenceLimits:
    """The windows of one direction, and the times between sending and sending again (HELLOs: the shorter one)."""

    window_frames: int = 256
    window_bytes: int = 2 * 1024 * 1024
    resend_s: float = 0.2
    max_resend_s: float = 10.0

    def __post_init__(self) -> None:
        if self.window_frames < 1 or self.window_bytes < 1 or not 0 < self.resend_s <= self.max_resend_s:
            raise ValueError(f"windows of 1 or more, and 0 < resend_s <= max_resend_s: {self}")


@dataclass(frozen=True, slots=True)
class PeerStarted:
    """The peer is a new incarnation: all that comes from now on is from it. `dropped`: payloads for the one before."""

    incarnation: int
    dropped: int
    greeting: bytes


class LinkSequence:
    """One end of a link. `incarnation`: 1 to 2**64 - 1, random. `greeting` goes with each HELLO, as it is."""

    def __init__(self, incarnation: int, *, greeting: bytes = b"", limits: SequenceLimits | None = None) -> None:
        if not 0 < incarnation < 2**64:
            raise ValueError(f"an incarnation is a number from 1 to 2**64 - 1, not {incarnation}")
        limits = limits or SequenceLimits()
        self.incarnation = incarnation
        self.peer = 0  # its incarnation, once it was believed
        self.connected = False
        self.established = False  # the peer is believed on this connection: data may be sent
        self.superseded = False
        self.refused = 0  # frames of another epoch
        self._greeting = greeting
        self._limits = limits
        self._send = SendBuffer(
            limits.window_frames, limits.window_bytes, ResendTime(limits.resend_s, limits.max_resend_s)
        )
        self._receive = ReorderBuffer(limits.window_frames, limits.window_bytes)
        self._cutter = PayloadSplitter()
        self._assembly = PartAssembler(MAX_PAYLOAD_BYTES)
        self._attempt = 0  # how many connections there have been
        self._heard = (0, 0)  # incarnation and attempt of the last HELLO on this connection
        self._hello_s = 0.0  # when HELLO is to be sent again
        self._to_refuse: LinkRefused | None = None
        self._past: deque[int] = deque(maxlen=_REMEMBERED)

    # -- what goes over it -------------------------------------------------------------------------------------------

    def has_room(self, size_bytes: int, *, urgent: bool = False) -> bool:
        """Would `offer` take a payload of that size?"""
        if not self._cutter.may_begin(_lane(urgent)):
            return False
        if size_bytes <= self._send.line.frame_bytes:
            return self._send.has_room(size_bytes)
        taken, limits = self.unacked_bytes, self._limits
        return not taken or (taken + size_bytes <= limits.window_bytes and len(self._send) < limits.window_frames)

    def offer(self, payload: bytes, *, urgent: bool = False) -> bool:
        """Take a payload for the peer; False if there is no room. FrameTooLargeError above MAX_PAYLOAD_BYTES.

        An `urgent` one may overtake those that are not, where these have to be cut up.
        """
        if len(payload) > MAX_PAYLOAD_BYTES:
            raise FrameTooLargeError(
                f"a payload of {len(payload):,} bytes: a link carries {MAX_PAYLOAD_BYTES:,}; cut it"
            )
        if len(payload) <= self._send.line.frame_bytes:
            return (not self._cutter or self._cutter.may_begin(_lane(urgent))) and self._send.offer(payload)
        if not self.has_room(len(payload), urgent=urgent):
            return False
        self._cutter.begin(_lane(urgent), payload)
        return True

    @property
    def all_sent(self) -> bool:
        """Was each payload that was offered sent at least once, but for one that is cut up?"""
        return self._send.all_sent

    @property
    def takes(self) -> bool:
        """Would it take an ordinary payload, as far as others that are cut up are concerned?"""
        return self._cutter.may_begin(Lane.ORDINARY)

    @property
    def line(self) -> LineRate:
        """How fast the line to the peer is."""
        return self._send.line

    @property
    def unacked_frames(self) -> int:
        """How many payloads were offered that the peer has not acked."""
        return len(self._send) - self._send.unfinished + len(self._cutter)

    @property
    def unacked_bytes(self) -> int:
        """How many bytes they have (without parts that were acked)."""
        return self._send.size_bytes + self._cutter.size_bytes

    @property
    def held_bytes(self) -> int:
        """How many bytes have come early and wait for those before them."""
        return self._receive.held_bytes

    @property
    def assembled_bytes(self) -> int:
        """How many bytes have come of payloads that are not whole yet."""
        return self._assembly.held_bytes

    # -- connections -------------------------------------------------------------------------------------------------

    def connect(self, now_s: float) -> None:
        """There is a new connection; what was known of the one before counts no more."""
        self.disconnect()
        self.connected = True
        self._attempt += 1
        self._hello_s = now_s

    def disconnect(self) -> None:
        """There is none. What is not acked waits for the next one."""
        self.connected = self.established = False
        self._heard = (0, 0)
        self._to_refuse = None

    def heartbeat(self) -> None:
        """Let the next frame, if there is no other, be an ACK: it says that we live."""
        self._receive.owes_ack = True

    # -- frames ------------------------------------------------------------------------------------------------------

    def receive(self, frame: bytes, now_s: float) -> Sequence[bytes | PeerStarted]:
        """A frame has come: payloads that can be delivered now, in order, and PeerStarted before the first of a life.

        ProtocolError if it is none of ours: end the connection.
        """
        data = data_of(frame)
        if data is not None:
            epoch, sequence, ack = data
            if not self._is_current(epoch):
                return []
            self._send.acked(ack, now_s)
            return self._whole(self._receive.take(sequence, frame[DATA_HEADER_BYTES:]))
        match decode(frame):
            case LinkData(epoch, sequence, ack, part):  # a part: whole ones are done with, above
                if self._is_current(epoch):
                    self._send.acked(ack, now_s)
                    return self._whole(self._receive.take(sequence, part))
            case LinkAck(epoch, ack):
                if self._is_current(epoch):
                    self._send.acked(ack, now_s)
            case LinkHello() as hello:
                return self._greeted(hello, now_s)
            case LinkRefused(incarnation, attempt):
                if (incarnation, attempt) == (self.incarnation, self._attempt):
                    self.superseded = True
        return []

    def next_frame(self, now_s: float, *, resend: bool = True) -> bytes | None:
        """The next frame to send now, over this connection; None if there is none. It counts as sent.

        `resend`: may something be sent again? Not while what was sent has not left this process.
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
        if due is None and self._cutter and self._cut():
            due = self._send.next(now_s, resend=resend)
        if due is not None:
            self._receive.owes_ack = False  # each DATA carries one
            return encode_data(epoch, due[0], self._receive.next, due[1])
        if self._receive.owes_ack:
            self._receive.owes_ack = False
            return LinkAck(epoch, self._receive.next).encode()
        return None

    def due_s(self) -> float:
        """When to call `next_frame` again, if nothing happens until then: -inf now, inf never."""
        if not self.connected or self.superseded:
            return float("inf")
        if self._to_refuse is not None or (self.established and (self._receive.owes_ack or self._may_cut())):
            return float("-inf")
        return min(self._hello_s, self._send.due_s()) if self.established else self._hello_s

    # -- parts -------------------------------------------------------------------------------------------------------

    def _may_cut(self) -> bool:
        """Is there a part to be sent, and room for it?"""
        return bool(self._cutter) and self._send.has_room(self._cutter.next_size(self._send.line.frame_bytes))

    def _cut(self) -> bool:
        part = self._cutter.next_part(self._send.line.frame_bytes) if self._may_cut() else None
        return part is not None and self._send.offer(part)

    def _whole(self, come: list[bytes | PayloadPart]) -> Sequence[bytes]:
        """Of what has come, in order: the payloads that are whole now."""
        if len(come) == 1 and isinstance(come[0], bytes):
            return [come[0]]  # nearly always
        found: list[bytes] = []
        for item in come:
            payload = self._assembly.take(item) if isinstance(item, PayloadPart) else item
            if payload is not None:
                found.append(payload)
        return found

    # -- the handshake -----------------------------------------------------------------------------------------------

    def _hello(self) -> LinkHello:
        heard, attempt = self._heard
        expected = self._receive.next if heard == self.peer else 0  # of another life nothing has come
        return LinkHello(self.incarnation, self._attempt, heard, attempt, expected, self.established, self._greeting)

    def _greeted(self, hello: LinkHello, now_s: float) -> list[bytes | PeerStarted]:
        if hello.incarnation == self.incarnation:
            raise ProtocolError("the peer has our own incarnation: a process is linked to itself, or was copied")
        if hello.incarnation in self._past:
            self._to_refuse = LinkRefused(hello.incarnation, hello.attempt)
            return []
        self._heard = (hello.incarnation, hello.attempt)
        told: list[bytes | PeerStarted] = []
        if not self.established and (hello.peer, hello.peer_attempt) == (self.incarnation, self._attempt):
            told += self._establish(hello, now_s)
        if not hello.established:
            self._hello_s = now_s  # it has to hear that we have heard it
        return told

    def _establish(self, hello: LinkHello, now_s: float) -> list[PeerStarted]:
        told = []
        if hello.incarnation != self.peer:
            dropped = 0
            if self.peer:
                self._past.append(self.peer)
                dropped = self._send.restart() + self._cutter.restart()
            self._receive.restart()
            self._assembly.restart()
            self.peer = hello.incarnation
            told.append(PeerStarted(self.peer, dropped, hello.greeting))
        self._send.resume(hello.next, now_s)
        self.established = True
        self._hello_s = float("inf")
        return told

    def _is_current(self, epoch: int) -> bool:
        if self.peer and epoch == epoch_of(self.peer, self.incarnation):
            return True
        self.refused += 1
        return False


def _lane(urgent: bool) -> Lane:
    return Lane.URGENT if urgent else Lane.ORDINARY
