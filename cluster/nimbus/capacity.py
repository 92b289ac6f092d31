"""Capacity: what of each supervisor is taken by workers: slots, memory, cores. Pure.

    SupervisorRecord: 4 slots, 8 GiB, 4 cores        workers of 3 GiB and 1 core: 2 fit
                                                     workers that declare nothing: 4 fit

1. A worker takes one slot, and the memory and cores that were declared when its topology was submitted. What was not
   declared takes none.
2. A supervisor that declares no memory, or no cores, is limited by its slots only.
3. Cores are counted in thousandths, so that sums are exact.

From: Storm's ResourceAwareScheduler, for workers instead of executors: which tasks a worker has is its parent's to say.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from .records import SupervisorRecord, TopologyRecord


@dataclass(frozen=True, slots=True)
class Demand:
    """What each worker of a topology takes besides its slot; 0: none."""

    memory_bytes: int = 0
    millicores: int = 0

    @classmethod
    def of(cls, topology: TopologyRecord | None) -> Self:
        """That of a topology; none if its record is not known."""
        if topology is None:
            return cls()
        return cls(max(0, topology.worker_memory_bytes), max(0, round(topology.worker_cores * 1000)))

    def __str__(self) -> str:
        parts = []
        if self.memory_bytes:
            parts.append(f"{self.memory_bytes / 1024**2:,.0f} MiB")
        if self.millicores:
            parts.append(f"{self.millicores / 1000:g} cores")
        return " and ".join(parts)


SLOT_ONLY = Demand()


class Capacity:
    """What is taken of each supervisor, and what is free."""

    def __init__(self, supervisors: Mapping[str, SupervisorRecord]) -> None:
        self._supervisors = supervisors
        self._slots: Counter[str] = Counter()
        self._memory: Counter[str] = Counter()
        self._cores: Counter[str] = Counter()

    def take(self, places: Iterable[str], demand: Demand, sign: int = 1) -> None:
        """A worker is on each of these supervisors."""
        for on in places:
            self._slots[on] += sign
            self._memory[on] += sign * demand.memory_bytes
            self._cores[on] += sign * demand.millicores

    def release(self, places: Iterable[str], demand: Demand) -> None:
        """A worker of each of these supervisors is taken out."""
        self.take(places, demand, -1)

    def free(self, on: str, demand: Demand = SLOT_ONLY) -> int:
        """How many more workers of this kind a supervisor that is there may have."""
        record = self._supervisors[on]
        fit = [record.slots - self._slots[on]]
        if demand.memory_bytes and record.memory_bytes:
            fit.append((record.memory_bytes - self._memory[on]) // demand.memory_bytes)
        if demand.millicores and record.cores:
            fit.append((round(record.cores * 1000) - self._cores[on]) // demand.millicores)
        return max(0, min(fit))
