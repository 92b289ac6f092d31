"""SavedTasks: what the tasks of one process begin with, read from the store of snapshots.

Each task loads what it had saved by itself, while others load. At another parallelism the files of a component are read
once in each process, and divided among its tasks.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from ...state import KeyedState, Manifest, load_split, load_task, manifest_name, read_manifest
from ...tasks import LOADERS, RestoredTask, handles_of
from .restoring import check_component

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ...actors import ActorSystem
    from ...runtime import Store
    from ...topology import ComponentSpec, TaskSpec
    from ..tasks_here import TasksHere


class SavedTasks:
    """What is in snapshot `number` (None: nothing) of the store."""

    def __init__(self, number: int | None, store: Store, system: ActorSystem) -> None:
        self._number = number
        self._store = store
        self._system = system
        self._manifest: asyncio.Task[Manifest] | None = None
        self._splits: dict[str, asyncio.Task[list[dict[Any, Any]]]] = {}  # component → its keys, by task

    async def restored(self, task: TaskSpec, tasks: TasksHere) -> RestoredTask | None:
        """What a task begins with; None: begin from the start. StateError, StoreError."""
        if self._number is None:
            return None
        if self._manifest is None:
            self._manifest = self._system.guard(self._read_manifest(self._number, tasks.env.name), name="manifest")
        manifest = await asyncio.shield(self._manifest)
        spec, count = tasks.topology.components[task.component], len(tasks.plan.tasks_of[task.component])
        before = check_component(manifest, spec, count)
        if not before:
            return RestoredTask(manifest.number, {})
        if len(before) != count:
            return await self._rescaled(manifest, spec, task, before, count)
        former = manifest.of_task(before[task.index])
        sections = await load_task(self._store, former, self._system.clock, LOADERS)
        return RestoredTask(manifest.number, sections, tuple(handles_of(sections)))

    async def _read_manifest(self, number: int, topology: str) -> Manifest:
        name = manifest_name(number)
        return read_manifest(name, await self._store.read(name), topology)

    async def _rescaled(
        self, manifest: Manifest, spec: ComponentSpec, task: TaskSpec, before: Sequence[int], count: int
    ) -> RestoredTask:
        """At another parallelism: the keys that this task owns, and the handles of every so many tasks."""
        clock, handles = self._system.clock, list[Any]()
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
