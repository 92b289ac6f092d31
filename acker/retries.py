"""Retries: what to do with a failed message, as a pure machine.

    failed ──► max_retries not set:      call the spout's own `fail` (as Storm), which may emit the message again
           ──► failures <= max_retries:  the framework replays it, in a tree of its own
           ──► more failures:            the dead-letter stream, then the spout's `fail`

1. A failed message is emitted again in a tree of its own, by the framework or by the spout: a message that always fails
   ends up alone, and no other message fails with it.
2. If the spout itself replays, failures are counted for at most `remembered` messages: the oldest one is forgotten
   first, and its count then starts at one again.

Storm leaves all of this to the spout (depart).
"""

from __future__ import annotations

import enum
from collections import OrderedDict
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ..topology import MessageId


class FailureAction(enum.Enum):
    """What to do with a failed message."""

    NOTIFY_SPOUT = "notify spout"
    REPLAY = "replay"
    DEAD_LETTER = "dead letter"


class Retries:
    """The failures of one spout task's messages.

    `suspects`: message id → failures, for the messages that the spout may replay.
    """

    __slots__ = ("_max_retries", "_remembered", "suspects")

    def __init__(self, max_retries: int | None, remembered: int = 10_000) -> None:
        self._max_retries = max_retries
        self._remembered = remembered
        self.suspects: OrderedDict[MessageId, int] = OrderedDict()

    def failed(self, message_id: MessageId, failures: int) -> FailureAction:
        """A message failed for the `failures`-th time."""
        if self._max_retries is not None:
            return FailureAction.REPLAY if failures <= self._max_retries else FailureAction.DEAD_LETTER
        try:
            self.suspects[message_id] = failures
        except TypeError:  # a message id need not be hashable; its failures are not counted then
            return FailureAction.NOTIFY_SPOUT
        self.suspects.move_to_end(message_id)
        if len(self.suspects) > self._remembered:
            self.suspects.popitem(last=False)
        return FailureAction.NOTIFY_SPOUT

    def failures_of(self, message_id: MessageId) -> int:
        """How often a message that is emitted now has failed before."""
        try:
            return self.suspects.get(message_id, 0)
        except TypeError:
            return 0

    def settled(self, message_id: MessageId) -> None:
        """The message was acked."""
        if self.suspects:
            try:
                self.suspects.pop(message_id, None)
            except TypeError:
                return
