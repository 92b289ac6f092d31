"""What is always true of the disk and of the tasks, while a world of state runs.

1. A manifest is written when all its blobs are durable.
2. Once there is a durable manifest, there is one always.
3. A blob is removed when no manifest names it, neither one that can be read nor one that a crash would bring back.
4. The incarnations of the tasks of a process only grow. (They may be built twice under one, if a worker ends before all
   are built.)
5. No row is lost between two tasks or comes behind its barrier, and every key that changes is marked.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from aiostorm.cluster.snapshots.agent import Agent
from aiostorm.state import Coordinator, DamagedError, Failed, Manifest, Phase, UnmarkedError, read_manifest
from aiostorm.state.governor import BlobChain
from aiostorm.state.manifest import manifest_number
from aiostorm.tasks.snapshots.spout_snapshots import POSITION
from aiostorm.tasks.snapshots.task_saver import TaskSaver
from aiostorm.testing.simulation.disk import Disk, DiskChange

from ..planted.planting import replaced
from .failpoints import installed

if TYPE_CHECKING:
    from .world import StateWorkload


class Watch:
    """Of one run."""

    def __init__(self, work: StateWorkload) -> None:
        self.work = work
        self._manifests: dict[bytes, frozenset[str]] = {}
        self._built: dict[tuple[str, int], int] = {}

    def problem(self, text: str) -> None:
        self.work.world.problem(text)

    def changes(self, disk: Disk, change: DiskChange) -> None:
        """The disk is about to change."""
        if change.op == "write" and manifest_number(change.name) is not None:
            missing = self.blobs(change.name, change.data) - disk._durable.keys()
            if missing:
                self.problem(f"{change.name} is written, and these blobs are not durable: {sorted(missing)}")
        elif change.op == "remove" and change.name.startswith("t"):
            for blobs, which in ((disk._visible, "is there"), (disk._durable, "would be there after a crash")):
                for name in self.needing(change.name, blobs):
                    self.problem(f"blob {change.name} is removed, and {name}, which names it, {which}")

    def needing(self, blob: str, blobs: Mapping[str, bytes]) -> list[str]:
        """The manifests that name a blob."""
        named = [name for name in blobs if manifest_number(name) is not None]
        return [name for name in named if blob in self.blobs(name, blobs[name])]

    def blobs(self, name: str, data: bytes) -> frozenset[str]:
        """Those that a manifest names."""
        found = self._manifests.get(data)
        if found is None:
            try:
                manifest: Manifest = read_manifest(name, data, "exact")
                found = manifest.blob_names
            except DamagedError:
                found = frozenset()
            self._manifests[data] = found
        return found

    def synced(self, disk: Disk) -> None:
        """What is on the disk is durable."""
        numbers = {number for name in disk._durable if (number := manifest_number(name)) is not None}
        if self.work.durable and not numbers:
            self.problem(f"no manifest is durable any more, after {max(self.work.durable)}")
        self.work.durable |= numbers

    def attached(self, agent: Agent) -> None:
        """Tasks are built."""
        process = self.work.world.current
        key = process.name, process.incarnation
        if process.alive and self._built.get(key, 0) > agent.incarnation:
            self.problem(f"{process.name} builds tasks of incarnation {agent.incarnation} after {self._built[key]}")
        self._built[key] = agent.incarnation

    def frozen(self, saver: TaskSaver, number: int, own: Mapping[str, Any]) -> None:
        """A task is frozen."""
        if POSITION in own:
            task = saver._task
            self.work.shape.outside.database.frozen(number, task.component, task.index, own[POSITION])


@contextlib.contextmanager
def watched(work: StateWorkload) -> Iterator[Watch]:
    """In the block, all this is checked, and failpoints are passed."""
    watch, hit = Watch(work), work.operator.failpoints.hit
    real_change, real_sync, real_attach, real_freeze = Disk.change, Disk.sync, Agent.attach, TaskSaver.freeze
    real_fail, real_on_failed = TaskSaver.fail, Coordinator.on_failed

    def change(self: Disk, change: DiskChange) -> None:
        if self is work.disk:
            watch.changes(self, change)
        real_change(self, change)
        if change.op == "write" and manifest_number(change.name) is not None:
            hit("the manifest is there, and is not synced")
        elif change.op == "remove" and change.name.startswith("t"):
            hit("some garbage is removed")

    def sync(self: Disk) -> None:
        real_sync(self)
        if self is work.disk:
            watch.synced(self)

    def attach(self: Agent, tasks: Any) -> None:
        watch.attached(self)
        real_attach(self, tasks)

    def fail(self: TaskSaver, number: int, error: Exception, *, lost: bool = False) -> None:
        if work.world.current.alive and isinstance(error, UnmarkedError):
            watch.problem(f"snapshot {number}: {error}")
        real_fail(self, number, error, lost=lost)

    def on_failed(self: Coordinator, failed: Failed, now_s: float) -> Any:
        # Of a snapshot that was given up it is no problem: a source may know that, and send, before the target does.
        current = (self.phase, self.number, self.incarnation)
        if failed.lost and current == (Phase.TAKING, failed.number, failed.incarnation):
            watch.problem(failed.reason)
        return real_on_failed(self, failed, now_s)

    def next_is_full(self: BlobChain, n_touched: int, n_keys: int) -> bool:
        return not self.blobs or self._n_deltas >= work.most_deltas

    def freeze(self: TaskSaver, number: int, own: Mapping[str, Any], handle: Any) -> None:
        watch.frozen(self, number, own)
        real_freeze(self, number, own, handle)

    with (
        replaced(Disk, "change", change),
        replaced(Disk, "sync", sync),
        replaced(Agent, "attach", attach),
        replaced(TaskSaver, "freeze", freeze),
        replaced(TaskSaver, "fail", fail),
        replaced(Coordinator, "on_failed", on_failed),
        replaced(BlobChain, "next_is_full", next_is_full),
        installed(work.operator.failpoints),
    ):
        yield watch
