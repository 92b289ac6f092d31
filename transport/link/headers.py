"""Headers: the first bytes of each frame of a link. Big-endian, fixed sizes.

    HELLO    version, kind, established 1, incarnation 8, attempt 8, peer 8, peer attempt 8, next 8, greeting
    DATA     version, kind, epoch 8, sequence 8, ack 8, payload      the kinds of DATA, PART and ACK have the bit ASKS
    ACK      version, kind, epoch 8, ack 8                           set if the sender asks for an acknowledgement
    REFUSED  version, kind, incarnation 8, attempt 8
    PULSE    version, kind, process 8, name, [0, note]   instead of a HELLO, on a connection of its own
    PART     version, kind, epoch 8, sequence 8, ack 8, lane 1, total 4, offset 4, a part of a payload

1. Reading allocates no more than the frame. A frame that is not exactly one of the six, of this version, is a
   ProtocolError. Version, kind and greeting of a HELLO are at the same place in every version, so that an error can
   name the peer.
2. HELLO comes first, and may come from an unauthenticated peer: it has at most MAX_HELLO_BYTES.
3. An epoch is made of both incarnations, and differs for the two directions. If one incarnation stays and the other
   changes, the epoch always changes: 3 is odd, so the multiplication loses nothing.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Final

from ..errors import ProtocolError
from .parts import Lane, PayloadPart

VERSION: Final = 4
"""The version of the protocol between two links."""

MAX_HELLO_BYTES: Final = 4096

MAX_PULSE_BYTES: Final = 2 * MAX_HELLO_BYTES
"""With its note; without it, it may take the place of a HELLO, and has the size of one at most."""

_HELLO: Final = struct.Struct("!BBBQQQQQ")
DATA: Final = struct.Struct("!BBQQQ")
_ACK: Final = struct.Struct("!BBQQ")
_REFUSED: Final = struct.Struct("!BBQQ")
_PULSE: Final = struct.Struct("!BBQ")
_PART: Final = struct.Struct("!BBQQQBII")
_KIND_HELLO, KIND_DATA, _KIND_ACK, _KIND_REFUSED, _KIND_PULSE, _KIND_PART = range(1, 7)

ASKS: Final = 0x80
"""This bit of the kind: the receiver should acknowledge at once, with an ACK if it has no payload to send."""

DATA_BEGINS: Final = (bytes((VERSION, KIND_DATA)), bytes((VERSION, KIND_DATA | ASKS)))
"""The first bytes of a DATA. Nearly all frames are of this kind: the sequence needs no object for them."""

_MAY_ASK: Final = (KIND_DATA, _KIND_ACK, _KIND_PART)


@dataclass(frozen=True, slots=True)
class LinkHello:
    """The sender's incarnation, the peer's as received on this connection (0: none), and the next expected frame."""

    incarnation: int
    attempt: int
    peer: int = 0
    peer_attempt: int = 0
    next: int = 0
    established: bool = False
    greeting: bytes = b""

    def encode(self) -> bytes:
        fields = (self.incarnation, self.attempt, self.peer, self.peer_attempt, self.next)
        return _HELLO.pack(VERSION, _KIND_HELLO, self.established, *fields) + self.greeting


@dataclass(frozen=True, slots=True)
class LinkData:
    """One numbered payload, or a part of one. `ack`: all frames of the peer below it have arrived."""

    epoch: int
    sequence: int
    ack: int
    payload: bytes | PayloadPart
    asks: bool = False

    def encode(self) -> bytes:
        payload, numbers, bit = self.payload, (self.epoch, self.sequence, self.ack), ASKS if self.asks else 0
        if isinstance(payload, PayloadPart):
            place = payload.lane, payload.total, payload.offset
            return _PART.pack(VERSION, _KIND_PART | bit, *numbers, *place) + payload.body
        return DATA.pack(VERSION, KIND_DATA | bit, *numbers) + payload


@dataclass(frozen=True, slots=True)
class LinkAck:
    """`ack`: all frames of the peer below it have arrived. Also sent as a sign of life."""

    epoch: int
    ack: int
    asks: bool = False

    def encode(self) -> bytes:
        return _ACK.pack(VERSION, _KIND_ACK | (ASKS if self.asks else 0), self.epoch, self.ack)


@dataclass(frozen=True, slots=True)
class LinkRefused:
    """A later incarnation has replaced this one; `attempt`: the connection on which it was refused."""

    incarnation: int
    attempt: int

    def encode(self) -> bytes:
        return _REFUSED.pack(VERSION, _KIND_REFUSED, self.incarnation, self.attempt)


@dataclass(frozen=True, slots=True)
class LinkPulse:
    """The process with this number and name is alive, though its event loop is blocked: a thread sends this.

    `note`: what the thread has to say of that; empty: nothing.
    """

    process: int
    name: str
    note: bytes = b""

    def encode(self) -> bytes:
        note = b"\0" + self.note if self.note else b""
        return _PULSE.pack(VERSION, _KIND_PULSE, self.process) + self.name.encode() + note


LinkFrame = LinkHello | LinkData | LinkAck | LinkRefused | LinkPulse


def decode(frame: bytes) -> LinkFrame:
    """The frame as an object. ProtocolError if it is malformed."""
    kind = _kind(frame)
    asks = bool(kind & ASKS)
    try:
        match kind & ~ASKS if kind & ~ASKS in _MAY_ASK else kind:
            case 2:
                _, _, epoch, sequence, ack = DATA.unpack_from(frame)
                return LinkData(epoch, sequence, ack, frame[DATA.size :], asks)
            case 6:
                _, _, epoch, sequence, ack, lane, total, offset = _PART.unpack_from(frame)
                part = PayloadPart(_lane(lane), total, offset, frame[_PART.size :])
                return LinkData(epoch, sequence, ack, part, asks)
            case 3:
                _, _, epoch, ack = _ACK.unpack(frame)
                return LinkAck(epoch, ack, asks)
            case 1:
                return _hello(frame)
            case 4:
                _, _, incarnation, attempt = _REFUSED.unpack(frame)
                return LinkRefused(incarnation, attempt)
            case 5:
                return _pulse(frame)
            case _:
                raise ProtocolError(
                    f"a frame of {len(frame)} bytes that begins with {frame[:2]!r} is no frame of a link"
                )
    except struct.error as error:
        raise ProtocolError(f"a frame of {len(frame)} bytes and kind {frame[1]} is too short or too long") from error


def epoch_of(sender: int, receiver: int) -> int:
    """The epoch of frames from this incarnation to that one."""
    return (3 * sender + receiver) % 2**64


def _kind(frame: bytes) -> int:
    if len(frame) < 2:
        return 0
    if frame[0] != VERSION:
        raise ProtocolError(
            f"{_name_in(frame)} speaks protocol {frame[0]}, this process speaks {VERSION}: install the same release of "
            "aiostorm on both sides"
        )
    return frame[1]


def _name_in(frame: bytes) -> str:
    """The name in a HELLO of another version, if it has one."""
    name = frame[_HELLO.size : _HELLO.size + 128] if frame[1] == _KIND_HELLO else b""
    return name.decode("ascii", "backslashreplace") or "the peer"


def _lane(number: int) -> Lane:
    try:
        return Lane(number)
    except ValueError as error:
        raise ProtocolError(f"a part of lane {number}: there are {len(Lane)}") from error


def _hello(frame: bytes) -> LinkHello:
    if len(frame) < _HELLO.size:
        raise ProtocolError(f"a HELLO of {len(frame)} bytes is cut short")
    if len(frame) > MAX_HELLO_BYTES:
        raise ProtocolError(f"a HELLO of {len(frame)} bytes: at most {MAX_HELLO_BYTES}")
    _, _, established, *fields = _HELLO.unpack_from(frame)
    incarnation, attempt, peer, peer_attempt, expected = fields
    if established > 1 or not incarnation or not attempt:
        raise ProtocolError("a HELLO without an incarnation or an attempt")
    return LinkHello(incarnation, attempt, peer, peer_attempt, expected, bool(established), frame[_HELLO.size :])


def _pulse(frame: bytes) -> LinkPulse:
    if not _PULSE.size < len(frame) <= MAX_PULSE_BYTES:
        raise ProtocolError(f"a PULSE of {len(frame)} bytes")
    name, marked, note = frame[_PULSE.size :].partition(b"\0")
    if not 0 < len(name) <= MAX_HELLO_BYTES - _PULSE.size or (marked and not note):
        raise ProtocolError(f"a PULSE with a name of {len(name)} bytes, and a note of {len(note)}")
    return LinkPulse(_PULSE.unpack_from(frame)[2], name.decode("ascii", "backslashreplace"), note)
