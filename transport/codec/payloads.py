"""Payloads: what a link carries, by kind.

    payload    kind 1, target 4 (big-endian), body

| kind | target | body |
|---|---|---|
| SEGMENTS | the task that they are for | segments of tuples (exchange/segments.py) |
| CREDIT | 0 | how much each task of the sender's takes (exchange/credit.py) |
| TASK | 0 | messages for the control lanes of tasks |
| ACTOR | 0 | messages between actors |
| BUNDLE | 0 | several payloads of the other kinds, in their order: an array of them |

1. The header is fixed, the body is msgpack. A kind that is not known is a ProtocolError: versions are agreed on before.
2. A bundle is what was ready to go at one moment: a frame costs about as much as packing a hundred words. It holds no
   bundle.
"""

from __future__ import annotations

import enum
import struct
from collections.abc import Iterator, Sequence
from typing import Final

from ..errors import ProtocolError
from .values import pack_value, unpack_value

_HEADER: Final = struct.Struct("!BI")

PAYLOAD_HEADER_BYTES: Final = _HEADER.size


class PayloadKind(enum.IntEnum):
    """What a payload is about."""

    SEGMENTS = 1
    CREDIT = 2
    TASK = 3
    ACTOR = 4
    BUNDLE = 5


_KINDS: Final = {int(kind): kind for kind in PayloadKind}


def pack_payload(kind: PayloadKind, target: int, body: bytes) -> bytes:
    """A payload. `target`: a task id, 0 for none."""
    return _HEADER.pack(kind, target) + body


def unpack_payload(payload: bytes) -> tuple[PayloadKind, int, memoryview]:
    """Kind, target and body; nothing is copied. ProtocolError if it is none."""
    if len(payload) < PAYLOAD_HEADER_BYTES:
        raise ProtocolError(f"a payload of {len(payload)} bytes is cut short")
    number, target = _HEADER.unpack_from(payload)
    kind = _KINDS.get(number)
    if kind is None:
        raise ProtocolError(f"a payload of kind {number}: this version knows {', '.join(map(str, _KINDS))}")
    return kind, target, memoryview(payload)[PAYLOAD_HEADER_BYTES:]


def pack_bundle(payloads: Sequence[bytes]) -> bytes:
    """Several payloads as one; one alone as it is."""
    if len(payloads) == 1:
        return payloads[0]
    return pack_payload(PayloadKind.BUNDLE, 0, pack_value(tuple(payloads)))


def unpack_all(payload: bytes) -> Iterator[tuple[PayloadKind, int, memoryview]]:
    """The payload; or each of a bundle. ProtocolError, at the first that is none."""
    kind, target, body = unpack_payload(payload)
    if kind is not PayloadKind.BUNDLE:
        yield kind, target, body
        return
    parts = unpack_value(body)
    if type(parts) is not tuple or not all(type(part) is bytes for part in parts):
        raise ProtocolError("a bundle is an array of payloads")
    for part in parts:
        kind, target, body = unpack_payload(part)
        if kind is PayloadKind.BUNDLE:
            raise ProtocolError("a bundle in a bundle")
        yield kind, target, body
