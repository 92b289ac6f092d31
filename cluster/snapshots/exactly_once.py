"""ExactlyOnceRuntime: a topology whose tasks go back to the last snapshot when anything fails. A TopologyRuntime.

    RunningTopology ─► ExactlyOnceRuntime ─┬─ SnapshotManager ─ commands ─┐
                                           └─ Rebuildable (local or distributed) ─► tasks ─ reports ─► manager

1. `start` opens the place of the snapshots, and builds the tasks from the snapshot to begin with.
2. A quiet topology is *durable* when a snapshot that was begun after it became quiet is committed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from ..changes import Changes
from .no_reports import NoReports

if TYPE_CHECKING:
    from ...metrics import SnapshotMetrics, Trace
    from ...runtime import Profile
    from ...state import ListedSnapshot
    from ...topology import Config, Plan, Result
    from ..idle_detection import IdleGoal
    from ..runtimes import Mode, RuntimeReports
    from .manager import SnapshotManager
    from .messages import SnapshotSetup
    from .place import Beginning
    from .runtime import Rebuildable

MakeRebuildable = Callable[["SnapshotSetup", "SnapshotManager"], "Rebuildable"]
"""(how the tasks begin, whom they report to) → the runtime."""


class ExactlyOnceRuntime:
    """A topology with exactly once. `sinks`: the components that commit with snapshots."""

    def __init__(
        self, plan: Plan, manager: SnapshotManager, make: MakeRebuildable, beginning: Beginning, sinks: Sequence[str]
    ) -> None:
        self.plan = plan
        self._manager = manager
        self._make = make
        self._beginning = beginning
        self._sinks = sinks
        self._inner: Rebuildable | None = None
        self._mode: Mode = "inactive"
        self._changes = Changes()

    # -- TopologyRuntime -----------------------------------------------------------------------------------------------

    @property
    def inner(self) -> Rebuildable:
        """What runs the tasks. RuntimeError before the start."""
        if self._inner is None:
            raise RuntimeError("the topology has not started")
        return self._inner

    @property
    def reports(self) -> RuntimeReports:
        return NoReports() if self._inner is None else self._inner.reports

    @property
    def mode(self) -> Mode:
        return self._mode

    def set_mode(self, mode: Mode) -> None:
        if self._mode != "ended":
            self._mode = mode
            if self._inner is not None:
                self._inner.set_mode(mode)

    async def start(self, ended: asyncio.Future[None]) -> None:
        setup = await self._manager.begin(self._beginning, self._sinks)
        inner = self._inner = self._make(setup, self._manager)
        await inner.start(ended)
        if not ended.done():
            self._manager.started(inner, setup)

    async def update(self, config: Config) -> None:
        inner = self.inner
        self._manager.update(config)
        await inner.update(config)

    async def want_traces(self, spouts: Sequence[str], count: int) -> None:
        """Without effect: with exactly once tuples are in no tree."""

    async def profile(self, seconds: float) -> list[Profile]:
        return await self.inner.profile(seconds)

    async def fresh_traces(self) -> list[Trace]:
        return []

    async def set_log_level(self, logger: str, level: str) -> None:
        await self.inner.set_log_level(logger, level)

    async def results(self, broken: Callable[[], None]) -> dict[str, list[Result]]:
        """Of tasks that are not being rolled back: what they lose is no result."""
        while True:
            broken()
            incarnation = self._manager.incarnation
            if not self._manager.is_current(incarnation):
                await self._changes.wait(self._manager.rebuilt())
                continue
            found = await self.inner.results(broken)
            if self._manager.is_current(incarnation):
                return found

    async def wait_quiet(self, goal: IdleGoal, broken: Callable[[], None]) -> None:
        while True:
            broken()
            incarnation = self._manager.incarnation
            if not self._manager.is_current(incarnation):  # tasks that are about to end may be quiet: they do not count
                await self._changes.wait(self._manager.rebuilt())
                continue
            await self.inner.wait_quiet(goal, broken)
            if goal.durable:
                await self._take(broken)
            if self._manager.is_current(incarnation):
                return
            await self._changes.wait(self._manager.rebuilt())

    @property
    def snapshot_metrics(self) -> SnapshotMetrics:
        """The snapshots so far."""
        return self._manager.metrics

    async def snapshot(self) -> int:
        """Take a savepoint."""
        return await self._manager.take(savepoint=True)

    async def snapshots(self) -> list[ListedSnapshot]:
        """The snapshots, the oldest first. StoreError."""
        return await self._manager.listed()

    def wake(self) -> None:
        if self._inner is not None:
            self._inner.wake()
        self._changes.notify()

    async def stop(self) -> None:
        await self._end(at_once=False)

    async def kill(self) -> None:
        await self._end(at_once=True)

    def abort(self) -> None:
        if self._inner is not None:
            self._inner.abort()

    # -- inside --------------------------------------------------------------------------------------------------------

    async def _end(self, *, at_once: bool) -> None:
        await self._manager.stop()
        try:
            if self._inner is not None:
                await (self._inner.kill() if at_once else self._inner.stop())
        finally:
            await self._manager.close()

    async def _take(self, broken: Callable[[], None]) -> None:
        taken = self._manager.take(savepoint=False)
        try:
            while not taken.done():
                broken()
                await self._changes.wait(taken)
        finally:
            taken.cancel()
        taken.result()
