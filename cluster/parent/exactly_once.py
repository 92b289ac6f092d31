"""A topology with exactly once on workers: puts its parts together."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from .builds import ExactlyOnce, first_build_of
from .distributed_runtime import DistributedRuntime

if TYPE_CHECKING:
    from ..snapshots.exactly_once import MakeRebuildable
    from ..snapshots.manager import SnapshotManager
    from ..snapshots.messages import SnapshotSetup
    from ..snapshots.place import SnapshotPlace
    from ..snapshots.runtime import Rebuildable
    from .assignment import Deployment
    from .worker_registry import WorkerRegistry


def rebuilt_on_workers(registry: WorkerRegistry, deployment: Deployment) -> Callable[[SnapshotPlace], MakeRebuildable]:
    """Runs the tasks on workers, which open the place by themselves."""

    def for_place(place: SnapshotPlace) -> MakeRebuildable:
        def make(setup: SnapshotSetup, manager: SnapshotManager) -> Rebuildable:
            first_build = first_build_of(place.incarnation)
            events = ExactlyOnce(setup, manager.on_report, manager.on_worker_lost, first_build)
            return DistributedRuntime(registry, deployment, manager.on_gave_up, events)

        return make

    return for_place
