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
from collections.abc import Callable
from typing import Any, Final

from ...actors import MailboxClosedError, ParkedSender, ReaderState
from ...topology import Origin
from ..codec.payloads import PayloadKind, pack_payload
from ..link.send_queue import SendQueue
from .credit import SenderCredit
from .segments import PackedItems, pack_segment, segments_body, split_items

FRAME_BYTES: Final = 48 * 1024
"""A frame of segments is complete at this size."""

FIRST_LIMIT: Final = 64
"""How many rows a queue takes before the first CREDIT."""

MOST_BYTES: Final = 80_000
"""The largest frame of several segments: surely within the limits of a receiver for one body (codec/scan.py)."""


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
    """An Inbox for one remote task. `max_piece`: its heaviest segment; `capacity`: of the task's mailbox.

    `posted` is called with each control message, `counted` for each segment that is taken.
    """

    __slots__ = (
        "_counted",
        "_parked",
        "_posted",
        "_queue",
        "_queued_bytes",
        "_queued_tuples",
        "_send_queue",
        "closed",
        "gate",
        "reader",
        "sender_credit",
        "task_id",
    )

    def __init__(
        self,
        task_id: int,
        send_queue: SendQueue,
        *,
        max_piece: int,
        capacity: int,
        posted: Callable[[Any], None],
        counted: Callable[[], None],
    ) -> None:
        self.task_id = task_id
        self._posted = posted
        self.sender_credit = SenderCredit()
        self.gate = RemoteGate(max_piece, capacity)
        self.reader = ReaderState()  # arrives with the credit, as the gate's limit does
        self.closed = False
        self._send_queue = send_queue
        self._counted = counted
        self._queue: deque[tuple[int, bytes]] = deque()
        self._queued_bytes = 0
        self._queued_tuples = 0
        self._parked: deque[ParkedSender] = deque()

    # -- for senders -------------------------------------------------------------------------------------------------

    @property
    def is_high(self) -> bool:
        """Does it wait for credit with segments to send?"""
        return not self.gate.is_open or (bool(self._queue) and not self.sender_credit.has_credit)

    def pack(self, origin: Origin, items: Any, anchors: Any) -> list[tuple[PackedItems, Any]]:
        """Encode items and their anchors, in pieces. UnsendableError with the `offset` of the first bad row."""
        return split_items(origin, items, anchors)

    def offer(self, item: Any, weight: int = 1) -> bool:
        """Take a segment (of packed items) if the gate is open."""
        if not self.gate.is_open:
            return False
        self._add(item, weight)
        return True

    def force(self, item: Any, weight: int = 1) -> bool:
        """Take a segment even if it is full; False when closed."""
        if self.closed:
            return False
        self._add(item, weight)
        return True

    def park(self, sender: ParkedSender) -> None:
        """Take segments of this sender when there is capacity."""
        if self.closed:
            sender.refused(MailboxClosedError("the link to its worker is closed"))
            return
        self._parked.append(sender)
        self._pull()

    def post(self, item: Any) -> None:
        """A message for the control lane."""
        self._posted(item)

    # -- for the exchange --------------------------------------------------------------------------------------------

    @property
    def is_empty(self) -> bool:
        """Does nothing wait here?"""
        return not self._queue and not self._parked

    @property
    def queued(self) -> int:
        """How many segments wait to be sent."""
        return len(self._queue)

    def grant(self, limit: int, row_s: float, wanted: int, *, in_long_call: bool = False) -> None:
        """A CREDIT of the receiver: its limit, the time for a row, and how many tuples it wants in its mailbox.

        `in_long_call`: is the task in one long call?
        """
        self.reader.row_s = row_s
        self.reader.in_long_call = in_long_call
        self.gate.set_limit(wanted)
        if not self.gate.is_open and not self.closed and not self._is_full():
            self.gate.is_open = True
            self._pull()
        self.sender_credit.grant(limit)
        if self._queue and self.sender_credit.has_credit:
            self._send_queue.ready(self)

    def restarted(self, send_queue: SendQueue) -> None:
        """The worker is a new incarnation: keep the segments for it, and wait for its first CREDIT."""
        self._send_queue = send_queue
        self.sender_credit.restart()
        self.reader.in_long_call = False

    def close(self) -> None:
        """Send nothing any more: drop what waits."""
        self.closed = True
        self.gate.is_open = False
        self._queue.clear()
        self._queued_bytes = self._queued_tuples = 0
        while self._parked:
            self._parked.popleft().refused(MailboxClosedError("the link to its worker is closed"))

    def next_payload(self) -> bytes | None:
        """A frame, if there are segments to send and credit for them."""
        queue = self._queue
        if not queue or not self.sender_credit.has_credit:
            return None
        parts: list[bytes] = []
        tuples = size = 0
        while queue and size < FRAME_BYTES and tuples < self.gate.limit:
            weight, packed = queue[0]
            if parts and size + len(packed) > MOST_BYTES:
                break  # a large segment goes alone
            queue.popleft()
            parts.append(packed)
            tuples += weight
            size += len(packed)
        self._queued_bytes -= size
        self._queued_tuples -= tuples
        self.sender_credit.spend(tuples)
        if not self._is_full():
            self.gate.is_open = True
            self._pull()
        return pack_payload(PayloadKind.SEGMENTS, self.task_id, segments_body(parts))

    # -- inside ------------------------------------------------------------------------------------------------------

    def _add(self, segment: Any, weight: int) -> None:
        packed = pack_segment(segment)
        self._queue.append((weight, packed))
        self._queued_bytes += len(packed)
        self._queued_tuples += weight
        self._counted()
        if self._is_full():
            self.gate.is_open = False
        if self.sender_credit.has_credit:
            self._send_queue.ready(self)

    def _is_full(self) -> bool:
        return self._queued_bytes >= FRAME_BYTES or self._queued_tuples >= self.gate.limit

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
