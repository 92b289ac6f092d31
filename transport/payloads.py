"""Payloads: what a link carries, by kind.

    payload    kind 1, target 4 (big-endian), body

| kind | target | body |
|---|---|---|
| SEGMENTS | the task that they are for | segments of tuples (segments.py) |
| CREDIT | 0 | how much each task of the sender's takes (credit.py) |
| TASK | 0 | messages for the control lanes of tasks |
| ACTOR | 0 | messages between actors |

1. The header is fixed, the body is msgpack. A kind that is not known is a ProtocolError: versions are agreed on before.
"""

from __future__ import annotations

import enum
import struct
from typing import Final

from .errors import ProtocolError

_HEADER: Final = struct.Struct("!BI")

PAYLOAD_HEADER_BYTES: Final = _HEADER.size


class PayloadKind(enum.IntEnum):
    """What a payload is about."""

    SEGMENTS = 1
    CREDIT = 2
    TASK = 3
    ACTOR = 4


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
