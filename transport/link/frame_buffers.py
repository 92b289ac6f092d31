"""Frame buffers: numbered frames that are sent until they are acked, and delivered once, in order. Pure; seconds.

    offer ─► [ acked │ sent, not acked ……… │ not sent ]          accept ─► [ delivered │ early frames ]
               base ─┘     the cursor moves over them ─┘                          next ─┘

1. A frame stays in the send buffer until it is acked: the buffer's limits of frames and bytes bound what is under way.
   An empty buffer takes a frame of any size.
2. A frame that has been under way for the resend time is sent again, with all frames that were sent before that moment.
   The resend time follows the measured round trips (RFC 6298) and doubles at each resend. A frame that was sent twice
   gives no measurement, for the ack may belong to either; so the doubled time stays until a frame that was sent once is
   acked (Karn). Otherwise a buffer that drains slowly would fill with copies of the same frames.
3. Early frames are kept up to the limits of the reorder buffer; others are dropped, and the peer sends them again. The
   next expected frame is always accepted, so the peer's buffer may be larger than ours.
4. Nothing is delivered twice, early, or not at all.
5. A frame holds a whole payload or a part of one; here both are the same. Acks measure the line (see line_rate).

From: TCP (RFC 9293, RFC 6298), with frames for bytes.
"""

from __future__ import annotations

from collections import deque
from typing import Final

from ..errors import ProtocolError
from .line_rate import LineRate
from .parts import PayloadPart

_GAIN: Final = 1 / 8
_GAIN_VARIATION: Final = 1 / 4


class ResendTime:
    """How long to wait for an ack: from `min_s`, which it is at first, to `max_s`."""

    __slots__ = ("_doubled", "_max_s", "_min_s", "_smooth_s", "_variation_s", "value_s")

    def __init__(self, min_s: float, max_s: float) -> None:
        self._min_s = min_s
        self._max_s = max_s
        self._smooth_s: float | None = None
        self._variation_s = 0.0
        self._doubled = 1
        self.value_s = min_s
        """Seconds from sending to sending again. An attribute, for it is read much more often than it changes."""

    def measured(self, round_trip_s: float) -> None:
        """A frame that was sent once was acked after that time."""
        if self._smooth_s is None:
            self._smooth_s, self._variation_s = round_trip_s, round_trip_s / 2
        else:
            off_s = abs(self._smooth_s - round_trip_s)
            self._variation_s += _GAIN_VARIATION * (off_s - self._variation_s)
            self._smooth_s += _GAIN * (round_trip_s - self._smooth_s)
        self._doubled = 1
        self._changed()

    def restarted(self) -> None:
        """A new connection may be faster: forget the measurements."""
        self._smooth_s = None
        self._doubled = 1
        self._changed()

    def expired(self) -> None:
        """No ack arrived in time."""
        if self.value_s < self._max_s:
            self._doubled *= 2
            self._changed()

    def _changed(self) -> None:
        measured_s = 0.0 if self._smooth_s is None else self._smooth_s + 4 * self._variation_s
        self.value_s = min(self._max_s, max(self._min_s, measured_s) * self._doubled)


class _UnderWay:
    """A frame in the send buffer."""

    __slots__ = ("first_s", "has_left", "payload", "resent", "sent_s")

    def __init__(self, payload: bytes | PayloadPart) -> None:
        self.payload = payload
        self.sent_s: float | None = None  # None: to be sent at once
        self.first_s = 0.0  # when it was first sent on this connection
        self.has_left = False  # true once it is known to have left this process
        self.resent = False


class SendBuffer:
    """Frames that were offered and are not acked."""

    __slots__ = (
        "_acked_s",
        "_base",
        "_cursor",
        "_frames",
        "_max_bytes",
        "_max_frames",
        "_resend_at_s",
        "_resend_wait_s",
        "line",
        "resend",
        "size_bytes",
        "unfinished",
    )

    def __init__(self, max_frames: int, max_bytes: int, resend: ResendTime) -> None:
        self.resend = resend
        self.line = LineRate()
        self.size_bytes = 0
        self.unfinished = 0
        """How many of the frames are parts, without the last part of each payload."""
        self._max_frames = max_frames
        self._max_bytes = max_bytes
        self._frames: deque[_UnderWay] = deque()
        self._base = 0  # the sequence number of the first of them
        self._cursor = 0  # the next frame to check
        self._resend_at_s = float("-inf")  # when frames under way for that long were last overdue
        self._resend_wait_s = 0.0
        self._acked_s = float("-inf")  # on this connection

    def __len__(self) -> int:
        return len(self._frames)

    @property
    def all_sent(self) -> bool:
        """Has every frame been checked?"""
        return self._cursor >= len(self._frames)

    def has_room(self, size_bytes: int) -> bool:
        """Is there capacity for a frame of that size?"""
        if not self._frames:
            return True
        size_bytes += self.size_bytes
        if len(self._frames) >= self._max_frames or size_bytes > self._max_bytes:
            return False
        under_way = self.line.under_way_bytes
        return under_way is None or size_bytes <= under_way

    def offer(self, payload: bytes | PayloadPart) -> bool:
        """Take a frame; False if there is no capacity."""
        if not self.has_room(len(payload)):
            return False
        self._frames.append(_UnderWay(payload))
        self.size_bytes += len(payload)
        self.unfinished += type(payload) is PayloadPart and not payload.is_last
        return True

    def next(self, now_s: float, *, resend: bool = True) -> tuple[int, bytes | PayloadPart] | None:
        """The next frame to send now, with its number; None if there is none. It counts as sent.

        `resend` is False if the last frames have not left this process. If the overdue frame has not left it either,
        its time starts again.
        """
        if resend and self._frames:
            self._frames[0].has_left = True
        if self._expired(now_s):
            self._send_again(now_s)
        while self._cursor < len(self._frames):
            frame = self._frames[self._cursor]
            self._cursor += 1
            if frame.sent_s is None or frame.sent_s + self._resend_wait_s <= self._resend_at_s:
                if frame.sent_s is None:
                    frame.first_s = now_s
                else:
                    frame.resent = True
                frame.sent_s, frame.has_left = now_s, False
                return self._base + self._cursor - 1, frame.payload
        return None

    def acked(self, ack: int, now_s: float) -> None:
        """The peer has all frames below `ack`. ProtocolError if some of them were never sent."""
        if ack > self._base + len(self._frames):
            raise ProtocolError(f"the peer acks {ack} frames, and {self._base + len(self._frames)} were sent")
        if ack <= self._base:
            return  # a later ack has overtaken this one
        round_trip_s: float | None = None
        first, under_way = self._frames[0], self.size_bytes
        for _ in range(ack - self._base):
            frame = self._frames.popleft()
            payload = frame.payload
            self.size_bytes -= len(payload)
            self.unfinished -= type(payload) is PayloadPart and not payload.is_last
            if not frame.resent and frame.sent_s is not None:
                round_trip_s = now_s - frame.first_s
        if not first.resent and first.sent_s is not None:
            self.line.acked(under_way - self.size_bytes, now_s - max(first.first_s, self._acked_s), under_way)
        self._acked_s = now_s
        self._cursor = max(0, self._cursor - (ack - self._base))
        self._base = ack
        if round_trip_s is not None:
            self.resend.measured(round_trip_s)

    def resume(self, expected: int, now_s: float) -> None:
        """A new connection to the same incarnation, which expects frame `expected` next: send the rest again."""
        if self._frames:
            self._frames[0].resent = True  # nothing is measured across two connections
        self.acked(expected, now_s)
        self._cursor = 0
        self.resend.restarted()
        self.line.restarted()
        self._acked_s = float("-inf")
        for frame in self._frames:
            frame.resent = frame.resent or frame.sent_s is not None
            frame.sent_s = None

    def restart(self) -> int:
        """The peer is a new incarnation: drop all frames. Returns how many payloads were dropped."""
        dropped = len(self._frames) - self.unfinished
        self._frames.clear()
        self.size_bytes = self._base = self._cursor = self.unfinished = 0
        return dropped

    def due_s(self) -> float:
        """When `next` returns a frame again if nothing is offered or acked before: -inf now, inf never."""
        if not self._frames:
            return float("inf")
        first = self._frames[0].sent_s
        if first is None or self._cursor < len(self._frames):
            return float("-inf")
        return first + self.resend.value_s

    def _send_again(self, now_s: float) -> None:
        """Send again, if the first frame has left this process. (Other frames in its buffer do not matter.)"""
        first = self._frames[0]
        if not first.has_left:
            first.sent_s = now_s
            return
        self._resend_at_s, self._resend_wait_s = now_s, self.resend.value_s
        self._cursor = 0
        self.resend.expired()

    def _expired(self, now_s: float) -> bool:
        # The first frame decides for all: once it is acked, the next missing frame is the first.
        if not self._frames:
            return False
        sent_s = self._frames[0].sent_s
        return sent_s is not None and now_s >= sent_s + self.resend.value_s


class ReorderBuffer:
    """Frames that have arrived early, and the number of the next one."""

    __slots__ = ("_early", "_max_bytes", "_max_frames", "dropped", "duplicates", "held_bytes", "next", "owes_ack")

    def __init__(self, max_frames: int, max_bytes: int) -> None:
        self.next = 0  # all lower numbers have been delivered
        self.owes_ack = False
        self.held_bytes = 0
        self.duplicates = 0
        self.dropped = 0
        self._max_frames = max_frames
        self._max_bytes = max_bytes
        self._early: dict[int, bytes | PayloadPart] = {}

    def accept(self, sequence: int, payload: bytes | PayloadPart) -> list[bytes | PayloadPart]:
        """A frame has arrived. Returns what can be delivered now, in order."""
        self.owes_ack = True  # also for a repeated frame: its ack was lost
        if sequence < self.next or sequence in self._early:
            self.duplicates += 1
            return []
        if sequence > self.next:
            self._keep(sequence, payload)
            return []
        ready = [payload]
        self.next += 1
        while self.next in self._early:
            early = self._early.pop(self.next)
            self.held_bytes -= len(early)
            ready.append(early)
            self.next += 1
        return ready

    def restart(self) -> None:
        """The peer is a new incarnation, which counts from 0."""
        self._early.clear()
        self.next = self.held_bytes = 0
        self.owes_ack = False

    def _keep(self, sequence: int, payload: bytes | PayloadPart) -> None:
        if sequence - self.next >= self._max_frames or self.held_bytes + len(payload) > self._max_bytes:
            self.dropped += 1
            return
        self._early[sequence] = payload
        self.held_bytes += len(payload)
