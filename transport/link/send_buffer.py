"""SendBuffer: numbered frames, kept until the peer has acknowledged them. Pure; seconds.

      add ─► [ sent, not acknowledged ……… │ not sent ]        a new connection: the cursor goes back to the first frame
         base ─┘                    cursor ─┘                 that the peer has not received, so the rest is replayed

1. A frame stays here until it is acknowledged, so the limits of frames and bytes bound what is in flight. An empty
   buffer takes a frame of any size. On a slow line the limit is two frames of the size that line_rate.py allows:
   otherwise urgent payloads would wait too long.
2. The sender decides when the peer must acknowledge, for only the sender knows its limits: after a quarter of its
   frames or bytes, or half a frame of the line's size, the next frame asks for an acknowledgement. So at least one
   answer is on its way before the buffer is full, and a flow in one direction does not stop. All other acknowledgements
   go with payloads and heartbeats.
3. If something waits for capacity and no answer is on its way, `ask_due` is set: an ACK then asks.
4. The line is measured between two answers, if the second question was sent before the first answer came: the line was
   busy for the whole time then.

From: TCP's cumulative acknowledgements (RFC 9293), without its timers: one connection loses nothing. Questions: stream
management of XMPP (XEP-0198); QUIC's ACK frequency.
"""

from __future__ import annotations

from collections import deque

from ..errors import ProtocolError
from .line_rate import LineRate
from .parts import PayloadPart


class SendBuffer:
    """Frames that are not acknowledged. `limits`: frames, bytes."""

    __slots__ = (
        "_asked",
        "_covered",
        "_measured",
        "_sent_bytes",
        "ask_due",
        "base",
        "cursor",
        "frames",
        "limit_bytes",
        "limits",
        "line",
        "size_bytes",
    )

    def __init__(self, max_frames: int, max_bytes: int) -> None:
        self.frames: deque[bytes | PayloadPart] = deque()
        self.base = 0
        """The number of the first of them."""
        self.cursor = 0
        """How many of them were sent on this connection."""
        self.size_bytes = 0
        self.line = LineRate()
        self.ask_due = False
        """Should an acknowledgement be requested, by an ACK if there is no payload to send?"""
        self.limits = max_frames, max_bytes
        self.limit_bytes = 0
        """How many bytes may be in flight."""
        self._asked: deque[tuple[int, int]] = deque()  # (frames, bytes) sent before each request without an answer
        self._measured: tuple[float, int] | None = None  # the last answer: its time, and the bytes that it answered
        self._sent_bytes = 0  # on this connection
        self._covered = (0, 0)  # (frames, bytes) that the last request or acknowledgement covers
        self._set_limit()

    @property
    def payloads(self) -> int:
        """How many payloads end in one of the frames."""
        return sum(1 for payload in self.frames if type(payload) is not PayloadPart or payload.is_last)

    def has_capacity(self, size_bytes: int) -> bool:
        """Is there capacity for a frame of that size?"""
        frames = self.frames
        return not frames or (len(frames) < self.limits[0] and self.size_bytes + size_bytes <= self.limit_bytes)

    @property
    def takes_more(self) -> bool:
        """Is there capacity for a payload of the usual size, so that it is worth asking for one? (Or is it empty?)"""
        limit = self.limit_bytes
        size = min(self.line.frame_bytes, limit // 2)
        return len(self.frames) < self.limits[0] and self.size_bytes + size <= limit

    def add(self, payload: bytes | PayloadPart) -> None:
        """Take a frame."""
        self.frames.append(payload)
        self.size_bytes += len(payload)

    def ask_if_none(self) -> None:
        """Something waits for capacity: request an acknowledgement, unless an answer is on its way."""
        if self.frames and not self._asked:
            self.ask_due = True

    def next(self) -> tuple[int, bytes | PayloadPart, bool]:
        """The next frame that was not sent: its number, its payload, and whether it asks. It counts as sent."""
        payload = self.frames[self.cursor]
        self.cursor += 1
        self._sent_bytes += len(payload)
        sent = self.base + self.cursor
        covered, covered_bytes = self._covered
        max_frames, max_bytes = self.limits
        asks = (
            self.ask_due
            or 4 * (sent - covered) >= max_frames
            or self._sent_bytes - covered_bytes >= min(max_bytes // 4, self.line.frame_bytes // 2)
        )
        if asks:
            self.ask()
        return sent - 1, payload, asks

    def ask(self) -> None:
        """An acknowledgement of all sent frames is requested."""
        self._covered = (self.base + self.cursor, self._sent_bytes)
        self._asked.append(self._covered)
        self.ask_due = False

    def acked(self, ack: int, now_s: float) -> bool:
        """The peer has all frames below `ack`. Is that news? ProtocolError if it cannot be true."""
        count = ack - self.base
        if not count:
            return False
        if not 0 <= count <= self.cursor:
            raise ProtocolError(
                f"the peer acknowledges {ack} frames: {self.base} were acknowledged before, and "
                f"{self.base + self.cursor} were sent"
            )
        for _ in range(count):
            self.size_bytes -= len(self.frames.popleft())
        self.base = ack
        self.cursor -= count
        answered = None
        asked = self._asked
        while asked and asked[0][0] <= ack:
            _, answered = asked.popleft()
        if answered is not None:
            if self._measured is not None:
                before = self.line.frame_bytes
                self.line.acked(answered - self._measured[1], now_s - self._measured[0])
                if self.line.frame_bytes != before:
                    self._set_limit()
            self._measured = (now_s, answered) if asked else None
        if not asked:
            self._covered = (ack, self._sent_bytes - self.size_bytes)
        return True

    def resume(self, expected: int) -> None:
        """A new connection to the same incarnation, which expects frame `expected` next: replay from there."""
        count = expected - self.base
        if not 0 <= count <= len(self.frames):
            raise ProtocolError(
                f"the peer wants to continue with frame {expected}: there are {self.base} to "
                f"{self.base + len(self.frames)} here"
            )
        for _ in range(count):
            self.size_bytes -= len(self.frames.popleft())
        self.base = expected
        self._connected()

    def restart(self) -> int:
        """The peer is a new incarnation: drop all frames. Returns how many payloads were dropped."""
        dropped = self.payloads
        self.frames.clear()
        self.size_bytes = self.base = 0
        self._connected()
        return dropped

    def _connected(self) -> None:
        self.cursor = self._sent_bytes = 0
        self._covered = (self.base, 0)
        self.ask_due = False
        self._asked.clear()
        self._measured = None
        self.line.restarted()
        self._set_limit()

    def _set_limit(self) -> None:
        in_flight, max_bytes = self.line.in_flight_bytes, self.limits[1]
        self.limit_bytes = max_bytes if in_flight is None else min(max_bytes, in_flight)
