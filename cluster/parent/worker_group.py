"""WorkerGroup: who has the worker handles of a topology, as they see it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Protocol

from ..messages import Connect, LoadTopology, StatusReport, TaskGaveUp

if TYPE_CHECKING:  # a worker handle knows its worker group, too
    from .worker_handle import WorkerHandle


class WorkerGroup(Protocol):
    """Who has the worker handles of a topology."""

    @property
    def mode(self) -> str:
        """How the spouts are to be."""
        ...

    @property
    def target(self) -> str:
        """What its workers may load."""
        ...

    @property
    def code(self) -> Mapping[str, str]:
        """What the topology is made of here (see fingerprint)."""
        ...

    def order(self, worker_handle: WorkerHandle) -> LoadTopology:
        """What this worker is to load."""
        ...

    def connection(self, worker_handle: WorkerHandle) -> Connect:
        """Whom it is to have links to."""
        ...

    async def reached(self, worker_handle: WorkerHandle, step: str) -> None:
        """It has got so far; returns when all have, once."""
        ...

    async def turn(self, worker_handle: WorkerHandle) -> None:
        """Returns when those that it is to dial listen."""
        ...

    def connected(self, worker_handle: WorkerHandle) -> None:
        """It listens."""
        ...

    def ready(self, worker_handle: WorkerHandle) -> None:
        """It works."""
        ...

    def died(self, worker_handle: WorkerHandle, life: int) -> None:
        """That life of its process has ended."""
        ...

    def seen(self, worker_handle: WorkerHandle, seen: StatusReport) -> None:
        """What a look has shown."""
        ...

    def gave_up(self, worker_handle: WorkerHandle, told: TaskGaveUp) -> None:
        """One of its tasks was given up."""
        ...

    def leaving(self, worker_handle: WorkerHandle, within_s: float) -> None:
        """It was asked to end by somebody else."""
        ...

    def failed(self, error: Exception) -> None:
        """It can never work."""
        ...
