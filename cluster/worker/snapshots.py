"""WorkerSnapshots: what a worker does for exactly once: the store, and the agent of each build of its tasks.

Connect ─► begin: an agent         control actor ─► command ─► agent ─► tasks        tasks ─► agent ─► parent
Rebuild ─► end: what the old agent reports from now on is dropped
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from ...state import ReopeningStore, open_store
from ..snapshots.agent import Agent

if TYPE_CHECKING:
    from ...actors import ActorSystem
    from ...runtime import Store
    from ..snapshots.messages import SnapshotCommand, SnapshotReport, SnapshotSetup

StoreOpener = Callable[[str], "Store"]
"""Opens the store of a place (see SnapshotSetup), whose owner is the parent."""


def open_shared(place: str) -> Store:
    """A folder of this machine, or a URL of fsspec. StoreError."""
    return open_store(place, shared=True)


class WorkerSnapshots:
    """`send_to_parent`: in order, without waiting. The store is kept: a topology has one place."""

    def __init__(
        self, system: ActorSystem, send_to_parent: Callable[[object], None], open_store: StoreOpener = open_shared
    ) -> None:
        self._system = system
        self._send_to_parent = send_to_parent
        self._open_store = open_store
        self._store: ReopeningStore | None = None
        self._agent: Agent | None = None

    def begin(self, setup: SnapshotSetup, *, strict: bool) -> Agent:
        """The agent of tasks that are built now. StoreError if the place cannot be opened."""
        if self._store is None:
            self._store = ReopeningStore(lambda: self._open_store(setup.place))

        def send(report: SnapshotReport) -> None:
            if self._agent is agent:
                self._send_to_parent(report)

        agent = self._agent = Agent(setup, self._store, self._system, send, strict=strict)
        return agent

    def command(self, command: SnapshotCommand) -> None:
        """A command of the parent for the tasks."""
        if self._agent is not None:
            self._agent.command(command)

    def end(self) -> None:
        """The tasks end."""
        self._agent = None

    async def close(self) -> None:
        """Release the place: the process ends."""
        self._agent = None
        if self._store is not None:
            await self._store.close()
