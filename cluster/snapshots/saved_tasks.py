"""SavedTasks: what the tasks of one process begin with, read from the store of snapshots.

Each task loads what it had saved by itself, while others load. At another parallelism the files of a component are read
once in each process, and divided among its tasks.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from ...state import Manifest, load_task, manifest_name, read_manifest
from ...tasks import LOADERS, Rescaling, RestoredTask, handles_of
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
        self._rescaled: dict[str, asyncio.Task[Rescaling]] = {}  # by component

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
            if spec.id not in self._rescaled:
                work = self._rescale(manifest, spec, before, tasks)
                self._rescaled[spec.id] = self._system.guard(work, name=f"the state of {spec.id}")
            rescaling = await asyncio.shield(self._rescaled[spec.id])
            return RestoredTask(manifest.number, *rescaling.take(task.index))
        former = manifest.of_task(before[task.index])
        sections = await load_task(self._store, former, self._system.clock, LOADERS)
        return RestoredTask(manifest.number, sections, tuple(handles_of(sections)))

    async def _read_manifest(self, number: int, topology: str) -> Manifest:
        name = manifest_name(number)
        return read_manifest(name, await self._store.read(name), topology)

    async def _rescale(
        self, manifest: Manifest, spec: ComponentSpec, before: Sequence[int], tasks: TasksHere
    ) -> Rescaling:
        """At another parallelism: what comes to the tasks of this process."""
        clock, here = self._system.clock, [each.task.index for each in tasks if each.task.component == spec.id]
        count = len(tasks.plan.tasks_of[spec.id])
        rescaling = Rescaling(spec, len(before), count, here, tasks.env.stream_fields())
        for index, former in enumerate(before):
            saved = manifest.of_task(former)
            if rescaling.needs(index, saved.sizes):
                sections = await load_task(self._store, saved, clock, LOADERS)
                for _ in rescaling.add(index, sections):
                    await clock.sleep(0)
        return rescaling
