"""Credit: how much may be sent to a task in another worker. Pure; in tuples, counted from the start of an incarnation.

    sender                                         receiver
    SenderCredit: sent < limit: send a frame ───────► ReceiverCredit: held += weight
                                                     its mailbox takes it: accepted += weight
    SenderCredit: limit ◄──── CREDIT(limit) ──────────  limit = accepted + quota

1. A sender may send a frame while it has sent less than its limit: so it goes over by less than one frame.
2. A quota is the part of a task's capacity that one sender has to itself (`split_capacity`). So what a receiver holds
   for a task is never more than its capacity and one frame of each sender, however many there are and however slow it
   is.
3. A limit is a sum since the start, never a difference: one that is told twice changes nothing, one that is told late
   is out of date. What is between the two (a link) may not lose the last one.
4. Both sides begin anew with each incarnation of either: nothing may be sent before the first CREDIT. What is still
   held from the one before counts against the new one.
5. A quota may become smaller, and larger again: a task that is slow wants less. What was told is not taken back.
6. A limit is told when it is worth a message: half of the quota more than what was told last, or all that was held.
7. What else a sender has to know of a task goes with it: what a row takes it, how much it wants in its mailbox, and
   whether it stands in one call. The last is told at once, whatever the limit.

From: the credits of Flink's network stack and of HTTP/2 (RFC 9113, 5.2); ours are for a task, not for a connection.
"""

from __future__ import annotations


class SenderCredit:
    """The sender's side of it, for one task."""

    __slots__ = ("limit", "sent")

    def __init__(self) -> None:
        self.limit = 0
        self.sent = 0

    @property
    def has_room(self) -> bool:
        """May a frame be sent?"""
        return self.sent < self.limit

    def spend(self, weight: int) -> None:
        """A frame of that weight is sent."""
        self.sent += weight

    def grant(self, limit: int) -> None:
        """The receiver has said what it takes in all."""
        self.limit = max(self.limit, limit)

    def restart(self) -> None:
        """The receiver is a new incarnation: it has said nothing yet."""
        self.limit = self.sent = 0


class ReceiverCredit:
    """The receiver's side, for one task and one sender. `quota`: tuples, at least 1."""

    __slots__ = ("_accepted", "_told", "held", "quota")

    def __init__(self, quota: int) -> None:
        self.quota = max(1, quota)
        self.held = 0
        self._accepted = 0
        self._told = 0

    def arrived(self, weight: int) -> None:
        """It has come, and the task's mailbox has not taken it yet."""
        self.held += weight

    def accepted(self, weight: int) -> bool:
        """The mailbox has taken it. Is there a limit worth telling?"""
        self.held -= weight
        self._accepted += weight
        return self._accepted + self.quota - self._told >= max(1, self.quota // 2)

    def tell(self) -> int:
        """The limit; it counts as told."""
        self._told = max(0, self._told, self._accepted + self.quota)
        return self._told

    def restart(self) -> None:
        """The sender is a new incarnation, which counts from nothing."""
        self._accepted = -self.held
        self._told = 0


def split_capacity(capacity: int, senders: int) -> tuple[int, int]:
    """(What a task's mailbox holds, the quota of each of so many other workers): together the capacity, or a bit more.

    Seven eighths are the mailbox's: whoever has any quota may send a whole frame, so a small one does, and senders of
    this worker send larger pieces. With more senders than room each has a quota of 1: that is within its frame.
    """
    if not senders:
        return capacity, 0
    quota = max(1, capacity // (8 * senders))
    return max(1, capacity - quota * senders), quota
