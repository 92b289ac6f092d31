"""Bugs planted into snapshots, commits and rollbacks, one at a time: the world of state finds each."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

from aiostorm.cluster.snapshots import SnapshotCommand
from aiostorm.cluster.snapshots.agent import Agent
from aiostorm.state import Aligner, Keeper, Manifest, RowPacker, Sink
from aiostorm.state.aligner import Aligned, Lost
from aiostorm.state.chunks import REMOVED
from aiostorm.state.manifest import pack_manifest
from aiostorm.tasks import HoldSpouts
from aiostorm.tasks.emit.outbox import Outlet
from aiostorm.tasks.snapshots.bolt_snapshots import BoltSnapshots
from aiostorm.tasks.snapshots.task_saver import TaskSaver
from aiostorm.tasks.snapshots.touching import KeyToucher
from aiostorm.topology import Segment
from aiostorm.windows import WindowDivider
from aiostorm.windows.open_sessions import OpenSessions

from ..state.world import StateResult, run
from .planting import SEEDS, Plant, first_that_finds, replaced


@contextlib.contextmanager
def a_barrier_is_forwarded_before_it_is_aligned() -> Iterator[None]:
    """The first barrier of a snapshot is enough."""

    def barrier(self: Aligner, source: int, number: int, rows: int) -> Aligned | Lost | None:
        if number <= self._past:
            return None
        self._end(number)
        return Aligned(number)

    with replaced(Aligner, "barrier", barrier):
        yield


@contextlib.contextmanager
def nothing_is_held_behind_a_barrier() -> Iterator[None]:
    """An outlet goes on behind a barrier."""
    real = Outlet.send_barrier

    def send_barrier(self: Outlet, number: int, make: Callable[[int], Segment]) -> None:
        real(self, number, make)
        self.release(number)

    with replaced(Outlet, "send_barrier", send_barrier):
        yield


@contextlib.contextmanager
def a_snapshot_is_committed_before_its_manifest_is_synced() -> Iterator[None]:
    """It is written, and that is all."""

    async def write_manifest(self: Keeper, manifest: Manifest) -> None:
        await self._store.write(manifest.name, pack_manifest(manifest))

    with replaced(Keeper, "_write_manifest", write_manifest):
        yield


@contextlib.contextmanager
def a_snapshot_is_committed_only_once() -> Iterator[None]:
    """Not again when it was restored."""

    async def restore_sink(self: BoltSnapshots) -> None:
        sink = self._task.user.component
        if isinstance(sink, Sink):
            await self._task.user.open(sink.restored, None)

    with replaced(BoltSnapshots, "restore_sink", restore_sink):
        yield


@contextlib.contextmanager
def deltas_have_no_removals() -> Iterator[None]:
    """A key that was removed comes back."""
    real = RowPacker.chunks

    def chunks(self: RowPacker, keys: list[Any], values: list[Any]) -> Any:
        kept = [place for place, value in enumerate(values) if value is not REMOVED]
        return real(self, [keys[place] for place in kept], [values[place] for place in kept])

    with replaced(RowPacker, "chunks", chunks):
        yield


@contextlib.contextmanager
def keys_are_touched_after_their_rows() -> Iterator[None]:
    """When the next ones come."""
    real, waiting = KeyToucher.touch_rows, dict[KeyToucher, tuple[Segment, int, int]]()

    def touch_rows(self: KeyToucher, segment: Segment, start: int, stop: int) -> None:
        if self in waiting:
            real(self, *waiting[self])
        waiting[self] = segment, start, stop

    with replaced(KeyToucher, "touch_rows", touch_rows):
        yield


@contextlib.contextmanager
def garbage_is_removed_before_the_manifest_is_written() -> Iterator[None]:
    """What the new snapshot does not need is removed too early."""

    async def commit(self: Keeper, manifest: Manifest) -> None:
        self._manifests[manifest.number] = manifest
        await self._remove_garbage(manifest.number - 1)
        await self._write_manifest(manifest)

    with replaced(Keeper, "commit", commit):
        yield


@contextlib.contextmanager
def windows_are_not_saved() -> Iterator[None]:
    """A snapshot has what a bolt says that its state is."""
    real = TaskSaver.freeze

    def freeze(self: TaskSaver, number: int, own: Any, handle: Any) -> None:
        self.tables = None
        real(self, number, own, handle)

    with replaced(TaskSaver, "freeze", freeze):
        yield


@contextlib.contextmanager
def an_aborted_snapshot_takes_its_rows_along() -> Iterator[None]:
    """The sink is not asked to take back what it has prepared."""
    real = BoltSnapshots._abort

    async def abort(self: BoltSnapshots, number: int) -> None:
        self._sink.handle = None
        await real(self, number)

    with replaced(BoltSnapshots, "_abort", abort):
        yield


@contextlib.contextmanager
def restored_sessions_set_no_timers() -> Iterator[None]:
    """They are open again, and never fire."""
    real = OpenSessions.load

    def load(self: OpenSessions[Any], column: Any, unpack: Callable[[Any, Any], Any]) -> None:
        real(self, column, unpack)
        self._timers.clear()

    with replaced(OpenSessions, "load", load):
        yield


@contextlib.contextmanager
def windows_are_not_divided() -> Iterator[None]:
    """With another number of tasks, open windows are lost."""

    def take(self: WindowDivider, task: int) -> dict[str, Any]:
        return {}

    with replaced(WindowDivider, "take", take):
        yield


@contextlib.contextmanager
def spouts_wait_for_a_sink_for_ever() -> Iterator[None]:
    """When a snapshot has freed the sink, they are not notified."""
    real = Agent.command

    def command(self: Agent, command: SnapshotCommand) -> None:
        if not isinstance(command, HoldSpouts) or command.hold:
            real(self, command)

    with replaced(Agent, "command", command):
        yield


PLANTED: dict[str, Plant] = {
    planted.__name__: planted
    for planted in (
        a_barrier_is_forwarded_before_it_is_aligned,
        nothing_is_held_behind_a_barrier,
        a_snapshot_is_committed_before_its_manifest_is_synced,
        a_snapshot_is_committed_only_once,
        deltas_have_no_removals,
        keys_are_touched_after_their_rows,
        garbage_is_removed_before_the_manifest_is_written,
        windows_are_not_saved,
        restored_sessions_set_no_timers,
        windows_are_not_divided,
        an_aborted_snapshot_takes_its_rows_along,
        spouts_wait_for_a_sink_for_ever,
    )
}

FIRST_LOOK = {
    # Seeds that found a bug some time ago: the test looks there first. (Any change to the code may move them.)
    "a_barrier_is_forwarded_before_it_is_aligned": 1,
    "a_snapshot_is_committed_only_once": 3,
    "deltas_have_no_removals": 3,
    "keys_are_touched_after_their_rows": 22,
    "restored_sessions_set_no_timers": 1,
    "an_aborted_snapshot_takes_its_rows_along": 46,
}


def found_by(planted: Plant, first: int = 0, seeds: int = SEEDS) -> StateResult | None:
    return first_that_finds(run, planted, first, seeds)
