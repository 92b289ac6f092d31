"""Inlet: the receiving end of a channel: messages of a peer for one actor here, on their way into the mailbox.

    TELL, ASK ─► capacity in the mailbox? ─ yes ─► in ─► counted, reported now and then (TAKEN)
                     └ no ─► parked ─► taken when the mailbox has capacity

1. The channel's flow control bounds what waits here: a peer that sends more breaks the protocol. Other channels of the
   link do not wait.
2. A question is answered in the step in which the actor answers it.
3. When the actor ends, the peer is notified once (ENDED), after all answers. Waiting messages become dead letters;
   waiting questions get an error.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING

from ...actors import DeathWatch, MailboxClosedError, Question, Ref, Terminated
from .flow_control import ReceiverFlow

if TYPE_CHECKING:
    from ...actors import Message


class Inlet:
    """To one of our actors. Is a ParkedSender of its mailbox, and an Watcher for its end."""

    __slots__ = ("_death_watch", "_drop", "_flow", "_parked", "_send_ended", "_send_taken", "_waiting", "over", "ref")

    def __init__(
        self,
        ref: Ref,
        *,
        send_taken: Callable[[int, int], None],
        send_ended: Callable[[Terminated], None],
        drop: Callable[[str, Message, str], None],
    ) -> None:
        self.ref = ref
        self.over = False
        self._send_taken = send_taken
        self._send_ended = send_ended
        self._drop = drop
        self._flow = ReceiverFlow()
        self._waiting: deque[tuple[Message, int]] = deque()
        self._parked = False
        self._death_watch = DeathWatch(ref, self)

    def open(self) -> None:
        """Begin to watch the actor."""
        self._death_watch.watch(self.ref.deathwatch)

    def tell(self, message: Message, size_bytes: int) -> None:
        """A message has arrived. ProtocolError if it exceeds the limit."""
        if self._waiting or not self.ref.inbox.offer(message):
            self._wait(message, size_bytes)
        else:
            self._count(self._flow.took(size_bytes))

    def ask(self, question: Question, size_bytes: int) -> None:
        """A question has arrived. ProtocolError if it exceeds the limit."""
        if self._waiting or not self.ref.ask_nowait(question.message, question.reply):
            self._wait(question, size_bytes)
        else:
            self._count(self._flow.took(size_bytes))

    def skip(self, size_bytes: int) -> None:
        """A message has arrived that cannot be read: count it as taken."""
        self._count(self._flow.took(size_bytes))

    def close(self, reason: str) -> None:
        """The peer is lost: drop what the mailbox has not taken."""
        self.over = True
        self._death_watch.unwatch(self.ref.deathwatch)
        while self._waiting:
            self._refuse(self._waiting.popleft()[0], MailboxClosedError(reason))

    # -- Watcher -------------------------------------------------------------------------------------------------------

    def post(self, item: Terminated) -> None:
        """The actor has ended."""
        if not self.over:
            self.over = True
            self._send_ended(item)

    # -- Parked ------------------------------------------------------------------------------------------------------

    def next_piece(self) -> tuple[Message, int] | None:
        if not self._waiting:
            self._parked = False
            return None
        item, size_bytes = self._waiting.popleft()
        self._parked = bool(self._waiting)
        self._count(self._flow.waited(size_bytes))
        return item, 1

    def has_more(self) -> bool:
        return bool(self._waiting)

    def refused(self, error: MailboxClosedError) -> None:
        self._parked = False
        while self._waiting:
            item, size_bytes = self._waiting.popleft()
            self._count(self._flow.waited(size_bytes))
            self._refuse(item, error)

    # -- helpers -----------------------------------------------------------------------------------------------------

    def _wait(self, item: Message, size_bytes: int) -> None:
        self._flow.waits(size_bytes)
        self._waiting.append((item, size_bytes))
        if not self._parked:
            self._parked = True
            self.ref.inbox.park(self)  # calls `refused` at once if it is closed

    def _refuse(self, item: Message, error: MailboxClosedError) -> None:
        if isinstance(item, Question):
            if not item.reply.done():
                item.reply.set_exception(error)
            item = item.message
        self._drop(self.ref.path, item, str(error))

    def _count(self, amounts: tuple[int, int] | None) -> None:
        if amounts is not None and not self.over:
            self._send_taken(*amounts)
