"""WorkerProcess: what the parent knows of one process of a worker. WorkerEvents: to whom a worker handle reports."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final, Protocol

if TYPE_CHECKING:
    from ...runtime import Profile
    from ...runtime.processes import Child
    from ..messages import Standing, StatusReport, TaskGaveUp, WorkerJoined
    from ..snapshots.messages import SnapshotCommand, SnapshotReport

COMMANDS: Final = 1000
"""How many commands about snapshots may wait for a worker."""


class WorkerEvents(Protocol):
    """Receives the events of the workers of one topology."""

    @property
    def ordered_mode(self) -> str:
        """The mode of the spouts: active, inactive or ended; empty: not decided, they keep the one that they have."""
        ...

    def nodes(self) -> dict[str, str]:
        """Worker → its machine, of those that have joined."""
        ...

    def may_adopt(self, worker: str, standing: Standing) -> bool:
        """The worker would be adopted. False if its process was given up by an earlier parent."""
        ...

    def on_all_imported(self, worker: str) -> None:
        """All workers have joined, and this one is a new process: an earlier one may have ended without a parent."""
        ...

    def on_connected(self, worker: str) -> None:
        """The worker listens, at a new address perhaps."""
        ...

    def on_process_ended(self, worker: str, incarnation: int) -> None:
        """This process of the worker has ended."""
        ...

    def on_news(self, status: StatusReport) -> None:
        """A report with new errors, stalls or backpressure."""
        ...

    def on_task_gave_up(self, worker: str, report: TaskGaveUp) -> None:
        """A task of the worker has failed for good."""
        ...

    def on_profile(self, worker: str, profile: Profile) -> None:
        """A profile of the worker."""
        ...

    def on_snapshot_report(self, report: SnapshotReport) -> None:
        """Tasks report about snapshots."""
        ...

    def on_leaving(self, worker: str, within_s: float) -> None:
        """The worker has received SIGTERM."""
        ...

    def on_failed(self, error: Exception) -> None:
        """The worker can never run."""
        ...


class WorkerProcess:
    """One process of a worker: made when it is started, replaced by the next one."""

    def __init__(self) -> None:
        self.child: Child | None = None  # while it runs
        self.joined: asyncio.Future[WorkerJoined] = asyncio.get_running_loop().create_future()
        self.has_tasks = False  # it was asked to make them
        self.has_former_tasks = False  # by an earlier parent: what they report about snapshots is not for this one
        self.works = False  # they run
        self.stays = False  # for the next topology: its tasks have ended for good
        self.mode = ""  # the last one sent
        self.poll_now = asyncio.Event()
        self.commands: asyncio.Queue[SnapshotCommand] = asyncio.Queue(COMMANDS)
        self.end_tasks_by_s: float | None = None  # it is killed then

    @property
    def has_joined(self) -> bool:
        """Does it run, and can it be asked?"""
        return self.child is not None and self.joined.done()

    def kill(self) -> None:
        """Kill it, if it runs."""
        if self.child is not None:
            self.child.kill()
