"""Agent: snapshots in one process: passes commands to its tasks, collects what they save, and reports it.

    TakeSnapshot ─► spout tasks … barriers … tasks ─ Done ─► all tasks here? ─► sync of the store ─► TasksSaved
    CommitSnapshot, AbortSnapshot ─► all tasks … ─ committed ─► all tasks here? ─► TasksCommitted

1. What is reported as saved is durable.
2. After a row has failed nothing is reported as saved: the state of its task lacks the row.
3. Each task loads what it had saved by itself, while others load: from the manifest and the blobs in the store. At
   another parallelism the files of a component are read once in each process.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ...runtime import StoreError
from ...state import (
    Done,
    Failed,
    KeyedState,
    Manifest,
    SaveError,
    load_split,
    load_task,
    manifest_name,
    read_manifest,
)
from ...tasks import LOADERS, AbortSnapshot, CommitSnapshot, RestoredTask, TakeSnapshot, handles_of
from .messages import RowsFailed, SaveFailed, SnapshotCommand, SnapshotReport, SnapshotSetup, TasksCommitted, TasksSaved
from .restoring import check_component

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ...actors import ActorSystem
    from ...runtime import Store
    from ...state import Blob
    from ...topology import ComponentSpec, TaskSpec
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
        self._number = setup.number
        self._store = store
        self._system = system
        self._send = send
        self._tasks: TasksHere
        self._ids: frozenset[int] = frozenset()
        self._saved: dict[int, dict[int, Done]] = {}  # number → task → what it has saved
        self._committed: dict[int, set[int]] = {}  # number → tasks
        self._manifest: asyncio.Task[Manifest] | None = None
        self._splits: dict[str, asyncio.Task[list[dict[Any, Any]]]] = {}  # component → its keys, by task
        self._has_failed = False

    def attach(self, tasks: TasksHere) -> None:
        """The tasks of this process."""
        self._tasks = tasks
        self._ids = frozenset(task.task.task_id for task in tasks)

    def command(self, command: SnapshotCommand) -> None:
        """A command of the coordinator. One for earlier tasks has no effect."""
        if command.incarnation != self.incarnation:
            return
        if isinstance(command, TakeSnapshot):
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
        if self._number is None:
            return None
        if self._manifest is None:
            self._manifest = self._system.guard(self._read_manifest(self._number), name="manifest")
        manifest = await asyncio.shield(self._manifest)
        spec, tasks = self._tasks.topology.components[task.component], self._tasks.plan.tasks_of[task.component]
        before = check_component(manifest, spec, len(tasks))
        if not before:
            return RestoredTask(manifest.number, {})
        clock = self._system.clock
        if len(before) == len(tasks):
            sections = await load_task(self._store, manifest.of_task(before[task.index]), clock, LOADERS)
            return RestoredTask(manifest.number, sections, tuple(handles_of(sections)))
        return await self._rescaled(manifest, spec, task, before)

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

    async def _read_manifest(self, number: int) -> Manifest:
        name = manifest_name(number)
        return read_manifest(name, await self._store.read(name), self._tasks.env.name)

    async def _rescaled(
        self, manifest: Manifest, spec: ComponentSpec, task: TaskSpec, before: Sequence[int]
    ) -> RestoredTask:
        """At another parallelism: the keys that this task owns, and the handles of every so many tasks."""
        count, clock = len(self._tasks.plan.tasks_of[task.component]), self._system.clock
        handles: list[Any] = []
        for old in before[task.index :: count]:
            handles += handles_of(await load_task(self._store, manifest.of_task(old), clock, LOADERS))
        if not isinstance(spec.state, KeyedState):
            return RestoredTask(manifest.number, {}, tuple(handles))
        if spec.id not in self._splits:
            work = load_split(self._store, manifest, spec.id, spec.state, count, clock)
            self._splits[spec.id] = self._system.guard(work, name=f"the state of {spec.id}")
        parts = await asyncio.shield(self._splits[spec.id])
        owned, parts[task.index] = parts[task.index], {}
        return RestoredTask(manifest.number, {0: owned}, tuple(handles))
