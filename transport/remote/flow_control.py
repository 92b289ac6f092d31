"""Flow control of channels: how much may be on its way from one process to one actor of another. Pure.

    sender:     sent ─► [ on its way: below the limit, and one message ] ◄─ taken    full: the sender waits
    receiver:   in the mailbox ─► counted ─► reported, at a quarter of the limit

1. A message is on its way until the sender knows that it is in the actor's mailbox. A correct sender has at most
   MAX_MESSAGES on their way, and less than MAX_BYTES plus one message.
2. A full channel always opens again once the mailbox has taken all messages: less than a quarter of the limit is not
   reported. So no timer is needed, and most messages cause no answer.

From: HTTP/2's flow control, with a limit for each stream; exchange/credit.py does the same between tasks.
"""

from __future__ import annotations

from typing import Final

from ..errors import ProtocolError

MAX_MESSAGES: Final = 512
MAX_BYTES: Final = 256 * 1024
_SHARE: Final = 4


class SenderFlow:
    """The sender's side of one channel."""

    __slots__ = ("is_full", "messages", "size_bytes")

    def __init__(self) -> None:
        self.messages = self.size_bytes = 0
        self.is_full = False

    def sent(self, size_bytes: int) -> None:
        """A message was sent. The caller has checked `is_full`."""
        self.messages += 1
        self.size_bytes += size_bytes
        self.is_full = self.messages >= MAX_MESSAGES or self.size_bytes >= MAX_BYTES

    def taken(self, messages: int, size_bytes: int) -> None:
        """The mailbox has taken so much. ProtocolError if that is more than was sent."""
        self.messages -= messages
        self.size_bytes -= size_bytes
        if self.messages < 0 or self.size_bytes < 0:
            raise ProtocolError("the peer reports more messages taken than were sent")
        self.is_full = self.messages >= MAX_MESSAGES or self.size_bytes >= MAX_BYTES


class ReceiverFlow:
    """The receiver's side: what waits for the mailbox, and what it has taken and is not reported yet."""

    __slots__ = ("_messages", "_size_bytes", "waiting", "waiting_bytes")

    def __init__(self) -> None:
        self.waiting = self.waiting_bytes = 0
        self._messages = self._size_bytes = 0

    def waits(self, size_bytes: int) -> None:
        """A message waits for the mailbox. ProtocolError if the sender has exceeded the limit."""
        if self.waiting >= MAX_MESSAGES or self.waiting_bytes >= MAX_BYTES:
            raise ProtocolError(
                f"{self.waiting} messages to an actor wait, {self.waiting_bytes:,} bytes: the limit is reached"
            )
        self.waiting += 1
        self.waiting_bytes += size_bytes

    def waited(self, size_bytes: int) -> tuple[int, int] | None:
        """A waiting message is in the mailbox. As `took`."""
        self.waiting -= 1
        self.waiting_bytes -= size_bytes
        return self.took(size_bytes)

    def took(self, size_bytes: int) -> tuple[int, int] | None:
        """A message is in the mailbox. Returns messages and bytes when it is time to report them."""
        self._messages += 1
        self._size_bytes += size_bytes
        if self._messages * _SHARE < MAX_MESSAGES and self._size_bytes * _SHARE < MAX_BYTES:
            return None
        amounts = self._messages, self._size_bytes
        self._messages = self._size_bytes = 0
        return amounts
