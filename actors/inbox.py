"""Inbox: what a sender sees of a mailbox.

In one process it is the mailbox itself; between processes it is the near end of a link, and in a simulated world what
stands between two tasks. Whoever sends knows no difference.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from .lanes import Parked


class Inbox(Protocol):
    """See Mailbox (and Lanes), which has all of this."""

    @property
    def capacity(self) -> int:
        """Tuples that it holds."""
        ...

    @property
    def fill(self) -> int:
        """Tuples that are in."""
        ...

    @property
    def row_s(self) -> float:
        """Seconds that its reader works for a row, lately; 0.0 before anything was measured."""
        ...

    @property
    def stands(self) -> bool:
        """Is its reader in one call for long, or so slow: should others have what it need not have?"""
        ...

    @property
    def gate_open(self) -> bool:
        """Does it take data?"""
        ...

    @property
    def max_piece(self) -> int:
        """No piece weighs more, unless the sender has looked and it fits."""
        ...

    @property
    def limit(self) -> int:
        """Tuples that its reader wants in it: up to the capacity, and fewer if it is slow."""
        ...

    @property
    def piece(self) -> int:
        """Rows that go together when more wait for it than there is room: up to `max_piece`, fewer if it is slow."""
        ...

    @property
    def closed(self) -> bool:
        """Will it never take data again?"""
        ...

    @property
    def is_high(self) -> bool:
        """Is it past its high mark, or on the way down to its low mark?"""
        ...

    @property
    def pack(self) -> Callable[[Any, Any, Any], Any] | None:
        """(origin, items, marks) → both as they travel, in pieces, where they leave the process; None: they do not."""
        ...

    def offer(self, item: Any, weight: int = 1) -> bool:
        """Accept a piece if the gate is open; never waits. False also when closed."""
        ...

    def force(self, item: Any, weight: int = 1) -> bool:
        """Accept a piece whatever the fill; False when closed."""
        ...

    def park(self, sender: Parked) -> None:
        """Pull from this sender when there is room."""
        ...

    def post(self, item: Any) -> None:
        """Put a message on the control lane; never refused."""
        ...
