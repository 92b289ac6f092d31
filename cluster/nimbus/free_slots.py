"""Free slots: those for the workers of one topology, the best one first. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable
from heapq import heapify, heappop, heapreplace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .capacity import Capacity, Demand


class FreeSlots:
    """The free slots for one topology, the best one first: where it has the fewest workers (`own`), then where it is
    preferred, then where most are free; those of `last` after all others.

    A heap: for a thousand supervisors each slot takes some steps, not a look at all of them.
    """

    def __init__(
        self,
        capacity: Capacity,
        demand: Demand,
        last: Collection[str],
        allowed: Iterable[str],
        own: Counter[str],
        prefer: Callable[[str], bool] = lambda on: False,
    ) -> None:
        self._capacity = capacity
        self._demand = demand
        self._last = last
        self._own = own
        self._prefer = prefer
        self._heap = [self._key(on) for on in allowed if capacity.free(on, demand)]
        heapify(self._heap)

    @property
    def are_there(self) -> bool:
        """Is one left?"""
        return bool(self._heap)

    def take(self) -> str:
        """Take the best one. IndexError if there is none."""
        best = self._heap[0][-1]
        self._own[best] += 1
        self._capacity.take((best,), self._demand)
        if self._capacity.free(best, self._demand):
            heapreplace(self._heap, self._key(best))
        else:
            heappop(self._heap)
        return best

    def _key(self, on: str) -> tuple[bool, int, bool, int, str]:
        return on in self._last, self._own[on], not self._prefer(on), -self._capacity.free(on, self._demand), on
