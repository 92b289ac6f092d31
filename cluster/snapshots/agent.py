"""Agent: snapshots in one process: passes commands to its tasks, collects what they save, and reports it.

    TakeSnapshot ─► spout tasks … barriers … tasks ─ Done ─► all tasks here? ─► sync of the store ─► TasksSaved
    HoldSpouts ─► spout tasks                    sinks ─ how many rows they hold ─► RowsHeld
    CommitSnapshot, AbortSnapshot ─► all tasks … ─ committed ─► all tasks here? ─► TasksCommitted

1. What is reported as saved is durable.
2. After a row has failed nothing is reported as saved: the state of its task lacks the row.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING

from ...runtime import LoopTurns, StoreError
from ...state import (
    Done,
    Failed,
    SaveError,
)
from ...tasks import AbortSnapshot, CommitSnapshot, HoldSpouts, RestoredTask, TakeSnapshot
from .messages import (
    RowsFailed,
    RowsHeld,
    SaveFailed,
    SnapshotCommand,
    SnapshotReport,
    SnapshotSetup,
    TasksCommitted,
    TasksSaved,
)
from .saved_tasks import SavedTasks

if TYPE_CHECKING:
    from ...actors import ActorSystem
    from ...runtime import Store
    from ...state import Blob
    from ...topology import TaskSpec
    from ..tasks_here import TasksHere

log = logging.getLogger("aiostorm.cluster")


class Agent:
    """The snapshots of one process, in one incarnation of its tasks. `send`: reports to the parent.

    `strict`: check that every changed key was marked. Call `attach` when the tasks are made.
    """

    def __init__(
        self,
        setup: SnapshotSetup,
        store: Store,
        system: ActorSystem,
        send: Callable[[SnapshotReport], None],
        *,
        strict: bool = False,
    ) -> None:
        self.incarnation = setup.incarnation
        self.strict = strict
        self.turns = LoopTurns(system.clock)
        self._before = SavedTasks(setup.number, store, system)
        self._store = store
        self._system = system
        self._send = send
        self._tasks: TasksHere
        self._ids: frozenset[int] = frozenset()
        self._saved: dict[int, dict[int, Done]] = {}  # number → task → what it has saved
        self._committed: dict[int, set[int]] = {}  # number → tasks
        self._has_failed = False

    def attach(self, tasks: TasksHere) -> None:
        """The tasks of this process."""
        self._tasks = tasks
        self._ids = frozenset(task.task.task_id for task in tasks)

    def command(self, command: SnapshotCommand) -> None:
        """A command of the coordinator. One for earlier tasks has no effect."""
        if command.incarnation != self.incarnation:
            return
        if isinstance(command, TakeSnapshot | HoldSpouts):
            self._tasks.post_to_spouts(lambda: command)
            return
        if isinstance(command, AbortSnapshot):
            self._saved = {number: parts for number, parts in self._saved.items() if number > command.number}
        if isinstance(command, CommitSnapshot) and not self._ids:
            self._send(TasksCommitted(command.number, self.incarnation, ()))
        for task in self._tasks:
            self._tasks.post(task, command)

    # -- SnapshotAgent -------------------------------------------------------------------------------------------------

    async def restored(self, task: TaskSpec) -> RestoredTask | None:
        return await self._before.restored(task, self._tasks)

    async def write(self, blob: Blob) -> None:
        try:
            await self._store.write(blob.ref.name, blob.data)
        except StoreError as error:
            raise SaveError(f"a snapshot was not saved: {error}") from error

    def done(self, done: Done) -> None:
        parts = self._saved.setdefault(done.number, {})
        parts[done.task] = done
        if parts.keys() == self._ids:
            del self._saved[done.number]
            self._system.guard(self._sync(tuple(parts.values())), name=f"sync of snapshot {done.number}")

    def failed(self, failed: Failed) -> None:
        self._send(SaveFailed(failed))

    def committed(self, task: int, number: int) -> None:
        tasks = self._committed.setdefault(number, set())
        tasks.add(task)
        if tasks == self._ids:
            del self._committed[number]
            self._send(TasksCommitted(number, self.incarnation, tuple(sorted(tasks))))

    def row_failed(self, component: str, task: int, error: str) -> None:
        if not self._has_failed:
            self._has_failed = True
            self._send(RowsFailed(self.incarnation, component, task, error))

    def rows_held(self, component: str, task: int, level: int, rows: int, size_bytes: int) -> None:
        self._send(RowsHeld(self.incarnation, component, task, level, rows, size_bytes))

    # -- inside --------------------------------------------------------------------------------------------------------

    async def _sync(self, parts: tuple[Done, ...]) -> None:
        try:
            if any(done.blobs for done in parts):
                await self._store.sync()
        except StoreError as error:
            first = parts[0]
            reason = f"a snapshot was not saved: {error}"
            self._send(SaveFailed(Failed(first.number, first.task, self.incarnation, reason, stored=True)))
            return
        if not self._has_failed:
            self._send(TasksSaved(parts))
