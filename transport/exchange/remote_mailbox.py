"""Remote mailbox: what senders here see of the mailbox of a task in another worker.

    offer ─► packed, in the queue ─► next_payload: one frame, if there is credit ─► send queue ─► link
                  │ full (a frame's worth): the gate closes, senders park
                  └ a frame is taken: the gate opens, parked senders are served in turn

1. It buffers at most one frame's worth of packed segments, and no more rows than the task wants in its mailbox
   (`limit`, sent with the credit; few before the first). So what is under way to a task is bounded: one frame here, and
   what credit.py allows there. Edges inside a cycle never wait: only they may add to a full queue.
2. The link asks for a frame when it has capacity, so what was gathered until then goes together. At low rates that is
   one segment at once; no timer waits to fill a frame.
3. Segments of one sender keep their order. Parked senders are served only while there is credit for what waits already,
   so segments that several targets could take (see tasks.waiting) do not go to a target that takes nothing.
4. Control messages are sent separately (exchange.py): they need no credit.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Final, Protocol

from ...actors import MailboxClosedError, ParkedSender, ReaderState
from ..codec.payloads import PayloadKind, pack_payload
from .credit import SenderCredit
from .segments import pack_segment, segments_body, split_items

if TYPE_CHECKING:
    from ...actors import Message
    from ..link.send_queue import SendQueue

FRAME_BYTES: Final = 48 * 1024
"""A frame of segments is complete at this size."""

FIRST_LIMIT: Final = 64
"""How many rows a queue takes before the first CREDIT."""

MOST_BYTES: Final = 80_000
"""The largest frame of several segments: surely within the limits of a receiver for one body (codec/scan.py)."""


class MailboxChannel(Protocol):
    """What a remote mailbox needs of the traffic with its worker; a PeerChannel implements it."""

    sent: int
    send_queue: SendQueue

    def post(self, task_id: int, message: Message) -> None:
        """Send a message to the control lane of a task there."""
        ...


class _Queue:
    """Packed segments that wait to be sent, with their weights, and the credit for them."""

    __slots__ = ("credit", "segments", "size_bytes", "tuples")

    def __init__(self) -> None:
        self.credit = SenderCredit()
        self.segments: deque[tuple[int, bytes]] = deque()
        self.size_bytes = 0
        self.tuples = 0

    @property
    def is_ready(self) -> bool:
        """Are there segments, and credit for them?"""
        return bool(self.segments) and self.credit.has_credit

    def next_frame(self, limit: int) -> list[bytes]:
        """The segments of the next frame, which count as sent. `limit`: after so many tuples the frame is complete."""
        segments = self.segments
        parts: list[bytes] = []
        tuples = size = 0
        while segments and size < FRAME_BYTES and tuples < limit:
            weight, packed = segments[0]
            if parts and size + len(packed) > MOST_BYTES:
                break  # a large segment goes alone
            segments.popleft()
            parts.append(packed)
            tuples += weight
            size += len(packed)
        self.size_bytes -= size
        self.tuples -= tuples
        self.credit.spend(tuples)
        return parts


class RemoteGate:
    """The gate of a remote mailbox: open while less than a frame waits. `task_capacity`: of the task's mailbox."""

    __slots__ = ("_task_capacity", "is_open", "limit", "max_piece", "piece")

    fill = 0
    """Always: only `is_open` says whether there is capacity."""

    def __init__(self, max_piece: int, task_capacity: int) -> None:
        self._task_capacity = task_capacity
        self.max_piece = max_piece
        self.is_open = True
        self.limit = self.piece = 0
        self.set_limit(FIRST_LIMIT)

    @property
    def capacity(self) -> int:
        """The heaviest piece: each fits into the task's mailbox."""
        return self.max_piece

    def set_limit(self, wanted: int) -> None:
        """The task wants so many tuples in its mailbox."""
        self.limit = min(wanted, self._task_capacity)
        self.piece = max(1, min(self.max_piece, self.limit * self.max_piece // self._task_capacity))


class RemoteMailbox:
    """An Inbox for one remote task. `max_piece`: its heaviest segment; `capacity`: of the task's mailbox."""

    __slots__ = ("_channel", "_parked", "_queue", "closed", "gate", "reader", "task_id")

    pack = staticmethod(split_items)

    def __init__(self, task_id: int, channel: MailboxChannel, *, max_piece: int, capacity: int) -> None:
        self.task_id = task_id
        self.gate = RemoteGate(max_piece, capacity)
        self.reader = ReaderState()  # arrives with the credit, as the gate's limit does
        self.closed = False
        self._channel = channel
        self._queue = _Queue()
        self._parked: deque[ParkedSender] = deque()

    # -- for senders -------------------------------------------------------------------------------------------------

    @property
    def is_high(self) -> bool:
        """Does it wait for credit with segments to send?"""
        return not self.gate.is_open or (bool(self._queue.segments) and not self._queue.credit.has_credit)

    def offer(self, item: Message, weight: int = 1) -> bool:
        """Take a segment (of packed items) if the gate is open."""
        return self.gate.is_open and self.force(item, weight)

    def force(self, item: Message, weight: int = 1) -> bool:
        """Take a segment even if it is full; False when closed."""
        if self.closed:
            return False
        queue, packed = self._queue, pack_segment(item)
        queue.segments.append((weight, packed))
        queue.size_bytes += len(packed)
        queue.tuples += weight
        self._channel.sent += 1
        if self._is_full():
            self.gate.is_open = False
        if queue.credit.has_credit:
            self._channel.send_queue.ready(self)
        return True

    def park(self, sender: ParkedSender) -> None:
        """Take segments of this sender when there is capacity."""
        if self.closed:
            sender.refused(MailboxClosedError("the link to its worker is closed"))
            return
        self._parked.append(sender)
        self._pull()

    def post(self, item: Message) -> None:
        """A message for the control lane."""
        if not self.closed:
            self._channel.post(self.task_id, item)

    # -- for the exchange --------------------------------------------------------------------------------------------

    @property
    def is_empty(self) -> bool:
        """Does nothing wait here?"""
        return not self._queue.segments and not self._parked

    @property
    def queued(self) -> int:
        """How many segments wait to be sent."""
        return len(self._queue.segments)

    def grant(self, limit: int, row_s: float, wanted: int, *, in_long_call: bool = False) -> None:
        """A CREDIT of the receiver: its limit, the time for a row, and how many tuples it wants in its mailbox.

        `in_long_call`: is the task in one long call?
        """
        self.reader.row_s = row_s
        self.reader.in_long_call = in_long_call
        self.gate.set_limit(wanted)
        if not self.gate.is_open:
            self._open_gate()
        self._queue.credit.grant(limit)
        if self._queue.is_ready:
            self._channel.send_queue.ready(self)

    def stop_sending(self) -> None:
        """The worker's process has ended: keep the segments, and wait for the first CREDIT of the next one."""
        self._queue.credit.restart()

    def restarted(self) -> None:
        """The worker is a new incarnation: keep the segments for it, and wait for its first CREDIT."""
        self._queue.credit.restart()
        self.reader.in_long_call = False

    def close(self) -> None:
        """Send nothing any more: drop what waits."""
        self.closed = True
        self.gate.is_open = False
        self._queue = _Queue()
        while self._parked:
            self._parked.popleft().refused(MailboxClosedError("the link to its worker is closed"))

    def next_payload(self) -> tuple[bytes | None, bool]:
        """A frame, if there are segments to send and credit for them."""
        queue = self._queue
        if not queue.is_ready:
            return None, False
        parts = queue.next_frame(self.gate.limit)
        self._open_gate()
        more = bool(queue.segments) and queue.credit.has_credit
        return pack_payload(PayloadKind.SEGMENTS, self.task_id, segments_body(parts)), more

    # -- inside ------------------------------------------------------------------------------------------------------

    def _is_full(self) -> bool:
        return self._queue.size_bytes >= FRAME_BYTES or self._queue.tuples >= self.gate.limit

    def _open_gate(self) -> None:
        if not self.closed and not self._is_full():
            self.gate.is_open = True
            if self._parked:
                self._pull()

    def _pull(self) -> None:
        parked = self._parked
        while parked and not self.is_high:
            sender = parked.popleft()
            piece = sender.next_piece()
            if piece is None:
                continue
            self.offer(*piece)
            if sender.has_more():
                parked.append(sender)
