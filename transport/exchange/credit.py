"""Credit: how much may be sent to a task in another worker. Pure; in tuples, counted from the start of an incarnation.

    sender                                         receiver
    SenderCredit: sent < limit: send a frame ───────► ReceiverCredit: buffered += weight
                                                     its mailbox takes it: accepted += weight
    SenderCredit: limit ◄──── CREDIT(limit) ──────────  limit = accepted + quota

1. A sender may send a frame while it has sent less than its limit, so it exceeds the limit by less than one frame.
2. A quota is the share of a task's capacity that one sender has (`split_capacity`). So a receiver never buffers more
   for a task than its capacity and one frame of each sender, however many there are and however slow the task is.
3. A limit is a total since the start, never a difference: a repeated limit changes nothing, a late one is outdated. The
   link between the two must not lose the last one.
4. Both sides start again with each incarnation of either: nothing may be sent before the first CREDIT. What is still
   buffered of the previous incarnation counts against the new one.
5. A quota may shrink and grow again: a slow task wants less. A limit that was sent is not taken back.
6. A limit is sent when it is worth a message: half a quota above the last one, or all that was buffered is accepted.
7. Other facts about the task go with it: how long a row takes, how many tuples it wants in its mailbox, and whether it
   is in one long call. The last one is sent at once, whatever the limit is.

From: the credits of Flink's network stack and of HTTP/2 (RFC 9113, 5.2); here they are for a task, not for a
connection.
"""

from __future__ import annotations


class SenderCredit:
    """The sender's side, for one task."""

    __slots__ = ("limit", "sent")

    def __init__(self) -> None:
        self.limit = 0
        self.sent = 0

    @property
    def has_credit(self) -> bool:
        """May a frame be sent?"""
        return self.sent < self.limit

    def spend(self, weight: int) -> None:
        """A frame of that weight was sent."""
        self.sent += weight

    def grant(self, limit: int) -> None:
        """A limit of the receiver has arrived."""
        self.limit = max(self.limit, limit)

    def restart(self) -> None:
        """The receiver is a new incarnation, which has sent no limit yet."""
        self.limit = self.sent = 0


class ReceiverCredit:
    """The receiver's side, for one task and one sender. `quota`: tuples, at least 1.

    `buffered`: what has arrived and the mailbox has not taken; the caller adds to it.
    """

    __slots__ = ("_accepted", "_announced", "buffered", "quota")

    def __init__(self, quota: int) -> None:
        self.quota = max(1, quota)
        self.buffered = 0
        self._accepted = 0
        self._announced = 0

    def accepted(self, weight: int) -> bool:
        """The mailbox has taken a segment. Is a new limit worth sending?"""
        self.buffered -= weight
        self._accepted += weight
        return self._accepted + self.quota - self._announced >= max(1, self.quota // 2)

    def next_limit(self) -> int:
        """The limit to send; it counts as sent."""
        self._announced = max(0, self._announced, self._accepted + self.quota)
        return self._announced

    def restart(self) -> None:
        """The sender is a new incarnation, which counts from 0."""
        self._accepted = -self.buffered
        self._announced = 0


def split_capacity(capacity: int, senders: int) -> tuple[int, int]:
    """(The capacity of a task's mailbox, the quota of each other worker): together `capacity`, or slightly more.

    The mailbox gets seven eighths: any quota allows a whole frame, so a small one is enough, and senders of this worker
    send larger pieces. If there are more senders than capacity, each has a quota of 1.
    """
    if not senders:
        return capacity, 0
    quota = max(1, capacity // (8 * senders))
    return max(1, capacity - quota * senders), quota
