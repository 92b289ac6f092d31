"""Load order: which loads are read next, as a pure machine.

    begin ─► ticket ─► came ─► readable: read … ─► ended          gone: it failed, or nobody wants it

1. As they come: any that is here. In order: only the one that was begun first of those that have not ended, so that
   what is read comes in the order in which it was asked for, while the next ones are on their way or wait.
"""

from __future__ import annotations

from typing import Generic, TypeVar

T = TypeVar("T")


class LoadOrder(Generic[T]):
    """See the module."""

    def __init__(self, *, in_order: bool) -> None:
        self._in_order = in_order
        self._tickets = 0
        self._coming: set[int] = set()
        self._here: dict[int, T] = {}

    def begin(self) -> int:
        """One is on its way; its ticket."""
        self._tickets += 1
        self._coming.add(self._tickets)
        return self._tickets

    def came(self, ticket: int, load: T) -> None:
        """It is here."""
        self._coming.remove(ticket)
        self._here[ticket] = load

    def gone(self, ticket: int) -> None:
        """It does not come."""
        self._coming.remove(ticket)

    def ended(self, load: T) -> None:
        """It was read to its end."""
        self._here = {ticket: other for ticket, other in self._here.items() if other is not load}

    @property
    def under_way(self) -> int:
        """How many are on their way or here."""
        return len(self._coming) + len(self._here)

    @property
    def here(self) -> list[T]:
        """All that are here, as they came."""
        return list(self._here.values())

    def readable(self, most: int) -> list[T]:
        """Those to be read now, at most so many."""
        if not self._in_order:
            return self.here[:most]
        first = min((*self._coming, *self._here), default=0)
        return [self._here[first]] if first in self._here else []
