"""Retries: what becomes of a message that failed, as a pure machine.

    failed ──► max_retries unset:      the spout's own `fail` hears of it (Storm), and may emit it again
           ──► failures <= max_retries: replayed by the framework, in a tree of its own
           ──► more failures:           the dead-letter stream, then the spout's `fail`

1. A message that has failed is emitted again in a tree of its own, whoever emits it: a poisonous one ends up alone and
   takes nobody with it.
2. The failures of at most `remembered` messages are counted when the spout replays by itself: the oldest is forgotten
   first, and then counts from one again.

Storm leaves all of this to the spout (depart).
"""

from __future__ import annotations

import enum
from collections import OrderedDict
from typing import Any


class Fate(enum.Enum):
    """What to do with a failed message."""

    TELL_SPOUT = "tell spout"
    REPLAY = "replay"
    DEAD_LETTER = "dead letter"


class Retries:
    """The failures of one spout task's messages.

    `suspects`: message id → failures, of those that the spout may replay.
    """

    __slots__ = ("_max_retries", "_remembered", "suspects")

    def __init__(self, max_retries: int | None, remembered: int = 10_000) -> None:
        self._max_retries = max_retries
        self._remembered = remembered
        self.suspects: OrderedDict[Any, int] = OrderedDict()

    def failed(self, message_id: Any, failures: int) -> Fate:
        """A message failed for the `failures`-th time."""
        if self._max_retries is not None:
            return Fate.REPLAY if failures <= self._max_retries else Fate.DEAD_LETTER
        try:
            self.suspects[message_id] = failures
        except TypeError:  # a message id need not be hashable; then its failures are not counted
            return Fate.TELL_SPOUT
        self.suspects.move_to_end(message_id)
        if len(self.suspects) > self._remembered:
            self.suspects.popitem(last=False)
        return Fate.TELL_SPOUT

    def failures_of(self, message_id: Any) -> int:
        """How often a message that is emitted now has failed before."""
        try:
            return self.suspects.get(message_id, 0)
        except TypeError:
            return 0

    def settled(self, message_id: Any) -> None:
        """The message was acked."""
        if self.suspects:
            try:
                self.suspects.pop(message_id, None)
            except TypeError:
                return
