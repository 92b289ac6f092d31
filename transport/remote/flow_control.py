"""Windows of channels: how much may be on its way from one process to one actor of another. Pure.

    who sends:     sent ─► [ on its way: less than the window, and one message ] ◄─ taken    full: the sender waits
    who receives:  in the mailbox ─► counted ─► told, when it is a quarter of the window

1. On its way is what was sent and is not known to be in the actor's mailbox. A sender that honours the window has
   at most MESSAGES of them, and less than SIZE_BYTES and one message.
2. A full window is always opened again once the mailbox has taken all of it: what is not told yet is less than a
   quarter of it. So no timer is needed, and a message costs no answer.

From: HTTP/2's flow control, a window for each stream; exchange/credit.py does the same between tasks.
"""

from __future__ import annotations

from typing import Final

from ..errors import ProtocolError

MESSAGES: Final = 512
SIZE_BYTES: Final = 256 * 1024
_SHARE: Final = 4


class SenderFlow:
    """Of who sends over one channel."""

    __slots__ = ("is_full", "messages", "size_bytes")

    def __init__(self) -> None:
        self.messages = self.size_bytes = 0
        self.is_full = False

    def sent(self, size_bytes: int) -> None:
        """A message is on its way. Look at `is_full` before."""
        self.messages += 1
        self.size_bytes += size_bytes
        self.is_full = self.messages >= MESSAGES or self.size_bytes >= SIZE_BYTES

    def taken(self, messages: int, size_bytes: int) -> None:
        """So much has come into the mailbox. ProtocolError if that is more than was sent."""
        self.messages -= messages
        self.size_bytes -= size_bytes
        if self.messages < 0 or self.size_bytes < 0:
            raise ProtocolError("more messages between actors were taken than were sent")
        self.is_full = self.messages >= MESSAGES or self.size_bytes >= SIZE_BYTES


class ReceiverFlow:
    """Of who receives: what waits for room in the mailbox, and what is in and was not told yet."""

    __slots__ = ("_messages", "_size_bytes", "waiting", "waiting_bytes")

    def __init__(self) -> None:
        self.waiting = self.waiting_bytes = 0
        self._messages = self._size_bytes = 0

    def waits(self, size_bytes: int) -> None:
        """There is no room for one in the mailbox. ProtocolError if the sender should not have sent it."""
        if self.waiting >= MESSAGES or self.waiting_bytes >= SIZE_BYTES:
            raise ProtocolError(
                f"{self.waiting} messages to an actor wait, {self.waiting_bytes:,} bytes: no more may come"
            )
        self.waiting += 1
        self.waiting_bytes += size_bytes

    def waited(self, size_bytes: int) -> tuple[int, int] | None:
        """One that waited is in the mailbox. As `took`."""
        self.waiting -= 1
        self.waiting_bytes -= size_bytes
        return self.took(size_bytes)

    def took(self, size_bytes: int) -> tuple[int, int] | None:
        """One is in the mailbox. Messages and bytes, when it is time to tell the sender."""
        self._messages += 1
        self._size_bytes += size_bytes
        if self._messages * _SHARE < MESSAGES and self._size_bytes * _SHARE < SIZE_BYTES:
            return None
        told = self._messages, self._size_bytes
        self._messages = self._size_bytes = 0
        return told
