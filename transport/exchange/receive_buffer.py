"""ReceiveBuffer: segments that have come for a task here, from one other worker, until its mailbox takes them.

1. They go into the mailbox as it has room, in their order: where its gate is closed they are parked there, as a sender
   of this process is, and take turns with the others. They are heavier than a sender's of this process, which knows
   how much fits: one that does not fit now closes the gate until it does.
2. How many there are is bounded by the sender's credit, which comes back as the mailbox takes them (credit.py).
3. A frame for a task whose mailbox is full holds up no other task's: they are here, not in the link.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

from ...actors import Lanes, Mailbox, MailboxClosedError
from ...topology import ColumnRows, Segment
from ..errors import ProtocolError
from .credit import ReceiverCredit


class ReceiveBuffer:
    """From one worker to one task. `accepted(worth_telling)` is called as the mailbox takes a segment."""

    __slots__ = ("_accepted", "_largest", "_mailbox", "_most", "_parked", "_waiting", "quota", "task_id")

    def __init__(
        self, task_id: int, mailbox: Mailbox, quota: int, accepted: Callable[[ReceiveBuffer, bool], None]
    ) -> None:
        self.task_id = task_id
        self.quota = ReceiverCredit(quota)
        self._most = self.quota.quota
        self._mailbox = mailbox
        self._largest = largest_piece(mailbox)
        self._accepted = accepted
        self._waiting: deque[tuple[Segment, int]] = deque()
        self._parked = False

    @property
    def row_s(self) -> float:
        """What a row takes the task: see Inbox."""
        return self._mailbox.row_s

    @property
    def in_long_call(self) -> bool:
        """Is the task in one call for long? See Inbox."""
        return self._mailbox.in_long_call

    @property
    def room(self) -> int:
        """What the task wants in its mailbox: see Inbox.limit."""
        return self._mailbox.limit

    def tell(self) -> int:
        """See ReceiverCredit: a part of what the task wants in its mailbox now."""
        box = self._mailbox
        self.quota.quota = max(1, self._most * box.limit // box.capacity)
        return self.quota.tell()

    @property
    def is_empty(self) -> bool:
        """Has the mailbox taken all that has come?"""
        return not self._waiting

    @property
    def waiting(self) -> int:
        """Segments that have come, and that the mailbox has not taken yet."""
        return len(self._waiting)

    def take(self, segments: Sequence[Segment]) -> None:
        """A frame has come. ProtocolError if a segment is heavier than a sender may make it; then none is taken."""
        largest = self._largest
        weighed = [(segment, _weight(segment, largest)) for segment in segments]
        for segment, weight in weighed:
            if weight > largest:
                raise ProtocolError(f"a segment of {len(segment.items)} tuples, where at most {largest} go together")
        for segment, weight in weighed:
            self.quota.arrived(weight)
            if not self._waiting and self._fits(weight) and self._mailbox.offer(segment, weight):
                self._accepted(self, self.quota.accepted(weight))
                continue
            self._waiting.append((segment, weight))
            if not self._parked:
                self._park(weight)

    # -- parked (see actors.ParkedSender) ------------------------------------------------------------------------------

    def next_piece(self) -> tuple[Any, int] | None:
        """The mailbox has room: it takes this one."""
        if not self._waiting:
            return None
        if not self._fits(self._waiting[0][1]):
            self._park(self._waiting[0][1])
            return None
        segment, weight = self._waiting.popleft()
        self._accepted(self, self.quota.accepted(weight))
        return segment, weight

    def has_more(self) -> bool:
        """Is there another?"""
        self._parked = bool(self._waiting)
        return self._parked

    def refused(self, error: MailboxClosedError) -> None:
        """The task has ended: what has come for it is lost. Its credit goes back, for a next one."""
        self._parked = False
        while self._waiting:
            _, weight = self._waiting.popleft()
            self._accepted(self, self.quota.accepted(weight))

    def _fits(self, weight: int) -> bool:
        return self._mailbox.fill + weight <= self._mailbox.capacity

    def _park(self, weight: int) -> None:
        self._parked = True
        if not self._fits(weight):
            self._mailbox.close_gate()
        self._mailbox.park(self)


def largest_piece(mailbox: Lanes) -> int:
    """The heaviest segment that a task of another worker may send: it fits once the mailbox has drained to its mark."""
    return mailbox.largest_piece


def _weight(segment: Segment, largest: int) -> int:
    count = len(segment.items)
    return largest if count > largest and type(segment.items) is ColumnRows else count
