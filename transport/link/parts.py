"""Parts: a payload that is too large for one frame is cut into parts here, and put together there. Pure.

    begin(payload) ─► PayloadSplitter ─► next_part(size) ─► numbered frames ─► PartAssembler ─► the payload, complete

1. The parts of a payload go in order, each once: the link numbers them, as it numbers whole payloads (see sequence).
   How large a part is, is decided when it is cut: as the line is then (see line_rate).
2. There are two lanes, URGENT and ORDINARY, each with one payload at a time. Parts of the urgent lane go first. What is
   not cut, and may overtake, goes between two parts.
3. A part says which lane it is of, how large the whole is, and where it belongs. What does not go on exactly where the
   lane is, or is larger than a payload may be, is a ProtocolError, before anything is kept of it.
4. So one peer makes its receiver keep at most two payloads that are not whole; no more is allocated than has come.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import Final

from ..errors import ProtocolError


class Lane(enum.IntEnum):
    """Urgent payloads overtake ordinary ones, and never one another; nor do ordinary ones."""

    URGENT = 0
    ORDINARY = 1


_LANES: Final = tuple(Lane)


@dataclass(frozen=True, slots=True)
class PayloadPart:
    """The bytes of a payload of `total` bytes from `offset` on. Its length is that of `body`."""

    lane: Lane
    total: int
    offset: int
    body: bytes | memoryview

    @property
    def is_last(self) -> bool:
        """Is the payload whole with it?"""
        return self.offset + len(self.body) == self.total

    def __len__(self) -> int:
        return len(self.body)


class PayloadSplitter:
    """At who sends: what is cut up and not all sent. A payload is shared with its parts, and not copied."""

    __slots__ = ("_begun", "size_bytes")

    def __init__(self) -> None:
        self.size_bytes = 0
        """How much is not cut off yet."""
        self._begun: dict[Lane, tuple[memoryview, int]] = {}

    def __len__(self) -> int:
        """How many payloads are not all cut up."""
        return len(self._begun)

    def may_begin(self, lane: Lane) -> bool:
        """May another payload of that lane go now, whole or cut up? Not if it would overtake what it must not."""
        return lane not in self._begun and Lane.URGENT not in self._begun

    def begin(self, lane: Lane, payload: bytes) -> None:
        """Cut this one up, from now on."""
        self._begun[lane] = memoryview(payload), 0
        self.size_bytes += len(payload)

    def next_size(self, at_most: int) -> int:
        """How large the part would be that `next_part` gives; 0 if there is none."""
        for lane in _LANES:
            if lane in self._begun:
                payload, offset = self._begun[lane]
                return min(at_most, len(payload) - offset)
        return 0

    def next_part(self, at_most: int) -> PayloadPart | None:
        """The next part, of at most so many bytes (1 or more); None if there is none."""
        for lane in _LANES:
            if lane in self._begun:
                payload, offset = self._begun[lane]
                part = PayloadPart(lane, len(payload), offset, payload[offset : offset + at_most])
                self.size_bytes -= len(part)
                if part.is_last:
                    del self._begun[lane]
                else:
                    self._begun[lane] = payload, offset + len(part)
                return part
        return None

    def restart(self) -> int:
        """The receiver is another one. How many payloads were begun, and are dropped."""
        dropped = len(self._begun)
        self._begun.clear()
        self.size_bytes = 0
        return dropped


class PartAssembler:
    """At who receives: of each lane the payload that is not whole. `max_bytes`: the largest that is taken."""

    __slots__ = ("_begun", "_max_bytes")

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._begun: dict[Lane, tuple[bytearray, int]] = {}

    @property
    def held_bytes(self) -> int:
        """How much has come of what is not whole."""
        return sum(len(come) for come, _ in self._begun.values())

    def take(self, part: PayloadPart) -> bytes | None:
        """The next part of its lane has come: the payload, if it is whole now. ProtocolError if it is not the next."""
        come, total = self._begun.get(part.lane) or (bytearray(), part.total)
        if part.total > self._max_bytes:
            raise ProtocolError(f"a payload of {part.total:,} bytes in parts: at most {self._max_bytes:,}")
        if (part.total, part.offset) != (total, len(come)) or not 0 < len(part) <= total - len(come):
            raise ProtocolError(
                f"{len(part)} bytes at {part.offset} of {part.total} are no next part: {len(come)} of {total} have come"
            )
        come += part.body
        if len(come) < total:
            self._begun[part.lane] = come, total
            return None
        self._begun.pop(part.lane, None)
        return bytes(come)

    def restart(self) -> None:
        """The sender is another one: what is not whole never will be."""
        self._begun.clear()
