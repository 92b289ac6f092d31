"""Payloads: what a link carries, by kind.

    payload    kind 1, target 4 (big-endian), body

| kind | target | body |
|---|---|---|
| SEGMENTS | the receiving task | segments of tuples (exchange/segments.py) |
| CREDIT | 0 | how much each task of the sender accepts (exchange/credit.py) |
| TASK | 0 | messages for the control lanes of tasks |
| ACTOR | 0 | messages between actors |
| BUNDLE | 0 | several payloads of the other kinds, in their order: an array of them |

1. The header has a fixed size, the body is msgpack. An unknown kind is a ProtocolError: both sides have the same
   version.
2. A bundle contains the payloads that were ready at one moment, since a frame costs about as much as encoding a hundred
   words. It contains no other bundle.
"""

from __future__ import annotations

import enum
import struct
from collections.abc import Sequence
from typing import Final

from ..errors import ProtocolError
from .values import pack_value, unpack_value

_HEADER: Final = struct.Struct("!BI")

PAYLOAD_HEADER_BYTES: Final = _HEADER.size


class PayloadKind(enum.IntEnum):
    """The kind of a payload."""

    SEGMENTS = 1
    CREDIT = 2
    TASK = 3
    ACTOR = 4
    BUNDLE = 5


_KINDS: Final = {int(kind): kind for kind in PayloadKind}


def pack_payload(kind: PayloadKind, target: int, body: bytes) -> bytes:
    """Make a payload. `target`: a task id, 0 for none."""
    return _HEADER.pack(kind, target) + body


def unpack_payload(payload: bytes) -> tuple[PayloadKind, int, memoryview]:
    """Kind, target and body of a payload, without a copy. ProtocolError if it is malformed."""
    if len(payload) < PAYLOAD_HEADER_BYTES:
        raise ProtocolError(f"a payload of {len(payload)} bytes is cut short")
    number, target = _HEADER.unpack_from(payload)
    kind = _KINDS.get(number)
    if kind is None:
        raise ProtocolError(f"a payload of kind {number}: this version knows {', '.join(map(str, _KINDS))}")
    return kind, target, memoryview(payload)[PAYLOAD_HEADER_BYTES:]


def pack_bundle(payloads: Sequence[bytes]) -> bytes:
    """A bundle of several payloads; a single payload stays as it is."""
    if len(payloads) == 1:
        return payloads[0]
    return pack_payload(PayloadKind.BUNDLE, 0, pack_value(tuple(payloads)))


def unpack_all(payload: bytes) -> Sequence[tuple[PayloadKind, int, memoryview]]:
    """The payload, or each payload of a bundle. ProtocolError if one is malformed."""
    found = unpack_payload(payload)
    if found[0] is not PayloadKind.BUNDLE:
        return (found,)
    parts = unpack_value(found[2])
    if type(parts) is not tuple or not all(type(part) is bytes for part in parts):
        raise ProtocolError("a bundle is an array of payloads")
    bundle = [unpack_payload(part) for part in parts]
    if any(kind is PayloadKind.BUNDLE for kind, _, _ in bundle):
        raise ProtocolError("a bundle in a bundle")
    return bundle
