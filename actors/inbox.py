"""Inbox: a mailbox as its senders use it.

In one process it is the mailbox itself; between processes it is the local end of a link; in a simulation it stands
between two tasks. For a sender there is no difference.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

if TYPE_CHECKING:
    from .lanes import ParkedSender
    from .messages import Message
    from .reader_state import ReaderState

Pack: TypeAlias = Callable[[Any, Any, Any], Any]
"""Encodes a message that another process gets: its arguments are those of the layers above."""


class SenderGate(Protocol):
    """The gate of a mailbox as a sender reads it. Gate implements all of it."""

    @property
    def capacity(self) -> int:
        """The most tuples that the mailbox keeps."""
        ...

    @property
    def fill(self) -> int:
        """The number of tuples in the mailbox."""
        ...

    @property
    def is_open(self) -> bool:
        """Does the mailbox accept data now?"""
        ...

    @property
    def max_piece(self) -> int:
        """The largest weight of a piece, unless the sender has checked that a larger one fits."""
        ...

    @property
    def limit(self) -> int:
        """The most tuples that the reader wants in the mailbox: the capacity, or fewer if the reader is slow."""
        ...

    @property
    def piece(self) -> int:
        """Rows to send together while senders wait for capacity: up to `max_piece`, fewer if the reader is slow."""
        ...


class Inbox(Protocol):
    """A mailbox as a sender uses it. Mailbox and Lanes implement all of it."""

    @property
    def gate(self) -> SenderGate:
        """Does the mailbox accept data now, and how much?"""
        ...

    @property
    def reader(self) -> ReaderState:
        """What the reader lets its senders know about its work."""
        ...

    @property
    def closed(self) -> bool:
        """Will it never accept data again?"""
        ...

    @property
    def is_high(self) -> bool:
        """Did it pass its high mark without having come down to its low mark since?"""
        ...

    @property
    def pack(self) -> Pack | None:
        """(origin, items, anchors) → both encoded, in pieces, for another process; None in this process."""
        ...

    def offer(self, item: Message, weight: int = 1) -> bool:
        """Accept a piece if the gate is open; never waits. False also when closed."""
        ...

    def force(self, item: Message, weight: int = 1) -> bool:
        """Accept a piece even if the gate is closed; False when the mailbox is closed."""
        ...

    def park(self, sender: ParkedSender) -> None:
        """Pull pieces from this sender when there is free capacity."""
        ...

    def post(self, item: Message) -> None:
        """Put a message on the control lane; never refused."""
        ...
