"""WorkerGroup: the owner of a topology's worker handles, as the handles see it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Protocol

from ..messages import Connect, LoadTopology, StatusReport, TaskGaveUp

if TYPE_CHECKING:  # the two modules need each other
    from .worker_handle import WorkerHandle


class WorkerGroup(Protocol):
    """Owns the worker handles of a topology."""

    @property
    def mode(self) -> str:
        """The mode of the spouts: active, inactive or ended."""
        ...

    @property
    def target(self) -> str:
        """The target that its workers may load."""
        ...

    @property
    def code(self) -> Mapping[str, str]:
        """The modules of the topology in this process (see fingerprint)."""
        ...

    def load_command(self, worker_handle: WorkerHandle) -> LoadTopology:
        """The command to load the topology."""
        ...

    def connect_command(self, worker_handle: WorkerHandle) -> Connect:
        """The command to connect to the peers."""
        ...

    async def wait_for_step(self, worker_handle: WorkerHandle, step: str) -> None:
        """The worker has reached a step; returns when all workers have."""
        ...

    async def wait_for_turn(self, worker_handle: WorkerHandle) -> None:
        """Returns when the peers that this worker dials are listening."""
        ...

    def on_connected(self, worker_handle: WorkerHandle) -> None:
        """The worker listens."""
        ...

    def on_ready(self, worker_handle: WorkerHandle) -> None:
        """The worker runs its tasks."""
        ...

    def on_died(self, worker_handle: WorkerHandle, life: int) -> None:
        """This process of the worker has ended."""
        ...

    def on_status(self, worker_handle: WorkerHandle, status: StatusReport) -> None:
        """A poll has brought news."""
        ...

    def on_task_gave_up(self, worker_handle: WorkerHandle, report: TaskGaveUp) -> None:
        """A task of the worker has failed for good."""
        ...

    def on_leaving(self, worker_handle: WorkerHandle, within_s: float) -> None:
        """The worker has received SIGTERM."""
        ...

    def on_failed(self, error: Exception) -> None:
        """The worker can never run."""
        ...
