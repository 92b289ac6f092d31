"""Rebuildable: a runtime whose tasks can be ended and built again, from a snapshot."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from ..runtimes import TopologyRuntime

if TYPE_CHECKING:
    from .messages import SnapshotCommand, SnapshotSetup


class Rebuildable(TopologyRuntime, Protocol):
    """A TopologyRuntime for exactly once. It passes what the tasks report to the `on_report` that it was made with.

    Its tasks are built for the first time by `start`, as the setup says that it was made with.
    """

    def send(self, command: SnapshotCommand) -> None:
        """Send a command to all tasks, in order; never waits. What has ended does not get it."""
        ...

    async def rebuild(self, setup: SnapshotSetup) -> None:
        """End all tasks at once, and build them again; returns when all are open, in the mode that was set last.

        Raises what `start` raises. `wait_quiet` goes on with the new tasks, and totals of metrics never decrease. A
        worker that ends meanwhile is started again, and takes part.
        """
        ...
