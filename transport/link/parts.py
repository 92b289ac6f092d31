"""Parts: a payload that is too large for one frame is split here and assembled by the receiver. Pure.

    begin(payload) ─► PayloadSplitter ─► next_part(size) ─► numbered frames ─► PartAssembler ─► the payload, complete

1. The parts of a payload go in order, each once: the link numbers them as it numbers whole payloads (see sequence). The
   size of a part is decided when it is split off, by the speed of the line at that time (see line_rate).
2. There are two lanes, URGENT and ORDINARY, each with one split payload at a time. Parts of the urgent lane go first.
   Whole payloads that may overtake go between two parts.
3. A part names its lane, the size of the payload, and its offset. A part that does not continue its lane exactly, or a
   payload that is too large, is a ProtocolError before anything of it is kept.
4. So a peer makes its receiver keep at most two incomplete payloads, and no more memory is used than has arrived.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import Final

from ..errors import ProtocolError


class Lane(enum.IntEnum):
    """Urgent payloads overtake ordinary ones. Within a lane the order is kept."""

    URGENT = 0
    ORDINARY = 1


_LANES: Final = tuple(Lane)


@dataclass(frozen=True, slots=True)
class PayloadPart:
    """Some bytes (`body`) of a payload of `total` bytes, from `offset` on."""

    lane: Lane
    total: int
    offset: int
    body: bytes | memoryview

    @property
    def is_last(self) -> bool:
        """Does this part complete the payload?"""
        return self.offset + len(self.body) == self.total

    def __len__(self) -> int:
        return len(self.body)


class PayloadSplitter:
    """The sender's payloads that are partly sent. Parts share the bytes of their payload."""

    __slots__ = ("open", "size_bytes")

    def __init__(self) -> None:
        self.size_bytes = 0
        """How many bytes are not split off yet."""
        self.open: dict[Lane, tuple[memoryview, int]] = {}
        """The payloads that are not completely split, and where the next part of each begins."""

    def may_begin(self, lane: Lane) -> bool:
        """May another payload of that lane be sent now, whole or split, without overtaking one that it must not?"""
        return lane not in self.open and Lane.URGENT not in self.open

    def begin(self, lane: Lane, payload: bytes) -> None:
        """Split this payload from now on."""
        self.open[lane] = memoryview(payload), 0
        self.size_bytes += len(payload)

    def next_size(self, at_most: int) -> int:
        """The size of the part that `next_part` would return; 0 if there is none."""
        for lane in _LANES:
            if lane in self.open:
                payload, offset = self.open[lane]
                return min(at_most, len(payload) - offset)
        return 0

    def next_part(self, at_most: int) -> PayloadPart | None:
        """The next part, of at most `at_most` bytes (1 or more); None if there is none."""
        for lane in _LANES:
            if lane in self.open:
                payload, offset = self.open[lane]
                part = PayloadPart(lane, len(payload), offset, payload[offset : offset + at_most])
                self.size_bytes -= len(part)
                if part.is_last:
                    del self.open[lane]
                else:
                    self.open[lane] = payload, offset + len(part)
                return part
        return None

    def restart(self) -> int:
        """The receiver is a new incarnation. Returns how many partly sent payloads are dropped."""
        dropped = len(self.open)
        self.open.clear()
        self.size_bytes = 0
        return dropped


class PartAssembler:
    """The receiver's incomplete payload of each lane. `max_bytes`: the largest payload that is accepted."""

    __slots__ = ("_max_bytes", "_open")

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._open: dict[Lane, tuple[bytearray, int]] = {}

    @property
    def held_bytes(self) -> int:
        """How many bytes of incomplete payloads have arrived."""
        return sum(len(received) for received, _ in self._open.values())

    def add(self, part: PayloadPart) -> bytes | None:
        """Add the next part of its lane. Returns the payload once it is complete. ProtocolError for another part."""
        received, total = self._open.get(part.lane) or (bytearray(), part.total)
        if part.total > self._max_bytes:
            raise ProtocolError(f"a payload of {part.total:,} bytes in parts: at most {self._max_bytes:,}")
        if (part.total, part.offset) != (total, len(received)) or not 0 < len(part) <= total - len(received):
            raise ProtocolError(
                f"{len(part)} bytes at {part.offset} of {part.total} are not the next part: that begins at "
                f"{len(received)} of {total}"
            )
        received += part.body
        if len(received) < total:
            self._open[part.lane] = received, total
            return None
        self._open.pop(part.lane, None)
        return bytes(received)

    def restart(self) -> None:
        """The sender is a new incarnation: drop the incomplete payloads."""
        self._open.clear()
