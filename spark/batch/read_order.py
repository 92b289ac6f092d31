"""Load order: which loads are read next, as a pure machine.

    begin ─► ticket ─► came ─► readable: read … ─► ended          gone: it failed, or nobody wants it

1. As they come: any that is here. In order: only the one that was begun first of those that have not ended, so that
   what is read comes in the order in which it was asked for, while the next ones are on their way or wait.
"""

from __future__ import annotations

from typing import Generic, TypeVar

T = TypeVar("T")


class ReadOrder(Generic[T]):
    """See the module."""

    def __init__(self, *, in_order: bool) -> None:
        self._in_order = in_order
        self._tickets = 0
        self._opening_tickets: set[int] = set()
        self._open: dict[int, T] = {}

    def begin(self) -> int:
        """One is on its way; its ticket."""
        self._tickets += 1
        self._opening_tickets.add(self._tickets)
        return self._tickets

    def opened(self, ticket: int, reader: T) -> None:
        """It is here."""
        self._opening_tickets.remove(ticket)
        self._open[ticket] = reader

    def failed(self, ticket: int) -> None:
        """It does not come."""
        self._opening_tickets.remove(ticket)

    def ended(self, reader: T) -> None:
        """It was read to its end."""
        self._open = {ticket: other for ticket, other in self._open.items() if other is not reader}

    @property
    def in_progress(self) -> int:
        """How many are on their way or here."""
        return len(self._opening_tickets) + len(self._open)

    @property
    def open_readers(self) -> list[T]:
        """All that are here, as they came."""
        return list(self._open.values())

    def readable(self, most: int) -> list[T]:
        """Those to be read now, at most so many."""
        if not self._in_order:
            return self.open_readers[:most]
        first = min((*self._opening_tickets, *self._open), default=0)
        return [self._open[first]] if first in self._open else []
