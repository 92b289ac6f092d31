"""Notes: messages between actors of two processes, one after another in the body of a payload of kind ACTOR.

    note     op 1, number 8, size 4 (big-endian), then `size` bytes

| op | | number | bytes | from |
|---|---|---|---|---|
| 1 | OPEN | channel | `n` and a name, or `a` and the 8 bytes of an actor's number | sender |
| 2 | TELL | channel | the message, a value | sender |
| 3 | ASK | channel | number of the question 8, the message | sender |
| 4 | REPLY | question | the answer, a value | receiver |
| 5 | FAILED | question | the reason why there is no answer (see below) | receiver |
| 6 | TAKEN | channel | messages 4, bytes 4: so much is in the mailbox now, and not on its way any more | receiver |
| 7 | ENDED | channel | the reason why the channel has ended | receiver |

A reason is: code 1, name of the error's type (UTF-8), a zero byte, its text (UTF-8).

1. A channel leads from one process to one actor of another; a question is asked over a channel. The sender numbers
   both, and never uses a number again, so a late answer cannot be mistaken.
2. Malformed notes are a ProtocolError. A value that cannot be read is an error of its receiver only: the following
   notes are handled.
"""

from __future__ import annotations

import enum
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from ..codec.payloads import PAYLOAD_HEADER_BYTES
from ..errors import ProtocolError
from ..link.sequence import MAX_PAYLOAD_BYTES

_HEADER: Final = struct.Struct("!BQI")
_ASK: Final = struct.Struct("!BQIQ")
_NUMBER: Final = struct.Struct("!Q")
_TAKEN: Final = struct.Struct("!BQIII")
_AMOUNTS: Final = struct.Struct("!II")

MAX_MESSAGE_BYTES: Final = MAX_PAYLOAD_BYTES - PAYLOAD_HEADER_BYTES - _ASK.size
"""The largest message from actor to actor, packed."""

MAX_REASON_BYTES: Final = 8192
MAX_NAME_BYTES: Final = 256

OPEN, TELL, ASK, REPLY, FAILED, TAKEN, ENDED = range(1, 8)


class ReasonCode(enum.IntEnum):
    """Why there is no answer, or why a channel has ended."""

    IN_ORDER = 0
    """The actor has ended in order."""
    RAISED = 1
    """The actor raised: on this question, or at its end."""
    CLOSED = 2
    """The actor ended before it handled the question."""
    UNKNOWN = 3
    """There is no such actor, or it is not offered to this peer."""
    UNREADABLE = 4
    """The message cannot be read: an unregistered class, or bytes that are no value."""
    UNSENDABLE = 5
    """The answer cannot be sent."""


@dataclass(frozen=True, slots=True)
class Reason:
    """A code, with the type and text of the error, if there is one."""

    code: ReasonCode
    kind: str = ""
    text: str = ""

    @classmethod
    def of(cls, code: ReasonCode, error: BaseException | None) -> Reason:
        """The reason for an error."""
        return cls(code) if error is None else cls(code, type(error).__qualname__, str(error))


def note(op: int, number: int, body: bytes = b"") -> bytes:
    """One note."""
    return _HEADER.pack(op, number, len(body)) + body


def ask_note(channel: int, question: int, message: bytes) -> bytes:
    """One ASK."""
    return _ASK.pack(ASK, channel, 8 + len(message), question) + message


def taken_note(channel: int, messages: int, size_bytes: int) -> bytes:
    """One TAKEN."""
    return _TAKEN.pack(TAKEN, channel, 8, messages, size_bytes)


def notes_in(body: memoryview) -> Iterator[tuple[int, int, memoryview]]:
    """Op, number and bytes of each note. ProtocolError if one is malformed or incomplete."""
    at, end, header, unpack = 0, len(body), _HEADER.size, _HEADER.unpack_from
    while at < end:
        if end - at < header:
            raise ProtocolError(f"a note between actors is cut short: {end - at} bytes of a header of {header}")
        op, number, size = unpack(body, at)
        at += header
        if not OPEN <= op <= ENDED or size > end - at:
            raise ProtocolError(f"a note between actors of kind {op} with {size} bytes, where {end - at} are left")
        yield op, number, body[at : at + size]
        at += size


def question_of(body: memoryview) -> tuple[int, memoryview]:
    """The question's number and the message of an ASK."""
    if len(body) < 8:
        raise ProtocolError(f"a question of {len(body)} bytes has no number")
    return _NUMBER.unpack_from(body)[0], body[8:]


def amounts_of(body: memoryview) -> tuple[int, int]:
    """Messages and bytes of a TAKEN."""
    if len(body) != _AMOUNTS.size:
        raise ProtocolError(f"a TAKEN of {len(body)} bytes: it has {_AMOUNTS.size}")
    messages, size_bytes = _AMOUNTS.unpack(body)
    return messages, size_bytes


def pack_key(key: str | int) -> bytes:
    """Encode a name or an actor's number, for an OPEN."""
    return b"n" + key.encode() if isinstance(key, str) else b"a" + _NUMBER.pack(key)


def key_of(body: memoryview) -> str | int:
    """Decode what `pack_key` encoded. ProtocolError."""
    kind, rest = bytes(body[:1]), bytes(body[1 : MAX_NAME_BYTES + 2])
    try:
        if kind == b"n" and 0 < len(rest) <= MAX_NAME_BYTES:
            return rest.decode()
        if kind == b"a":
            return int(_NUMBER.unpack(rest)[0])
    except (UnicodeDecodeError, struct.error) as error:
        raise ProtocolError(f"neither the name nor the number of an actor: {error}") from error
    raise ProtocolError(f"neither the name nor the number of an actor: {len(body)} bytes")


def pack_reason(reason: Reason) -> bytes:
    """Encode a reason, for FAILED and ENDED. Long texts are cut."""
    kind = reason.kind.replace("\0", "?").encode("utf-8", "replace")[: MAX_REASON_BYTES // 4]
    text = reason.text.encode("utf-8", "replace")[: MAX_REASON_BYTES // 2]
    return b"%c%b\0%b" % (reason.code, kind, text)


def reason_of(body: memoryview) -> Reason:
    """Decode what `pack_reason` encoded. ProtocolError."""
    if not 0 < len(body) <= MAX_REASON_BYTES:
        raise ProtocolError(f"a reason of {len(body)} bytes: it has 1 to {MAX_REASON_BYTES}")
    kind, _, text = bytes(body[1:]).partition(b"\0")
    try:
        code = ReasonCode(body[0])
    except ValueError as error:
        raise ProtocolError(f"a reason of kind {body[0]}: this version knows 0 to {max(ReasonCode)}") from error
    return Reason(code, kind.decode("utf-8", "replace"), text.decode("utf-8", "replace"))
