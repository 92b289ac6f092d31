"""Inlet: the far end of a channel: what a peer sends to one of our actors, on its way into the mailbox.

    TELL, ASK ─► room in the mailbox? ─ yes ─► in ─► counted, told now and then (TAKEN)
                     └ no ─► parked ─► pulled in when the mailbox has room

1. What waits here is bounded by the channel's window: whoever sends more breaks the protocol. Other channels of the
   link do not wait for it.
2. A question is answered in the step in which the actor answers it.
3. When the actor ends the peer is told once (ENDED), behind all answers. What waited becomes dead letters; questions
   are told.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any

from ...actors import DeathWatch, MailboxClosedError, Question, Ref, Terminated
from .flow_control import ReceiverFlow


class Inlet:
    """To one of our actors. Is a ParkedSender of its mailbox, and an Watcher for its end."""

    __slots__ = ("_herald", "_lose", "_parked", "_tell_ended", "_tell_taken", "_waiting", "_window", "over", "ref")

    def __init__(
        self,
        ref: Ref,
        *,
        tell_taken: Callable[[int, int], None],
        tell_ended: Callable[[Terminated], None],
        lose: Callable[[str, Any, str], None],
    ) -> None:
        self.ref = ref
        self.over = False
        self._tell_taken = tell_taken
        self._tell_ended = tell_ended
        self._lose = lose
        self._window = ReceiverFlow()
        self._waiting: deque[tuple[Any, int]] = deque()
        self._parked = False
        self._herald = DeathWatch(ref, self)

    def open(self) -> None:
        """Begin to watch the actor."""
        self._herald.watch(self.ref.deathwatch)

    def tell(self, message: Any, size_bytes: int) -> None:
        """A message has come. ProtocolError if it should not have."""
        if self._waiting or not self.ref.inbox.offer(message):
            self._wait(message, size_bytes)
        else:
            self._count(self._window.took(size_bytes))

    def ask(self, question: Question, size_bytes: int) -> None:
        """A question has come. ProtocolError if it should not have."""
        if self._waiting or not self.ref.ask_nowait(question.message, question.reply):
            self._wait(question, size_bytes)
        else:
            self._count(self._window.took(size_bytes))

    def skip(self, size_bytes: int) -> None:
        """A message has come that says nothing: it is not on its way any more."""
        self._count(self._window.took(size_bytes))

    def close(self, reason: str) -> None:
        """The peer is lost: what it had sent and was not accepted is, too."""
        self.over = True
        self._herald.unwatch(self.ref.deathwatch)
        while self._waiting:
            self._refuse(self._waiting.popleft()[0], MailboxClosedError(reason))

    # -- Watcher -------------------------------------------------------------------------------------------------------

    def post(self, item: Terminated) -> None:
        """The actor has ended."""
        if not self.over:
            self.over = True
            self._tell_ended(item)

    # -- Parked ------------------------------------------------------------------------------------------------------

    def next_piece(self) -> tuple[Any, int] | None:
        if not self._waiting:
            self._parked = False
            return None
        item, size_bytes = self._waiting.popleft()
        self._parked = bool(self._waiting)
        self._count(self._window.waited(size_bytes))
        return item, 1

    def has_more(self) -> bool:
        return bool(self._waiting)

    def refused(self, error: MailboxClosedError) -> None:
        self._parked = False
        while self._waiting:
            item, size_bytes = self._waiting.popleft()
            self._count(self._window.waited(size_bytes))
            self._refuse(item, error)

    # -- helpers -----------------------------------------------------------------------------------------------------

    def _wait(self, item: Any, size_bytes: int) -> None:
        self._window.waits(size_bytes)
        self._waiting.append((item, size_bytes))
        if not self._parked:
            self._parked = True
            self.ref.inbox.park(self)  # refuses at once if it is closed

    def _refuse(self, item: Any, error: MailboxClosedError) -> None:
        if isinstance(item, Question):
            if not item.reply.done():
                item.reply.set_exception(error)
            item = item.message
        self._lose(self.ref.path, item, str(error))

    def _count(self, told: tuple[int, int] | None) -> None:
        if told is not None and not self.over:
            self._tell_taken(*told)
