"""LineRate: how much a line carries in a second, measured by acks, and how large a frame may be for it. Pure.

    acked(size, busy_s) ─► samples ─► frame_bytes: what the line carries in FRAME_S

1. Only a busy line is measured: the time between two answers, if the second question was on its way when the first
   answer came (see send_buffer). Otherwise the round trip, or the silence between two payloads, would make the line
   look slow.
2. A sample is half a frame acked, or one second. The frame size follows it, and at most doubles or halves with each. So
   a new connection of a fast line has the largest size after three samples, and one stall has little effect.
3. Frames above MOST_BYTES have no advantage. At that size the line is fast, and this class does not limit what is in
   flight. On a slower line the limit is two frames, or urgent payloads would wait longer than two seconds.
4. A line is slow when all samples of SLOW_AFTER_S seconds were slow.

From: TCP (slow start), BBR (the rate is what was acked while there was something to send).
"""

from __future__ import annotations

from typing import Final

FRAME_S: Final = 1.0
"""How long a frame may take."""

FIRST_BYTES: Final = 16 * 1024
LEAST_BYTES: Final = 2 * 1024
MOST_BYTES: Final = 128 * 1024

SLOW_BYTES_S: Final = 64 * 1024
SLOW_AFTER_S: Final = 3.0

_IN_FLIGHT: Final = 2


class LineRate:
    """For one direction of a link, over all its connections."""

    __slots__ = ("_busy_s", "_bytes", "_slow_s", "bytes_s", "frame_bytes")

    def __init__(self) -> None:
        self.frame_bytes = FIRST_BYTES
        """The largest frame that should be sent now."""
        self.bytes_s = 0.0
        """The last sample, in bytes a second; 0: none yet."""
        self._bytes = 0
        self._busy_s = 0.0
        self._slow_s = 0.0

    @property
    def is_slow(self) -> bool:
        """Has the line been slow for SLOW_AFTER_S?"""
        return self._slow_s >= SLOW_AFTER_S

    @property
    def in_flight_bytes(self) -> int | None:
        """How many bytes may be in flight; None: no limit here."""
        return None if self.frame_bytes >= MOST_BYTES else _IN_FLIGHT * self.frame_bytes

    def acked(self, size_bytes: int, busy_s: float) -> None:
        """The peer acknowledged `size_bytes` that the line has carried in `busy_s`; it was busy all that time."""
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
        """A new connection may use another route: begin with small frames again."""
        self.frame_bytes = min(self.frame_bytes, FIRST_BYTES)
        self._bytes, self._busy_s = 0, 0.0
