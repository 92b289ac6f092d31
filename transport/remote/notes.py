"""Notes: what actors of two processes say to one another: one after another in the body of a payload of kind ACTOR.

    note     op 1, number 8, size 4 (big-endian), then `size` bytes

| op | | number | bytes | from |
|---|---|---|---|---|
| 1 | OPEN | channel | `n` and a name, or `a` and the 8 bytes of an actor's number | who sends |
| 2 | TELL | channel | the message, a value | who sends |
| 3 | ASK | channel | number of the question 8, the message | who sends |
| 4 | REPLY | question | the answer, a value | who receives |
| 5 | FAILED | question | why there is no answer (see below) | who receives |
| 6 | TAKEN | channel | messages 4, bytes 4: so many are in the mailbox now, and no more on their way | who receives |
| 7 | ENDED | channel | why it leads nowhere (any more) | who receives |

A reason is: code 1, name of the error's type (UTF-8), a zero byte, its text (UTF-8).

1. A channel leads from one process to one actor of another, a question is asked over one. Their numbers are the
   sender's, and never come again, in no life of it: a late answer is for nobody.
2. Bytes that are no notes are a ProtocolError. A value that cannot be read is the affair of who gets it: it does not
   spoil the notes behind it.
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
    """ReasonCode there is no answer, or why a channel leads nowhere."""

    IN_ORDER = 0
    """The actor has ended, as it was asked to."""
    RAISED = 1
    """It raised: on this question, or for good."""
    CLOSED = 2
    """It ended before it got to the question."""
    UNKNOWN = 3
    """There is no such actor, or it is not for others."""
    UNREADABLE = 4
    """The message says nothing here: a class that is not registered, bytes that are no value."""
    UNSENDABLE = 5
    """There is an answer, but it cannot be sent."""


@dataclass(frozen=True, slots=True)
class Reason:
    """ReasonCode, with the error's type and text, as far as there is one."""

    why: ReasonCode
    kind: str = ""
    text: str = ""

    @classmethod
    def of(cls, why: ReasonCode, error: BaseException | None) -> Reason:
        """The reason that an error gives."""
        return cls(why) if error is None else cls(why, type(error).__qualname__, str(error))


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
    """Op, number and bytes of each note. ProtocolError where they end in the middle of one, or are none."""
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
    """Of an ASK: the question's number, and the message."""
    if len(body) < 8:
        raise ProtocolError(f"a question of {len(body)} bytes has no number")
    return _NUMBER.unpack_from(body)[0], body[8:]


def amounts_of(body: memoryview) -> tuple[int, int]:
    """Of a TAKEN: messages and bytes."""
    if len(body) != _AMOUNTS.size:
        raise ProtocolError(f"what was taken is said in {_AMOUNTS.size} bytes, not in {len(body)}")
    messages, size_bytes = _AMOUNTS.unpack(body)
    return messages, size_bytes


def pack_key(key: str | int) -> bytes:
    """Of an OPEN: a name, or an actor's number."""
    return b"n" + key.encode() if isinstance(key, str) else b"a" + _NUMBER.pack(key)


def key_of(body: memoryview) -> str | int:
    """What `pack_key` was given. ProtocolError."""
    kind, rest = bytes(body[:1]), bytes(body[1 : MAX_NAME_BYTES + 2])
    try:
        if kind == b"n" and 0 < len(rest) <= MAX_NAME_BYTES:
            return rest.decode()
        if kind == b"a":
            return int(_NUMBER.unpack(rest)[0])
    except (UnicodeDecodeError, struct.error) as error:
        raise ProtocolError(f"no name of an actor, and no number: {error}") from error
    raise ProtocolError(f"no name of an actor, and no number: {len(body)} bytes")


def pack_reason(reason: Reason) -> bytes:
    """For FAILED and ENDED. What is too long is cut."""
    kind = reason.kind.replace("\0", "?").encode("utf-8", "replace")[: MAX_REASON_BYTES // 4]
    text = reason.text.encode("utf-8", "replace")[: MAX_REASON_BYTES // 2]
    return b"%c%b\0%b" % (reason.why, kind, text)


def reason_of(body: memoryview) -> Reason:
    """What `pack_reason` was given. ProtocolError."""
    if not 0 < len(body) <= MAX_REASON_BYTES:
        raise ProtocolError(f"a reason of {len(body)} bytes: it has 1 to {MAX_REASON_BYTES}")
    kind, _, text = bytes(body[1:]).partition(b"\0")
    try:
        why = ReasonCode(body[0])
    except ValueError as error:
        raise ProtocolError(f"a reason of kind {body[0]}: this version knows 0 to {max(ReasonCode)}") from error
    return Reason(why, kind.decode("utf-8", "replace"), text.decode("utf-8", "replace"))
