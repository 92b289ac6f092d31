"""ReceiveBuffer: segments from one other worker for one task here, until the task's mailbox takes them.

1. They go into the mailbox in their order as it has capacity. While its gate is closed, the buffer is parked there like
   a sender of this process, and takes turns with the others. Its segments may be heavier than those of local senders,
   who know how much fits: one that does not fit yet closes the gate until it does.
2. The sender's credit bounds them, and is renewed as the mailbox takes them (credit.py).
3. Segments for a full mailbox do not delay other tasks: they wait here, not in the link.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from ...topology.tuples import ColumnRows, Segment
from ..errors import ProtocolError
from .credit import ReceiverCredit

if TYPE_CHECKING:
    from ...actors import Mailbox, MailboxClosedError


class ReceiveBuffer:
    """Segments from one worker to one task. `accepted(task, worth_sending)` is called when the mailbox takes one."""

    __slots__ = ("_accepted", "_mailbox", "_max_quota", "_parked", "_waiting", "credit", "task_id")

    def __init__(self, task_id: int, mailbox: Mailbox, quota: int, accepted: Callable[[int, bool], None]) -> None:
        self.task_id = task_id
        self.credit = ReceiverCredit(quota)
        self._max_quota = self.credit.quota
        self._mailbox = mailbox
        self._accepted = accepted
        self._waiting: deque[tuple[Segment, int]] = deque()
        self._parked = False

    @property
    def row_s(self) -> float:
        """How long the task needs for a row, as in Inbox."""
        return self._mailbox.reader.row_s

    @property
    def in_long_call(self) -> bool:
        """Is the task in one long call?"""
        return self._mailbox.reader.in_long_call

    @property
    def wanted(self) -> int:
        """How many tuples the task wants in its mailbox (Inbox.gate.limit)."""
        return self._mailbox.gate.limit

    def next_limit(self) -> int:
        """The limit to send, by the share that the sender has in what the task wants now."""
        gate = self._mailbox.gate
        self.credit.quota = max(1, self._max_quota * gate.limit // gate.capacity)
        return self.credit.next_limit()

    @property
    def is_empty(self) -> bool:
        """Has the mailbox taken all segments?"""
        return not self._waiting

    @property
    def waiting(self) -> int:
        """How many segments the mailbox has not taken yet."""
        return len(self._waiting)

    def add(self, segments: Sequence[Segment]) -> None:
        """Add the segments of a frame. ProtocolError if one is heavier than allowed; then none is added."""
        mailbox, gate, credit = self._mailbox, self._mailbox.gate, self.credit
        largest = gate.largest_piece
        weights: list[int] = []
        for segment in segments:
            weight = len(segment.items)
            if weight > largest:
                if type(segment.items) is not ColumnRows:
                    raise ProtocolError(f"a segment of {weight} tuples: at most {largest} are allowed")
                weight = largest
            weights.append(weight)
        for segment, weight in zip(segments, weights, strict=True):
            credit.buffered += weight
            fits = not self._waiting and gate.fill + weight <= gate.capacity
            if fits and mailbox.offer(segment, weight):
                self._accepted(self.task_id, credit.accepted(weight))
                continue
            self._waiting.append((segment, weight))
            if not self._parked:
                self._park(weight)

    # -- parked (see actors.ParkedSender) ------------------------------------------------------------------------------

    def next_piece(self) -> tuple[Segment, int] | None:
        """The mailbox has capacity: the segment that it takes."""
        if not self._waiting:
            return None
        if not self._fits(self._waiting[0][1]):
            self._park(self._waiting[0][1])
            return None
        segment, weight = self._waiting.popleft()
        self._accepted(self.task_id, self.credit.accepted(weight))
        return segment, weight

    def has_more(self) -> bool:
        """Are there more segments?"""
        self._parked = bool(self._waiting)
        return self._parked

    def refused(self, error: MailboxClosedError) -> None:
        """The task has ended: drop its segments, and return their credit for its next incarnation."""
        self._parked = False
        while self._waiting:
            _, weight = self._waiting.popleft()
            self._accepted(self.task_id, self.credit.accepted(weight))

    def _fits(self, weight: int) -> bool:
        gate = self._mailbox.gate
        return gate.fill + weight <= gate.capacity

    def _park(self, weight: int) -> None:
        self._parked = True
        if not self._fits(weight):
            self._mailbox.gate.close()
        self._mailbox.park(self)
