"""LineRate: how much a line carries in a second, of what the peer acks; and how large a frame may be for that. Pure.

    acked(size, busy_s, under_way) ─► samples ─► frame_bytes: what the line carries in FRAME_S

1. Only a line that has enough to do is measured: acks that come while at least half a frame is under way. Else it would
   be the round trip, or the silence between two payloads, that makes it look slow.
2. A sample is half a frame that was acked, or one second. The size follows it, and at most doubles or halves with each:
   so a new connection of a fast line is at the largest size after three of them, and a stall is not taken for a rule.
3. Above MOST_BYTES nothing is gained by larger frames. At that size the line is fast: what is under way is not limited
   here. On a slower one it is what two frames have, or all that is urgent would wait behind more than two seconds.
4. A line is slow when all samples of SLOW_AFTER_S seconds have said so.

From: TCP (slow start), BBR (a rate is what was acked in a time in which there was something to send).
"""

from __future__ import annotations

from typing import Final

FRAME_S: Final = 1.0
"""So long a frame may take."""

FIRST_BYTES: Final = 16 * 1024
LEAST_BYTES: Final = 2 * 1024
MOST_BYTES: Final = 128 * 1024

SLOW_BYTES_S: Final = 64 * 1024
SLOW_AFTER_S: Final = 3.0

_UNDER_WAY: Final = 2


class LineRate:
    """Of one direction of a link, over its connections."""

    __slots__ = ("_busy_s", "_bytes", "_slow_s", "bytes_s", "frame_bytes")

    def __init__(self) -> None:
        self.frame_bytes = FIRST_BYTES
        """The largest frame that should be sent now."""
        self.bytes_s = 0.0
        """Of the last sample; 0: nothing was measured."""
        self._bytes = 0
        self._busy_s = 0.0
        self._slow_s = 0.0

    @property
    def is_slow(self) -> bool:
        """Is it slow, and has it been for a while?"""
        return self._slow_s >= SLOW_AFTER_S

    @property
    def under_way_bytes(self) -> int | None:
        """How much may be under way; None: as much as the window has room for."""
        return None if self.frame_bytes >= MOST_BYTES else _UNDER_WAY * self.frame_bytes

    def acked(self, size_bytes: int, busy_s: float, under_way_bytes: int) -> None:
        """So much was acked, of so much under way, after so long in which the line had something to carry."""
        if 2 * under_way_bytes < self.frame_bytes:
            return
        self._bytes += size_bytes
        self._busy_s += max(busy_s, 0.0)
        if 2 * self._bytes < self.frame_bytes and self._busy_s < FRAME_S:
            return
        carried = float(MOST_BYTES) if self._busy_s <= 0 else self._bytes / self._busy_s
        self.bytes_s = carried
        self._slow_s = self._slow_s + self._busy_s if carried < SLOW_BYTES_S else 0.0
        wanted = min(max(carried * FRAME_S, self.frame_bytes / 2), self.frame_bytes * 2.0)
        self.frame_bytes = round(min(max(wanted, LEAST_BYTES), MOST_BYTES))
        self._bytes, self._busy_s = 0, 0.0

    def restarted(self) -> None:
        """A new connection may go another way: begin small again, and see."""
        self.frame_bytes = min(self.frame_bytes, FIRST_BYTES)
        self._bytes, self._busy_s = 0, 0.0
