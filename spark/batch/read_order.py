"""Read order: which readers are read next, as a pure machine.

    begin ─► ticket ─► opened ─► readable: read … ─► ended          failed: it was not opened, or is not needed

1. Without order: any open reader. In order: only the first started of those that have not ended, so that chunks are
   read in the order in which partitions were claimed, while the next readers open or wait.
"""

from __future__ import annotations

from typing import Generic, TypeVar

T = TypeVar("T")


class ReadOrder(Generic[T]):
    """The readers of one feed."""

    def __init__(self, *, in_order: bool) -> None:
        self._in_order = in_order
        self._tickets = 0
        self._opening_tickets: set[int] = set()
        self._open: dict[int, T] = {}

    def begin(self) -> int:
        """A reader is being opened. Returns its ticket."""
        self._tickets += 1
        self._opening_tickets.add(self._tickets)
        return self._tickets

    def opened(self, ticket: int, reader: T) -> None:
        """The reader of this ticket is open."""
        self._opening_tickets.remove(ticket)
        self._open[ticket] = reader

    def failed(self, ticket: int) -> None:
        """The reader of this ticket was not opened."""
        self._opening_tickets.remove(ticket)

    def ended(self, reader: T) -> None:
        """The reader was read to its end."""
        self._open = {ticket: other for ticket, other in self._open.items() if other is not reader}

    @property
    def in_progress(self) -> int:
        """The number of readers being opened or open."""
        return len(self._opening_tickets) + len(self._open)

    @property
    def open_readers(self) -> list[T]:
        """All open readers, in the order of opening."""
        return list(self._open.values())

    def readable(self, most: int) -> list[T]:
        """The readers to read now, at most `most`."""
        if not self._in_order:
            return self.open_readers[:most]
        first = min((*self._opening_tickets, *self._open), default=0)
        return [self._open[first]] if first in self._open else []
