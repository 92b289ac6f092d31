"""Failpoints: named points of a snapshot, a commit and a rollback, at each of which a process can be killed.

Each is before or after a call of a method of the library, which is replaced for the length of a run: the library knows
nothing of it. `arm` chooses a point: after so many passes the process that reaches it is killed, or its parent, or the
machine.

1. What a killed process had begun runs to its end, and has no effect.
2. A coroutine of a killed process never goes on.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import inspect
from collections import Counter
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from aiostorm.cluster.parent.distributed_runtime import DistributedRuntime
from aiostorm.cluster.snapshots.agent import Agent
from aiostorm.cluster.snapshots.manager import SnapshotManager
from aiostorm.cluster.snapshots.place import SnapshotPlace
from aiostorm.cluster.snapshots.rebuilt_local import RebuiltLocalRuntime
from aiostorm.state import Coordinator, Keeper
from aiostorm.tasks.snapshots.barriers import BarrierEmitter
from aiostorm.tasks.snapshots.bolt_snapshots import BoltSnapshots
from aiostorm.tasks.snapshots.spout_snapshots import SpoutSnapshots
from aiostorm.tasks.snapshots.task_saver import TaskSaver

from ..planted.planting import replaced

if TYPE_CHECKING:
    from aiostorm.testing.simulation import Fault

    from .faults import Operator

POINTS: dict[str, tuple[Any, str]] = {
    "the place is opened": (SnapshotPlace, "open"),
    "the snapshot to begin with is chosen": (SnapshotPlace, "choose"),
    "a task loads its state": (Agent, "restored"),
    "the tasks are built": (Agent, "attach"),
    "the sink is restored": (BoltSnapshots, "restore_sink"),
    "a snapshot is triggered": (Coordinator, "_trigger"),
    "a command arrives": (Agent, "command"),
    "a spout takes its position": (SpoutSnapshots, "_take"),
    "a barrier is sent": (BarrierEmitter, "send"),
    "a barrier arrives": (BoltSnapshots, "on_barrier"),
    "a bolt is aligned": (BoltSnapshots, "_take"),
    "a task is frozen": (TaskSaver, "freeze"),
    "a blob is written": (Agent, "write"),
    "a task is saved": (Agent, "done"),
    "the blobs are synced": (Agent, "_sync"),
    "a report arrives": (SnapshotManager, "on_report"),
    "the manifest is to be written": (SnapshotManager, "_write"),
    "the manifest is written": (Keeper, "_write_manifest"),
    "garbage is removed": (Keeper, "_remove_garbage"),
    "a bolt commits": (BoltSnapshots, "_commit"),
    "a task has committed": (Agent, "committed"),
    "a snapshot is aborted": (BoltSnapshots, "_abort"),
    "a row has failed": (Agent, "row_failed"),
    "a rollback is decided": (Coordinator, "_roll_back"),
    "a rollback begins": (SnapshotManager, "_roll_back"),
    "a rebuild in one process": (RebuiltLocalRuntime, "rebuild"),
    "a rebuild of workers": (DistributedRuntime, "rebuild"),
}
"""Name → the method. Each is two points: before it and after it."""

NAMES = [
    *(f"{name}, {when}" for name in POINTS for when in ("before", "after")),
    *("the sink's commit, before", "the sink's commit, after", "the manifest is there, and is not synced"),
    "some garbage is removed",
]


class Failpoints:
    """Those of one run. `hits`: how often each was passed while it was armed or not."""

    def __init__(self, operator: Operator) -> None:
        self.hits: Counter[str] = Counter()
        self.killed: Counter[str] = Counter()
        self._armed: dict[str, tuple[int, str]] = {}  # so many passes more, then what is killed
        self._operator = operator

    def arm(self, fault: Fault) -> None:
        """Kill at a point, which the fault chooses."""
        name = NAMES[fault.choice % len(NAMES)]
        victim = ("machine", "parent", "worker")[fault.choice // len(NAMES) % 3]
        self._armed[name] = int(fault.amount), victim

    def clear(self) -> None:
        """Kill no more."""
        self._armed.clear()

    def hit(self, name: str) -> None:
        """The process that runs is at this point."""
        operator, here = self._operator, self._operator.world.current
        if here is operator.world.driver:  # which runs the disk
            here = operator.parent
        if not here.alive or not operator.faulty:
            return
        self.hits[name] += 1
        armed = self._armed.get(name)
        if armed is None:
            return
        passes, victim = armed
        if passes > 1:
            self._armed[name] = passes - 1, victim
            return
        del self._armed[name]
        self.killed[name] += 1
        operator.world.trace.add(operator.world.now_s, "fault", here.name, f"failpoint: {name} ({victim})")
        operator.kill(victim if here is not operator.parent or victim != "worker" else "parent", here)


@contextlib.contextmanager
def installed(failpoints: Failpoints) -> Iterator[None]:
    """In the block the points are passed."""
    with contextlib.ExitStack() as stack:
        for name, (owner, method) in POINTS.items():
            stack.enter_context(replaced(owner, method, _passing(getattr(owner, method), failpoints, name)))
        yield


def _passing(real: Callable[..., Any], failpoints: Failpoints, name: str) -> Callable[..., Any]:
    if not inspect.iscoroutinefunction(real):

        @functools.wraps(real)
        def passed(*args: Any, **named: Any) -> Any:
            failpoints.hit(f"{name}, before")
            result = real(*args, **named)
            failpoints.hit(f"{name}, after")
            return result

        return passed

    @functools.wraps(real)
    async def awaited(*args: Any, **named: Any) -> Any:
        await _at(failpoints, f"{name}, before")
        result = await real(*args, **named)
        await _at(failpoints, f"{name}, after")
        return result

    return awaited


async def _at(failpoints: Failpoints, name: str) -> None:
    here = failpoints._operator.world.current
    was_alive, incarnation = here.alive, here.current
    failpoints.hit(name)
    if was_alive and not incarnation.alive:
        await asyncio.get_running_loop().create_future()  # it is dead
